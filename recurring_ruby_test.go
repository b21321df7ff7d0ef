package goworker_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/internal/daemontest"
	"github.com/goworker/goworker/internal/redistest"
)

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
