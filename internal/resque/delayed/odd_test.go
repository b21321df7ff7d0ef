package delayed

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/goworker/goworker/internal/resque"
)

// What can be neither moved nor filed does not keep the jobs behind it waiting, and the pump
// does not try again and again.
func TestPumpOwnCannotSetAside(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	w.spoil(w.s.KeyOfFailures(resque.FailedList))
	w.do("ZADD", w.s.KeyOfSchedule(), 1, "junk", 2, resque.JobPrefix("low")+"b")
	if m := w.pumpAll(&Pump{Store: w.d}, resque.MasterLock{}); m.Jobs != 1 || len(m.Broken) == 0 || len(m.Failed) > 0 {
		t.Errorf("%+v", m)
	}
	w.same("queue", []string{"b"}, w.queue("low"))
	due, err := w.s.Due(w.c, false)
	w.must(err)
	if due.Own < putOff/2 || due.Own > putOff+time.Second {
		t.Errorf("tried again after %v", due.Own)
	}
	w.do("DEL", w.s.KeyOfFailures(resque.FailedList))
	w.do("ZADD", w.s.KeyOfSchedule(), "XX", 1, "junk")
	if m := w.pumpAll(&Pump{Store: w.d}, resque.MasterLock{}); len(m.Failed) != 1 {
		t.Errorf("after the repair: %+v", m)
	}
}

// Whatever another program wrote in a second's place: a job there can be run, cancelled and
// delayed again, and is not lost by it.
func TestDelayedToNoSecond(t *testing.T) {
	t.Parallel()
	item := `{"class":"Echo","args":[1],"queue":"low"}`
	for _, second := range []string{"abc", "1.5", "-7", "0x10", "1900000000.0", "1e400"} {
		w := newWire(t)
		for range 3 {
			w.do("RPUSH", w.s.KeyOfSecond(second), item)
		}
		w.do("SADD", w.s.KeyOfJobSeconds(item), "delayed:"+second)
		w.do("ZADD", w.s.KeyOfSeconds(), far.Unix(), second)
		jobs, err := w.d.Page(w.c, time.Time{}, 0, 9)
		w.must(err)
		for _, change := range []func() (int, error){
			func() (int, error) { return run(w.d, w.c, jobs[:1]) },
			func() (int, error) { return redelay(w.d, w.c, jobs[1:2], far.Add(time.Millisecond)) },
			func() (int, error) { return remove(w.d, w.c, jobs[2:]) },
		} {
			if n, err := change(); n != 1 || err != nil {
				t.Errorf("%s: changed %d, %v", second, n, err)
			}
		}
		w.same(second+": queue", []string{`{"class":"Echo","args":[1]}`}, w.queue("low"))
		w.same(second+": seconds", []string{"1900000001"}, w.server.List(t, "ZRANGE", w.s.KeyOfSeconds(), 0, -1))
		w.same(second+": stamps", []string{"delayed:1900000001"}, w.server.List(t, "SMEMBERS", w.s.KeyOfJobSeconds(item)))
	}
}

// Jobs that are delayed again get hints within the same limits as others, and the hints of
// a second are read once for all that leave it: else a thousand jobs of one second cost
// Redis a million looks, and twenty thousand minutes.
func TestHintsOfJobsDelayedAnew(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	var b resque.Bulk
	for i := range resque.HintListItems + 10 {
		w.must(b.Add("low", "Echo", []any{i}))
	}
	w.must(w.delayBulk(&b, far))
	jobs, err := w.d.Page(w.c, far, 0, 2*resque.HintListItems)
	w.must(err)
	at := far.Add(5*time.Second + time.Millisecond)
	n, err := redelay(w.d, w.c, jobs, at)
	w.must(err)
	w.same("delayed again", resque.HintListItems+10, n)
	w.same("hints", resque.HintListItems, w.server.Int(t, "ZCARD", w.s.KeyOfHints()))
	jobs, err = w.d.Page(w.c, far, 0, 2*resque.HintListItems)
	w.must(err)
	w.do("CONFIG", "RESETSTAT")
	n, err = remove(w.d, w.c, jobs)
	w.must(err)
	w.same("removed", resque.HintListItems+10, n)
	w.same("keys", map[string]any{}, w.server.Dump(t, ""))
	if stats := w.server.Text(t, "INFO", "commandstats"); !strings.Contains(stats, "cmdstat_zrangebyscore:calls=3,") { // one for each script of 500 jobs
		t.Errorf("%s", stats)
	}
}

// Removing all jobs costs a look at each, however many lie in one second, and leaves
// nothing behind, of Ruby neither.
func TestClearDelayed(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	for range 5 {
		var b resque.Bulk
		for i := range 1000 {
			w.must(b.Add("low", "Echo", []any{i}))
		}
		w.must(w.delayBulk(&b, far.Add(time.Millisecond)))
	}
	w.must(w.scheduleBulk(delayedBulk("low", "Echo", 1), far))
	w.do("ZADD", w.s.KeyOfSeconds(), 5, "5", 6, "six") // empty seconds
	w.do("RPUSH", w.s.KeyOfSecond("six"), "junk")
	w.must(w.d.Clear(w.c))
	w.same("keys", map[string]any{}, w.server.Dump(t, ""))

	w.spoil(w.s.KeyOfSecond("7"))
	w.do("ZADD", w.s.KeyOfSeconds(), 7, "7")
	if err := w.d.Clear(w.c); err == nil {
		t.Error("a list of the wrong type was cleared")
	}
}

