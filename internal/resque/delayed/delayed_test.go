package delayed

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/payload"
	"github.com/goworker/goworker/internal/redistest"
	"github.com/goworker/goworker/internal/resque"
	"github.com/goworker/goworker/internal/resque/failures"
)

// far is a whole second no test will see.
var far = time.Unix(1_900_000_000, 0)

func delayedBulk(queue, class string, args ...any) *resque.Bulk {
	b := new(resque.Bulk)
	if err := b.Add(queue, class, args); err != nil {
		panic(err)
	}
	return b
}

// delayBulk pushes the jobs into resque-scheduler's schedule.
func (w *wire) delayBulk(b *resque.Bulk, at time.Time) error { return w.pushTo(b, at, true) }

// scheduleBulk pushes the jobs into our own schedule.
func (w *wire) scheduleBulk(b *resque.Bulk, at time.Time) error { return w.pushTo(b, at, false) }

func (w *wire) pushTo(b *resque.Bulk, at time.Time, ruby bool) error {
	later := resque.Bulk{Style: b.Style}
	for queue, raw := range b.All() {
		if err := later.PutRaw(raw, resque.Place{Queue: queue, At: at, Ruby: ruby}); err != nil {
			return err
		}
	}
	return w.s.PushBulk(w.c, &later)
}

func (w *wire) delay(at time.Time, queue string, args ...any) {
	w.t.Helper()
	w.must(w.delayBulk(delayedBulk(queue, "Echo", args...), at))
}

// lock is the schedulers' lock, held.
func (w *wire) lock() resque.MasterLock {
	w.t.Helper()
	l := w.s.MasterLock("me", "", false)
	if held, by, err := w.s.HoldMasterLock(w.c, l); !held || err != nil {
		w.t.Fatalf("the lock is %q's, %v", by, err)
	}
	return l
}

// pumpAll steps until nothing more is due.
func (w *wire) pumpAll(p *Pump, lock resque.MasterLock) (total Moved) {
	w.t.Helper()
	for range 1000 {
		due, err := w.s.Due(w.c, false)
		w.must(err)
		var m Moved
		switch {
		case due.Own <= 0:
			m, err = p.Own(w.c)
		case due.Hints <= 0:
			m, err = p.Hints(w.c, lock, due.Now)
		case due.Plain <= 0:
			m, err = p.Seconds(w.c, lock, due.Now)
		default:
			return total
		}
		w.must(err)
		total.Jobs += m.Jobs
		total.Failed = append(total.Failed, m.Failed...)
		total.Broken = append(total.Broken, m.Broken...)
		if m.Lost {
			total.Lost = true
			return total
		}
	}
	w.t.Fatal("a thousand steps, and still something is due")
	return total
}

// What we write is what Ruby wrote when it did the same.
func TestGoldenDelay(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	r := redistest.Golden(t, "schedule")
	snapshot := func(name string) {
		t.Helper()
		w.same(name, redistest.Values(r.Snapshots[name]), w.server.Dump(t, ""))
	}
	w.delay(far, "low", 1, "x")
	w.delay(far, "low", 2)
	w.delay(far.Add(time.Minute), "other", 3)
	snapshot("scheduled")
	jobs, err := w.d.Like(w.c, delayedBulk("low", "Echo", 2))
	w.must(err)
	n, err := remove(w.d, w.c, jobs)
	w.must(err)
	w.same("removed", 1, n)
	snapshot("removed_2")
	w.delay(far.Add(2*time.Minute), "low", 1, "x")
	snapshot("same_job_two_times")
	w.same("at the end", redistest.Values(r.KeysAfter), w.server.Dump(t, ""))
}

