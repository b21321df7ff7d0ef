package goworker_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/internal/daemontest"
	"github.com/goworker/goworker/internal/redistest"
)

func TestScheduleRuns(t *testing.T) {
	t.Parallel()
	b := daemontest.Setup(t)
	b.Daemon.Register("Note", func(queue string, at time.Time) { b.Runs.Start(queue); b.Runs.End(queue) })
	b.Schedule("before", goworker.Recurring{Cron: "* * * * * *", Class: "Note", Queue: "work", Args: []any{"a"}, TickArg: true})
	b.Start()
	b.Eventually("the job runs", func() bool { return b.Runs.Ends("a") >= 2 })
	b.Schedule("during", goworker.Recurring{Every: time.Second, Class: "Mark", Queue: "work", Args: []any{"b"}})
	b.Eventually("the other job runs", func() bool { return b.Runs.Ends("b") >= 2 })
	if was, err := b.Daemon.Unschedule("before"); !was || err != nil {
		t.Errorf("unscheduled: %v, %v", was, err)
	}
	if was, err := b.Daemon.Unschedule("before"); was || err != nil {
		t.Errorf("unscheduled again: %v, %v", was, err)
	}
	b.Removed("before")
	b.Eventually("no job is under way", func() bool {
		if len(b.Queue("work")) > 0 {
			return false
		}
		held, busy := goworker.Load(b.Daemon)
		return held+busy == 0
	})
	n := b.Runs.Starts("a")
	m := b.Runs.Ends("b")
	b.Eventually("the other goes on", func() bool { return b.Runs.Ends("b") > m+2 })
	if n := b.Runs.Starts("a") - n; n > 0 {
		t.Errorf("%d jobs of a schedule that was removed", n)
	}
}

func TestScheduleNamesMistakes(t *testing.T) {
	t.Parallel()
	d := goworker.New(goworker.WorkerSettings{})
	good := goworker.Recurring{Cron: "@daily", Queue: "q"}
	for says, change := range map[string]func(*goworker.Recurring){
		"queue":                func(r *goworker.Recurring) { r.Queue = "" },
		"neither a Cron":       func(r *goworker.Recurring) { r.Cron = "" },
		"a Cron and an Every":  func(r *goworker.Recurring) { r.Every = time.Hour },
		"not understood":       func(r *goworker.Recurring) { r.Cron = "every day" },
		"at least a second":    func(r *goworker.Recurring) { r.Cron, r.Every = "", 500*time.Millisecond },
		"at least a second, a": func(r *goworker.Recurring) { r.Cron, r.Every = "", -time.Hour },
		"whole milliseconds":   func(r *goworker.Recurring) { r.Cron, r.Every = "", time.Second+1 },
		"Missed is":            func(r *goworker.Recurring) { r.Missed = "sometimes" },
		"negative":             func(r *goworker.Recurring) { r.FirstIn = -1 },
		"args[0]":              func(r *goworker.Recurring) { r.Args = []any{make(chan int)} },
	} {
		r := good
		change(&r)
		if err := d.Schedule("nightly", r); err == nil || !strings.Contains(err.Error(), says) || !strings.Contains(err.Error(), "nightly") {
			t.Errorf("want nightly and %q in the error: %v", says, err)
		}
	}
	if err := d.Schedule("", good); err == nil {
		t.Error("a schedule without a name is taken")
	}
	if err := d.Schedule("nightly", good); err != nil {
		t.Error(err)
	}
}