// Jobs of a list so long that looking for them takes Redis's time are changed by several
// scripts, so that it serves other clients in between.
func TestChangesOfLongLists(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	const size = changeLooks / 10
	for from := 0; from < size; from += 10_000 {
		var b resque.Bulk
		for i := range 10_000 {
			w.must(b.Add("low", "Echo", []any{from + i}))
		}
		w.must(w.delayBulk(&b, far))
	}
	jobs, err := w.d.Page(w.c, far, 0, 30)
	w.must(err)
	w.do("CONFIG", "RESETSTAT")
	n, err := remove(w.d, w.c, jobs)
	w.must(err)
	w.same("removed", 30, n)
	if stats := w.server.Text(t, "INFO", "commandstats"); !strings.Contains(stats, "cmdstat_evalsha:calls=3,") && !strings.Contains(stats, "cmdstat_evalsha:calls=4,") {
		t.Errorf("%s", stats)
	}
}

// A page costs a few round trips, in however many seconds its jobs lie, and is read only
// from those it takes.
func TestDelayedPageOfManySeconds(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	const seconds = pageSize + 200
	var want []string
	for i := range seconds {
		for _, name := range []string{"a", "b", "c"} {
			w.do("RPUSH", w.s.KeyOfSecond(fmt.Sprint(far.Unix()+int64(i))), fmt.Sprintf(`{"class":"%s%d","queue":"low"}`, name, i))
			want = append(want, fmt.Sprintf(`{"class":"%s%d","args":[]}`, name, i))
		}
		w.do("ZADD", w.s.KeyOfSeconds(), far.Unix()+int64(i), far.Unix()+int64(i))
	}
	for _, page := range []struct{ skip, count, trips, reads int }{
		{0, 20, 4, 7},
		{2900, 20, 5, 974},
		{0, 3 * seconds, 9, seconds},
		{10, math.MaxInt, 10, seconds},
		{10, -1, 10, seconds},
		{3 * seconds, 5, 10, seconds},
	} {
		c := &trips{Conn: w.c}
		w.do("CONFIG", "RESETSTAT")
		jobs, err := w.d.Page(c, time.Time{}, page.skip, page.count)
		w.must(err)
		got := make([]string, len(jobs))
		for i, j := range jobs {
			got[i] = string(j.Payload)
		}
		end := len(want)
		if page.count >= 0 {
			end = page.skip + min(page.count, end-page.skip)
		}
		w.same(fmt.Sprint(page, ": jobs"), want[page.skip:end], got)
		if c.n > page.trips {
			t.Errorf("%+v: %d round trips", page, c.n)
		}
		_, stats, _ := strings.Cut(w.server.Text(t, "INFO", "commandstats"), "cmdstat_lrange:calls=")
		if reads, _, _ := strings.Cut(stats, ","); reads != fmt.Sprint(page.reads) {
			t.Errorf("%+v: %s lists were read", page, reads)
		}
	}
}

// trips counts round trips.
type trips struct {
	redis.Conn
	n int
}

func (c *trips) Do(command string, args ...any) (any, error) {
	c.n++
	return c.Conn.Do(command, args...)
}

func (c *trips) Flush() error {
	c.n++
	return c.Conn.Flush()
}

// A job that is delayed to the end of days is not run at once.
func TestDelayForEver(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	for _, at := range []time.Time{time.Unix(1<<60, 0), time.Unix(1<<63-1, 0), time.Unix(resque.LastSecond, 1)} {
		w.must(w.delayBulk(delayedBulk("low", "Echo", 1), at))
		w.must(w.scheduleBulk(delayedBulk("low", "Echo", 2), at))
	}
	due, err := w.s.Due(w.c, false)
	w.must(err)
	if due.Sooner() < 100*365*24*time.Hour {
		t.Errorf("due in %+v", due)
	}
	jobs, err := w.d.Page(w.c, time.Unix(resque.LastSecond, 0), 0, 9)
	w.must(err)
	w.same("listed", 4, len(jobs))
	n, err := remove(w.d, w.c, jobs)
	w.must(err)
	w.same("removed", 4, n)
}

// A change that does not say where jobs go leaves them in both schedules, at their times.
func TestChangeToNoPlace(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	item := `{"class":"Echo","args":[1],"queue":"low"}`
	w.do("RPUSH", w.s.KeyOfSecond("1900000000"), item)
	w.do("SADD", w.s.KeyOfJobSeconds(item), "delayed:1900000000")
	w.do("ZADD", w.s.KeyOfSeconds(), 1900000000, "1900000000")
	w.do("ZADD", w.s.KeyOfSchedule(), 1900000000500, resque.JobPrefix("low")+`{"class":"Echo","args":[2],"id":"own"}`)
	before, err := w.d.Page(w.c, time.Time{}, 0, 9)
	w.must(err)
	for _, to := range []To{{}, {At: far}} {
		_, err := w.d.change(w.c, before, to)
		w.must(err)
	}
	_, err = w.d.change(w.c, before[:1], To{Named: "other"}) // resque-scheduler's call knows no other queue
	w.must(err)
	after, err := w.d.Page(w.c, time.Time{}, 0, 9)
	w.must(err)
	if len(before) != 2 || len(after) != 2 {
		t.Fatalf("%+v were %+v", after, before)
	}
	for n := range after {
		w.same("a job", fmt.Sprint(before[n].At, " ", string(before[n].Raw)), fmt.Sprint(after[n].At, " ", string(after[n].Raw)))
	}
}