// What the pump leaves is what Ruby's scheduler left.
func TestGoldenPump(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	r := redistest.Golden(t, "schedule_pump")
	due := r.Snapshots["due"]
	for _, k := range due {
		switch v := k.Value.(type) {
		case []string:
			for _, e := range v {
				w.do(map[string]string{"list": "RPUSH", "set": "SADD"}[k.Type], k.Key, e)
			}
		case map[string]float64:
			for member, score := range v {
				w.do("ZADD", k.Key, int64(score), member)
			}
		}
	}
	w.same("as recorded", redistest.Values(due), w.server.Dump(t, ""))
	// The recording's time is over or not; it must be.
	w.do("ZADD", w.s.KeyOfSeconds(), "XX", 1, "1795228884")
	p := &Pump{Store: w.d}
	lock := w.lock()
	w.same("moved", Moved{Jobs: 2}, w.pumpAll(p, lock))
	got := w.server.Dump(t, "")
	got[lock.Key()] = "localhost:1428"
	w.same("at the end", redistest.Values(r.KeysAfter), got)
}

func TestDelayRoundsUp(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		at           time.Time
		second, hint string
	}{
		{far, "1900000000", ""},
		{far.Add(time.Nanosecond), "1900000001", "1900000000001"},
		{far.Add(250 * time.Millisecond), "1900000001", "1900000000250"},
		{far.Add(999*time.Millisecond + 1), "1900000001", ""},
		{far.Add(time.Second), "1900000001", ""},
	} {
		s := resque.StampOf(tt.at)
		if s.Second() != tt.second || s.Hint() != tt.hint {
			t.Errorf("%v: second %s, hint %q; want %s, %q", tt.at, s.Second(), s.Hint(), tt.second, tt.hint)
		}
	}
}

// A job that is due within a second stands in Ruby's keys under the next whole one, so
// that Ruby never starts it early, and we move it at its millisecond.
func TestHints(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	now, err := w.s.Now(w.c)
	w.must(err)
	past := now.Truncate(time.Second).Add(-10 * time.Millisecond)
	soon := now.Truncate(time.Second).Add(time.Hour + 500*time.Millisecond)
	w.delay(past.Add(time.Hour), "low", "not due")
	w.delay(soon, "low", "twice")
	w.delay(soon, "low", "twice")
	w.same("hints", 3, w.server.Int(t, "ZCARD", w.s.KeyOfHints()))

	// As if an hour had passed, but for the seconds.
	for _, hint := range w.server.List(t, "ZRANGE", w.s.KeyOfHints(), 0, -1) {
		if strings.Contains(hint, "twice") {
			w.do("ZADD", w.s.KeyOfHints(), 1, hint)
		}
	}
	p, lock := &Pump{Store: w.d}, w.lock()
	w.same("moved", Moved{Jobs: 2}, w.pumpAll(p, lock))
	w.same("queue", []string{`{"class":"Echo","args":["twice"]}`, `{"class":"Echo","args":["twice"]}`}, w.queue("low"))
	second := resque.StampOf(past.Add(time.Hour)).Second()
	w.same("what is left", []string{second}, w.server.List(t, "ZRANGE", w.s.KeyOfSeconds(), 0, -1))
	w.same("hints left", 1, w.server.Int(t, "ZCARD", w.s.KeyOfHints()))
	w.same("keys", 0, w.server.Int(t, "EXISTS", w.s.KeyOfJobSeconds(`{"class":"Echo","args":["twice"],"queue":"low"}`)))

	// A hint to what Ruby took away is dropped, and nothing is moved.
	hint := w.server.List(t, "ZRANGE", w.s.KeyOfHints(), 0, -1)[0]
	w.do("DEL", w.s.KeyOfSecond(second))
	w.do("ZADD", w.s.KeyOfHints(), 1, hint)
	w.same("moved", Moved{}, w.pumpAll(p, lock))
	w.same("hints left", 0, w.server.Int(t, "EXISTS", w.s.KeyOfHints()))
	w.same("queue", 2, len(w.queue("low")))
}

// Hints cost a look at each job of the list, and a copy of the job.
func TestHintsAreLimited(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	var b resque.Bulk
	for i := range resque.HintListItems + 10 {
		w.must(b.Add("low", "Echo", []any{i}))
	}
	w.must(b.Add("low", "Echo", []any{strings.Repeat("x", resque.HintItemBytes)}))
	w.must(w.delayBulk(&b, far.Add(time.Millisecond)))
	w.must(w.delayBulk(delayedBulk("low", "Echo", strings.Repeat("x", resque.HintItemBytes)), far.Add(-time.Millisecond)))
	w.same("hints", resque.HintListItems, w.server.Int(t, "ZCARD", w.s.KeyOfHints()))
	w.same("jobs", resque.HintListItems+11, w.server.Int(t, "LLEN", w.s.KeyOfSecond("1900000001")))
}

