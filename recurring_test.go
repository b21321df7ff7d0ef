package goworker

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/goworker/goworker/internal/redistest"
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

func TestMissedTicks(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	hourly := Recurring{Cron: "0 * * * *", Location: time.UTC}
	each := Recurring{Every: time.Second}
	for _, tt := range []struct {
		name    string
		r       Recurring
		missed  MissedPolicy
		away    time.Duration // since the last tick
		want    int
		wantLst time.Duration // when the last one is, from at
	}{
		{"nothing is due", hourly, MissedOnce, 30 * time.Minute, 0, 0},
		{"on time", hourly, MissedSkip, time.Hour, 1, time.Hour},
		{"late, but not too late", hourly, MissedSkip, time.Hour + 50*time.Second, 1, time.Hour},
		{"too late", hourly, MissedSkip, time.Hour + 2*time.Minute, 0, time.Hour},
		{"too late", hourly, MissedOnce, time.Hour + 2*time.Minute, 1, time.Hour},
		{"too late", hourly, MissedAll, time.Hour + 2*time.Minute, 1, time.Hour},
		{"many", hourly, MissedSkip, 72*time.Hour + 2*time.Minute, 0, 72 * time.Hour},
		{"many", hourly, MissedOnce, 72*time.Hour + 2*time.Minute, 1, 72 * time.Hour},
		{"many", hourly, MissedAll, 72*time.Hour + 2*time.Minute, 72, 72 * time.Hour},
		{"many and one on time", hourly, MissedOnce, 72 * time.Hour, 1, 72 * time.Hour},
		{"a few within the grace", each, MissedSkip, 10 * time.Second, 10, 10 * time.Second},
		{"the grace", each, MissedSkip, time.Hour, 60, time.Hour},
		{"the grace", each, MissedOnce, time.Hour, 60, time.Hour},
		{"the bound", each, MissedAll, 10 * 365 * 24 * time.Hour, MaxMissedTicks, 10 * 365 * 24 * time.Hour},
		{"a year", Recurring{Cron: "* * * * * *", Location: time.UTC}, MissedAll, 365 * 24 * time.Hour, MaxMissedTicks, 365 * 24 * time.Hour},
	} {
		r := tt.r
		r.Queue, r.Missed = "q", tt.missed
		d, err := newRecurring("n", r)
		if err != nil {
			t.Fatal(err)
		}
		fire, last := d.due(at, at.Add(tt.away))
		if len(fire) != tt.want {
			t.Errorf("%s, %s: %d ticks are fired, want %d", tt.name, tt.missed, len(fire), tt.want)
		}
		if want := at.Add(tt.wantLst); tt.wantLst > 0 && !last.Equal(want) || tt.wantLst == 0 && !last.IsZero() {
			t.Errorf("%s, %s: done with up to %v, want %v", tt.name, tt.missed, last, want)
		}
	}
}

