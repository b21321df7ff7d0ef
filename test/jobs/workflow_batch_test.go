package jobs

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/internal/daemontest"
)

// numbered is a sequence of jobs of a class, whose arguments are their numbers.
func numbered(class string, n int) iter.Seq2[goworker.Item, error] {
	return func(yield func(goworker.Item, error) bool) {
		for i := range n {
			if !yield(goworker.Item{Job: job(class, i)}, nil) {
				return
			}
		}
	}
}

// counting is a daemon whose class Count counts how often it ran with each number.
func counting(t *testing.T, change ...func(*goworker.WorkerSettings)) (*daemontest.Bundle, *goworker.Client, *tally) {
	t.Helper()
	b := daemontest.Setup(t, change...)
	ran := &tally{runs: make(map[int]int), said: make(chan string, 100)}
	b.Daemon.Register("Count", func(n int) { ran.add(n) })
	b.Daemon.Register("Say", func(what string) { ran.said <- what })
	b.Daemon.Register("Blame", func(what string, f goworker.StepFailure) { ran.said <- what + " of " + f.Class })
	b.Daemon.Register("Fail", func(ctx context.Context) error { return errors.New("broken") })
	return b, b.Daemon.Client(), ran
}

type tally struct {
	mu   sync.Mutex
	runs map[int]int
	said chan string
}

func (r *tally) add(n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.runs[n]++
}

func (r *tally) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.runs)
}

// each fails unless each of n numbers was counted once.
func (r *tally) each(t *testing.T, n int) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range n {
		if r.runs[i] != 1 {
			t.Fatalf("number %d ran %d times", i, r.runs[i])
		}
	}
	if len(r.runs) != n {
		t.Fatalf("%d numbers ran, want %d", len(r.runs), n)
	}
}

func say(what string) *goworker.Node { return goworker.Step(job("Say", what)) }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// A batch ends when it is closed and its members have ended; behaviour 12: an empty one ends at its Close.
func TestBatch(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 1, 2500} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			b, c, ran := counting(t)
			b.Start()
			batch, err := c.NewBatch(t.Context(), goworker.Batch{Name: "import", OnSuccess: say("success"), OnComplete: say("complete"), OnError: goworker.Step(job("Blame", "error"))})
			must(t, err)
			must(t, batch.AddSeq(t.Context(), numbered("Count", n)))
			must(t, batch.Close(t.Context()))
			must(t, batch.Close(t.Context()))
			await[goworker.None](t, c, batch.ID())
			ran.each(t, n)
			if got := map[string]bool{<-ran.said: true, <-ran.said: true}; !got["success"] || !got["complete"] || len(ran.said) > 0 {
				t.Errorf("called were %v and %d more", got, len(ran.said))
			}
			if err := batch.AddSeq(t.Context(), numbered("Count", 1)); !errors.Is(err, goworker.ErrEnded) {
				t.Errorf("to add to an ended batch: %v", err)
			}
		})
	}
}

// Behaviour 14: a loader that ends again and again in the middle adds each job once, at one worker too.
func TestBatchLoader(t *testing.T) {
	t.Parallel()
	const jobs, kills = 11_500, 10
	b, c, ran := counting(t, func(s *goworker.WorkerSettings) { s.Concurrency = 1 })
	var runs atomic.Int64
	var changed atomic.Bool
	b.Daemon.Register("Load", func(ctx context.Context) error {
		run := runs.Add(1)
		batch, left := goworker.CurrentBatch(ctx), int(run)*1000+500
		if n, err := batch.Added(ctx); err != nil || n != min(int(run-1)*1000, 10_000) {
			t.Errorf("run %d: %d were added, %v", run, n, err)
		}
		if run == 3 {
			other := goworker.CurrentBatch(ctx)
			changed.Store(errors.Is(other.AddSeq(ctx, numbered("Say", 5000)), goworker.ErrChangedSequence))
		}
		return batch.AddSeq(ctx, func(yield func(goworker.Item, error) bool) {
			for item, err := range numbered("Count", jobs) {
				if left--; left < 0 && run <= kills {
					err = errors.New("killed")
				}
				if !yield(item, err) {
					return
				}
			}
		})
	}, goworker.Retry(kills+1, goworker.Delays{0}))
	b.Start()
	batch, err := c.NewBatch(t.Context(), goworker.Batch{OnSuccess: say("success")})
	must(t, err)
	must(t, batch.Add(t.Context(), goworker.Step(job("Load"))))
	must(t, batch.Close(t.Context()))
	b.Reaches("jobs that ran", jobs, ran.count)
	await[goworker.None](t, c, batch.ID())
	ran.each(t, jobs)
	if !changed.Load() || runs.Load() != kills+1 {
		t.Errorf("another sequence was refused: %t; runs: %d", changed.Load(), runs.Load())
	}
}

