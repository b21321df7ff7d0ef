package inflight

import (
	"testing"
	"time"

	"github.com/goworker/goworker/internal/clock"
	"github.com/goworker/goworker/internal/outcome"
	"github.com/goworker/goworker/internal/resque"
)

// What the record says of suspects decides what a death says of them.
func TestSuspectsHandedOut(t *testing.T) {
	t.Parallel()
	suspect := func(ticket int64, level, charged int) *Task {
		return &Task{Job: outcome.Job{Reserved: resque.Reserved{Ticket: ticket}}, deaths: &resque.Deaths{Count: 1, Level: level, Charged: charged}}
	}
	now := time.Now()
	for _, test := range []struct {
		name  string
		trial *Task
		past  []*Task
		want  string
	}{
		{"none", nil, nil, "9"},
		{"one alone", suspect(1, 0, 0), nil, "9 *1"},
		{"past their trials", nil, []*Task{suspect(1, 0, 0), suspect(2, 3, 1)}, "9 +1 +2"},
		{"a first trial beside another", suspect(2, 0, 0), []*Task{suspect(1, 0, 0)}, "9 +1 +2"},
		{"a second trial beside another", suspect(2, 1, 0), []*Task{suspect(1, 0, 0)}, "9 *2"},
		{"a long trial beside another", suspect(2, 2, 0), []*Task{suspect(1, 0, 0)}, "9 *2 +1"},
		{"a long trial of one that was charged before", suspect(2, 2, 1), []*Task{suspect(1, 0, 0)}, "9 *2"},
	} {
		var s suspects
		s.past = test.past
		if test.trial != nil {
			s.add(test.trial)
			s.advance(now, false)
			if s.chosen != nil {
				t.Errorf("%s: a trial begins without a free worker", test.name)
			}
			s.advance(now, true)
			if got := s.handedOut(9).String(); got != test.want {
				t.Errorf("%s: before the trial the record says %q, want %q", test.name, got, test.want)
			}
			if s.begin(now) != test.trial {
				t.Errorf("%s: another job is on trial", test.name)
			}
		}
		if got := s.handedOut(9).String(); got != test.want {
			t.Errorf("%s: the record says %q, want %q", test.name, got, test.want)
		}
		s.advance(s.over().Add(time.Nanosecond), true)
		if test.trial != nil && (s.trial != nil || len(s.past) != len(test.past)+1) {
			t.Errorf("%s: the trial does not end", test.name)
		}
	}
}

// The record says ahead which jobs may be with workers, so that few exchanges have to say it.
func TestSuspectsRecordIsAhead(t *testing.T) {
	t.Parallel()
	var s suspects
	says := func(upTo int64, want string) {
		t.Helper()
		if got := s.record(upTo); got != want {
			t.Errorf("up to %d the record is to say %q, want %q", upTo, got, want)
		}
	}
	says(0, "")
	says(1, "10001")
	says(10_001, "")
	says(10_002, "20002")
	s.add(&Task{Job: outcome.Job{Reserved: resque.Reserved{Ticket: 10_002}}, deaths: &resque.Deaths{Count: 1}})
	says(10_002, "20002 10002")
	says(10_003, "")
	s.advance(time.Now(), true)
	says(10_003, "20003 *10002")
	s.ended(s.begin(time.Now()))
	says(10_003, "20003")
	says(10_003, "")
	s.forget()
	says(10_003, "20003")
}

// The shortest trials come first, and only one at a time.
func TestSuspectsTakeTurns(t *testing.T) {
	t.Parallel()
	now := time.Now()
	var s suspects
	for ticket, level := range []int{2, 0, 1, 0} {
		s.add(&Task{Job: outcome.Job{Reserved: resque.Reserved{Ticket: int64(ticket)}}, deaths: &resque.Deaths{Count: 1, Level: level}})
	}
	var order []int64
	for !s.idle() {
		s.advance(now, true)
		if t := s.begin(now); t != nil {
			order = append(order, t.Ticket)
		}
		s.advance(now, true)
		if s.chosen != nil {
			t.Fatal("a second trial begins while one is under way")
		}
		s.ended(s.trial)
	}
	if want := []int64{1, 3, 2, 0}; len(order) != 4 || order[0] != want[0] || order[1] != want[1] || order[2] != want[2] || order[3] != want[3] {
		t.Errorf("the suspects started in the order %v, want %v", order, want)
	}
}

// stands is a clock that a test sets.
type stands struct {
	clock.Clock
	now time.Time
}

func (s *stands) Now() time.Time { return s.now }

// Suspects that wait for their trials leave once no worker has been free for a while.
func TestSuspectsLeave(t *testing.T) {
	t.Parallel()
	var s suspects
	c := &stands{now: time.Now()}
	leave := func(what string, free bool, want time.Time) {
		t.Helper()
		if got := s.leave(free, c); !got.Equal(want) {
			t.Errorf("%s: they leave at %v, want %v", what, got, want)
		}
	}
	leave("none waits", false, time.Time{})
	s.add(&Task{deaths: &resque.Deaths{Count: 1}})
	leave("a worker is free", true, time.Time{})
	leave("no worker is free", false, c.now.Add(suspectPatience))
	began := c.now
	c.now = c.now.Add(suspectPatience)
	leave("it is so still", false, began.Add(suspectPatience))
	leave("a worker was free", true, time.Time{})
	leave("no worker is free again", false, c.now.Add(suspectPatience))
	s.giveUp()
	leave("they have left", false, time.Time{})
}