// A period goes on where it was before all processes were replaced, and the first tick
// comes when FirstIn says.
func TestPeriodsOutliveProcesses(t *testing.T) {
	t.Parallel()
	b := setup(t)
	now := time.Now().Truncate(time.Millisecond)
	timing, err := newTiming(Recurring{Every: 24 * time.Hour, Location: time.Local})
	if err != nil {
		t.Fatal(err)
	}
	anchor := now.Add(1500*time.Millisecond - 24*time.Hour)
	b.redis.Do(t, "HSET", "resque:go:ticks", "daily", fmt.Sprint(anchor.UnixMilli(), " vm:1:dead ", timing.mark))
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
	b.atLeast(len(b.queue("clock"))+3, "clock")
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
		if ticks[0].Before(again.Add(-100 * time.Millisecond)) { // our idea of Redis's clock may be a little late
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

// What Ruby writes runs, within one look; what it changes changes; what is wrong with
// one entry is said and costs the others nothing.
func TestDynamicSchedules(t *testing.T) {
	t.Parallel()
	b := setup(t, func(s *WorkerSettings) { s.DynamicSchedule = true })
	set := func(name, text string) {
		b.redis.Do(t, "HSET", "resque:persistent_schedules", name, text)
		b.redis.Do(t, "SADD", "resque:schedules_changed", name)
	}
	set("p", `{"class":"CJ","cron":"* * * * * *","queue":"pq","args":[1,{"x":2}]}`)
	set("bad", `{"class":"CJ","cron":"every day","queue":"pq"}`)
	set("worse", `{`)
	set("elsewhere", `{"class":"CJ","cron":"* * * * * *","queue":"elsewhere","rails_env":"staging, production"}`)
	b.start()
	b.atLeast(2, "pq")
	for _, text := range b.queue("pq") {
		if text != `{"class":"CJ","args":[1,{"x":2}]}` {
			t.Errorf("job %s", text)
		}
	}
	if at := b.redis.Text(t, "HGET", "resque:delayed:last_enqueued_at", "p"); len(at) != len("2026-11-21 02:41:27 +0000") || !strings.HasSuffix(at, " +0000") {
		t.Errorf("last_enqueued_at is %q", at)
	}
	if got := b.queue("elsewhere"); len(got) > 0 {
		t.Errorf("jobs of another environment: %v", got)
	}
	for _, name := range []string{"bad", "worse"} {
		if n := b.log.count(name); n != 1 {
			t.Errorf("%s is spoken of %d times", name, n)
		}
	}
	infos, err := b.daemon.Schedules()
	if err != nil || len(infos) != 4 || infos[0].Broken == nil || infos[3].Broken == nil || infos[2].Broken != nil {
		t.Errorf("schedules %+v, %v", infos, err)
	}

	set("p", `{"class":"CJ","every":["1s",{"first_in":"1s"}],"queue":"pq2"}`)
	b.redis.Do(t, "DEL", "resque:queue:pq")
	b.redis.Do(t, "HDEL", "resque:persistent_schedules", "bad")
	b.atLeast(2, "pq2")
	set("bad", `{"class":"CJ","cron":"every day","queue":"pq"}`)
	b.eventually("what is wrong again is said again", func() bool { return b.log.count("bad") == 2 })
	if removed, err := b.daemon.Unschedule("p"); !removed || err != nil {
		t.Errorf("unscheduled: %v, %v", removed, err)
	}
	b.removed("p")
}

// A schedule that is given with Persist replaces the process's own, and goes on in Redis
// where it was; one of the process's own counts in it before that in Redis.
func TestPersistReplaces(t *testing.T) {
	t.Parallel()
	b := setup(t, func(s *WorkerSettings) { s.DynamicSchedule = true })
	r := everySecond("s")
	b.schedule("s", r)
	b.start()
	b.atLeast(2, "s")
	r.Persist, r.Description = true, "in Redis"
	b.schedule("s", r)
	b.atLeast(len(b.queue("s"))+3, "s")
	b.steady(b.ticksIn("s"), time.Second)
	infos, err := b.daemon.Schedules()
	if err != nil || len(infos) != 1 || infos[0].Recurring.Description != "in Redis" {
		t.Errorf("schedules %+v, %v", infos, err)
	}
	r.Queue = "shared"
	b.schedule("s", r)
	b.atLeast(1, "shared")

	r.Persist, r.Queue = false, "own"
	b.schedule("s", r)
	b.atLeast(2, "own")
	b.steady(append(b.ticksIn("shared"), b.ticksIn("own")...), time.Second)
	if n := b.log.count("its own counts here"); n != 1 {
		t.Errorf("that both have it is said %d times", n)
	}
	b.unschedule("s") // both
	b.removed("s")
	if text := b.redis.Text(t, "HGET", "resque:persistent_schedules", "s"); text != "" {
		t.Errorf("in Redis is still %s", text)
	}
}

// Without DynamicSchedule, a schedule that is given with Persist is for others to fire.
func TestPersistLeavesToOthers(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.schedule("s", everySecond("s"))
	b.start()
	b.atLeast(1, "s")
	b.schedule("s", Recurring{Every: time.Second, Queue: "s", Persist: true})
	b.removed("s")
	other := setupOn(t, b.redis, func(s *WorkerSettings) { s.DynamicSchedule = true })
	b.redis.Do(t, "DEL", "resque:queue:s")
	other.start()
	other.atLeast(2, "s")
}

// While a Ruby scheduler holds its lock, its schedules are left to it, and what it has
// fired is not fired again.
func TestRubyHoldsItsLock(t *testing.T) {
	t.Parallel()
	b := setup(t, func(s *WorkerSettings) { s.DynamicSchedule = true })
	b.redis.Do(t, "SET", rubyLock, "localhost:1428", "EX", 180)
	b.redis.Do(t, "HSET", "resque:persistent_schedules", "dynamic", `{"class":"Tick","every":"1s","queue":"dynamic","tick_arg":true}`)
	layouts := map[string]string{
		"dynamic": "2006-01-02 15:04:05 -0700", "file": "2006-01-02 15:04:05 -0700",
		"utc": "2006-01-02 15:04:05 UTC", "formatted": "January 2, 2006 15:04",
	}
	for name := range layouts {
		if name != "dynamic" {
			file := everySecond(name)
			file.Shared = true
			b.schedule(name, file)
		}
	}
	b.schedule("own", everySecond("own"))
	b.start()
	b.atLeast(8, "own")
	for name := range layouts {
		if n := len(b.queue(name)); n > 0 {
			t.Errorf("%s: %d jobs were enqueued beside Ruby's", name, n)
		}
	}
	fired := time.Now().UTC().Truncate(time.Second)
	for name, layout := range layouts {
		b.redis.Do(t, "HSET", "resque:delayed:last_enqueued_at", name, fired.Format(layout))
	}
	b.redis.Do(t, "DEL", rubyLock)
	for queue := range layouts {
		b.atLeast(3, queue)
		ticks := b.ticksIn(queue)
		b.steady(ticks, time.Second)
		if !ticks[0].After(fired) {
			t.Errorf("%s: tick %v was fired again; Ruby did at %v", queue, ticks[0], fired)
		}
		if phase := ticks[0].Sub(fired) % time.Second; phase != 0 && queue != "formatted" {
			t.Errorf("%s: tick %v comes %v beside those of Ruby", queue, ticks[0], phase)
		}
	}
	if n := b.log.count("is not understood"); n != 1 {
		t.Errorf("a time that is not understood is spoken of %d times", n)
	}
	if holder := b.redis.Text(t, "GET", rubyLock); strings.Count(holder, ":") != 2 {
		t.Errorf("the lock is held by %q", holder)
	}
	if err := b.stop(); err != nil {
		t.Error(err)
	}
	if holder := b.redis.Text(t, "GET", rubyLock); holder != "" {
		t.Errorf("the lock is still held, by %q", holder)
	}
}

// A period goes on from the last tick of a Ruby scheduler, but not from one that we were
// late to fire.
func TestPeriodAfterRubys(t *testing.T) {
	t.Parallel()
	b := setup(t)
	shared := everySecond("")
	shared.Every, shared.Shared, shared.Location = 4*time.Second, true, time.Local
	timing, err := newTiming(shared)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now().Truncate(time.Millisecond)
	last := map[string]time.Time{"ruby": now.Add(-3500 * time.Millisecond), "late": now.Add(-5500 * time.Millisecond)}
	for name, at := range last {
		b.redis.Do(t, "HSET", "resque:go:ticks", name, fmt.Sprint(at.UnixMilli(), " vm:1:dead ", timing.mark))
		shared.Queue = name
		b.schedule(name, shared)
	}
	rubys := now.Add(-time.Second).Truncate(time.Second)
	b.redis.Do(t, "HSET", "resque:delayed:last_enqueued_at", "ruby", rubys.Format("2006-01-02 15:04:05 -0700"))
	infos, err := b.daemon.Schedules()
	if err != nil || len(infos) != 2 || !infos[1].Next.Equal(rubys.Add(shared.Every)) {
		t.Errorf("schedules %+v, %v: want the next tick of ruby %v after %v", infos, err, shared.Every, rubys)
	}
	b.start()
	for name, at := range map[string]time.Time{"ruby": rubys, "late": last["late"]} {
		b.atLeast(2, name)
		ticks := b.ticksIn(name)
		b.steady(append([]time.Time{at}, ticks...), shared.Every)
	}
}

// What a Ruby scheduler with a wrong clock has fired does not stop the fleet until that
// time comes.
func TestRubysClockAhead(t *testing.T) {
	t.Parallel()
	b := setup(t)
	period := everySecond("period")
	period.Shared = true
	cron := period
	cron.Cron, cron.Every, cron.Queue = "* * * * * *", 0, "cron"
	b.schedule("period", period)
	b.schedule("cron", cron)
	b.start()
	for _, name := range []string{"period", "cron"} {
		b.atLeast(1, name)
		b.redis.Do(t, "HSET", "resque:delayed:last_enqueued_at", name, "2099-01-01 00:00:00 +0000")
		n := len(b.queue(name))
		b.atLeast(n+3, name)
		b.steady(b.ticksIn(name), time.Second)
	}
	if n := b.log.count("is ahead of"); n != 2 {
		t.Errorf("the clock is spoken of %d times", n)
	}
}

// Nor is the lock kept by a process whose last shared schedule was removed just before it
// stopped.
func TestLockOfRemovedSchedules(t *testing.T) {
	t.Parallel()
	b := setup(t)
	shared := everySecond("s")
	shared.Shared = true
	b.schedule("s", shared)
	b.start()
	b.atLeast(1, "s")
	b.unschedule("s")
	b.removed("s")
	if err := b.stop(); err != nil {
		t.Error(err)
	}
	if holder := b.redis.Text(t, "GET", rubyLock); holder != "" {
		t.Errorf("the lock is still held, by %q", holder)
	}
}

// Persist writes what Ruby writes.
func TestGoldenSchedule(t *testing.T) {
	t.Parallel()
	b := setup(t)
	t.Cleanup(b.daemon.Close)
	b.schedule("nightly", Recurring{Cron: "0 3 * * *", Class: "Echo", Queue: "low", Args: []any{"a"}, Description: "d", Persist: true})
	b.schedule("often", Recurring{Every: 30 * time.Second, Queue: "low", Persist: true})
	if removed, err := b.daemon.Unschedule("often"); !removed || err != nil {
		t.Errorf("unscheduled: %v, %v", removed, err)
	}
	golden := redistest.Golden(t, "schedule_recurring")
	if diff := cmp.Diff(redistest.Values(golden.Snapshots["set"]), b.redis.Dump(t, "")); diff != "" {
		t.Errorf("keys (-want +got):\n%s", diff)
	}
	if err := b.daemon.RunScheduleNow("nightly"); err != nil {
		t.Fatal(err)
	}
	if got := b.queue("low"); len(got) != 1 || got[0] != `{"class":"Echo","args":["a"]}` {
		t.Errorf("jobs %v", got)
	}
}

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
	daily := map[string]string{}
	for _, zone := range []*time.Location{time.UTC, berlin, time.FixedZone("Local", 3600), time.FixedZone("Local", 7200)} {
		timing, err := newTiming(Recurring{Cron: "@daily", Location: zone})
		if err != nil {
			t.Fatal(err)
		}
		daily[timing.mark] = zone.String()
	}
	if len(daily) != 4 {
		t.Errorf("four zones give %d timings: %v", len(daily), daily)
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
	b.atLeast(len(b.queue("clock"))+int(dynamicEvery/time.Second)+1, "clock") // the other timing was looked at again
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
		b.daemon.recurring.tell() // look at the clock now
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
		r.Location = time.Local
		timing, err := newTiming(r)
		if err != nil {
			t.Fatal(err)
		}
		b.redis.Do(t, "HSET", "resque:go:ticks", name, fmt.Sprint(time.Now().Add(time.Hour).UnixMilli(), " vm:1:dead ", timing.mark))
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