// A period goes on where it was before all processes were replaced, and the first tick
// comes when FirstIn says.
func TestPeriodsOutliveProcesses(t *testing.T) {
	t.Parallel()
	b := daemontest.Setup(t)
	now := time.Now().Truncate(time.Millisecond)
	hash, err := goworker.TimingHash(goworker.Recurring{Every: 24 * time.Hour, Location: time.Local})
	if err != nil {
		t.Fatal(err)
	}
	anchor := now.Add(1500*time.Millisecond - 24*time.Hour)
	b.Redis.Do(t, "HSET", "resque:go:ticks", "daily", fmt.Sprint(anchor.UnixMilli(), " vm:1:dead ", hash))
	b.Schedule("daily", goworker.Recurring{Every: 24 * time.Hour, Class: "Tick", Queue: "daily", TickArg: true})
	b.Schedule("first", goworker.Recurring{Every: 24 * time.Hour, FirstIn: 2 * time.Second, Class: "Tick", Queue: "first", TickArg: true})
	b.Schedule("hourly", goworker.Recurring{Every: time.Hour, FirstIn: 3 * time.Hour, Queue: "q"})
	b.Start()
	b.AtLeast(1, "daily")
	b.AtLeast(1, "first")
	if got, want := b.TicksIn("daily")[0], anchor.Add(24*time.Hour); !got.Equal(want) {
		t.Errorf("the tick after a restart is %v, want %v", got, want)
	}
	if d := b.TicksIn("first")[0].Sub(now); d < 2*time.Second || d > 2*time.Second+daemontest.Soon {
		t.Errorf("the first tick comes after %v", d)
	}
	infos, err := b.Daemon.Schedules()
	if err != nil || len(infos) != 3 || infos[0].Name != "daily" || !infos[0].Next.Equal(anchor.Add(48*time.Hour)) || infos[0].LastEnqueued.IsZero() {
		t.Errorf("schedules %+v, %v", infos, err)
	} else if d := infos[2].Next.Sub(now); d < 3*time.Hour || d > 3*time.Hour+daemontest.Soon {
		t.Errorf("the next tick of one that begins in three hours comes after %v", d)
	}
}

// A schedule that was removed and is given again is a new one: the time between was not
// missed, and FirstIn counts.
func TestScheduledAgain(t *testing.T) {
	t.Parallel()
	b := daemontest.Setup(t)
	all := map[string]goworker.Recurring{
		"period": daemontest.EverySecond("period"),
		"cron":   {Cron: "* * * * * *", Class: "Tick", Queue: "cron", TickArg: true},
		"later":  daemontest.EverySecond("later"),
	}
	for name, r := range all {
		r.Missed = goworker.MissedAll
		b.Schedule(name, r)
	}
	b.Schedule("clock", daemontest.EverySecond("clock"))
	b.Start()
	for name := range all {
		b.AtLeast(1, name)
		b.Unschedule(name)
		b.Removed(name)
		b.Redis.Do(t, "DEL", "resque:queue:"+name)
	}
	b.AtLeast(len(b.Queue("clock"))+5, "clock")
	again := time.Now()
	for name, r := range all {
		r.Missed = goworker.MissedAll
		if name == "later" {
			r.FirstIn = time.Hour
		}
		b.Schedule(name, r)
	}
	b.AtLeast(3, "period")
	b.AtLeast(3, "cron")
	for _, name := range []string{"period", "cron"} {
		ticks := b.TicksIn(name)
		b.Steady(ticks, time.Second)
		if ticks[0].Before(again.Add(-time.Second)) { // our idea of Redis's clock may be a little late
			t.Errorf("%s: tick %v of before it was scheduled again at %v", name, ticks[0], again)
		}
	}
	if n := len(b.Queue("later")); n > 0 {
		t.Errorf("%d jobs of a schedule that begins in an hour", n)
	}
}

// A schedule that one process has no more goes on in another, where it was, also if that
// one was started after the last tick.
func TestRemovedInOneProcess(t *testing.T) {
	t.Parallel()
	a := daemontest.Setup(t)
	r := daemontest.EverySecond("s")
	r.Every = 4 * time.Second
	first := r
	first.FirstIn = time.Second
	a.Schedule("s", first)
	a.Start()
	a.AtLeast(1, "s")
	b := daemontest.SetupOn(t, a.Redis)
	b.Schedule("s", r)
	b.Schedule("ready", goworker.Recurring{Cron: "* * * * * *", Queue: "ready"})
	b.Start()
	b.AtLeast(1, "ready")
	a.Unschedule("s")
	a.Removed("s")
	a.AtLeast(4, "s")
	a.Steady(a.TicksIn("s"), r.Every)
}

