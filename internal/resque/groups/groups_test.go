package groups

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/redistest"
	"github.com/goworker/goworker/internal/resque"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// bundle is a Redis, and a process that gathers.
type bundle struct {
	testing.TB
	server *redistest.Server
	c      redis.Conn
	s      Store
	last   int64
}

func setup(t *testing.T, args ...string) *bundle {
	t.Helper()
	server := redistest.Start(t, args...)
	b := &bundle{TB: t, server: server, c: server.Dial(t), s: New(resque.New(""))}
	b.must(b.s.Enter(b.c, resque.Process{ID: "p", Started: time.Unix(1, 0)}, time.Hour, time.Unix(1, 0)))
	return b
}

func (b *bundle) must(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

func (b *bundle) turn(x resque.Exchange) resque.Exchanged {
	b.Helper()
	x.Process, x.Epoch, x.Last = "p", 1, b.last
	b.must(b.s.Send(b.c, &x))
	out, err := b.s.Receive(b.c, &x)
	b.must(err)
	for _, j := range out.Jobs {
		b.last = max(b.last, j.Ticket)
	}
	return out
}

// take takes jobs from the queue work.
func (b *bundle) take(n int) []resque.Reserved {
	b.Helper()
	for i := range n {
		b.server.Do(b, "RPUSH", "resque:queue:work", fmt.Sprintf(`{"class":"C","args":["k",%d]}`, i))
	}
	jobs := b.turn(resque.Exchange{Want: n, Asks: []resque.Ask{{Queue: "work", Quota: n}}}).Jobs
	if len(jobs) != n {
		b.Fatalf("%d jobs were taken, want %d", len(jobs), n)
	}
	return jobs
}

const head = `{"class":"C","args":["k",[`

var group = ID("work", "C", []byte("k"))

func (b *bundle) item(json string, change ...func(*Item)) resque.Effect {
	i := &Item{Group: group, Queue: "work", Job: "one", Head: []byte(head), JSON: []byte(json), Most: 100, Bytes: 1000, Wait: time.Hour}
	for _, f := range change {
		f(i)
	}
	return b.s.Gather(i)
}

// gather commits jobs as items, all in one call. It returns what Redis refused.
func (b *bundle) gather(effects ...resque.Effect) []resque.Refusal {
	b.Helper()
	var ended []resque.Ended
	for i, j := range b.take(len(effects)) {
		ended = append(ended, resque.Ended{Ticket: j.Ticket, Effects: effects[i : i+1]})
	}
	return b.turn(resque.Exchange{Ended: ended}).Refused
}

func (b *bundle) list(key string) []string { b.Helper(); return b.server.List(b, "LRANGE", key, 0, -1) }

func (b *bundle) key() string { return b.s.GroupKey(group).String() }

func (b *bundle) want(what string, got []string, want ...string) {
	b.Helper()
	if !slices.Equal(got, want) {
		b.Errorf("%s: %q, want %q", what, got, want)
	}
}

// jobs wants these in the queue and removes them.
func (b *bundle) jobs(want ...string) {
	b.Helper()
	b.want("the queue", b.list("resque:queue:work"), want...)
	b.server.Do(b, "DEL", "resque:queue:work")
}

// flush makes jobs of the groups that are due, and returns what it says of the group.
func (b *bundle) flush(all bool) Flushed {
	b.Helper()
	got, err := b.s.Flush(b.c, all, []string{group})
	b.must(err)
	return got[0]
}

func job(n int, items, id string) string {
	return fmt.Sprintf(`%s%s]],"gathered":%d,"id":"%s"}`, head, items, n, id)
}

func (b *bundle) score() int64 {
	score, err := redis.Float64(b.c.Do("ZSCORE", "resque:go:groups", group))
	if err == redis.ErrNil {
		return 0
	}
	b.must(err)
	return int64(score)
}

func (b *bundle) now() int64 {
	now, err := b.s.Now(b.c)
	b.must(err)
	return now.UnixMilli()
}

// A group has the id of its first item's job, is due when that has waited, and is one job with all items when it is full.
// All of it may happen in one call, several times.
func TestGather(t *testing.T) {
	t.Parallel()
	b := setup(t)
	three := func(i *Item) { i.Most = 3 }
	before := b.now()
	b.gather(b.item("1", three), b.item(`"two"`, three))
	if at := b.score(); at < before+3_600_000 || at > b.now()+3_600_000 {
		t.Errorf("it is due at %d, %d ms from now", at, at-before)
	}
	if items := b.list(b.key()); len(items) != 3 || !strings.HasSuffix(items[0], " 3600000 0 one "+head) || !strings.HasPrefix(items[2], "8 ") {
		t.Errorf("the group is %q", items)
	}
	b.jobs()
	second := func(i *Item) { i.Most, i.Job = 3, "two" }
	b.gather(b.item("[3]", second), b.item("4", second), b.item("5", second), b.item("6", second), b.item("7", second))
	b.jobs(job(3, `1,"two",[3]`, "one"), job(3, "4,5,6", "two"))
	if items := b.list(b.key()); len(items) != 2 {
		t.Errorf("the group is %q", items)
	}
	if n := b.server.Int(t, "SISMEMBER", "resque:queues", "work"); n != 1 {
		t.Error("the queue is not named")
	}
	if got := b.flush(true); got.Items != 1 || got.Err != nil {
		t.Errorf("flushing all says %+v", got)
	}
	b.jobs(job(1, "7", "two"))
	if keys := b.server.List(t, "KEYS", "resque:go:group*"); len(keys) != 0 {
		t.Errorf("left are %q", keys)
	}
}

// No group has more bytes than it may: an item without room begins the next one, and one that fills a group ends it.
func TestGatherBytes(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ten := func(i *Item) { i.Bytes = 10 }
	b.gather(b.item("1234", ten), b.item("12345", ten), b.item("123", ten), b.item("123456789", ten))
	b.jobs(job(1, "1234", "one"), job(2, "12345,123", "one"), job(1, "123456789", "one"))
}

// A group waits as long as its first item said, or until it was quiet.
func TestFlushAtItsTime(t *testing.T) {
	t.Parallel()
	b := setup(t)
	if got := b.flush(false); got.Items != 0 || got.Err != nil {
		t.Errorf("without a group: %+v", got)
	}
	b.gather(b.item("1", func(i *Item) { i.Wait = 50 * time.Millisecond }))
	due := b.score()
	got := b.flush(false)
	if late := b.now() >= due; !late && got.Items != 0 || got.Err != nil {
		t.Errorf("at once: %+v", got)
	}
	if got.Items == 0 {
		b.due()
		got = b.flush(false)
	}
	if got.Items != 1 {
		t.Errorf("at its time: %+v", got)
	}
	b.jobs(job(1, "1", "one"))

	hour := func(i *Item) { i.Wait, i.Quiet = 2*time.Hour, time.Hour }
	b.gather(b.item("1", hour))
	first := b.score()
	redistest.Eventually(t, 20*time.Second, "a moment is over", func() bool { return b.now() > first-time.Hour.Milliseconds() })
	b.gather(b.item("2", hour))
	b.server.Do(t, "ZADD", "resque:go:groups", b.now(), group) // as if the first item's hour were over
	if got := b.flush(false); got.Items != 0 || b.score() <= first {
		t.Errorf("an item came since: %+v, due at %d and then at %d", got, first, b.score())
	}
	b.server.Do(t, "DEL", b.key())

	quiet := func(i *Item) { i.Quiet = 50 * time.Millisecond }
	b.gather(b.item("1", quiet))
	b.gather(b.item("2", quiet))
	redistest.Eventually(t, 20*time.Second, "it was quiet", func() bool {
		got := b.flush(false)
		if got.Items != 0 && got.Items != 2 {
			t.Errorf("when it was quiet: %+v", got)
		}
		return got.Items > 0
	})
	b.jobs(job(2, "1,2", "one"))
}

// due waits until the group is due by the index.
func (b *bundle) due() {
	b.Helper()
	redistest.Eventually(b, 20*time.Second, "the group is due", func() bool {
		_, ids, _, err := b.s.Due(b.c, 10)
		b.must(err)
		return slices.Equal(ids, []string{group})
	})
}

// The index says which groups are due and when the next one is.
func TestDue(t *testing.T) {
	t.Parallel()
	b := setup(t)
	now := b.now()
	for i := range 5 {
		b.server.Do(t, "ZADD", "resque:go:groups", now-int64(i), fmt.Sprint("due ", i))
	}
	b.server.Do(t, "ZADD", "resque:go:groups", now+3_600_000, "later", now+7_200_000, "latest")
	_, ids, next, err := b.s.Due(b.c, 3)
	b.must(err)
	b.want("the first three", ids, "due 4", "due 3", "due 2")
	if next > time.Hour || next < time.Hour-time.Minute {
		t.Errorf("the next is due in %v", next)
	}
	ids, err = b.s.All(b.c, 4, 10)
	b.must(err)
	b.want("all but four", ids, "due 0", "later", "latest")
	b.server.Do(t, "DEL", "resque:go:groups")
	if _, ids, next, err = b.s.Due(b.c, 3); len(ids) > 0 || next != resque.Never || err != nil {
		t.Errorf("without groups: %q, %v, %v", ids, next, err)
	}
}

// If Redis's clock went back, no group waits until it is there again.
func TestClockWentBack(t *testing.T) {
	t.Parallel()
	b := setup(t)
	future := func() {
		began := b.now() + 7_200_000
		b.server.Do(t, "DEL", b.key())
		b.server.Do(t, "RPUSH", b.key(), fmt.Sprintf("%d 5000 0 one %s", began, head), fmt.Sprintf("2 %d 1", began))
		b.server.Do(t, "ZADD", "resque:go:groups", began+5000, group)
	}
	future()
	if got := b.flush(false); got.Items != 1 {
		t.Errorf("a group of the future: %+v", got)
	}
	b.jobs(job(1, "1", "one"))
	future()
	b.gather(b.item("2", func(i *Item) { i.Job = "two" }))
	b.jobs(job(1, "1", "one"))
	if at := b.score(); at > b.now()+3_600_000 {
		t.Errorf("the next group is due in %d ms", at-b.now())
	}
}

// Where Redis refuses a key, no item is lost or gathered twice, and what cannot be flushed is not looked at all the time.
func TestWrongTypes(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(b *bundle){
		"the group is a string":       func(b *bundle) { b.server.Do(b, "SET", b.key(), "x") },
		"the group is another list":   func(b *bundle) { b.server.Do(b, "RPUSH", b.key(), "x") },
		"the group has another item":  func(b *bundle) { b.gather(b.item("1")); b.server.Do(b, "RPUSH", b.key(), "x") },
		"the index is a string":       func(b *bundle) { b.server.Do(b, "SET", "resque:go:groups", "x") },
		"the queue is a string, full": func(b *bundle) { b.gather(b.item("1")); b.server.Do(b, "SET", "resque:queue:work", "x") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			jobs := b.take(1)
			spoil(b)
			before := b.server.Snapshot(t, "resque:")
			full := func(i *Item) { i.Bytes = 3 }
			out := b.turn(resque.Exchange{Ended: []resque.Ended{{Ticket: jobs[0].Ticket, Effects: []resque.Effect{b.item("2", full)}}}})
			if len(out.Refused) != 1 || out.Refused[0].Key == "" {
				t.Fatalf("refused was %v", out.Refused)
			}
			if after := b.server.Snapshot(t, "resque:"); fmt.Sprint(before) != fmt.Sprint(after) {
				t.Errorf("something was written:\n%v\n%v", before, after)
			}
		})
	}
}

