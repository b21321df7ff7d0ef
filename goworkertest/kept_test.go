package goworkertest_test

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/goworkertest"
)

// What becomes of a job is kept in a Runner too, with the times of its clock.
func TestRunnerKeepsResults(t *testing.T) {
	t.Parallel()
	d := daemon(func(d *goworker.Daemon) {
		d.Register("Add", func(ctx context.Context, a, b int) (int, error) {
			goworker.Progress(ctx, 1, 1, "added")
			goworker.Logger(ctx).Info("added")
			return a + b, nil
		})
	})
	r := goworkertest.New(t, d, goworkertest.StartAt(start))
	options := []goworker.EnqueueOption{goworker.WithID("sum"), goworker.WithResult(time.Hour), goworker.CaptureLogs(), goworker.ProcessIn(time.Minute)}
	enqueue(t, r, goworker.NewJob("q", "Add", 1, 2), options...)
	r.Advance(time.Minute)
	c, err := d.GetConn()
	if err != nil {
		t.Fatal(err)
	}
	defer d.PutConn(c)
	got, err := redis.StringMap(c.Do("HGETALL", "resque:go:result:sum"))
	due := strconv.FormatInt(start.Add(time.Minute).UnixMilli(), 10)
	if err != nil || got["state"] != "done" || got["result"] != "3" || got["began"] != due || got["ended"] != due || got["due"] != "" {
		t.Errorf("the document is %v, %v; want it to begin and end at %s", got, err, due)
	}
	if lines, err := redis.Int(c.Do("LLEN", "resque:go:logs:sum")); lines != 1 {
		t.Errorf("%d log lines, %v", lines, err)
	}
	job := goworker.NewJob("q", "Add", 1, 2)
	goworkertest.Work(t, d, job, goworkertest.EnqueuedWith(options...)).RequireDone(t)
}
