package daemon

import (
	"context"
	"testing"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/inspect"
	"github.com/goworker/goworker/internal/daemontest"
)

// A daemon's last renewal carries what it has counted, and the next daemon folds it. The history then says what Resque's totals
// say, of each span; and the log says who came and left.
func TestHistoryAddsUp(t *testing.T) {
	t.Parallel()
	b := daemontest.Setup(t, func(s *goworker.WorkerSettings) { s.ExitOnComplete = true })
	b.Push(daemontest.Jobs("Mark", 40)...)
	b.Push(daemontest.Jobs("Fail", 3)...)
	b.Push(`{"class":"Nap","args":["nap",20]}`)
	b.Push(daemontest.Job("Unheard", "1"), `{"class":"Another of a producer's","args":[]}`)
	b.Start()
	if err := b.Wait(); err != nil {
		t.Fatal(err)
	}
	first := b.Process()

	next := daemontest.SetupOn(t, b.Redis, func(s *goworker.WorkerSettings) { s.QueuesString = "other" })
	next.Start()
	in := next.Inspect()
	var h inspect.History
	b.Eventually("the history has all jobs", func() bool {
		var err error
		if h, err = in.History(context.Background(), inspect.HistoryQuery{}); err != nil {
			t.Fatal(err)
		}
		return h.Total().Jobs().Processed == int64(b.Stat("processed"))
	})
	if n := b.Stat("processed"); n != 46 {
		t.Fatalf("%d jobs were processed", n)
	}
	for _, step := range []time.Duration{time.Minute, 10 * time.Minute, time.Hour, 24 * time.Hour} {
		h, err := in.History(context.Background(), inspect.HistoryQuery{Step: step})
		total := h.Total()
		mark, failed, unknown, work := total.Classes["Mark"], total.Classes["Fail"], total.Classes[inspect.UnknownClass], total.Queues["work"]
		if err != nil || h.Step != step || len(total.Classes) != 4 || mark.Done != 40 || mark.Runs.Count() != 40 || failed.Failed != 3 ||
			unknown.Failed != 2 || unknown.Runs.Count() != 0 || work.Taken != 46 || work.Done != 41 || work.Failed != 5 {
			t.Errorf("%s: %v, %+v", step, err, total)
		}
		if f := total.Fleet; f.Processes.Most != 1 || f.Memory.Most == 0 || f.Stuck.Looks == 0 || f.Stuck.Most != 0 || f.Failures.Most != 5 || f.Present == 0 {
			t.Errorf("%s: the fleet was %+v", step, f)
		}
		if half := total.Classes["Nap"].Runs.Quantile(0.5); half < 16*time.Millisecond {
			t.Errorf("%s: half of the jobs of 20 ms took less than %s", step, half)
		}
	}
	none, err := in.History(context.Background(), inspect.HistoryQuery{Class: "Mark", Queue: "none", Until: time.Now().Add(-time.Hour)})
	if err != nil || len(none.Rows) != 0 {
		t.Errorf("an hour ago: %+v, %v", none, err)
	}
	if _, err := in.History(context.Background(), inspect.HistoryQuery{Step: time.Second}); err == nil {
		t.Error("there are no rows of a second")
	}

	entries, after, err := in.Log(context.Background(), "", 10)
	if err != nil || len(entries) != 3 || entries[0].Kind != inspect.LogOnline || entries[0].Process != first || entries[0].Version == "" ||
		entries[1].Kind != inspect.LogOffline || entries[1].Process != first || entries[2].Kind != inspect.LogOnline || entries[2].Process != next.Process() {
		t.Errorf("the log is %+v, %v", entries, err)
	}
	if more, _, err := in.Log(context.Background(), after, 10); err != nil || len(more) != 0 {
		t.Errorf("behind it is %+v, %v", more, err)
	}
	next.Eventually("the process says how it is", func() bool {
		all, err := in.Processes(context.Background())
		return err == nil && len(all) == 1 && all[0].Vitals.Workers == 4 && all[0].Vitals.Goroutines > 0 && !all[0].Vitals.At.IsZero()
	})
	if err := next.Stop(); err != nil {
		t.Fatal(err)
	}
	if newest, _, err := in.Log(context.Background(), "", 1); err != nil || len(newest) != 1 || newest[0].Kind != inspect.LogOffline || newest[0].Process != next.Process() {
		t.Errorf("the last line is %+v, %v", newest, err)
	}
}

// With HistoryOff a process counts nothing.
func TestHistoryOff(t *testing.T) {
	t.Parallel()
	b := daemontest.Setup(t, func(s *goworker.WorkerSettings) { s.ExitOnComplete, s.History = true, goworker.HistoryOff })
	b.Push(daemontest.Jobs("Mark", 4)...)
	b.Start()
	if err := b.Wait(); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"tally", "folded"} {
		if n := b.Redis.Int(t, "EXISTS", "resque:go:"+key); n != 0 {
			t.Errorf("go:%s exists", key)
		}
	}
}
