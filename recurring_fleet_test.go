package goworker_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/internal/daemontest"
)

// Two daemons with one schedule fire each tick once; with two timings under one name,
// that of the one which fires counts.
func TestTwoDaemons(t *testing.T) {
	t.Parallel()
	a := daemontest.Setup(t)
	a.Schedule("same", daemontest.EverySecond("same"))
	a.Schedule("differs", daemontest.EverySecond("differs"))
	a.Start()
	a.AtLeast(1, "differs")
	b := daemontest.SetupOn(t, a.Redis)
	b.Schedule("same", daemontest.EverySecond("same"))
	slower := daemontest.EverySecond("differs")
	slower.Every = 1500 * time.Millisecond
	b.Schedule("differs", slower)
	b.Start()
	b.Eventually("the other says so", func() bool { return b.Log.Count("another timing") > 0 })
	a.AtLeast(8, "same")
	a.Steady(a.TicksIn("same"), time.Second)
	a.Steady(a.TicksIn("differs"), time.Second)
	if n := b.Log.Count("another timing"); n != 1 {
		t.Errorf("it is said %d times", n)
	}
	if err := a.Stop(); err != nil {
		t.Error(err)
	}
	n := len(a.Queue("differs"))
	a.AtLeast(n+4, "differs")
	ticks := a.TicksIn("differs")
	b.Steady(ticks[n+1:], 1500*time.Millisecond)
	same := a.TicksIn("same")
	b.Steady(same, time.Second)
}

// The zone of a process is no part of a timing that does not depend on it.
func TestZonesOfProcesses(t *testing.T) {
	t.Parallel()
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	timings := map[string]goworker.Recurring{"period": {Every: 4 * time.Second}, "cron": {Cron: "*/4 * * * * * UTC"}}
	start := func(b *daemontest.Bundle, zone *time.Location) {
		for name, r := range timings {
			r.Location, r.Class, r.Queue, r.TickArg = zone, "Tick", name, true
			b.Schedule(name, r)
		}
		b.Start()
	}
	a := daemontest.Setup(t)
	start(a, time.UTC)
	a.AtLeast(1, "period")
	b := daemontest.SetupOn(t, a.Redis)
	start(b, berlin)
	a.AtLeast(2, "period")
	if err := a.Stop(); err != nil {
		t.Error(err)
	}
	for name := range timings {
		b.AtLeast(3, name)
		b.Steady(b.TicksIn(name), 4*time.Second)
	}
	if n := b.Log.Count("another timing"); n > 0 {
		t.Errorf("another timing is spoken of %d times", n)
	}
}

// Two things that are to be said of one schedule are said once each.
func TestWarningsAreSaidOnce(t *testing.T) {
	t.Parallel()
	dynamic := func(s *goworker.WorkerSettings) { s.DynamicSchedule = true }
	a := daemontest.Setup(t, dynamic)
	a.Schedule("s", goworker.Recurring{Every: time.Second, Queue: "a", Persist: true})
	a.Start()
	a.AtLeast(1, "a")
	b := daemontest.SetupOn(t, a.Redis, dynamic)
	b.Schedule("s", goworker.Recurring{Every: 2 * time.Second, Queue: "b"})
	b.Schedule("clock", daemontest.EverySecond("clock"))
	b.Start()
	warnings := []string{"its own counts here", "another timing"}
	for _, w := range warnings {
		b.Eventually(w, func() bool { return b.Log.Count(w) > 0 })
	}
	b.AtLeast(len(b.Queue("clock"))+6, "clock") // the ticker checks the other timing each 5 s
	for _, w := range warnings {
		if n := b.Log.Count(w); n != 1 {
			t.Errorf("%q is said %d times", w, n)
		}
	}
}

// Redis's clock counts. One of ours that is told wrong is put right before a tick is
// fired too early.
func TestClocksThatDiffer(t *testing.T) {
	t.Parallel()
	b := daemontest.Setup(t)
	b.Schedule("s", daemontest.EverySecond("s"))
	b.Schedule("far", goworker.Recurring{Every: time.Hour, Queue: "far", Missed: goworker.MissedSkip})
	b.Start()
	b.AtLeast(1, "s")
	for _, wrong := range []time.Duration{time.Hour, -time.Hour, 90 * time.Minute, 3 * time.Second} {
		goworker.SeeTime(b.Daemon, time.Now().Add(wrong))
		b.AtLeast(len(b.Queue("s"))+3, "s")
	}
	ticks := b.TicksIn("s")
	b.Steady(ticks, time.Second)
	if last := ticks[len(ticks)-1]; last.After(time.Now().Add(100 * time.Millisecond)) {
		t.Errorf("tick %v was fired early", last)
	}
	if n := len(b.Queue("far")); n > 0 {
		t.Errorf("%d jobs of a tick that is an hour away", n)
	}
	infos, err := b.Daemon.Schedules()
	if err != nil || len(infos) != 2 || time.Until(infos[0].Next) > time.Hour {
		t.Errorf("a tick was passed over: %+v, %v", infos, err)
	}
}

