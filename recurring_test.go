package goworker_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/internal/daemontest"
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
	n := b.Runs.Ends("a")
	m := b.Runs.Ends("b")
	b.Eventually("the other goes on", func() bool { return b.Runs.Ends("b") > m+2 })
	if n := b.Runs.Ends("a") - n; n > 1 { // one may have been under way
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
