//go:build unix

package isolated

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/internal/daemontest"
	"github.com/goworker/goworker/internal/redistest"
)

// registerLong registers a job that says how far it is and ends as it is asked.
func registerLong(d *goworker.Daemon, note func(string, ...any), isolated func(...goworker.IsolatedOption) goworker.Option) {
	d.Register("Long", func(ctx context.Context, end string) error {
		cur := goworker.Cursor[int](ctx)
		at, _, err := cur.Get()
		note("long %s at %d, %v", end, at, err)
		if err != nil {
			return err
		}
		if at == 3000 {
			return nil
		}
		_, err = goworker.Once(ctx, "charge", func(context.Context) (int, error) { note("charged by %s", end); return 1, nil })
		for n := 0; err == nil && n < 1000; n++ {
			at++
			err = cur.Set(ctx, at)
		}
		switch end {
		case "snooze":
			return goworker.Snooze(0)
		case "exit":
			for range time.Tick(time.Millisecond) { // until it is written, as a process does that dies later
				if err := cur.Set(ctx, at); err != nil {
					return err
				}
				if left, err := d.Client().Inspect().Cursor(ctx, goworker.FromContext(ctx).ID); err != nil || string(left.Value) == fmt.Sprint(at) {
					os.Exit(3)
				}
			}
		case "stop":
			<-ctx.Done()
			if err := cur.Set(ctx, at+1); err != nil {
				return err
			}
			return ctx.Err()
		}
		return err
	}, isolated(), goworker.Retry(5, goworker.Delays{0}))
}

// What a handler says in its child is there for the next run, which is another process: after a snooze all of it, and
// after a crash of the child what was written.
func TestCursors(t *testing.T) { inBoth(t, testCursors) }

func testCursors(t *testing.T, b *bundle) {
	for _, end := range []string{"snooze", "exit"} {
		if _, err := b.daemon.EnqueueWith(goworker.NewJob("work", "Long", end), goworker.WithID("long-"+end)); err != nil {
			t.Fatal(err)
		}
		redistest.Eventually(t, soon, end+" ends", func() bool {
			return b.lines("long "+end+" at 3000, <nil>") == 1 && b.redis.Int(t, "EXISTS", "resque:go:cursor:long-"+end) == 0
		})
		for at := range 3 {
			if n := b.lines(fmt.Sprintf("long %s at %d, <nil>", end, at*1000)); n != 1 {
				t.Errorf("%s: %d runs were at %d", end, n, at*1000)
			}
		}
		if n := b.lines("charged by " + end); n != 1 {
			t.Errorf("%s: charged %d times", end, n)
		}
	}
	b.redis.Do(t, "RPUSH", "resque:queue:work", `{"class":"Long","args":["plain"]}`)
	redistest.Eventually(t, soon, "a job without an id says so", func() bool {
		return b.lines("long plain at 0, goworker: Cursor: the job has no id under which it could be kept") > 0
	})
}

// A stop writes what the handler has said last, too.
func TestCursorsAtAStop(t *testing.T) {
	t.Parallel()
	for name, more := range map[string][]goworker.IsolatedOption{"a child a job": nil, "kept": {goworker.Reuse(1000)}} {
		if name == "kept" && runtime.GOOS != "linux" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			daemontest.Punctually(t, func() error { // a child that is not heard within a second is killed
				b := setupWith(t, more)
				b.judged = true
				if _, err := b.daemon.EnqueueWith(goworker.NewJob("work", "Long", "stop"), goworker.WithID("long-stop")); err != nil {
					t.Fatal(err)
				}
				cursor := func() string { return b.redis.Text(t, "HGET", "resque:go:cursor:long-stop", "cursor") }
				redistest.Eventually(t, soon, "it runs", func() bool { return cursor() == "1000" })
				b.daemon.StopNow()
				if err := b.stop(); err != nil {
					return err
				}
				if got := cursor(); got != "1001" {
					return fmt.Errorf("after a stop it is at %s", got)
				}
				return nil
			})
		})
	}
}

// lines counts the lines that begin so.
func (b *bundle) lines(prefix string) int { b.t.Helper(); return len(b.noted(prefix)) }
