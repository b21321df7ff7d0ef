package gateway

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goworker/goworker/internal/clock"
	"github.com/goworker/goworker/internal/leased"
	"github.com/goworker/goworker/internal/resque"
	"github.com/goworker/goworker/internal/resque/leases"
)

// fakeRedis is what a desk needs of Redis, in memory. Each turn takes a millisecond.
type fakeRedis struct {
	mu      sync.Mutex
	d       *desk
	queues  map[string][]string // ids
	leases  map[string]string   // by place
	turns   []leases.Turn       // that came
	heard   int64               // the last turn's number
	served  []leases.Job        // of the last turn that reserved
	armed   map[string]bool
	changed []string // queues to notify of
	next    int64    // lease

	alone    bool            // requests may take turns in their own goroutines
	deaf     bool            // it does not notify
	away     bool            // it cannot be reached
	lose     func(n int) int // of the n-th turn: 1: the request is lost; 2: the answer
	errs     []resque.KeyError
	refuse   error
	unwanted map[string]bool
	returned []string // ids that were put back
}

// errLost is the error of a connection that broke.
var errLost = errors.New("the connection broke")

type fakeSide struct {
	*fakeRedis
	broken bool
}

func (f *fakeRedis) dial(context.Context) (side, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.away {
		return nil, errLost
	}
	clear(f.armed)
	return &fakeSide{fakeRedis: f}, nil
}

func (s *fakeSide) Turn(t *leases.Turn) (leases.Answer, error) {
	time.Sleep(time.Millisecond)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.turns = append(s.turns, *t)
	fate := 0
	if s.lose != nil {
		fate = s.lose(len(s.turns))
	}
	if fate == 1 || s.away {
		s.broken = true
		return leases.Answer{}, errLost
	}
	if s.refuse != nil {
		return leases.Answer{}, s.refuse
	}
	if t.Number <= s.heard {
		return leases.Answer{}, leases.ErrStale
	}
	s.heard = t.Number
	out := leases.Answer{Now: time.Now().UnixMilli(), Armed: t.Arm, Errors: s.errs}
	for _, a := range t.Acks {
		place := leases.Place(a.Queue, a.ID)
		switch lease := s.leases[place]; {
		case lease == "":
			out.Acks = append(out.Acks, leases.Unknown)
		case a.Lease != "" && a.Lease != lease:
			out.Acks = append(out.Acks, leases.Changed)
		default:
			delete(s.leases, place)
			out.Acks = append(out.Acks, leases.Acked)
		}
	}
	for i, a := range t.Asks {
		want := a.Count
		for _, q := range a.Queues {
			for want > 0 && len(s.queues[q]) > 0 && len(out.Jobs) < t.Jobs {
				id := s.queues[q][0]
				s.queues[q] = s.queues[q][1:]
				s.next++
				j := leases.Job{Ask: i, Queue: q, ID: id, Lease: fmt.Sprint(s.next), Payload: []byte(`{"class":"C","args":[]}`)}
				s.leases[j.Place()] = j.Lease
				out.Jobs = append(out.Jobs, j)
				want--
			}
			if len(s.queues[q]) == 0 {
				out.Empty = append(out.Empty, q)
				s.armed[q] = s.armed[q] || t.Arm
			}
		}
	}
	if len(out.Jobs) > 0 {
		s.served = out.Jobs
	} else {
		s.served = nil
	}
	if fate == 2 {
		s.broken = true
		return leases.Answer{}, errLost
	}
	return out, nil
}

func (s *fakeSide) Served(_ string, number int64) (int64, []leases.Job, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	last := s.heard
	s.heard = max(s.heard, number)
	return last, s.served, nil
}

func (s *fakeSide) Tracks() bool { return !s.deaf }
func (s *fakeSide) Broken() bool { return s.broken }
func (s *fakeSide) Close()       {}

