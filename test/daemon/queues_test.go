package daemon

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/internal/daemontest"
	"github.com/goworker/goworker/internal/resque"
)

// queuesBundle is a daemon whose queues change.
type queuesBundle struct{ *daemontest.Bundle }

// set changes the queues.
func (b queuesBundle) set(list string) goworker.Relisted {
	b.T.Helper()
	r, err := b.Daemon.SetQueues(b.T.Context(), list)
	if err != nil || r.To != list {
		b.T.Fatalf("%+v, %v", r, err)
	}
	return r
}

// workers are the queues in the ids of the workers that Ruby sees, each with how many workers.
func (b queuesBundle) workers() string {
	b.T.Helper()
	under := make(map[string]int)
	for _, id := range b.Redis.List(b.T, "SMEMBERS", "resque:workers") {
		under[strings.SplitN(id, ":", 3)[2]]++
	}
	return fmt.Sprint(under)
}

// A queue that is added is worked at once, and its next job starts by a wake: the daemon polls once a minute.
// Of one that is removed nothing wakes the daemon.
func TestQueuesAreAddedAndRemoved(t *testing.T) {
	t.Parallel()
	b := queuesBundle{daemontest.Setup(t)}
	if _, err := b.Daemon.SetQueues(t.Context(), "mail"); err == nil {
		t.Error("a daemon that does not run has other queues")
	}
	b.Start()
	b.Idle()
	process := b.Process()
	b.PushTo("mail", daemontest.Job("Mark", "waited"))
	if r := b.set("work,mail"); r.From != "work" || r.Settings != "work" || len(r.Busy) > 0 {
		t.Errorf("%+v", r)
	}
	b.Eventually("what waited runs", func() bool { return b.Runs.Ends("waited") == 1 })
	b.Eventually("the workers have the new list in their ids", func() bool { return b.workers() == "map[work,mail:4]" })
	b.Eventually("it sleeps", func() bool { return b.Stat("processed") == 1 })
	for _, id := range []string{"woke", "again"} {
		b.PushTo("mail", daemontest.Job("Mark", id))
		b.Eventually("a job wakes it", func() bool { return b.Runs.Ends(id) == 1 })
	}
	b.set("mail")
	b.Push(daemontest.Job("Mark", "left"))
	b.PushTo("mail", daemontest.Job("Mark", "last"))
	b.Eventually("the list that is left is worked", func() bool { return b.Runs.Ends("last") == 1 })
	if b.Runs.Starts("left") > 0 || len(b.Queue("work")) != 1 {
		t.Error("a job of a queue that was removed was taken")
	}
	b.Eventually("the workers have the last list in their ids", func() bool { return b.workers() == "map[mail:4]" })
	record := func(field string) string { return b.Redis.Text(t, "HGET", "resque:go:process:"+process, field) }
	b.Eventually("the record has the last list alone", func() bool {
		return record("queues") == "mail" && record("id_queues") == "mail" && record("id_queues_old") == ""
	})
	if b.Process() != process {
		t.Errorf("the process is %s, and was %s", b.Process(), process)
	}
	b.set("*,!mail")
	b.Eventually("a pattern finds its queue", func() bool { return b.Runs.Ends("left") == 1 })
	b.set("m*=2,work=1")
	b.PushTo("more", daemontest.Job("Mark", "more"))
	b.Redis.Do(t, "SADD", "resque:queues", "more")
	b.Eventually("it finds a queue that comes later", func() bool { return b.Runs.Ends("more") == 1 })
	if err := b.Stop(); err != nil {
		t.Fatal(err)
	}
	b.OnlyTotals()
}

// What the settings would refuse is refused while the daemon runs, with the same sentence, and nothing changes.
func TestQueuesThatAreRefused(t *testing.T) {
	t.Parallel()
	b := queuesBundle{daemontest.Setup(t)}
	b.Start()
	b.Idle()
	for _, list := range []string{"", "!a", "a=0", "=2", "a[", "msgpack:*"} {
		_, err := b.Daemon.SetQueues(t.Context(), list)
		settings := b.Settings
		settings.QueuesString = list
		if start := goworker.New(settings).Init(); err == nil || start == nil || err.Error() != start.Error() {
			t.Errorf("%q is refused with\n%v\nand at the start with\n%v", list, err, start)
		}
	}
	id := b.Redis.Text(t, "HGET", "resque:go:process:"+b.Process(), "id_head") + "0:taken"
	b.Redis.Do(t, "HSET", "resque:workers:heartbeat", id, time.Now().Format(time.RFC3339))
	if _, err := b.Daemon.SetQueues(t.Context(), "taken"); !errors.Is(err, resque.ErrTaken) {
		t.Errorf("the ids of another process: %v", err)
	}
	b.Push(daemontest.Job("Mark", "on"))
	b.Eventually("it works on", func() bool { return b.Runs.Ends("on") == 1 })
	if got := b.workers(); got != "map[work:4]" {
		t.Errorf("the workers are %s", got)
	}
}