// Behaviour 15: a member that adds keeps the batch open, after its Close too, and a failure leaves it open.
func TestBatchFromInside(t *testing.T) {
	t.Parallel()
	b, c, ran := counting(t)
	closed := make(chan struct{})
	b.Daemon.Register("Late", func(ctx context.Context) error {
		<-closed
		return goworker.CurrentBatch(ctx).Add(ctx,
			goworker.Chain(goworker.Step(job("Count", 0)), goworker.Step(job("Count", 1))), goworker.Step(job("Count", 2)))
	})
	b.Start()
	batch, err := c.NewBatch(t.Context(), goworker.Batch{OnSuccess: say("success"), OnComplete: say("complete"), OnError: goworker.Step(job("Blame", "error"))})
	must(t, err)
	must(t, batch.Add(t.Context(), goworker.Step(job("Fail"))))
	if said := <-ran.said; said != "error of Fail" {
		t.Errorf("first came %s", said)
	}
	must(t, batch.Add(t.Context(), goworker.Step(job("Late"))))
	must(t, batch.Close(t.Context()))
	if err := batch.Add(t.Context(), goworker.Step(job("Count", 9))); !errors.Is(err, goworker.ErrEnded) {
		t.Errorf("a client adds to a closed batch: %v", err)
	}
	close(closed)
	if said := <-ran.said; said != "complete" {
		t.Errorf("then came %s", said)
	}
	ran.each(t, 3)
}

// The batch of an id that exists goes on: with the same sequence behind what was added, and not with another.
func TestBatchAgain(t *testing.T) {
	t.Parallel()
	b, c, ran := counting(t)
	open := func() *goworker.OpenBatch {
		t.Helper()
		batch, err := c.NewBatch(t.Context(), goworker.Batch{OnSuccess: say("success")}, goworker.WithID("import-7"))
		must(t, err)
		return batch
	}
	broken := errors.New("broken")
	first := open()
	err := first.AddSeq(t.Context(), func(yield func(goworker.Item, error) bool) {
		for item, err := range numbered("Count", 1500) {
			if !yield(item, err) {
				return
			}
		}
		yield(goworker.Item{}, broken)
	})
	if !errors.Is(err, broken) {
		t.Fatal(err)
	}
	again := open()
	if n, err := again.Added(t.Context()); n != 1000 || err != nil {
		t.Errorf("%d were added, %v", n, err)
	}
	for name, err := range map[string]error{
		"other jobs":        open().AddSeq(t.Context(), numbered("Say", 1200)),
		"another beginning": open().AddSeq(t.Context(), numbered("Count", 10), goworker.From(999)),
	} {
		if err == nil {
			t.Errorf("%s were added", name)
		}
	}
	short := open()
	must(t, short.AddSeq(t.Context(), numbered("Count", 10)))
	if err := short.Close(t.Context()); !errors.Is(err, goworker.ErrChangedSequence) {
		t.Errorf("a shorter sequence is closed: %v", err)
	}
	must(t, again.AddSeq(t.Context(), numbered("Count", 2000)))
	must(t, again.AddSeq(t.Context(), func(yield func(goworker.Item, error) bool) {
		for i := 2000; i < 2100; i++ {
			if !yield(goworker.Item{Job: job("Count", i)}, nil) {
				return
			}
		}
	}))
	must(t, again.Close(t.Context()))
	b.Start()
	await[goworker.None](t, c, "import-7")
	ran.each(t, 2100)
}

// Ahead: a program waits, and a handler runs again later, so that one worker is enough.
func TestBatchAhead(t *testing.T) {
	t.Parallel()
	b, c, ran := counting(t, func(s *goworker.WorkerSettings) { s.Concurrency = 1 })
	var snoozes atomic.Int64
	b.Daemon.AddHooks(goworker.Hooks{Snooze: func(context.Context, *goworker.Delivery, error, time.Time) { snoozes.Add(1) }})
	b.Daemon.Register("Load", func(ctx context.Context, n int) error {
		return goworker.CurrentBatch(ctx).AddSeq(ctx, numbered("Count", n), goworker.Ahead(100))
	})
	b.Start()
	batch, err := c.NewBatch(t.Context(), goworker.Batch{OnSuccess: say("success")})
	must(t, err)
	must(t, batch.AddSeq(t.Context(), func(yield func(goworker.Item, error) bool) {
		for i := range 300 {
			if !yield(goworker.Item{Job: job("Count", 1000+i)}, nil) {
				return
			}
		}
	}, goworker.Ahead(100)))
	must(t, batch.Add(t.Context(), goworker.Step(job("Load", 250))))
	must(t, batch.Close(t.Context()))
	await[goworker.None](t, c, batch.ID())
	if ran.count() != 550 || snoozes.Load() == 0 {
		t.Errorf("%d jobs ran, and the loader has snoozed %d times", ran.count(), snoozes.Load())
	}
}
