package health

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/goworker/goworker/internal/clock"
	"github.com/goworker/goworker/internal/logging"
	"github.com/goworker/goworker/internal/outcome"
	"github.com/goworker/goworker/internal/part"
	"github.com/goworker/goworker/internal/resque"
)

func ended(t *Tally, slot int, queue, class string, o outcome.Outcome) {
	j := &outcome.Job{Reserved: resque.Reserved{Queue: queue, Payload: []byte("12345")}, Slot: slot, Name: class}
	if class != "Unknown" {
		j.Class = &outcome.Class{Name: class}
	}
	t.Ended(j, &o)
}

func TestTally(t *testing.T) {
	t.Parallel()
	tally := NewTally(clock.System)
	done := outcome.Outcome{State: outcome.Done, Started: true, Ran: 3 * time.Second}
	failed := outcome.Outcome{State: outcome.Failed, Started: true, Ran: 5 * time.Second}
	expired := outcome.Outcome{State: outcome.Expired, Ran: time.Hour}
	for slot := range 20 {
		ended(tally, slot, "mail", "Send", done)
	}
	ended(tally, 3, "mail", "Send", failed)
	ended(tally, 3, "mail", "Other", expired)
	ended(tally, 3, "low", "Send", done)
	ended(tally, 3, "low", "Unknown", outcome.Outcome{State: outcome.Failed})
	ended(tally, 3, "low", "", outcome.Outcome{State: outcome.Failed})
	mail := Jobs{Done: 20, Failed: 1, Expired: 1, Runs: 21, RunTime: 65 * time.Second, Longest: 5 * time.Second, Bytes: 22 * 5}
	low := Jobs{Done: 1, Failed: 2, Runs: 1, RunTime: 3 * time.Second, Longest: 3 * time.Second, Bytes: 3 * 5}
	want := Counts{
		Total:  Jobs{Done: 21, Failed: 3, Expired: 1, Runs: 22, RunTime: 68 * time.Second, Longest: 5 * time.Second, Bytes: 25 * 5},
		Queues: map[string]Jobs{"mail": mail, "low": low},
		Classes: map[string]Jobs{
			"Send":  {Done: 21, Failed: 1, Runs: 22, RunTime: 68 * time.Second, Longest: 5 * time.Second, Bytes: 22 * 5},
			"Other": {Expired: 1, Bytes: 5},
		},
	}
	if diff := cmp.Diff(want, Sum(tally), cmpopts.IgnoreUnexported(Counts{})); diff != "" {
		t.Error(diff)
	}
	one := Sum(tally)
	for _, q := range []struct {
		class   string
		share   float64
		seconds float64
	}{{"Send", 0.5, 3}, {"Send", 1, 5}, {"", 0.95, 3}, {"", 1, 5}, {"Other", 0.5, 0}, {"No", 0.5, 0}} {
		if got := one.Quantile(q.class, q.share).Seconds(); got < q.seconds/1.2 || got > q.seconds*1.2 {
			t.Errorf("%v of the runs of %q took %v s, want about %v", q.share, q.class, got, q.seconds)
		}
	}
	if two := Sum(tally, tally); two.Total.Done != 42 || two.Total.Longest != 5*time.Second || two.Queues["low"].Failed != 4 {
		t.Errorf("twice: %+v", two)
	}
}

// Each state has a field of its own.
func TestTallyOfEachState(t *testing.T) {
	t.Parallel()
	tally := NewTally(clock.System)
	for s := range outcome.States {
		for range s + 1 {
			ended(tally, 0, "mail", "Send", outcome.Outcome{State: outcome.State(s)})
		}
	}
	want := Jobs{Done: 1, Failed: 2, Retried: 3, Snoozed: 4, Returned: 5, Passed: 6, Discarded: 7, Expired: 8, Cancelled: 9, Gathered: 10, Bytes: 55 * 5}
	if diff := cmp.Diff(want, Sum(tally).Total); diff != "" {
		t.Error(diff)
	}
}

// Workers count at the same time, and nothing is lost. Queues without end cost bounded memory.
func TestTallyOfManyWorkers(t *testing.T) {
	t.Parallel()
	tally := NewTally(clock.System)
	const workers, jobs = 32, 2000
	var wg sync.WaitGroup
	for slot := range workers {
		wg.Go(func() {
			for i := range jobs {
				ended(tally, slot, fmt.Sprint("q", i%3), "A", outcome.Outcome{Started: true, Ran: time.Duration(i)})
			}
		})
	}
	wg.Wait()
	all := Sum(tally)
	if all.Total.Done != workers*jobs || all.Total.Runs != workers*jobs || all.Total.Longest != jobs-1 || len(all.Queues) != 3 {
		t.Errorf("%+v in %d queues", all.Total, len(all.Queues))
	}
	for i := range 2 * mostCells {
		ended(tally, 1, fmt.Sprint("pattern-", i), "A", outcome.Outcome{})
	}
	all = Sum(tally)
	if all.Total.Done != workers*jobs+2*mostCells || len(all.Queues) > mostCells {
		t.Errorf("%d jobs in %d queues", all.Total.Done, len(all.Queues))
	}
}