func TestPauseAndRunNow(t *testing.T) {
	t.Parallel()
	b := daemontest.Setup(t)
	b.Schedule("s", daemontest.EverySecond("s"))
	b.Schedule("other", daemontest.EverySecond("other"))
	b.Start()
	b.AtLeast(1, "s")
	if err := b.Daemon.PauseSchedule("s"); err != nil {
		t.Fatal(err)
	}
	n, m := len(b.Queue("s")), len(b.Queue("other"))
	b.AtLeast(m+3, "other")
	if got := len(b.Queue("s")); got != n {
		t.Errorf("%d ticks of a paused schedule", got-n)
	}
	infos, err := b.Daemon.Schedules()
	if err != nil || len(infos) != 2 || !infos[1].Paused || infos[0].Paused {
		t.Errorf("schedules %+v, %v", infos, err)
	}
	if err := b.Daemon.RunScheduleNow("s"); err != nil {
		t.Fatal(err)
	}
	if got := len(b.Queue("s")); got != n+1 {
		t.Errorf("%d jobs after running it now", got-n)
	}
	if err := b.Daemon.RunScheduleNow("none"); !errors.Is(err, goworker.ErrNoSchedule) {
		t.Errorf("running a schedule that is not there: %v", err)
	}
	if err := b.Daemon.ResumeSchedule("s"); err != nil {
		t.Fatal(err)
	}
	b.AtLeast(n+3, "s")
	ticks := b.TicksIn("s")
	b.Steady(ticks[n+1:], time.Second)
	if gap := ticks[n+1].Sub(ticks[n-1]); gap < 2*time.Second {
		t.Errorf("ticks of the pause were made up for: %v", ticks)
	}
}

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

// Redis's clock counts. A process whose clock is wrong corrects it before it fires a
// tick too early.
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

// Redis's clock was ahead and is set back. Periods restart and do not wait until that
// time comes again. A cron does not fire a tick twice.
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

	b.Redis.Do(t, "DEL", "resque:go:ticks") // the fleet forgets, and starts again
	n = len(b.Queue("fine"))
	b.AtLeast(n+2, "fine")
}

// While a Ruby scheduler holds its lock, its schedules are left to it, and what it has
// fired is not fired again.
func TestRubyHoldsItsLock(t *testing.T) {
	t.Parallel()
	b := daemontest.Setup(t, func(s *goworker.WorkerSettings) { s.DynamicSchedule = true })
	b.Redis.Do(t, "SET", daemontest.RubyLock, "localhost:1428", "EX", 180)
	b.Redis.Do(t, "HSET", "resque:persistent_schedules", "dynamic", `{"class":"Tick","every":"1s","queue":"dynamic","tick_arg":true}`)
	layouts := map[string]string{
		"dynamic": "2006-01-02 15:04:05 -0700", "file": "2006-01-02 15:04:05 -0700",
		"utc": "2006-01-02 15:04:05 UTC", "formatted": "January 2, 2006 15:04",
	}
	for name := range layouts {
		if name != "dynamic" {
			file := daemontest.EverySecond(name)
			file.Shared = true
			b.Schedule(name, file)
		}
	}
	b.Schedule("own", daemontest.EverySecond("own"))
	b.Start()
	b.AtLeast(8, "own")
	for name := range layouts {
		if n := len(b.Queue(name)); n > 0 {
			t.Errorf("%s: %d jobs were enqueued beside Ruby's", name, n)
		}
	}
	fired := time.Now().UTC().Truncate(time.Second)
	for name, layout := range layouts {
		b.Redis.Do(t, "HSET", "resque:delayed:last_enqueued_at", name, fired.Format(layout))
	}
	b.Redis.Do(t, "DEL", daemontest.RubyLock)
	for queue := range layouts {
		b.AtLeast(3, queue)
		ticks := b.TicksIn(queue)
		b.Steady(ticks, time.Second)
		if !ticks[0].After(fired) {
			t.Errorf("%s: tick %v was fired again; Ruby did at %v", queue, ticks[0], fired)
		}
		if phase := ticks[0].Sub(fired) % time.Second; phase != 0 && queue != "formatted" {
			t.Errorf("%s: tick %v comes %v beside those of Ruby", queue, ticks[0], phase)
		}
	}
	if n := b.Log.Count("is not understood"); n != 1 {
		t.Errorf("a time that is not understood is spoken of %d times", n)
	}
	if holder := b.Redis.Text(t, "GET", daemontest.RubyLock); strings.Count(holder, ":") != 2 {
		t.Errorf("the lock is held by %q", holder)
	}
	if err := b.Stop(); err != nil {
		t.Error(err)
	}
	if holder := b.Redis.Text(t, "GET", daemontest.RubyLock); holder != "" {
		t.Errorf("the lock is still held, by %q", holder)
	}
}

