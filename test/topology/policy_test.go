package topology

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker"
)

// A lock holds while its job waits and runs, is moved to one that replaces it, is given
// up with the job's end, and taken from a job that is nowhere.
func keepsUnique(t *testing.T, s shape, d *goworker.Daemon) {
	var ran atomic.Int64
	gate := make(chan struct{})
	d.Register("Once", func() { ran.Add(1); <-gate })
	refused := func(opts ...goworker.UniqueOption) bool {
		t.Helper()
		_, err := d.EnqueueWith(job("Once"), goworker.Unique(opts...))
		if duplicate := new(goworker.DuplicateError); errors.As(err, &duplicate) {
			return true
		}
		if err != nil {
			t.Fatal(err)
		}
		return false
	}
	if refused() || !refused() || refused(goworker.ReplaceWaiting()) {
		t.Error("the first and a third that replaces it are to be taken, a second is not")
	}
	payload := list(t, d, "LRANGE", d.Namespace()+"queue:work", 0, -1)[0]
	_, name, _ := strings.Cut(payload, `"unique":"done:`)
	lock := d.Namespace() + "go:unique:" + name[:32]
	free := func() bool { return number(t, d, "EXISTS", lock) == 0 }
	aged := func() { // its job seems not to have been seen since 1970
		fields := list(t, d, "HGETALL", lock)
		if len(fields) != 2 {
			t.Fatalf("the lock says %q", fields)
		}
		parts := strings.SplitN(fields[1], " ", 4)
		parts[2] = "0"
		do(t, d, "HSET", lock, fields[0], strings.Join(parts, " "))
	}
	aged()
	if !refused() {
		t.Error("the lock was taken from a job that waits")
	}
	do(t, d, "LPOP", d.Namespace()+"queue:work")
	aged()
	if refused() {
		t.Error("a job that is nowhere has its lock")
	}
	start(t, d)
	eventually(t, "it runs", func() bool { return ran.Load() == 1 })
	for range 2 {
		aged()
		if !refused() || !refused(goworker.ReplaceWaiting()) {
			t.Error("the lock was taken from a job that runs")
		}
	}
	close(gate)
	eventually(t, "the lock is given up", free)
	if refused(goworker.UntilElapsed(5*time.Second)) || !refused(goworker.UntilElapsed(5*time.Second)) {
		t.Error("of two in five seconds one is to be taken")
	}
	eventually(t, "its time is over", free)
}

func dropsExpired(t *testing.T, s shape, d *goworker.Daemon) {
	d.Register("Late", func() { t.Error("an expired job ran") })
	for range 3 {
		if _, err := d.EnqueueWith(job("Late"), goworker.ExpiresAt(time.Now().Add(-time.Minute))); err != nil {
			t.Fatal(err)
		}
	}
	start(t, d)
	eventually(t, "they are counted", func() bool {
		info, err := d.Info()
		return err == nil && info.Expired == 3
	})
}

func list(t *testing.T, d *goworker.Daemon, command string, args ...any) []string {
	t.Helper()
	texts, err := redis.Strings(do(t, d, command, args...), nil)
	if err != nil {
		t.Fatal(err)
	}
	return texts
}

// A job goes on where its last run was, and does once what it did there.
func keepsCursors(t *testing.T, s shape, d *goworker.Daemon) {
	var runs, once atomic.Int64
	d.Register("Long", func(ctx context.Context) error {
		run := runs.Add(1)
		cur := goworker.Cursor[int64](ctx)
		at, _, err := cur.Get()
		if err != nil || at != run-1 {
			t.Errorf("run %d is at %d, %v", run, at, err)
		}
		if _, err := goworker.Once(ctx, "once", func(context.Context) (int64, error) { return once.Add(1), nil }); err != nil {
			t.Error(err)
		}
		if err := cur.Set(ctx, run); err != nil {
			t.Error(err)
		}
		if run == 1 { // not by the end of the run
			eventually(t, "it is written", func() bool {
				left, err := d.Client().Inspect().Cursor(ctx, "long")
				return err == nil && string(left.Value) == "1"
			})
		}
		if run < 3 {
			return goworker.Snooze(0)
		}
		return nil
	})
	if _, err := d.EnqueueWith(job("Long"), goworker.WithID("long")); err != nil {
		t.Fatal(err)
	}
	start(t, d)
	eventually(t, "it is done", func() bool { return runs.Load() == 3 && number(t, d, "EXISTS", d.Namespace()+"go:cursor:long") == 0 })
	if once.Load() != 1 {
		t.Errorf("it did once what it did %d times", once.Load())
	}
}