// If only Ruby's scheduler moves the jobs, only the processes that delay jobs can remove
// the hints. A job whose hint is gone is moved with its second.
func TestHintsThatNobodyFollows(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	now, err := w.s.Now(w.c)
	w.must(err)
	for i := range 300 {
		w.do("ZADD", w.s.KeyOfHints(), now.Add(-time.Hour).UnixMilli()+int64(i), fmt.Sprint("old", i))
	}
	left := func(what string, old, others int) {
		t.Helper()
		w.same("old hints left by "+what, old, w.server.Int(t, "ZCOUNT", w.s.KeyOfHints(), "-inf", now.Add(-time.Minute).UnixMilli()))
		w.same("hints", old+others, w.server.Int(t, "ZCARD", w.s.KeyOfHints()))
	}
	w.delay(now.Truncate(time.Second).Add(-30*time.Second+time.Millisecond), "low", "late")
	left("one job", 298, 1)
	var b resque.Bulk
	for i := range 100 {
		w.must(b.Add("low", "Echo", []any{i}))
	}
	w.must(w.delayBulk(&b, far.Add(time.Millisecond)))
	left("a hundred", 98, 101)
	w.delay(far, "low", "needs no hint")
	left("a job without a hint", 98, 101)
	for i := range 49 {
		w.delay(far.Add(time.Hour+time.Millisecond), "low", "one of 49", i)
	}
	left("all", 0, 150)
	w.delay(now.Truncate(time.Second).Add(-time.Hour+time.Millisecond), "low", "later still")
	left("a job of the past", 0, 150)
	w.same("moved", Moved{Jobs: 2}, w.pumpAll(&Pump{Store: w.d}, w.lock()))
}

// A second may have become long since its first jobs got their hints. It is not searched
// for each of them, and for twins of each: they start with it.
func TestHintsOfLongLists(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	at := time.Unix(time.Now().Unix()-5, 0)
	for _, size := range []int{resque.HintListItems, 10} {
		var b resque.Bulk
		for i := range size {
			w.must(b.Add("low", "Echo", []any{fmt.Sprint(i, "of", size)}))
		}
		w.must(w.delayBulk(&b, at.Add(-time.Millisecond)))
	}
	w.delay(at.Add(-1001*time.Millisecond), "low", "alone")
	w.do("CONFIG", "RESETSTAT")
	p, lock := &Pump{Store: w.d}, w.lock()
	moved := 0
	for range 4 {
		m, err := p.Hints(w.c, lock, time.Now())
		w.must(err)
		moved += m.Jobs
	}
	w.same("moved by hints", 1, moved)
	w.same("hints", 0, w.server.Int(t, "EXISTS", w.s.KeyOfHints()))
	if stats := w.server.Text(t, "INFO", "commandstats"); !strings.Contains(stats, "cmdstat_lrem:calls=1,") {
		t.Errorf("the long list was searched: %s", stats)
	}
	w.same("moved", Moved{Jobs: resque.HintListItems + 10}, w.pumpAll(p, lock))
	w.same("queue", resque.HintListItems+11, len(w.queue("low")))
}

// A cancelled job's hint must not start the same job early that is delayed to another
// millisecond of that second.
func TestHintsGoWithTheirJob(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	w.delay(far.Add(100*time.Millisecond), "low", 1)
	w.delay(far.Add(150*time.Millisecond), "low", 2)
	jobs, err := w.d.Like(w.c, delayedBulk("low", "Echo", 1))
	w.must(err)
	n, err := redelay(w.d, w.c, jobs, far.Add(700*time.Millisecond))
	w.must(err)
	w.same("delayed again", 1, n)
	w.same("hints", []string{`1900000000150 2 {"class":"Echo","args":[2],"queue":"low"}`, `1900000000700 2 {"class":"Echo","args":[1],"queue":"low"}`},
		w.server.List(t, "ZRANGE", w.s.KeyOfHints(), 0, -1))
	jobs, err = w.d.Page(w.c, far, 0, 10)
	w.must(err)
	n, err = remove(w.d, w.c, jobs)
	w.must(err)
	w.same("removed", 2, n)
	w.same("keys", map[string]any{}, w.server.Dump(t, ""))
}

