package msgpack

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/internal/daemontest"
)

// A job is pushed as MessagePack, next to one of Ruby's queues in the same call, and runs.
func TestPush(t *testing.T) {
	t.Parallel()
	b, c := setup(t)
	enqueue(t, c, job("Mark", "a"))
	enqueue(t, c, job("Add", 1, 2), goworker.WithID("x"))
	if _, err := c.EnqueueMany(t.Context(), goworker.Item{Job: job("Mark", "b")}, goworker.Item{Job: goworker.NewJob("work", "Mark", "c")}); err != nil {
		t.Fatal(err)
	}
	enqueue(t, c, job("Mark", "d"), goworker.High)
	want := []string{
		`{"priority":1,"class":"Mark","args":["d"],"id":`, // scripts know it by its first bytes
		"92a44d61726b91a161", "93a341646492010281a26964a178", "92a44d61726b91a162",
	}
	got := items(b)
	if len(got) > 0 && strings.HasPrefix(got[0], want[0]) {
		got[0] = want[0]
	}
	if !slices.Equal(got, want) {
		t.Errorf("in the queue: %q", got)
	}
	if q := b.Queue("work"); !slices.Equal(q, []string{`{"class":"Mark","args":["c"]}`}) {
		t.Errorf("in Ruby's queue: %q", q)
	}
	if known := b.Redis.List(t, "SMEMBERS", names); !slices.Equal(known, []string{calc}) {
		t.Errorf("the names are %q", known)
	}
	b.Start()
	b.Eventually("all are done", func() bool { return b.Stat("processed") == 5 })
	if n := len(b.Failures()); n > 0 {
		t.Errorf("%d failed", n)
	}
	hidden(b)
}

// Other programs push items with packed arguments, or JSON, and the job is the same.
func TestOtherForms(t *testing.T) {
	t.Parallel()
	b, _ := setup(t)
	b.Daemon.Register("Sum", func(ctx context.Context, id string, n int) error {
		d := goworker.FromContext(ctx)
		if want := fmt.Sprintf(`{"class":"Sum","args":["%s",%d]`, id, n); !strings.HasPrefix(string(d.Raw()), want) {
			t.Errorf("Raw is %s", d.Raw())
		}
		b.Runs.Start(fmt.Sprint(id, n))
		return nil
	})
	for _, item := range []string{
		"\x92\xa3Sum\xc4\x04\x92\xa1a\x01", "\x92\xa3Sum\x92\xa1b\x02", `{"class":"Sum","args":["c",3]}`, "\xdc\x00\x02\xd9\x03Sum\xdc\x00\x02\xa1d\xd2\x00\x00\x00\x04",
	} {
		b.Redis.Do(t, "RPUSH", list, item)
	}
	b.Start()
	b.Eventually("all run", func() bool { return b.Stat("processed") == 4 })
	for _, id := range []string{"a1", "b2", "c3", "d4"} {
		if b.Runs.Starts(id) != 1 {
			t.Errorf("%s ran %d times", id, b.Runs.Starts(id))
		}
	}
	hidden(b)
}

// Jobs wait for their time, fail, snooze, expire, are cancelled and unique, and wait in lanes. The queue stays out of sight.
func TestEveryPath(t *testing.T) {
	t.Parallel()
	b, c := setup(t)
	b.Daemon.Register("Flaky", func(ctx context.Context, id string) error {
		b.Runs.Start(id)
		if goworker.FromContext(ctx).Attempt == 1 {
			return errSome
		}
		b.Runs.End(id)
		return nil
	}, goworker.Retry(2, goworker.Delays{time.Millisecond}))
	b.Daemon.Register("Now", func(ctx context.Context, id string) error {
		if goworker.FromContext(ctx).Attempt == 1 {
			return goworker.RetryIn(0, errSome)
		}
		b.Runs.End(id)
		return nil
	}, goworker.Retry(2))
	b.Daemon.Register("Snoozer", func(id string) error {
		b.Runs.Start(id)
		if b.Runs.Starts(id) == 1 {
			return goworker.Snooze(time.Millisecond)
		}
		b.Runs.End(id)
		return nil
	})
	b.Daemon.Register("Narrow", func(id string) { b.Runs.Start(id); b.Runs.End(id) }, goworker.MaxRunning(1), goworker.FairBy(goworker.ByArg(0)))
	b.Daemon.Register("Ruby", func(id string) error {
		b.Runs.Start(id)
		if b.Runs.Starts(id) == 1 {
			return errSome
		}
		b.Runs.End(id)
		return nil
	}, goworker.Retry(2, goworker.Delays{time.Millisecond}))
	b.Daemon.Register("Tick", func() { b.Runs.Start("tick"); b.Runs.End("tick") })
	b.Start()

	enqueue(t, c, job("Mark", "delayed"), goworker.ProcessIn(10*time.Millisecond))
	for _, class := range []string{"Flaky", "Now", "Snoozer", "Ruby"} {
		enqueue(t, c, job(class, class))
	}
	for i := range 5 {
		enqueue(t, c, job("Narrow", fmt.Sprint("narrow", i)))
	}
	enqueue(t, c, job("Mark", "expired"), daemontest.Past())
	held := enqueue(t, c, job("Hold", "unique"), goworker.Unique())
	if _, err := c.Enqueue(t.Context(), job("Hold", "unique"), goworker.Unique()); !goworker.ErrorAs[*goworker.DuplicateError](err) {
		t.Errorf("a second one: %v", err)
	}
	b.Eventually("it runs", func() bool { return b.Runs.Starts("unique") == 1 })
	if err := c.Cancel(t.Context(), held.ID); err != nil {
		t.Fatal(err)
	}
	b.Eventually("it is cancelled", func() bool { return b.Runs.Cause("unique") != nil })
	b.Schedule("tick", goworker.Recurring{Every: time.Second, Class: "Tick", Queue: calc})
	sum := enqueue(t, c, job("Add", 1, 2), goworker.WithResult(time.Hour))
	if got := await[int](t, c, sum.ID); got != 3 {
		t.Errorf("1 + 2 = %d", got)
	}
	for _, id := range []string{"delayed", "Flaky", "Now", "Snoozer", "Ruby", "narrow0", "narrow4", "tick"} {
		b.Eventually(id+" is done", func() bool { return b.Runs.Ends(id) >= 1 })
	}
	if b.Runs.Starts("expired") != 0 {
		t.Error("the expired job ran")
	}
	b.Unschedule("tick")
	hidden(b)
}

