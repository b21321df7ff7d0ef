package goworker

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/goworker/goworker/internal/scheduler"
)

const rubyLock = "resque:resque:resque_scheduler_master_lock"

// everySecond is a schedule whose ticks can be told apart.
func everySecond(queue string) Recurring {
	return Recurring{Every: time.Second, Class: "Tick", Queue: queue, TickArg: true}
}

// ticksIn are the ticks whose jobs lie in a queue.
func (b *bundle) ticksIn(queue string) (ticks []time.Time) {
	b.t.Helper()
	for _, text := range b.queue(queue) {
		var p struct {
			Args []time.Time `json:"args"`
		}
		if err := json.Unmarshal([]byte(text), &p); err != nil || len(p.Args) != 1 {
			b.t.Fatalf("job %s: %v", text, err)
		}
		ticks = append(ticks, p.Args[0])
	}
	return ticks
}

// steady fails unless the ticks are one period apart.
func (b *bundle) steady(ticks []time.Time, period time.Duration) {
	b.t.Helper()
	for i := 1; i < len(ticks); i++ {
		if d := ticks[i].Sub(ticks[i-1]); d != period {
			b.t.Errorf("tick %d of %d comes %v after the one before: %v", i, len(ticks), d, ticks)
		}
	}
}

// timingHash is what Redis holds of a schedule's timing.
func timingHash(t *testing.T, r Recurring) string {
	t.Helper()
	r.Queue = "q"
	s, err := scheduler.Check("s", r.internal())
	if err != nil {
		t.Fatal(err)
	}
	return s.TimingHash()
}

func (b *bundle) schedule(name string, r Recurring) {
	b.t.Helper()
	if err := b.daemon.Schedule(name, r); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bundle) atLeast(n int, queue string) {
	b.t.Helper()
	b.eventually(fmt.Sprintf("queue %s has %d jobs", queue, n), func() bool { return len(b.queue(queue)) >= n })
}

// removed waits until the process that fired a schedule has noted that it has it no more.
func (b *bundle) removed(schedule string) {
	b.t.Helper()
	b.eventually(schedule+" is left to others", func() bool {
		return strings.Contains(b.redis.Text(b.t, "HGET", "resque:go:ticks", schedule), " -")
	})
}

func (b *bundle) unschedule(name string) {
	b.t.Helper()
	if was, err := b.daemon.Unschedule(name); !was || err != nil {
		b.t.Fatalf("%s is unscheduled: %v, %v", name, was, err)
	}
}

func TestScheduleRuns(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.daemon.Register("Note", func(queue string, at time.Time) { b.runs.start(queue); b.runs.end(queue) })
	b.schedule("before", Recurring{Cron: "* * * * * *", Class: "Note", Queue: "work", Args: []any{"a"}, TickArg: true})
	b.start()
	b.eventually("the job runs", func() bool { return b.runs.ends("a") >= 2 })
	b.schedule("during", Recurring{Every: time.Second, Class: "Mark", Queue: "work", Args: []any{"b"}})
	b.eventually("the other job runs", func() bool { return b.runs.ends("b") >= 2 })
	if was, err := b.daemon.Unschedule("before"); !was || err != nil {
		t.Errorf("unscheduled: %v, %v", was, err)
	}
	if was, err := b.daemon.Unschedule("before"); was || err != nil {
		t.Errorf("unscheduled again: %v, %v", was, err)
	}
	b.removed("before")
	n := b.runs.ends("a")
	m := b.runs.ends("b")
	b.eventually("the other goes on", func() bool { return b.runs.ends("b") > m+2 })
	if n := b.runs.ends("a") - n; n > 1 { // one may have been under way
		t.Errorf("%d jobs of a schedule that was removed", n)
	}
}

// The scheduler's form of a Recurring has all its fields.
func TestRecurringKeepsItsFields(t *testing.T) {
	t.Parallel()
	var r Recurring
	v := reflect.ValueOf(&r).Elem()
	for i := range v.NumField() {
		switch f := v.Field(i); f.Kind() {
		case reflect.String:
			f.SetString(v.Type().Field(i).Name)
		case reflect.Int64:
			f.SetInt(int64(i + 1))
		case reflect.Bool:
			f.SetBool(true)
		case reflect.Slice:
			f.Set(reflect.MakeSlice(f.Type(), i, i))
		case reflect.Pointer:
			f.Set(reflect.ValueOf(time.FixedZone("x", i)))
		default:
			t.Fatalf("a field of kind %v", f.Kind())
		}
	}
	if back := publicRecurring(r.internal()); !reflect.DeepEqual(back, r) {
		t.Errorf("%+v became %+v", r, back)
	}
	if n := reflect.TypeFor[scheduler.Recurring]().NumField(); n != v.NumField() {
		t.Errorf("%d fields became %d", v.NumField(), n)
	}
}