func TestPumpOwn(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	var want [3][]string
	for i := range 3 * pumpJobs {
		queue := fmt.Sprintf("q%d", i%3)
		payload := fmt.Sprintf(`{"class":"Echo","args":[%d],"id":"%d"}`, i, i)
		w.do("ZADD", w.s.KeyOfSchedule(), 1_000_000+i, resque.JobPrefix(queue)+payload)
		want[i%3] = append(want[i%3], payload)
	}
	w.must(w.scheduleBulk(delayedBulk("q0", "Echo", "later"), far))
	p := &Pump{Store: w.d}
	if m := w.pumpAll(p, resque.MasterLock{}); m.Jobs != 3*pumpJobs {
		t.Errorf("moved %+v", m)
	}
	for i := range want {
		w.same("queue in order", want[i], w.queue(fmt.Sprintf("q%d", i)))
	}
	names, err := w.s.Queues(w.c)
	w.must(err)
	w.same("queues", []string{"q0", "q1", "q2"}, names)
	w.same("left", []string{`2:q0{"class":"Echo","args":["later"]}`}, w.server.List(t, "ZRANGE", w.s.KeyOfSchedule(), 0, -1))
}

// More queues than one step may name are served all the same.
func TestPumpOwnManyQueues(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	const n = 3 * pumpQueues
	for i := range n {
		w.do("ZADD", w.s.KeyOfSchedule(), i, resque.JobPrefix(fmt.Sprint("q", i))+"job")
	}
	if m := w.pumpAll(&Pump{Store: w.d}, resque.MasterLock{}); m.Jobs != n {
		t.Errorf("moved %+v", m)
	}
	w.same("queues", n, w.server.Int(t, "SCARD", w.s.KeyOfQueues()))
}

// What names no queue is a failure, and those behind it go on.
func TestPumpOwnSetsAside(t *testing.T) {
	t.Parallel()
	for _, member := range []string{"", "junk", "0:{}", "9:low{}", "x:low{}", "99999999999999999999:low", "-1:low", "\xff"} {
		w := newWire(t)
		w.do("ZADD", w.s.KeyOfSchedule(), 1, resque.JobPrefix("low")+"a", 2, member, 3, resque.JobPrefix("low")+"b")
		m := w.pumpAll(&Pump{Store: w.d, By: "h:1:q"}, resque.MasterLock{})
		if m.Jobs != 2 || len(m.Failed) != 1 {
			t.Errorf("%q: %+v", member, m)
		}
		w.same("queue", []string{"a", "b"}, w.queue("low"))
		failures, err := failures.New(w.s).Page(w.c, []string{resque.FailedList}, 0, -1)
		w.must(err)
		if len(failures) != 1 || failures[0].Failure.Queue == "" || failures[0].Failure.Worker != "h:1:q" || string(failures[0].Failure.Payload) != string(payload.Invalid([]byte(member))) {
			t.Errorf("%q: failures %+v", member, failures)
		}
		w.same("schedule", 0, w.server.Int(t, "EXISTS", w.s.KeyOfSchedule()))
	}
}