// Steps of a workflow in the queue, beside others, and what follows them.
func TestWorkflow(t *testing.T) {
	t.Parallel()
	b, c := setup(t)
	b.Daemon.Register("Count", func(all []int) (int, error) {
		sum := 0
		for _, n := range all {
			sum += n
		}
		return sum, nil
	})
	b.Start()
	r, err := c.Start(t.Context(), goworker.Chain(
		goworker.Step(job("Add", 1, 2)),
		goworker.Group(goworker.Step(job("Add", 10)), goworker.Step(goworker.NewJob("work", "Add", 20)), goworker.Step(job("Add", 30))),
		goworker.Step(job("Count")),
		goworker.Step(goworker.NewJob("work", "Add", 1000)),
	))
	if err != nil {
		t.Fatal(err)
	}
	if got := await[int](t, c, r.ID); got != 13+23+33+1000 {
		t.Errorf("the workflow comes to %d", got)
	}
	hidden(b)
}

// What a stop gives back, and a failure and its retry: the very bytes go back, the record is JSON, and the retry lies in the queue.
func TestStopAndFailure(t *testing.T) {
	t.Parallel()
	b, c := setup(t, func(s *goworker.WorkerSettings) { s.ShutdownTimeout = time.Millisecond })
	enqueue(t, c, job("Hold", "held"))
	enqueue(t, c, job("Fail", "a"), goworker.WithID("x"))
	before := items(b)
	b.Start()
	b.Eventually("one is held and one has failed", func() bool { return b.Runs.Starts("held") == 1 && b.Stat("failed") == 1 })
	if err := b.Stop(); err != nil {
		t.Error(err)
	}
	if got := items(b); !slices.Equal(got, before[:1]) {
		t.Errorf("given back: %q, want %q", got, before[:1])
	}
	if f := b.Failures(); len(f) != 1 || string(f[0].Payload) != `{"class":"Fail","args":["a"],"id":"x"}` || f[0].Queue != calc {
		t.Errorf("the failure is %+v", f)
	}
	if n, err := c.Inspect().Failures().RetryAll(t.Context()); n != 1 || err != nil {
		t.Errorf("retried %d, %v", n, err)
	}
	if got := items(b); len(got) != 2 || got[1] != `{"class":"Fail","args":["a"],"id":"x"}` {
		t.Errorf("behind the retry: %q", got)
	}
	hidden(b)
}

// What cannot be read fails with a sentence, and the next job runs.
func TestBrokenItems(t *testing.T) {
	t.Parallel()
	b, _ := setup(t)
	b.Redis.Do(t, "RPUSH", list, "\x92\xa3Sum\x92\x01", "\x91\x05", "nonsense", "\x92\xa4Mark\x91\xa1a")
	b.Push("\x92\xa4Mark\x91\xa1b", "\x92\xa4Mark\x91", `{"class":"Mark","args":["c"]}`)
	b.Start()
	b.Eventually("all are over", func() bool { return b.Stat("processed") == 7 })
	var texts []string
	for _, f := range b.Failures() {
		texts = append(texts, f.Exception+" "+f.Error+" "+string(f.Payload))
	}
	slices.Sort(texts)
	for i, want := range []string{
		"the item begins with no class", "the item ends in the middle of a value", "the item ends in the middle of a value",
		"the payload is MessagePack, and queue work holds JSON", "the payload is not JSON",
	} {
		if i >= len(texts) || !strings.Contains(texts[i], want) || !strings.HasPrefix(texts[i], "Resque::Helpers::DecodeException ") {
			t.Errorf("failures %q, want one with %q at %d", texts, want, i)
		}
	}
	if len(texts) != 5 || !strings.HasSuffix(texts[min(3, len(texts)-1)], `{"class":"Mark","args":["b"]}`) {
		t.Errorf("the record of a job in MessagePack is %q", texts)
	}
	if b.Runs.Ends("a") != 1 || b.Runs.Ends("c") != 1 || b.Runs.Starts("b") != 0 {
		t.Error("the others did not run as they should")
	}
	hidden(b)
}