// Where Redis's clock was ahead and is set back, periods begin anew in place of waiting
// until it is as late again; a cron does not double what it has fired.
func TestClockSetBack(t *testing.T) {
	t.Parallel()
	b := daemontest.Setup(t)
	cron := goworker.Recurring{Cron: "* * * * * *", Class: "Tick", Queue: "cron", TickArg: true}
	for name, r := range map[string]goworker.Recurring{"period": daemontest.EverySecond("period"), "cron": cron} {
		r.Location = time.Local
		hash, err := goworker.TimingHash(r)
		if err != nil {
			t.Fatal(err)
		}
		b.Redis.Do(t, "HSET", "resque:go:ticks", name, fmt.Sprint(time.Now().Add(time.Hour).UnixMilli(), " vm:1:dead ", hash))
		b.Schedule(name, r)
	}
	b.Start()
	b.AtLeast(3, "period")
	b.Steady(b.TicksIn("period"), time.Second)
	if n := len(b.Queue("cron")); n > 0 {
		t.Errorf("%d ticks of a cron were fired again", n)
	}
}

// A process that has not yet heard that a schedule was removed does not take it for one
// whose owner has died.
func TestRemovedSchedulesStayRemoved(t *testing.T) {
	t.Parallel()
	dynamic := func(s *goworker.WorkerSettings) { s.DynamicSchedule = true }
	a := daemontest.Setup(t, dynamic)
	a.Redis.Do(t, "HSET", "resque:persistent_schedules", "gone", `{"every":"1s","queue":"gone"}`)
	a.Schedule("clock", daemontest.EverySecond("clock"))
	a.Start()
	a.AtLeast(1, "gone")
	for range 2 {
		b := daemontest.SetupOn(t, a.Redis, dynamic)
		b.Start()
	}
	a.Eventually("all are in the fleet", func() bool { return a.Redis.Int(t, "ZCARD", "resque:go:processes") == 3 })
	a.AtLeast(len(a.Queue("clock"))+2, "clock") // and have looked
	a.Redis.Do(t, "HDEL", "resque:persistent_schedules", "gone")
	a.Removed("gone")
	n := len(a.Queue("gone"))
	a.AtLeast(len(a.Queue("clock"))+6, "clock")
	if got := len(a.Queue("gone")); got != n {
		t.Errorf("%d ticks after it was removed", got-n)
	}
}

// A schedule of which nothing is due costs no commands, nor does a tick that another
// process fires cost more than one look.
func TestSchedulesCostLittle(t *testing.T) {
	t.Parallel()
	b := daemontest.Setup(t)
	b.Schedule("yearly", goworker.Recurring{Cron: "@yearly", Queue: "q"})
	b.Start()
	b.Idle()
	b.Eventually("the schedule is known", func() bool { return b.Redis.Text(t, "HGET", "resque:go:ticks", "yearly") != "" })
	monitor := b.Redis.Monitor(t)
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
	b := daemontest.Setup(t)
	shared := daemontest.EverySecond("spoiled")
	shared.Shared = true
	b.Schedule("spoiled", shared)
	b.Schedule("fine", daemontest.EverySecond("fine"))
	b.Start()
	b.AtLeast(1, "spoiled")
	b.Redis.Do(t, "SET", "resque:queue:spoiled", "x")
	b.Unschedule("spoiled")
	b.AtLeast(len(b.Queue("fine"))+3, "fine")
	b.Steady(b.TicksIn("fine"), time.Second)
	b.Eventually("the lock is given back", func() bool { return b.Redis.Text(t, "GET", daemontest.RubyLock) == "" })
}

func TestTicksOutliveTroubles(t *testing.T) {
	t.Parallel()
	b := daemontest.Setup(t)
	b.Redis.Do(t, "SET", "resque:queue:spoiled", "x")
	b.Schedule("spoiled", daemontest.EverySecond("spoiled"))
	b.Schedule("fine", daemontest.EverySecond("fine"))
	b.Start()
	b.AtLeast(3, "fine")
	b.Redis.Do(t, "CLIENT", "KILL", "TYPE", "normal")
	n := len(b.Queue("fine"))
	b.AtLeast(n+2, "fine")
	if n := b.Log.Count("is refused"); n != 1 {
		t.Errorf("the refused tick is spoken of %d times", n)
	}
	b.Redis.Do(t, "DEL", "resque:queue:spoiled")
	b.AtLeast(5, "spoiled")
	b.Steady(b.TicksIn("spoiled"), time.Second)
	b.Steady(b.TicksIn("fine"), time.Second)

	b.Redis.Do(t, "DEL", "resque:go:ticks") // the fleet forgets, and begins anew
	n = len(b.Queue("fine"))
	b.AtLeast(n+2, "fine")
}