// A period goes on from the last tick of a Ruby scheduler, but not from one that we were
// late to fire.
func TestPeriodAfterRubys(t *testing.T) {
	t.Parallel()
	b := daemontest.Setup(t)
	shared := daemontest.EverySecond("")
	shared.Every, shared.Shared, shared.Location = 4*time.Second, true, time.Local
	hash, err := goworker.TimingHash(shared)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now().Truncate(time.Millisecond)
	last := map[string]time.Time{"ruby": now.Add(-3500 * time.Millisecond), "late": now.Add(-5500 * time.Millisecond)}
	for name, at := range last {
		b.Redis.Do(t, "HSET", "resque:go:ticks", name, fmt.Sprint(at.UnixMilli(), " vm:1:dead ", hash))
		shared.Queue = name
		b.Schedule(name, shared)
	}
	rubys := now.Add(-time.Second).Truncate(time.Second)
	b.Redis.Do(t, "HSET", "resque:delayed:last_enqueued_at", "ruby", rubys.Format("2006-01-02 15:04:05 -0700"))
	infos, err := b.Daemon.Schedules()
	if err != nil || len(infos) != 2 || infos[1].Next.Sub(rubys) <= 0 || infos[1].Next.Sub(rubys)%shared.Every != 0 {
		t.Errorf("schedules %+v, %v: want the next tick of ruby a multiple of %v after %v", infos, err, shared.Every, rubys)
	}
	b.Start()
	for name, at := range map[string]time.Time{"ruby": rubys, "late": last["late"]} {
		b.AtLeast(2, name)
		ticks := b.TicksIn(name)
		b.Steady(append([]time.Time{at}, ticks...), shared.Every)
	}
}

// What a Ruby scheduler with a wrong clock has fired does not stop the fleet until that
// time comes.
func TestRubysClockAhead(t *testing.T) {
	t.Parallel()
	b := daemontest.Setup(t)
	period := daemontest.EverySecond("period")
	period.Shared = true
	cron := period
	cron.Cron, cron.Every, cron.Queue = "* * * * * *", 0, "cron"
	b.Schedule("period", period)
	b.Schedule("cron", cron)
	b.Start()
	for _, name := range []string{"period", "cron"} {
		b.AtLeast(1, name)
		b.Redis.Do(t, "HSET", "resque:delayed:last_enqueued_at", name, "2099-01-01 00:00:00 +0000")
		n := len(b.Queue(name))
		b.AtLeast(n+3, name)
		b.Steady(b.TicksIn(name), time.Second)
	}
	if n := b.Log.Count("is ahead of"); n != 2 {
		t.Errorf("the clock is spoken of %d times", n)
	}
}