// A second of a thousand jobs is moved in order, and those that no worker could run are
// failures; then the second is gone. So is one that a cancel has left empty.
func TestPumpSeconds(t *testing.T) {
	t.Parallel()
	for _, multi := range []bool{false, true} {
		w := newWire(t)
		now := time.Now().Truncate(time.Second)
		second := fmt.Sprint(now.Unix() - 2)
		var want []string
		for i := range 1000 {
			item := fmt.Sprintf(`{"class":"Echo","args":[%d],"queue":"low"}`, i)
			switch i {
			case 100:
				item = `{"class":"Echo"`
			case 200:
				item = `{"class":"Echo","args":[]}`
			case 300:
				item = `{"args":[],"queue":"high"}`
			default:
				want = append(want, fmt.Sprintf(`{"class":"Echo","args":[%d]}`, i))
			}
			w.do("RPUSH", w.s.KeyOfSecond(second), item)
			w.do("SADD", w.s.KeyOfJobSeconds(item), "delayed:"+second)
		}
		w.do("ZADD", w.s.KeyOfSeconds(), second, second, now.Unix()-5, now.Unix()-5)
		w.do("HSET", w.s.KeyOfSecond("last_enqueued_at"), "nightly", "2026-11-21 02:41:27 +0000")
		w.delay(time.Unix(now.Unix()-1, 0), "low", "next")
		want = append(want, `{"class":"Echo","args":["next"]}`)

		lock := w.lock()
		m := w.pumpAll(&Pump{Store: w.d, By: "h:1:q", MultiQueue: multi}, lock)
		if m.Jobs != 1001 || len(m.Failed) != 3 || len(m.Broken) > 0 {
			t.Errorf("moved %+v", m)
		}
		w.same("queue", want, w.queue("low"))
		left := w.server.Keys(t)
		wanted := []string{lock.Key(), w.s.KeyOfQueue("low"), w.s.KeyOfQueues(), w.s.KeyOfSecond("last_enqueued_at")}
		if multi {
			wanted = append(wanted, w.s.KeyOfFailureLists(), w.s.KeyOfFailures("high_failed"), w.s.KeyOfFailures("delayed_failed"))
			w.same("of high", 1, w.server.Int(t, "LLEN", w.s.KeyOfFailures("high_failed")))
			w.same("of none", 2, w.server.Int(t, "LLEN", w.s.KeyOfFailures("delayed_failed")))
		} else {
			wanted = append(wanted, w.s.KeyOfFailures(resque.FailedList))
			failures, err := failures.New(w.s).Page(w.c, []string{resque.FailedList}, 0, -1)
			w.must(err)
			for i, item := range []string{`{"class":"Echo"`, `{"class":"Echo","args":[]}`, `{"args":[],"queue":"high"}`} {
				w.same("failure", string(payload.Invalid([]byte(item))), string(failures[i].Failure.Payload))
			}
		}
		slices.Sort(wanted)
		slices.Sort(left)
		w.same("keys", wanted, left)
	}
}

// While another scheduler has the lock nothing of Ruby's is touched.
func TestPumpRespectsTheLock(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	now := time.Now()
	w.delay(time.Unix(1, 0), "low", 1)
	w.delay(time.Unix(now.Unix()-2, 500_000_000), "low", 2)
	lock := w.lock()
	w.do("SET", lock.Key(), "ruby:1")
	p := &Pump{Store: w.d}
	w.unchanged("pumping without the lock", func() {
		if m, err := p.Seconds(w.c, lock, now); !m.Lost || m.Jobs > 0 || err != nil {
			t.Errorf("%+v, %v", m, err)
		}
	})
	w.unchanged("following hints without the lock", func() {
		if m, err := p.Hints(w.c, lock, now); !m.Lost || m.Jobs != 0 || err != nil {
			t.Errorf("%+v, %v", m, err)
		}
	})
	w.same("queue", []string{}, w.queue("low"))
	w.same("hints", 1, w.server.Int(t, "ZCARD", w.s.KeyOfHints()))
	w.must(p.DropHints(w.c, now))
	w.same("hints of the past", 0, w.server.Int(t, "EXISTS", w.s.KeyOfHints()))
}

