package goworker

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/goworker/goworker/internal/redistest"
)

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
	timing := timingHash(t, shared)
	now := time.Now().Truncate(time.Millisecond)
	last := map[string]time.Time{"ruby": now.Add(-3500 * time.Millisecond), "late": now.Add(-5500 * time.Millisecond)}
	for name, at := range last {
		b.redis.Do(t, "HSET", "resque:go:ticks", name, fmt.Sprint(at.UnixMilli(), " vm:1:dead ", timing))
		shared.Queue = name
		b.schedule(name, shared)
	}
	rubys := now.Add(-time.Second).Truncate(time.Second)
	b.redis.Do(t, "HSET", "resque:delayed:last_enqueued_at", "ruby", rubys.Format("2006-01-02 15:04:05 -0700"))
	infos, err := b.daemon.Schedules()
	if err != nil || len(infos) != 2 || infos[1].Next.Sub(rubys) <= 0 || infos[1].Next.Sub(rubys)%shared.Every != 0 {
		t.Errorf("schedules %+v, %v: want the next tick of ruby a multiple of %v after %v", infos, err, shared.Every, rubys)
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

// What Persist writes is read by Ruby schedulers of every version, and by daemons for the
// same times: they end at a cron that they do not read.
func TestPersistWritesWhatRubyReads(t *testing.T) {
	t.Parallel()
	b := setup(t)
	t.Cleanup(b.daemon.Close)
	tokyo, err := time.LoadLocation("Asia/Tokyo")
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		r    Recurring
		want string // of its JSON; "": it is refused
		says string
	}{
		{Recurring{Cron: "0 0 ? * *"}, `"cron":"0 0 * * *"`, ""},
		{Recurring{Cron: "0 0 * * 01"}, `"cron":"0 0 * * 1"`, ""},
		{Recurring{Cron: "-0 * * * *"}, `"cron":"0 * * * *"`, ""},
		{Recurring{Cron: "5, * * * *"}, `"cron":"5 * * * *"`, ""},
		{Recurring{Cron: ",5 * * * *"}, `"cron":"5 * * * *"`, ""},
		{Recurring{Cron: "@daily"}, `"cron":"@daily"`, ""},
		{Recurring{Cron: "@daily Europe/Berlin"}, `"cron":"0 0 * * * Europe/Berlin"`, ""},
		{Recurring{Cron: "@daily", Location: tokyo}, `"cron":"0 0 * * * Asia/Tokyo"`, ""},
		{Recurring{Cron: "@daily", FirstIn: time.Hour, Location: time.UTC}, `"cron":["0 0 * * * UTC",{"first_in":"3600s"}]`, ""},
		{Recurring{Cron: "0 9 * * sat-tue/2"}, `"cron":"0 9 * * 6,1"`, ""},
		{Recurring{Cron: "0 9 13 * fri&"}, "", "since 1.7"},
		{Recurring{Cron: "0 9 13 * fri&", Fugit: "1.6"}, "", "since 1.7"},
		{Recurring{Cron: "0 9 13 * fri&", Fugit: "1.7.2"}, `"cron":"0 9 13 * fri&","queue":"q","fugit":"1.7.2"`, ""},
		{Recurring{Cron: "0 9 * * sun%2"}, "", `Fugit: "1.12"`},
		{Recurring{Cron: "0 9 * * sun%2", Fugit: "1.11"}, `"cron":"0 9 * * sun%2","queue":"q","fugit":"1.11"`, ""},
		{Recurring{Cron: "0 9 * * mon#1,mon#3", Fugit: "1.5"}, "", "two schedules"},
		{Recurring{Cron: "@daily", Fugit: "1.4"}, "", "its Fugit is wrong"},
		{Recurring{Cron: "@daily", Location: time.FixedZone("UTC+9", 9*3600)}, "", `its Location "UTC+9" cannot be written for others`},
		{Recurring{Cron: "@daily", Location: time.FixedZone("UTC+9", 9*3600)}, "", "leave it out and end the Cron with +09:00"},
		{Recurring{Cron: "@daily", Location: time.FixedZone("CET", 3600)}, "", "end the Cron with +01:00"}, // Ruby's has a summer time
		{Recurring{Cron: "@daily", Location: time.FixedZone("", 13*3600)}, "", "take one of time.LoadLocation"},
	} {
		tt.r.Queue, tt.r.Persist = "q", true
		b.redis.Do(t, "DEL", "resque:persistent_schedules")
		err := b.daemon.Schedule("s", tt.r)
		text := b.redis.Text(t, "HGET", "resque:persistent_schedules", "s")
		switch {
		case tt.want == "":
			if err == nil || !strings.Contains(err.Error(), tt.says) || text != "" {
				t.Errorf("%+v is written as %s, %v; want %q in an error", tt.r, text, err, tt.says)
			}
			tt.r.Persist = false
			if err := b.daemon.Schedule("own", tt.r); err != nil && tt.r.Fugit != "1.4" {
				t.Errorf("%+v, which is for no others: %v", tt.r, err)
			}
		case err != nil || !strings.Contains(text, tt.want):
			t.Errorf("%+v is written as %s, %v; want %s", tt.r, text, err, tt.want)
		default:
			// What stands there can be written again.
			infos, err := b.daemon.Schedules()
			if err != nil || len(infos) == 0 || infos[len(infos)-1].Name != "s" {
				t.Fatalf("schedules %+v, %v", infos, err)
			}
			if err := b.daemon.Schedule("s", infos[len(infos)-1].Recurring); err != nil {
				t.Errorf("%s, once more: %v", text, err)
			}
			if again := b.redis.Text(t, "HGET", "resque:persistent_schedules", "s"); again != text {
				t.Errorf("%s is written as %s the second time", text, again)
			}
		}
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

	b.redis.Do(t, "HDEL", "resque:persistent_schedules", "bad")
	set("p", `{"class":"CJ","every":["1s",{"first_in":"1s"}],"queue":"pq2"}`) // a look that sees this misses the other
	b.redis.Do(t, "DEL", "resque:queue:pq")
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