// Nor is the lock kept by a process whose last shared schedule was removed just before it
// stopped.
func TestLockOfRemovedSchedules(t *testing.T) {
	t.Parallel()
	b := daemontest.Setup(t)
	shared := daemontest.EverySecond("s")
	shared.Shared = true
	b.Schedule("s", shared)
	b.Start()
	b.AtLeast(1, "s")
	b.Unschedule("s")
	b.Removed("s")
	if err := b.Stop(); err != nil {
		t.Error(err)
	}
	if holder := b.Redis.Text(t, "GET", daemontest.RubyLock); holder != "" {
		t.Errorf("the lock is still held, by %q", holder)
	}
}

// Persist writes what Ruby writes.
func TestGoldenSchedule(t *testing.T) {
	t.Parallel()
	b := daemontest.Setup(t)
	t.Cleanup(b.Daemon.Close)
	b.Schedule("nightly", goworker.Recurring{Cron: "0 3 * * *", Class: "Echo", Queue: "low", Args: []any{"a"}, Description: "d", Persist: true})
	b.Schedule("often", goworker.Recurring{Every: 30 * time.Second, Queue: "low", Persist: true})
	if removed, err := b.Daemon.Unschedule("often"); !removed || err != nil {
		t.Errorf("unscheduled: %v, %v", removed, err)
	}
	golden := redistest.Golden(t, "schedule_recurring")
	if diff := cmp.Diff(redistest.Values(golden.Snapshots["set"]), b.Redis.Dump(t, "")); diff != "" {
		t.Errorf("keys (-want +got):\n%s", diff)
	}
	if err := b.Daemon.RunScheduleNow("nightly"); err != nil {
		t.Fatal(err)
	}
	if got := b.Queue("low"); len(got) != 1 || got[0] != `{"class":"Echo","args":["a"]}` {
		t.Errorf("jobs %v", got)
	}
}