func TestScheduleNamesMistakes(t *testing.T) {
	t.Parallel()
	d := New(WorkerSettings{})
	good := Recurring{Cron: "@daily", Queue: "q"}
	for says, change := range map[string]func(*Recurring){
		"queue":                func(r *Recurring) { r.Queue = "" },
		"neither a Cron":       func(r *Recurring) { r.Cron = "" },
		"a Cron and an Every":  func(r *Recurring) { r.Every = time.Hour },
		"not understood":       func(r *Recurring) { r.Cron = "every day" },
		"at least a second":    func(r *Recurring) { r.Cron, r.Every = "", 500*time.Millisecond },
		"at least a second, a": func(r *Recurring) { r.Cron, r.Every = "", -time.Hour },
		"whole milliseconds":   func(r *Recurring) { r.Cron, r.Every = "", time.Second+1 },
		"Missed is":            func(r *Recurring) { r.Missed = "sometimes" },
		"negative":             func(r *Recurring) { r.FirstIn = -1 },
		"args[0]":              func(r *Recurring) { r.Args = []any{make(chan int)} },
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
	b := setup(t)
	now := time.Now().Truncate(time.Millisecond)
	timing := timingHash(t, Recurring{Every: 24 * time.Hour})
	anchor := now.Add(1500*time.Millisecond - 24*time.Hour)
	b.redis.Do(t, "HSET", "resque:go:ticks", "daily", fmt.Sprint(anchor.UnixMilli(), " vm:1:dead ", timing))
	b.schedule("daily", Recurring{Every: 24 * time.Hour, Class: "Tick", Queue: "daily", TickArg: true})
	b.schedule("first", Recurring{Every: 24 * time.Hour, FirstIn: 2 * time.Second, Class: "Tick", Queue: "first", TickArg: true})
	b.schedule("hourly", Recurring{Every: time.Hour, FirstIn: 3 * time.Hour, Queue: "q"})
	b.start()
	b.atLeast(1, "daily")
	b.atLeast(1, "first")
	if got, want := b.ticksIn("daily")[0], anchor.Add(24*time.Hour); !got.Equal(want) {
		t.Errorf("the tick after a restart is %v, want %v", got, want)
	}
	if d := b.ticksIn("first")[0].Sub(now); d < 2*time.Second || d > 2*time.Second+soon {
		t.Errorf("the first tick comes after %v", d)
	}
	infos, err := b.daemon.Schedules()
	if err != nil || len(infos) != 3 || infos[0].Name != "daily" || !infos[0].Next.Equal(anchor.Add(48*time.Hour)) || infos[0].LastEnqueued.IsZero() {
		t.Errorf("schedules %+v, %v", infos, err)
	} else if d := infos[2].Next.Sub(now); d < 3*time.Hour || d > 3*time.Hour+soon {
		t.Errorf("the next tick of one that begins in three hours comes after %v", d)
	}
}

// A schedule that was removed and is given again is a new one: the time between was not
// missed, and FirstIn counts.
func TestScheduledAgain(t *testing.T) {
	t.Parallel()
	b := setup(t)
	all := map[string]Recurring{
		"period": everySecond("period"),
		"cron":   {Cron: "* * * * * *", Class: "Tick", Queue: "cron", TickArg: true},
		"later":  everySecond("later"),
	}
	for name, r := range all {
		r.Missed = MissedAll
		b.schedule(name, r)
	}
	b.schedule("clock", everySecond("clock"))
	b.start()
	for name := range all {
		b.atLeast(1, name)
		b.unschedule(name)
		b.removed(name)
		b.redis.Do(t, "DEL", "resque:queue:"+name)
	}
	b.atLeast(len(b.queue("clock"))+5, "clock")
	again := time.Now()
	for name, r := range all {
		r.Missed = MissedAll
		if name == "later" {
			r.FirstIn = time.Hour
		}
		b.schedule(name, r)
	}
	b.atLeast(3, "period")
	b.atLeast(3, "cron")
	for _, name := range []string{"period", "cron"} {
		ticks := b.ticksIn(name)
		b.steady(ticks, time.Second)
		if ticks[0].Before(again.Add(-time.Second)) { // our idea of Redis's clock may be a little late
			t.Errorf("%s: tick %v of before it was scheduled again at %v", name, ticks[0], again)
		}
	}
	if n := len(b.queue("later")); n > 0 {
		t.Errorf("%d jobs of a schedule that begins in an hour", n)
	}
}

// A schedule that one process has no more goes on in another, where it was, also if that
// one was started after the last tick.
func TestRemovedInOneProcess(t *testing.T) {
	t.Parallel()
	a := setup(t)
	r := everySecond("s")
	r.Every = 4 * time.Second
	first := r
	first.FirstIn = time.Second
	a.schedule("s", first)
	a.start()
	a.atLeast(1, "s")
	b := setupOn(t, a.redis)
	b.schedule("s", r)
	b.schedule("ready", Recurring{Cron: "* * * * * *", Queue: "ready"})
	b.start()
	b.atLeast(1, "ready")
	a.unschedule("s")
	a.removed("s")
	a.atLeast(4, "s")
	a.steady(a.ticksIn("s"), r.Every)
}

func TestPauseAndRunNow(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.schedule("s", everySecond("s"))
	b.schedule("other", everySecond("other"))
	b.start()
	b.atLeast(1, "s")
	if err := b.daemon.PauseSchedule("s"); err != nil {
		t.Fatal(err)
	}
	n, m := len(b.queue("s")), len(b.queue("other"))
	b.atLeast(m+3, "other")
	if got := len(b.queue("s")); got != n {
		t.Errorf("%d ticks of a paused schedule", got-n)
	}
	infos, err := b.daemon.Schedules()
	if err != nil || len(infos) != 2 || !infos[1].Paused || infos[0].Paused {
		t.Errorf("schedules %+v, %v", infos, err)
	}
	if err := b.daemon.RunScheduleNow("s"); err != nil {
		t.Fatal(err)
	}
	if got := len(b.queue("s")); got != n+1 {
		t.Errorf("%d jobs after running it now", got-n)
	}
	if err := b.daemon.RunScheduleNow("none"); !errors.Is(err, ErrNoSchedule) {
		t.Errorf("running a schedule that is not there: %v", err)
	}
	if err := b.daemon.ResumeSchedule("s"); err != nil {
		t.Fatal(err)
	}
	b.atLeast(n+3, "s")
	ticks := b.ticksIn("s")
	b.steady(ticks[n+1:], time.Second)
	if gap := ticks[n+1].Sub(ticks[n-1]); gap < 2*time.Second {
		t.Errorf("ticks of the pause were made up for: %v", ticks)
	}
}
