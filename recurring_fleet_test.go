package goworker

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// Two daemons with one schedule fire each tick once; with two timings under one name,
// that of the one which fires counts.
func TestTwoDaemons(t *testing.T) {
	t.Parallel()
	a := setup(t)
	a.schedule("same", everySecond("same"))
	a.schedule("differs", everySecond("differs"))
	a.start()
	a.atLeast(1, "differs")
	b := setupOn(t, a.redis)
	b.schedule("same", everySecond("same"))
	slower := everySecond("differs")
	slower.Every = 1500 * time.Millisecond
	b.schedule("differs", slower)
	b.start()
	b.eventually("the other says so", func() bool { return b.log.count("another timing") > 0 })
	a.atLeast(8, "same")
	a.steady(a.ticksIn("same"), time.Second)
	a.steady(a.ticksIn("differs"), time.Second)
	if n := b.log.count("another timing"); n != 1 {
		t.Errorf("it is said %d times", n)
	}
	if err := a.stop(); err != nil {
		t.Error(err)
	}
	n := len(a.queue("differs"))
	a.atLeast(n+4, "differs")
	ticks := a.ticksIn("differs")
	b.steady(ticks[n+1:], 1500*time.Millisecond)
	same := a.ticksIn("same")
	b.steady(same, time.Second)
}

// The zone of a process is no part of a timing that does not depend on it.
func TestZonesOfProcesses(t *testing.T) {
	t.Parallel()
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	timings := map[string]Recurring{"period": {Every: 4 * time.Second}, "cron": {Cron: "*/4 * * * * * UTC"}}
	start := func(b *bundle, zone *time.Location) {
		for name, r := range timings {
			r.Location, r.Class, r.Queue, r.TickArg = zone, "Tick", name, true
			b.schedule(name, r)
		}
		b.start()
	}
	a := setup(t)
	start(a, time.UTC)
	a.atLeast(1, "period")
	b := setupOn(t, a.redis)
	start(b, berlin)
	a.atLeast(2, "period")
	if err := a.stop(); err != nil {
		t.Error(err)
	}
	for name := range timings {
		b.atLeast(3, name)
		b.steady(b.ticksIn(name), 4*time.Second)
	}
	if n := b.log.count("another timing"); n > 0 {
		t.Errorf("another timing is spoken of %d times", n)
	}
}

// Two things that are to be said of one schedule are said once each.
func TestWarningsAreSaidOnce(t *testing.T) {
	t.Parallel()
	dynamic := func(s *WorkerSettings) { s.DynamicSchedule = true }
	a := setup(t, dynamic)
	a.schedule("s", Recurring{Every: time.Second, Queue: "a", Persist: true})
	a.start()
	a.atLeast(1, "a")
	b := setupOn(t, a.redis, dynamic)
	b.schedule("s", Recurring{Every: 2 * time.Second, Queue: "b"})
	b.schedule("clock", everySecond("clock"))
	b.start()
	warnings := []string{"its own counts here", "another timing"}
	for _, w := range warnings {
		b.eventually(w, func() bool { return b.log.count(w) > 0 })
	}
	b.atLeast(len(b.queue("clock"))+6, "clock") // the ticker checks the other timing again each 5 s
	for _, w := range warnings {
		if n := b.log.count(w); n != 1 {
			t.Errorf("%q is said %d times", w, n)
		}
	}
}

// Redis's clock counts. One of ours that is told wrong is put right before a tick is
// fired too early.
func TestClocksThatDiffer(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.schedule("s", everySecond("s"))
	b.schedule("far", Recurring{Every: time.Hour, Queue: "far", Missed: MissedSkip})
	b.start()
	b.atLeast(1, "s")
	for _, wrong := range []time.Duration{time.Hour, -time.Hour, 90 * time.Minute, 3 * time.Second} {
		b.daemon.lease.sawTime(time.Now().Add(wrong))
		b.daemon.ticker.Wake() // look at the clock now
		b.atLeast(len(b.queue("s"))+3, "s")
	}
	ticks := b.ticksIn("s")
	b.steady(ticks, time.Second)
	if last := ticks[len(ticks)-1]; last.After(time.Now().Add(100 * time.Millisecond)) {
		t.Errorf("tick %v was fired early", last)
	}
	if n := len(b.queue("far")); n > 0 {
		t.Errorf("%d jobs of a tick that is an hour away", n)
	}
	infos, err := b.daemon.Schedules()
	if err != nil || len(infos) != 2 || time.Until(infos[0].Next) > time.Hour {
		t.Errorf("a tick was passed over: %+v, %v", infos, err)
	}
}