// What Persist writes is read by Ruby schedulers of every version, and by daemons for the
// same times: they end at a cron that they do not read.
func TestPersistWritesWhatRubyReads(t *testing.T) {
	t.Parallel()
	b := daemontest.Setup(t)
	t.Cleanup(b.Daemon.Close)
	tokyo, err := time.LoadLocation("Asia/Tokyo")
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		r    goworker.Recurring
		want string // of its JSON; "": it is refused
		says string
	}{
		{goworker.Recurring{Cron: "0 0 ? * *"}, `"cron":"0 0 * * *"`, ""},
		{goworker.Recurring{Cron: "0 0 * * 01"}, `"cron":"0 0 * * 1"`, ""},
		{goworker.Recurring{Cron: "-0 * * * *"}, `"cron":"0 * * * *"`, ""},
		{goworker.Recurring{Cron: "5, * * * *"}, `"cron":"5 * * * *"`, ""},
		{goworker.Recurring{Cron: ",5 * * * *"}, `"cron":"5 * * * *"`, ""},
		{goworker.Recurring{Cron: "@daily"}, `"cron":"@daily"`, ""},
		{goworker.Recurring{Cron: "@daily Europe/Berlin"}, `"cron":"0 0 * * * Europe/Berlin"`, ""},
		{goworker.Recurring{Cron: "@daily", Location: tokyo}, `"cron":"0 0 * * * Asia/Tokyo"`, ""},
		{goworker.Recurring{Cron: "@daily", FirstIn: time.Hour, Location: time.UTC}, `"cron":["0 0 * * * UTC",{"first_in":"3600s"}]`, ""},
		{goworker.Recurring{Cron: "0 9 * * sat-tue/2"}, `"cron":"0 9 * * 6,1"`, ""},
		{goworker.Recurring{Cron: "0 9 13 * fri&"}, "", "since 1.7"},
		{goworker.Recurring{Cron: "0 9 13 * fri&", Fugit: "1.6"}, "", "since 1.7"},
		{goworker.Recurring{Cron: "0 9 13 * fri&", Fugit: "1.7.2"}, `"cron":"0 9 13 * fri&","queue":"q","fugit":"1.7.2"`, ""},
		{goworker.Recurring{Cron: "0 9 * * sun%2"}, "", `Fugit: "1.12"`},
		{goworker.Recurring{Cron: "0 9 * * sun%2", Fugit: "1.11"}, `"cron":"0 9 * * sun%2","queue":"q","fugit":"1.11"`, ""},
		{goworker.Recurring{Cron: "0 9 * * mon#1,mon#3", Fugit: "1.5"}, "", "two schedules"},
		{goworker.Recurring{Cron: "@daily", Fugit: "1.4"}, "", "its Fugit is wrong"},
		{goworker.Recurring{Cron: "@daily", Location: time.FixedZone("UTC+9", 9*3600)}, "", `its Location "UTC+9" cannot be written for others`},
		{goworker.Recurring{Cron: "@daily", Location: time.FixedZone("UTC+9", 9*3600)}, "", "leave it out and end the Cron with +09:00"},
		{goworker.Recurring{Cron: "@daily", Location: time.FixedZone("CET", 3600)}, "", "end the Cron with +01:00"}, // Ruby's has a summer time
		{goworker.Recurring{Cron: "@daily", Location: time.FixedZone("", 13*3600)}, "", "take one of time.LoadLocation"},
	} {
		tt.r.Queue, tt.r.Persist = "q", true
		b.Redis.Do(t, "DEL", "resque:persistent_schedules")
		err := b.Daemon.Schedule("s", tt.r)
		text := b.Redis.Text(t, "HGET", "resque:persistent_schedules", "s")
		switch {
		case tt.want == "":
			if err == nil || !strings.Contains(err.Error(), tt.says) || text != "" {
				t.Errorf("%+v is written as %s, %v; want %q in an error", tt.r, text, err, tt.says)
			}
			tt.r.Persist = false
			if err := b.Daemon.Schedule("own", tt.r); err != nil && tt.r.Fugit != "1.4" {
				t.Errorf("%+v, which is for no others: %v", tt.r, err)
			}
		case err != nil || !strings.Contains(text, tt.want):
			t.Errorf("%+v is written as %s, %v; want %s", tt.r, text, err, tt.want)
		default:
			// What stands there can be written again.
			infos, err := b.Daemon.Schedules()
			if err != nil || len(infos) == 0 || infos[len(infos)-1].Name != "s" {
				t.Fatalf("schedules %+v, %v", infos, err)
			}
			if err := b.Daemon.Schedule("s", infos[len(infos)-1].Recurring); err != nil {
				t.Errorf("%s, once more: %v", text, err)
			}
			if again := b.Redis.Text(t, "HGET", "resque:persistent_schedules", "s"); again != text {
				t.Errorf("%s is written as %s the second time", text, again)
			}
		}
	}
}

