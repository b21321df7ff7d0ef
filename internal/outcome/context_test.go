package outcome

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/goworker/goworker/internal/failure"
)

// performed runs a job that nothing ends otherwise, with handler as its handler.
func performed(parent context.Context, s *bundle, j *Job, handler func(ctx context.Context)) (o Outcome) {
	s.Run(parent, j, func(ctx context.Context, _ *Job) error {
		handler(ctx)
		return ctx.Err()
	}, &o)
	return o
}

func plain() *Job {
	j := new(Job)
	j.Payload = []byte(`{"class":"Plain","args":[]}`)
	return j
}

// Cancel reaches all contexts that the handler made, with its cause, and wraps the handler's error.
func TestCancel(t *testing.T) {
	t.Parallel()
	cause := errors.New("not wanted")
	for name, wait := range map[string]func(ctx context.Context) context.Context{
		"itself":  func(ctx context.Context) context.Context { return ctx },
		"a value": func(ctx context.Context) context.Context { return context.WithValue(ctx, t, 1) },
		"a cancel": func(ctx context.Context) context.Context {
			c, stop := context.WithCancel(ctx)
			t.Cleanup(stop)
			return c
		},
		"a timeout": func(ctx context.Context) context.Context {
			c, stop := context.WithTimeout(ctx, time.Hour)
			t.Cleanup(stop)
			return c
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := setup(t)
			for _, late := range []bool{false, true} { // Cancel comes before the first Done, or after it
				j := plain()
				o := performed(t.Context(), s, j, func(ctx context.Context) {
					if ctx.Err() != nil || context.Cause(ctx) != nil {
						t.Errorf("at first: %v, %v", ctx.Err(), context.Cause(ctx))
					}
					c := ctx
					if late {
						c = wait(ctx)
						go j.Cancel(cause)
					} else {
						j.Cancel(cause)
						c = wait(ctx)
					}
					<-c.Done()
					j.Cancel(errors.New("a second one"))
					for _, c := range []context.Context{c, ctx} {
						if c.Err() != context.Canceled || context.Cause(c) != cause {
							t.Errorf("then: %v, %v", c.Err(), context.Cause(c))
						}
					}
				})
				if cancelled, ok := o.Err.(*failure.Cancelled); !ok || cancelled.Cause != cause {
					t.Errorf("the outcome: %v", o.Err)
				}
			}
		})
	}
}

// A job that is cancelled before its handler is called fails without it.
func TestCancelBefore(t *testing.T) {
	t.Parallel()
	s, j := setup(t), plain()
	if !j.Cancel(failure.ErrCancelled) || !j.Cancel(errors.New("a second one")) {
		t.Error("a job that has not begun is not cancelled")
	}
	o := performed(t.Context(), s, j, func(context.Context) { t.Error("the handler is called") })
	if !failure.Is(o.Err, failure.ErrCancelled) || !failure.Is(o.Err, context.Canceled) || o.Started {
		t.Errorf("%+v", o)
	}
	if j.Cancel(nil) {
		t.Error("a job that is over is cancelled")
	}
	j = plain()
	j.Cancel(nil)
	if o := performed(t.Context(), s, j, func(context.Context) {}); !failure.Is(o.Err, context.Canceled) {
		t.Errorf("without a cause: %v", o.Err)
	}
}

// The parent's end reaches the handler with its cause, whether or not Done was called before.
func TestContextOfParent(t *testing.T) {
	t.Parallel()
	s, cause := setup(t), errors.New("shutting down")
	for _, asked := range []bool{false, true} {
		parent, end := context.WithCancelCause(context.WithValue(t.Context(), cause, "value"))
		j := plain()
		o := performed(parent, s, j, func(ctx context.Context) {
			if asked {
				_ = ctx.Done()
			}
			if _, has := ctx.Deadline(); has || ctx.Value(cause) != "value" {
				t.Error("it is not the parent's")
			}
			end(cause)
			j.Cancel(errors.New("later"))
			<-ctx.Done()
			if ctx.Err() != context.Canceled || context.Cause(ctx) != cause || ctx.Value(cause) != "value" {
				t.Errorf("%v, %v", ctx.Err(), context.Cause(ctx))
			}
		})
		if cancelled, ok := o.Err.(*failure.Cancelled); !ok || cancelled.Cause != cause {
			t.Errorf("the outcome: %v", o.Err)
		}
	}
}