// A queue of the wrong type keeps its own jobs waiting, and no others.
func TestPumpWrongType(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	now := time.Now()
	past := time.Unix(now.Unix()-5, 0)
	for i := range 3 {
		for _, queue := range []string{"bad", "low"} {
			w.delay(past, queue, i)
			w.do("ZADD", w.s.KeyOfSchedule(), i, resque.JobPrefix(queue)+fmt.Sprint(i))
		}
	}
	w.do("ZADD", w.s.KeyOfSeconds(), past.Unix()-1, "list")
	w.do("SET", w.s.KeyOfSecond("list"), "no list")
	w.do("SET", w.s.KeyOfQueue("bad"), "no list")
	p, lock := &Pump{Store: w.d}, w.lock()
	m := w.pumpAll(p, lock)
	if len(m.Broken) < 3 || len(m.Failed) > 0 {
		t.Errorf("%+v", m)
	}
	w.same("the other queue", 6, len(w.queue("low")))
	if _, _, err := w.d.Count(w.c); err == nil {
		t.Error("a list of the wrong type was counted")
	}
	w.do("DEL", w.s.KeyOfSecond("list"), w.s.KeyOfQueue("bad"))
	due, err := w.s.Due(w.c, false)
	w.must(err)
	if due.Own < putOff/2 || due.Plain < putOff/2 || due.Own > putOff || due.Plain > putOff {
		t.Errorf("tried again after %+v", due)
	}
	own, plain, err := w.d.Count(w.c)
	if own != 3 || plain != 3 || err != nil {
		t.Errorf("%d and %d wait, %v", own, plain, err)
	}
	// They are in Ruby's keys as any others are.
	jobs, err := w.d.Like(w.c, delayedBulk("bad", "Echo", 1))
	if len(jobs) != 1 || err != nil {
		t.Errorf("found %+v, %v", jobs, err)
	}
}

// Jobs that are due are moved when Redis takes no more, which is what it needs.
func TestPumpOutOfMemory(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	w.delay(time.Unix(1, 0), "low", 1)
	w.delay(time.Now().Truncate(time.Second).Add(-time.Millisecond), "low", 2)
	w.must(w.scheduleBulk(delayedBulk("low", "Echo", 3), time.UnixMilli(1)))
	w.do("CONFIG", "SET", "maxmemory", "1")
	if err := w.delayBulk(delayedBulk("low", "Echo", 4), far); err == nil || !strings.Contains(err.Error(), "out of memory") {
		t.Errorf("delaying: %v", err)
	}
	if m := w.pumpAll(&Pump{Store: w.d}, w.lock()); m.Jobs != 3 {
		t.Errorf("%+v", m)
	}
}

// Two pumps that look at the same time move each job once.
func TestTwoPumps(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	a, b, lock := &Pump{Store: w.d}, &Pump{Store: w.d}, w.lock()
	past := time.Unix(time.Now().Unix()-5, 0)
	var want []string
	for i := range 20 {
		w.delay(past, "low", i)
		want = append(want, fmt.Sprintf(`{"class":"Echo","args":[%d]}`, i))
	}
	// b acts on what it read before a did.
	items, err := redis.ByteSlices(w.c.Do("LRANGE", w.s.KeyOfSecond(fmt.Sprint(past.Unix())), 0, -1))
	w.must(err)
	stale := b.move(lock, time.Now(), fmt.Sprint(past.Unix()), items[:8])
	_, err = a.Seconds(w.c, lock, time.Now())
	w.must(err)
	_, err = stale.Do(w.c, bucketScript)
	w.must(err)
	w.pumpAll(b, lock)
	w.same("queue", want, w.queue("low"))
}

// A delayed job whose queue or whose set of queues is of the wrong type waits on.
func TestDelayedToWrongType(t *testing.T) {
	t.Parallel()
	k := resque.New("")
	for _, key := range []string{k.KeyOfQueues(), k.KeyOfSchedule()} {
		w := newWire(t)
		w.spoil(key)
		w.must(w.delayBulk(delayedBulk("low", "Echo", 1), far.Add(time.Millisecond)))
		jobs, err := w.d.Page(w.c, far, 0, 9)
		if err == nil {
			_, err = run(w.d, w.c, jobs)
		}
		if err == nil {
			t.Errorf("%s: running them is no error", key)
		}
		w.same("jobs", 1, w.server.Int(t, "LLEN", w.s.KeyOfSecond("1900000001")))
	}
}