// What Ruby writes runs, within one look; what it changes changes; what is wrong with
// one entry is said and costs the others nothing.
func TestDynamicSchedules(t *testing.T) {
	t.Parallel()
	b := daemontest.Setup(t, func(s *goworker.WorkerSettings) { s.DynamicSchedule = true })
	set := func(name, text string) {
		b.Redis.Do(t, "HSET", "resque:persistent_schedules", name, text)
		b.Redis.Do(t, "SADD", "resque:schedules_changed", name)
	}
	set("p", `{"class":"CJ","cron":"* * * * * *","queue":"pq","args":[1,{"x":2}]}`)
	set("bad", `{"class":"CJ","cron":"every day","queue":"pq"}`)
	set("worse", `{`)
	set("elsewhere", `{"class":"CJ","cron":"* * * * * *","queue":"elsewhere","rails_env":"staging, production"}`)
	b.Start()
	b.AtLeast(2, "pq")
	for _, text := range b.Queue("pq") {
		if text != `{"class":"CJ","args":[1,{"x":2}]}` {
			t.Errorf("job %s", text)
		}
	}
	if at := b.Redis.Text(t, "HGET", "resque:delayed:last_enqueued_at", "p"); len(at) != len("2026-11-21 02:41:27 +0000") || !strings.HasSuffix(at, " +0000") {
		t.Errorf("last_enqueued_at is %q", at)
	}
	if got := b.Queue("elsewhere"); len(got) > 0 {
		t.Errorf("jobs of another environment: %v", got)
	}
	for _, name := range []string{"bad", "worse"} {
		if n := b.Log.Count(name); n != 1 {
			t.Errorf("%s is spoken of %d times", name, n)
		}
	}
	infos, err := b.Daemon.Schedules()
	if err != nil || len(infos) != 4 || infos[0].Broken == nil || infos[3].Broken == nil || infos[2].Broken != nil {
		t.Errorf("schedules %+v, %v", infos, err)
	}

	b.Redis.Do(t, "HDEL", "resque:persistent_schedules", "bad")
	set("p", `{"class":"CJ","every":["1s",{"first_in":"1s"}],"queue":"pq2"}`) // a look that sees this misses the other
	b.Redis.Do(t, "DEL", "resque:queue:pq")
	b.AtLeast(2, "pq2")
	set("bad", `{"class":"CJ","cron":"every day","queue":"pq"}`)
	b.Eventually("what is wrong again is said again", func() bool { return b.Log.Count("bad") == 2 })
	if removed, err := b.Daemon.Unschedule("p"); !removed || err != nil {
		t.Errorf("unscheduled: %v, %v", removed, err)
	}
	b.Removed("p")
}

// A schedule that is given with Persist replaces the process's own, and goes on in Redis
// where it was; one of the process's own counts in it before that in Redis.
func TestPersistReplaces(t *testing.T) {
	t.Parallel()
	b := daemontest.Setup(t, func(s *goworker.WorkerSettings) { s.DynamicSchedule = true })
	r := daemontest.EverySecond("s")
	b.Schedule("s", r)
	b.Start()
	b.AtLeast(2, "s")
	r.Persist, r.Description = true, "in Redis"
	b.Schedule("s", r)
	b.AtLeast(len(b.Queue("s"))+3, "s")
	b.Steady(b.TicksIn("s"), time.Second)
	infos, err := b.Daemon.Schedules()
	if err != nil || len(infos) != 1 || infos[0].Recurring.Description != "in Redis" {
		t.Errorf("schedules %+v, %v", infos, err)
	}
	r.Queue = "shared"
	b.Schedule("s", r)
	b.AtLeast(1, "shared")

	r.Persist, r.Queue = false, "own"
	b.Schedule("s", r)
	b.AtLeast(2, "own")
	b.Steady(append(b.TicksIn("shared"), b.TicksIn("own")...), time.Second)
	if n := b.Log.Count("its own counts here"); n != 1 {
		t.Errorf("that both have it is said %d times", n)
	}
	b.Unschedule("s") // both
	b.Removed("s")
	if text := b.Redis.Text(t, "HGET", "resque:persistent_schedules", "s"); text != "" {
		t.Errorf("in Redis is still %s", text)
	}
}

// Without DynamicSchedule, a schedule that is given with Persist is for others to fire.
func TestPersistLeavesToOthers(t *testing.T) {
	t.Parallel()
	b := daemontest.Setup(t)
	b.Schedule("s", daemontest.EverySecond("s"))
	b.Start()
	b.AtLeast(1, "s")
	b.Schedule("s", goworker.Recurring{Every: time.Second, Queue: "s", Persist: true})
	b.Removed("s")
	other := daemontest.SetupOn(t, b.Redis, func(s *goworker.WorkerSettings) { s.DynamicSchedule = true })
	b.Redis.Do(t, "DEL", "resque:queue:s")
	other.Start()
	other.AtLeast(2, "s")
}