// The context ends with the handler, however that ends, and its job's outcome is not that of a cancelled one.
func TestContextEndsWithHandler(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func() error{
		"returns": func() error { return nil },
		"fails":   func() error { return errOops },
		"panics":  func() error { panic(errOops) },
		"goexit":  func() error { runtime.Goexit(); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, asked := range []bool{false, true} {
				s, j := setup(t), plain()
				var ctx context.Context
				var o Outcome
				var wg sync.WaitGroup
				wg.Go(func() {
					defer func() {
						if name == "panics" || name == "goexit" {
							_ = recover()
							s.Fail(t.Context(), j, errOops, &o)
						}
					}()
					s.Run(t.Context(), j, func(c context.Context, _ *Job) error {
						if ctx = c; asked {
							_ = c.Done()
						}
						return end()
					}, &o)
				})
				wg.Wait()
				if name != "returns" && o.Err != errOops {
					t.Errorf("the outcome: %v", o.Err)
				}
				<-ctx.Done()
				if ctx.Err() != context.Canceled || context.Cause(ctx) != context.Canceled || j.Cancel(nil) {
					t.Errorf("%v, %v", ctx.Err(), context.Cause(ctx))
				}
			}
		})
	}
}

// children counts what stays registered at a context.
type children struct {
	context.Context
	n int
}

// AfterFunc makes the standard library register there.
func (c *children) AfterFunc(func()) (stop func() bool) {
	c.n++
	return func() bool { c.n--; return true }
}

func (c *children) Value(any) any { return nil }

func (c *children) Done() <-chan struct{} { return make(chan struct{}) }

// Nothing of a job stays at the parent of all jobs' contexts, or it would grow for ever.
func TestContextLeavesParent(t *testing.T) {
	t.Parallel()
	s, parent := setup(t), &children{Context: t.Context()}
	for n := range 10_000 {
		j := plain()
		var last context.Context
		performed(parent, s, j, func(ctx context.Context) {
			last = ctx
			switch n % 4 {
			case 1:
				_ = ctx.Done()
			case 2:
				_, stop := context.WithTimeout(ctx, time.Hour)
				defer stop()
			case 3:
				j.Cancel(errOops)
			}
		})
		if n%4 == 0 {
			<-last.Done() // a goroutine of the handler asks later
		}
	}
	if parent.n != 0 {
		t.Errorf("%d of 10,000 jobs stay at the parent", parent.n)
	}
}

// Whatever comes at the same time, every goroutine sees one end with one cause.
func TestContextAtOnce(t *testing.T) {
	t.Parallel()
	s := setup(t)
	rapid.Check(t, func(rt *rapid.T) {
		parent, stop := context.WithCancelCause(t.Context())
		defer stop(nil)
		j, began := plain(), make(chan context.Context, 1)
		var handler context.Context
		var wg sync.WaitGroup
		cancels := rapid.IntRange(0, 3).Draw(rt, "cancels")
		for n := range cancels {
			wg.Go(func() { j.Cancel(fmt.Errorf("cause %d", n)) })
		}
		if rapid.Bool().Draw(rt, "parent ends") {
			wg.Go(func() { stop(errOops) })
		}
		if rapid.Bool().Draw(rt, "a goroutine asks") {
			wg.Go(func() {
				if ctx, ok := <-began; ok {
					<-ctx.Done()
					if err, cause := ctx.Err(), context.Cause(ctx); err != context.Canceled || cause == nil {
						rt.Errorf("%v, %v", err, cause)
					}
				}
			})
		}
		asks := rapid.Bool().Draw(rt, "the handler asks")
		performed(parent, s, j, func(ctx context.Context) {
			began <- ctx
			if handler = ctx; asks {
				_ = ctx.Done()
			}
		})
		close(began)
		wg.Wait()
		if handler == nil {
			return // a Cancel came before it
		}
		cause := context.Cause(handler)
		if j.Cancel(errOops); handler.Err() != context.Canceled || cause == nil || context.Cause(handler) != cause {
			rt.Errorf("%v, %v, then %v", handler.Err(), cause, context.Cause(handler))
		}
	})
}

func BenchmarkContext(b *testing.B) {
	parent, stop := context.WithCancel(b.Context())
	defer stop()
	for name, use := range map[string]func(ctx context.Context){
		"unused": func(context.Context) {},
		"done":   func(ctx context.Context) { _ = ctx.Done() },
		"timeout": func(ctx context.Context) {
			_, stop := context.WithTimeout(ctx, time.Hour)
			stop()
		},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for range b.N {
				j := new(Job)
				if err := j.context.begin(parent, j); err != nil {
					b.Fatal(err)
				}
				use(&j.context)
				j.context.end()
			}
		})
	}
}