func (s *fakeSide) Heed() (queues []string, all bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	queues, s.changed = s.changed, nil
	return queues, false, nil
}

func (s *fakeSide) Unwanted(_ context.Context, jobs []leases.Job) (ends []leased.End) {
	for _, j := range jobs {
		if s.unwanted[j.ID] {
			ends = append(ends, endOf(j, leased.Cancelled))
		}
	}
	return ends
}

// push puts jobs into a queue.
func (f *fakeRedis) push(queue string, ids ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.queues[queue] = append(f.queues[queue], ids...)
	f.notify(queue)
}

func (f *fakeRedis) notify(queue string) {
	if f.armed[queue] && !f.deaf {
		delete(f.armed, queue)
		f.changed = append(f.changed, queue)
		f.d.wake()
	}
}

// putBack puts a job to the head of its queue.
func (f *fakeRedis) putBack(j leases.Job) {
	delete(f.leases, j.Place())
	f.returned = append(f.returned, j.ID)
	f.queues[j.Queue] = append([]string{j.ID}, f.queues[j.Queue]...)
	f.notify(j.Queue)
}

// newFake starts a desk with a fake Redis. The caller's bubble ends with it.
func newFake(t *testing.T) *fakeRedis {
	f := &fakeRedis{queues: make(map[string][]string), leases: make(map[string]string), armed: make(map[string]bool), unwanted: make(map[string]bool)}
	d := newDesk(clock.System)
	d.server, d.count = "s", new(counts)
	d.saw, d.failed, d.keyOf, d.now = func(int64) {}, func(error) {}, func(q string) string { return "queue:" + q }, func() int64 { return time.Now().UnixMilli() }
	d.alone, d.dial, d.given = func() bool { return f.alone }, f.dial, func(time.Duration) {}
	d.ends = func(ends ...leased.End) {
		f.mu.Lock()
		defer f.mu.Unlock()
		for _, e := range ends {
			if e.Kind == leased.Unseen {
				f.putBack(leases.Job{Queue: e.Queue, ID: e.ID})
			}
		}
	}
	d.unseen = func(_ context.Context, jobs []leases.Job) error {
		f.mu.Lock()
		defer f.mu.Unlock()
		for _, j := range slices.Backward(jobs) {
			if f.leases[j.Place()] == j.Lease {
				f.putBack(j)
			}
		}
		return nil
	}
	f.d = d
	go d.run(t.Context())
	t.Cleanup(func() {
		d.stop()
		<-d.done
	})
	return f
}

// client is a consumer with an ask.
type client struct {
	*ask
	d *desk
}

// wants asks for jobs.
func (f *fakeRedis) wants(t *testing.T, wait time.Duration, count int, queues ...string) client {
	t.Helper()
	x, err := f.d.ask(&Ask{Queues: queues, TTR: time.Minute, Wait: wait, Count: count})
	if err != nil {
		t.Fatal(err)
	}
	f.d.wake()
	return client{x, f.d}
}

// got returns what a client has now: the ids, "-" for none, "…" while it waits.
func (c client) got() string {
	select {
	case r := <-c.answer:
		if r.err != nil {
			return "error: " + r.err.Error()
		}
		if len(r.jobs) == 0 {
			return "-"
		}
		var ids []string
		for _, j := range r.jobs {
			ids = append(ids, j.ID)
		}
		return strings.Join(ids, " ")
	default:
		return "…"
	}
}

func check(t *testing.T, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %q, want %q", what, got, want)
	}
}

// pass lets time pass, and then all goroutines come to rest.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// came returns how many turns have come.
func (f *fakeRedis) came() int { return len(f.all()) }

func (f *fakeRedis) all() []leases.Turn {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.turns
}

// back returns the jobs that were put back.
func (f *fakeRedis) back() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return fmt.Sprint(f.returned)
}

func (f *fakeRedis) queue(name string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return fmt.Sprint(f.queues[name])
}
