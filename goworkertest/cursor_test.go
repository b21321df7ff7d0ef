package goworkertest_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/goworkertest"
)

// exports is a daemon whose jobs say how far they are, ten rows a run.
func exports(once *int) *goworker.Daemon {
	return daemon(func(d *goworker.Daemon) {
		d.Register("Export", func(ctx context.Context, rows int) (int, error) {
			at := goworker.Cursor[int](ctx)
			last, _, err := at.Get()
			if err != nil {
				return 0, err
			}
			if _, err := goworker.Once(ctx, "announce", func(context.Context) (bool, error) { *once++; return true, nil }); err != nil {
				return 0, err
			}
			for row := last + 1; row <= min(rows, last+10); row++ {
				if err := at.Set(ctx, row); err != nil {
					return 0, err
				}
			}
			if last+10 < rows {
				return 0, goworker.Snooze(30 * 24 * time.Hour)
			}
			return last, nil
		}, goworker.Isolated())
	})
}

// The runs of a Runner go on where the one before was, however long they wait.
func TestRunnerCursors(t *testing.T) {
	t.Parallel()
	once := 0
	r := goworkertest.New(t, exports(&once), goworkertest.StartAt(start))
	job := id(t, r, goworker.NewJob("work", "Export", 35), goworker.WithID("export"))
	r.Drain()
	if left, err := r.Inspect().Cursor(t.Context(), job); err != nil || string(left.Value) != "10" || string(left.Once["announce"]) != "true" {
		t.Errorf("it has left %+v, %v", left, err)
	}
	results := r.Advance(100 * 24 * time.Hour)
	if len(results) != 3 || goworkertest.ValueOf[int](t, results[2]) != 30 || once != 1 {
		t.Errorf("the runs are %v; announced %d times", results, once)
	}
	if left, err := r.Inspect().Cursor(t.Context(), job); err != nil || left.Value != nil {
		t.Errorf("a done job has left %+v, %v", left, err)
	}
}

// Work runs one run, which is where the test says, and shows where that is in the end.
func TestWorkCursors(t *testing.T) {
	t.Parallel()
	once := 0
	d := exports(&once)
	job, withID := goworker.NewJob("work", "Export", 35), goworkertest.EnqueuedWith(goworker.WithID("export"))
	first := goworkertest.Work(t, d, job, withID)
	if first.RequireSnoozed(t, 30*24*time.Hour); string(first.Cursor) != "10" {
		t.Errorf("the first run is at %s", first.Cursor)
	}
	last := goworkertest.Work(t, d, job, withID, goworkertest.CursorAt(30))
	if goworkertest.ValueOf[int](t, last) != 30 || string(last.Cursor) != "35" || once != 2 {
		t.Errorf("the last run is at %s; announced %d times", last.Cursor, once)
	}
	without := goworkertest.Work(t, d, job)
	if without.RequireFailed(t, nil); !strings.Contains(without.Err.Error(), "no id") || without.Cursor != nil {
		t.Errorf("without an id: %s at %s", without, without.Cursor)
	}
}