func TestTallyAddsUpRuns(t *testing.T) {
	t.Parallel()
	tally := NewTally(clock.System)
	if got := Sum(tally).Run; got != (Run{}) {
		t.Errorf("%+v", got)
	}
	for n := range int64(3) {
		exchanges := n
		tally.Begin(func() (int64, time.Time) { return exchanges, time.Time{} },
			func() logging.State { return logging.State{Count: 1, Away: time.Second} })
		exchanges += 10
	}
	if got, want := Sum(tally).Run, (Run{Exchanges: 33, Outages: 3, Away: 3 * time.Second}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

func TestPulse(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		asked := make(chan func(), 100)
		var questions, state atomic.Int64
		p := NewPulse(clock.System, func(f func()) { questions.Add(1); asked <- f }, state.Load)
		if a := p.Take(time.Second); a.Ever || a.Silent != time.Second {
			t.Errorf("before it answers: %+v", a)
		}
		if a := p.Take(time.Second); a.Ever || a.Silent != 2*time.Second || questions.Load() != 1 {
			t.Errorf("before it answers: %+v after %d questions", a, questions.Load())
		}
		state.Store(7)
		go func() {
			for f := range asked {
				f()
			}
		}()
		synctest.Wait()
		if a := p.Take(time.Second); a != (Answer[int64]{Last: 7, Ever: true}) || questions.Load() != 2 {
			t.Errorf("%+v after %d questions", a, questions.Load())
		}
		close(asked)
		asked = make(chan func(), 100)
		state.Store(8)
		if a := p.Take(time.Second); a != (Answer[int64]{Last: 7, Ever: true, Silent: time.Second}) {
			t.Errorf("when it hangs: %+v", a)
		}
	})
}
func BenchmarkTally(b *testing.B) {
	tally := NewTally(clock.System)
	j := &outcome.Job{Reserved: resque.Reserved{Queue: "mail", Payload: []byte("12345")}, Name: "Send", Class: new(outcome.Class)}
	o := &outcome.Outcome{Started: true, Ran: time.Second}
	b.ReportAllocs()
	for b.Loop() {
		tally.Ended(j, o)
	}
}

// Owed asks at most once a second, does not wait, and says for how long the answer is owed.
func TestPulseOwes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var asked []func()
		p := NewPulse(clock.System, func(f func()) { asked = append(asked, f) }, func() int { return 7 })
		for range 10 {
			if owed := p.Owed(); owed != 0 {
				t.Errorf("it owes %v at once", owed)
			}
		}
		time.Sleep(time.Minute)
		if owed := p.Owed(); owed != time.Minute || len(asked) != 1 {
			t.Errorf("after a minute it owes %v, and was asked %d times", owed, len(asked))
		}
		asked[0]()
		for range 10 {
			if owed := p.Owed(); owed != 0 || len(asked) != 1 {
				t.Errorf("after its answer it owes %v, and was asked %d times", owed, len(asked))
			}
		}
		time.Sleep(time.Hour)
		if owed := p.Owed(); owed != 0 || len(asked) != 2 {
			t.Errorf("an hour later it owes %v, and was asked %d times", owed, len(asked))
		}
	})
}

// A lease whose loop stands is a reason to restart. A part that has failed is named.
func TestReportOfLoopsAndParts(t *testing.T) {
	t.Parallel()
	s := Signs{
		Now: time.Now(), Begun: true, Running: true, Renewed: time.Now(), Limits: 25 * time.Second, Lease: 110 * time.Second,
		Poller: Answer[Poller]{Ever: true, Last: Poller{Connected: true}}, Down: []string{"metrics"},
	}
	if r := s.Report(); !r.Live || !r.Ready || fmt.Sprint(r.Reasons) != "[part metrics has failed: PartStates says why]" {
		t.Errorf("%+v", r)
	}
	s.Loops = []part.Standing{{Loop: "control", For: 2 * time.Minute}}
	if r := s.Report(); !r.Live || !r.Ready || len(r.Reasons) != 2 || r.Reasons[1] != "the loop control has been in one turn for 2m0s: goworker inspect stacks shows where; if it does not go on, restart the process" {
		t.Errorf("%+v", r)
	}
	s.AwaySince = s.Now.Add(-time.Hour)
	if r := s.Report(); len(r.Reasons) != 2 || r.Reasons[1] != "Redis has been away for 1h0m0s" {
		t.Errorf("a loop that waits for Redis: %+v", r)
	}
	s.Loops, s.AwaySince = nil, time.Time{}
	s.Lease += time.Second
	if r := s.Report(); r.Live || r.Ready || len(r.Reasons) != 2 {
		t.Errorf("%+v", r)
	}
}

// A poller that hung before it was asked for the first time hangs all the same, once the daemon has started.
func TestReportOfPollerThatNeverAnswered(t *testing.T) {
	t.Parallel()
	s := Signs{Now: time.Now(), Begun: true, Running: true, Renewed: time.Now(), Limits: 25 * time.Second, Poller: Answer[Poller]{Silent: time.Hour}}
	if r := s.Report(); !r.Live || r.Ready || fmt.Sprint(r.Reasons) != "[the daemon is starting]" {
		t.Errorf("while it starts: %+v", r)
	}
	s.Started = true
	if r := s.Report(); r.Live || r.Ready || fmt.Sprint(r.Reasons) != "[the poller has not answered for 1h0m0s and seems to hang: restart the process]" {
		t.Errorf("when it has started: %+v", r)
	}
	s.Poller.Silent = 110 * time.Second
	if r := s.Report(); !r.Live || r.Ready || fmt.Sprint(r.Reasons) != "[the daemon is starting]" {
		t.Errorf("before its time is over: %+v", r)
	}
}