// A group that cannot become a job stays, says why, and is due again later.
func TestFlushRefused(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		spoil func(b *bundle)
		why   string
	}{
		"the group is a string": {func(b *bundle) { b.server.Do(b, "SET", b.key(), "x") }, "WRONGTYPE"},
		"the group is another list": {func(b *bundle) {
			b.server.Do(b, "DEL", b.key())
			b.server.Do(b, "RPUSH", b.key(), "x")
		}, "no group of jobs"},
		"the group has another item": {func(b *bundle) { b.server.Do(b, "LINSERT", b.key(), "AFTER", b.list(b.key())[0], "x") }, "no item"},
		"the queue is a string":      {func(b *bundle) { b.server.Do(b, "SET", "resque:queue:work", "x") }, "resque:queue:work"},
		"the queues are a string":    {func(b *bundle) { b.server.Do(b, "SET", "resque:queues", "x") }, "resque:queues"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.gather(b.item("1"))
			tt.spoil(b)
			before := b.server.Dump(t, "resque:")
			delete(before, "resque:go:groups")
			for range 2 {
				if got := b.flush(true); got.Err == nil || !strings.Contains(got.Err.Error(), tt.why) {
					t.Fatalf("it says %+v", got)
				}
			}
			after := b.server.Dump(t, "resque:")
			delete(after, "resque:go:groups")
			if fmt.Sprint(before) != fmt.Sprint(after) {
				t.Errorf("something was written:\n%v\n%v", before, after)
			}
			if in := b.score() - b.now(); in < 5000 || in > 10_000 {
				t.Errorf("it is due again in %d ms", in)
			}
		})
	}
}

// Where Redis has no memory, items are gathered and groups flushed all the same: that frees some.
func TestOutOfMemory(t *testing.T) {
	t.Parallel()
	b := setup(t)
	jobs := b.take(3)
	b.server.Do(t, "CONFIG", "SET", "maxmemory", "1")
	var ended []resque.Ended
	for n, j := range jobs {
		ended = append(ended, resque.Ended{Ticket: j.Ticket, Effects: []resque.Effect{b.item(strconv.Itoa(n), func(i *Item) { i.Most = 2 })}})
	}
	if out := b.turn(resque.Exchange{Ended: ended}); len(out.Refused) > 0 {
		t.Fatalf("refused were %v", out.Refused)
	}
	if got := b.flush(false); got.Items != 0 || got.Err != nil {
		t.Errorf("a group that waits: %+v", got)
	}
	if got := b.flush(true); got.Items != 1 || got.Err != nil {
		t.Errorf("a group: %+v", got)
	}
	b.jobs(job(2, "0,1", "one"), job(1, "2", "one"))
}