// A job that runs keeps its worker's id, under which Ruby sees it, until it has ended.
func TestQueuesChangeAroundJobs(t *testing.T) {
	t.Parallel()
	b := queuesBundle{daemontest.Setup(t)}
	b.Start()
	b.Push(daemontest.Jobs("Hold", 2)...)
	b.Reaches("jobs run", 2, b.Runs.Started)
	if r := b.set("mail"); len(r.Busy) != 2 || r.Busy[0].Queue != "work" || !strings.HasSuffix(r.Busy[0].Worker, ":work") {
		t.Errorf("%+v", r)
	}
	b.Eventually("each job has its worker still", func() bool { return b.workers() == "map[mail:4 work:2]" && b.WorkersTold() == 2 })
	for i := range 9 {
		list := fmt.Sprintf("mail,q%d", i)
		if _, err := b.Daemon.SetQueues(t.Context(), list); (err != nil) != (i >= 7) || err != nil && !errors.Is(err, resque.ErrManyLists) {
			t.Errorf("list %d: %v", i, err)
		}
	}
	b.Open()
	b.Eventually("the old ids go with their jobs", func() bool { return b.workers() == "map[mail,q6:4]" && b.WorkersTold() == 0 })
	b.set("mail")
}

// A queue is removed while its jobs are taken ahead: none starts after the answer, and those that were held ahead are at its
// head, in their order.
func TestNoneAfterAQueueWasRemoved(t *testing.T) {
	t.Parallel()
	b := queuesBundle{daemontest.Setup(t, func(s *goworker.WorkerSettings) { s.QueuesString = "work,mail" })}
	const jobs = 3000
	var mails []string
	for i := range jobs {
		mails = append(mails, daemontest.Job("Mark", fmt.Sprint("mail-", i)))
	}
	b.PushTo("mail", mails...)
	b.Start()
	started := func() (n int) {
		for i := range jobs {
			n += b.Runs.Starts(fmt.Sprint("mail-", i))
		}
		return n
	}
	b.Reaches("some run", 100, b.Runs.Started)
	b.set("work")
	most := started() + b.Settings.Concurrency // those that workers have begin still
	b.Push(daemontest.Jobs("Hold", b.Settings.Concurrency)...)
	b.Eventually("each worker has a later job", func() bool {
		for i := range b.Settings.Concurrency {
			if b.Runs.Starts(fmt.Sprintf("Hold%03d", i)) == 0 {
				return false
			}
		}
		return true
	})
	ran := started()
	if ran > most {
		t.Errorf("%d jobs of the queue began after the answer", ran-most)
	}
	b.Open()
	b.Push(daemontest.Job("Mark", "after"))
	b.Eventually("it works on", func() bool { return b.Runs.Ends("after") == 1 })
	b.Eventually("those that were held ahead are back, in order", func() bool { return slices.Equal(b.Queue("mail"), mails[ran:]) })
	if twice := b.Runs.Twice(); len(twice) > 0 || started() != ran {
		t.Errorf("%d jobs ran after the queue was removed; twice ran %v", started()-ran, twice)
	}
}

// Under load the queues and the concurrency change from several goroutines: no job is lost or runs twice, and at rest the set
// of workers has one id for each slot.
func TestQueuesChangeUnderLoad(t *testing.T) {
	t.Parallel()
	b := queuesBundle{daemontest.Setup(t)}
	b.Start()
	b.Idle()
	const jobs = 400
	b.Push(daemontest.Naps(jobs, 5)...)
	done := make(chan error)
	change := func(f func(i int) error) {
		for i := range 12 {
			if err := f(i); err != nil && !errors.Is(err, resque.ErrManyLists) {
				done <- err
				return
			}
		}
		done <- nil
	}
	ctx := context.Background()
	go change(func(i int) error {
		_, err := b.Daemon.SetQueues(ctx, []string{"work,mail", "mail", "*", "work=2,more=3"}[i%4])
		return err
	})
	go change(func(i int) error {
		_, err := b.Daemon.SetQueues(ctx, []string{"more,msgpack:own", "work,more"}[i%2])
		return err
	})
	go change(func(i int) error {
		_, err := b.Daemon.SetConcurrency(ctx, []int{1, 9, 4}[i%3])
		return err
	})
	for range 3 {
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
	b.set("work,more")
	if _, err := b.Daemon.SetConcurrency(ctx, 6); err != nil {
		t.Fatal(err)
	}
	b.Reaches("all jobs end", jobs+1, b.Runs.Finished)
	b.Eventually("each slot has its worker", func() bool { return b.workers() == "map[work,more:6]" })
	if twice := b.Runs.Twice(); len(twice) > 0 {
		t.Errorf("twice ran %v", twice)
	}
	if err := b.Stop(); err != nil {
		t.Fatal(err)
	}
	b.Redis.Do(t, "DEL", "resque:queues")
	b.OnlyTotals()
}

// A MessagePack queue that is added is guarded as at the start: jobs that Ruby's tools pushed under its name come home.
func TestMessagePackQueueIsAdded(t *testing.T) {
	t.Parallel()
	b := queuesBundle{daemontest.Setup(t)}
	b.Start()
	b.Idle()
	b.PushTo("msgpack:calc", daemontest.Job("Mark", "strayed"))
	b.set("work,msgpack:calc")
	b.Eventually("a job where Ruby reads comes home and runs", func() bool { return b.Runs.Ends("strayed") == 1 })
	b.set("work")
	b.PushTo("msgpack:calc", daemontest.Job("Mark", "stays"))
	b.Push(daemontest.Job("Mark", "on"))
	b.Eventually("it works on", func() bool { return b.Runs.Ends("on") == 1 })
	if b.Runs.Starts("stays") > 0 {
		t.Error("a queue that was removed is guarded still")
	}
}