// Where Redis's clock was ahead and is set back, periods begin anew in place of waiting
// until it is as late again; a cron does not double what it has fired.
func TestClockSetBack(t *testing.T) {
	t.Parallel()
	b := setup(t)
	cron := Recurring{Cron: "* * * * * *", Class: "Tick", Queue: "cron", TickArg: true}
	for name, r := range map[string]Recurring{"period": everySecond("period"), "cron": cron} {
		b.redis.Do(t, "HSET", "resque:go:ticks", name, fmt.Sprint(time.Now().Add(time.Hour).UnixMilli(), " vm:1:dead ", timingHash(t, r)))
		b.schedule(name, r)
	}
	b.start()
	b.atLeast(3, "period")
	b.steady(b.ticksIn("period"), time.Second)
	if n := len(b.queue("cron")); n > 0 {
		t.Errorf("%d ticks of a cron were fired again", n)
	}
}

// A process that has not yet heard that a schedule was removed does not take it for one
// whose owner has died.
func TestRemovedSchedulesStayRemoved(t *testing.T) {
	t.Parallel()
	dynamic := func(s *WorkerSettings) { s.DynamicSchedule = true }
	a := setup(t, dynamic)
	a.redis.Do(t, "HSET", "resque:persistent_schedules", "gone", `{"every":"1s","queue":"gone"}`)
	a.schedule("clock", everySecond("clock"))
	a.start()
	a.atLeast(1, "gone")
	for range 2 {
		b := setupOn(t, a.redis, dynamic)
		b.start()
	}
	a.eventually("all are in the fleet", func() bool { return a.redis.Int(t, "ZCARD", "resque:go:processes") == 3 })
	a.atLeast(len(a.queue("clock"))+2, "clock") // and have looked
	a.redis.Do(t, "HDEL", "resque:persistent_schedules", "gone")
	a.removed("gone")
	n := len(a.queue("gone"))
	a.atLeast(len(a.queue("clock"))+6, "clock")
	if got := len(a.queue("gone")); got != n {
		t.Errorf("%d ticks after it was removed", got-n)
	}
}

// A schedule of which nothing is due costs no commands, nor does a tick that another
// process fires cost more than one look.
func TestSchedulesCostLittle(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.schedule("yearly", Recurring{Cron: "@yearly", Queue: "q"})
	b.start()
	b.idle()
	b.eventually("the schedule is known", func() bool { return b.redis.Text(t, "HGET", "resque:go:ticks", "yearly") != "" })
	monitor := b.redis.Monitor(t)
	time.Sleep(3 * time.Second) // how much is sent in a while
	for _, command := range monitor.Commands() {
		if strings.Contains(strings.Join(command, " "), "ticks") {
			t.Errorf("an idle schedule sends %.200q", command)
		}
	}
}

// What Redis refuses of a schedule that was removed costs the others nothing, nor the
// lock of Ruby's schedulers.
func TestRemovalRefused(t *testing.T) {
	t.Parallel()
	b := setup(t)
	shared := everySecond("spoiled")
	shared.Shared = true
	b.schedule("spoiled", shared)
	b.schedule("fine", everySecond("fine"))
	b.start()
	b.atLeast(1, "spoiled")
	b.redis.Do(t, "SET", "resque:queue:spoiled", "x")
	b.unschedule("spoiled")
	b.atLeast(len(b.queue("fine"))+3, "fine")
	b.steady(b.ticksIn("fine"), time.Second)
	b.eventually("the lock is given back", func() bool { return b.redis.Text(t, "GET", rubyLock) == "" })
}

func TestTicksOutliveTroubles(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.redis.Do(t, "SET", "resque:queue:spoiled", "x")
	b.schedule("spoiled", everySecond("spoiled"))
	b.schedule("fine", everySecond("fine"))
	b.start()
	b.atLeast(3, "fine")
	b.redis.Do(t, "CLIENT", "KILL", "TYPE", "normal")
	n := len(b.queue("fine"))
	b.atLeast(n+2, "fine")
	if n := b.log.count("is refused"); n != 1 {
		t.Errorf("the refused tick is spoken of %d times", n)
	}
	b.redis.Do(t, "DEL", "resque:queue:spoiled")
	b.atLeast(5, "spoiled")
	b.steady(b.ticksIn("spoiled"), time.Second)
	b.steady(b.ticksIn("fine"), time.Second)

	b.redis.Do(t, "DEL", "resque:go:ticks") // the fleet forgets, and begins anew
	n = len(b.queue("fine"))
	b.atLeast(n+2, "fine")
}
