package cancel_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/args"
	"github.com/goworker/goworker/internal/clock"
	"github.com/goworker/goworker/internal/failure"
	"github.com/goworker/goworker/internal/feature/cancel"
	"github.com/goworker/goworker/internal/outcome"
	"github.com/goworker/goworker/internal/part"
	"github.com/goworker/goworker/internal/redistest"
	"github.com/goworker/goworker/internal/resque"
)

// registry knows one class.
type registry struct{ class outcome.Class }

func (r *registry) Class(name string) *outcome.Class {
	if name == r.class.Name {
		return &r.class
	}
	return nil
}

func (*registry) Unknown(class string) error { return errors.New("unknown class " + class) }

func (*registry) Misfit(class string, e *args.Error) error {
	return fmt.Errorf("misfit %s: %v", class, e)
}

// bundle is a Set with the feature alone, and a Redis with cancelled jobs.
type bundle struct {
	*outcome.Set
	t       *testing.T
	server  *redistest.Server
	conn    redis.Conn
	running []*outcome.Job
	silent  bool // Redis is not reached
}

func setup(t *testing.T) *bundle {
	t.Helper()
	t.Parallel()
	server := redistest.Start(t)
	b := &bundle{t: t, server: server, conn: server.Dial(t)}
	b.Set = outcome.New(outcome.Deps{
		Base: part.Base{Store: resque.New(""), Clock: clock.System}, Time: clock.System, Settings: outcome.Settings{MaxPayload: 1 << 20},
		Do: func(_ context.Context, f func(redis.Conn) error) error {
			if b.silent {
				return nil
			}
			return f(server.Dial(t))
		},
		Running: func(yield func(*outcome.Job) bool) { slices.Values(b.running)(yield) },
	}, &registry{outcome.Class{Name: "A"}}, cancel.New)
	return b
}

// cancelled makes these the cancelled jobs.
func (b *bundle) cancelled(entries ...string) {
	b.t.Helper()
	b.server.Do(b.t, "DEL", "resque:go:cancelled")
	for n, e := range entries {
		b.server.Do(b.t, "ZADD", "resque:go:cancelled", n, e)
	}
	if err := b.read(); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bundle) read() error {
	watched := b.Watched()
	if len(watched) != 1 || watched[0].Key != "resque:go:cancelled" {
		b.t.Fatalf("it watches %v", watched)
	}
	return watched[0].Read(b.conn)
}

func job(ticket int64, id string) *outcome.Job {
	raw := `{"class":"A","args":[]`
	if id != "" {
		raw += `,"id":"` + id + `"`
	}
	return &outcome.Job{Reserved: resque.Reserved{Ticket: ticket, Queue: "q", Payload: []byte(raw + "}")}, Process: "p"}
}

// run runs a job with a handler, and returns what became of it and whether the handler was called.
func (b *bundle) run(j *outcome.Job, handler func(context.Context) error) (o outcome.Outcome, called bool) {
	b.Run(context.Background(), j, func(ctx context.Context, _ *outcome.Job) error {
		called = true
		return handler(ctx)
	}, &o)
	return o, called
}

func nothing(context.Context) error { return nil }

// A job is cancelled by its id or its ticket, and takes all its entries along. Others are plain jobs.
func TestAdmit(t *testing.T) {
	b := setup(t)
	for name, test := range map[string]struct {
		entries []string
		job     *outcome.Job
		want    bool
	}{
		"by its id":                {[]string{"j:a", "j:b"}, job(1, "a"), true},
		"by its ticket":            {[]string{"t:p:1"}, job(1, ""), true},
		"by both":                  {[]string{"t:p:1", "j:a"}, job(1, "a"), true},
		"another id":               {[]string{"j:b"}, job(1, "a"), false},
		"another ticket":           {[]string{"t:p:2"}, job(1, ""), false},
		"of another process":       {[]string{"t:q:1"}, job(1, ""), false},
		"nothing is cancelled":     {nil, job(1, "a"), false},
		"an entry of another kind": {[]string{"w:a", "a"}, job(1, "a"), false},
	} {
		b.cancelled(test.entries...)
		o, called := b.run(test.job, nothing)
		if called == test.want || (o.State == outcome.Cancelled) != test.want || (len(o.Effects) > 0) != test.want || o.Plain() == test.want {
			t.Errorf("%s: %v, called %v, %d effects", name, o.State, called, len(o.Effects))
		}
		if test.want && (!errors.Is(o.Err, failure.ErrCancelled) || o.Counts != resque.CountsNothing) {
			t.Errorf("%s: %v, %v", name, o.Err, o.Counts)
		}
	}
}

// The copy of the set is older than a job that a later push with the id has made another one, or that was
// lifted: it runs, and its own end counts. Where Redis is silent the copy holds.
func TestLiftedUnread(t *testing.T) {
	b := setup(t)
	b.cancelled("j:a", "j:b")
	b.server.Do(t, "ZREM", "resque:go:cancelled", "j:a")
	failed := errors.New("its own failure")
	if o, called := b.run(job(1, "a"), func(context.Context) error { return failed }); !called || o.State != outcome.Failed || !errors.Is(o.Err, failed) || len(o.Effects) > 0 {
		t.Errorf("%v, %v, called %v, %d effects", o.State, o.Err, called, len(o.Effects))
	}
	stopped := job(2, "a")
	stopped.Started = true
	if o := b.End(stopped, outcome.Returned, failure.ErrShutdown); o.State != outcome.Returned {
		t.Errorf("stopped: %v", o.State)
	}
	if o, called := b.run(job(3, "b"), nothing); called || o.State != outcome.Cancelled {
		t.Errorf("the other one: %v, called %v", o.State, called)
	}
	b.silent = true
	if o, called := b.run(job(4, "b"), nothing); called || o.State != outcome.Cancelled {
		t.Errorf("without Redis: %v, called %v", o.State, called)
	}
	b.silent = false
	b.cancelled("j:a") // once more
	if o, called := b.run(job(5, "a"), nothing); called || o.State != outcome.Cancelled {
		t.Errorf("cancelled once more: %v, called %v", o.State, called)
	}
}

// The set is read between Admit and the handler, and while the handler runs. In both cases the job is
// found among those that run.
func TestCancelsWhatRuns(t *testing.T) {
	b := setup(t)
	j := job(1, "a")
	b.running = []*outcome.Job{job(2, "a"), j} // the first one was not read yet
	o, called := b.run(j, func(ctx context.Context) error {
		b.cancelled("j:a")
		if cause := context.Cause(ctx); !errors.Is(cause, failure.ErrCancelled) || cause == failure.ErrCancelled {
			t.Errorf("the cause is %v", cause)
		}
		return errors.New("anything")
	})
	if !called || o.State != outcome.Cancelled || len(o.Effects) != 1 {
		t.Errorf("%v, called %v, %d effects", o.State, called, len(o.Effects))
	}
	j = job(1, "b")
	b.running = []*outcome.Job{j}
	o, _ = b.run(j, func(context.Context) error {
		b.cancelled("j:b")
		b.cancelled() // it was lifted, too late
		return errors.New("anything")
	})
	if o.State != outcome.Cancelled || len(o.Effects) != 0 {
		t.Errorf("lifted too late: %v, %d effects", o.State, len(o.Effects))
	}
	j = job(1, "c")
	b.running = []*outcome.Job{j}
	o, _ = b.run(j, func(context.Context) error { b.cancelled("j:c"); return nil })
	if o.State != outcome.Done || len(o.Effects) != 1 {
		t.Errorf("done all the same: %v, %d effects", o.State, len(o.Effects))
	}
}

// A cancelled job that goes back because its process stops, lost its lease or died is over instead. One
// whose handler was not called goes back, and the next process finds the entry.
func TestSettle(t *testing.T) {
	b := setup(t)
	b.cancelled("j:a")
	for name, end := range map[string]func(*outcome.Job) outcome.Outcome{
		"stopped": func(j *outcome.Job) outcome.Outcome { return b.End(j, outcome.Returned, failure.ErrShutdown) },
		"died":    func(j *outcome.Job) outcome.Outcome { j.Dead = true; return b.End(j, outcome.Returned, nil) },
		"poison": func(j *outcome.Job) outcome.Outcome {
			j.Dead = true
			return b.End(j, outcome.Failed, &outcome.Poison{})
		},
		"its last lease ran out": func(j *outcome.Job) outcome.Outcome {
			j.Place = resque.PlaceOf("q", "a")
			return b.End(j, outcome.Failed, errors.New("the lease ran out"))
		},
	} {
		j := job(1, "a")
		j.Started = true
		if o := end(j); o.State != outcome.Cancelled || o.Next.Place != outcome.Nowhere || len(o.Effects) != 1 {
			t.Errorf("%s: %v, %+v, %d effects", name, o.State, o.Next, len(o.Effects))
		}
	}
	j := job(1, "")
	j.Place, j.Started = resque.PlaceOf("q", "a"), true
	if o := b.End(j, outcome.Failed, errors.New("the lease ran out")); o.State != outcome.Cancelled {
		t.Errorf("a job that got its id when it was given: %v", o.State)
	}
	j = job(1, "a")
	if o := b.End(j, outcome.Returned, nil); o.State != outcome.Returned || o.Next.Place != outcome.Head {
		t.Errorf("not started: %v, %+v", o.State, o.Next)
	}
}

// With more entries than a process keeps, Redis is asked about jobs with an id, also about those that run.
func TestMoreThanMost(t *testing.T) {
	b := setup(t)
	b.server.Do(t, "EVAL", `for n = 0, ARGV[1] do redis.call('ZADD', KEYS[1], n, 'j:' .. n) end`, 1, "resque:go:cancelled", cancel.Most)
	b.cancelled(append(b.server.List(t, "ZRANGE", "resque:go:cancelled", 0, -1), "t:p:7")...)
	for _, test := range []struct {
		job  *outcome.Job
		want outcome.State
	}{
		{job(1, "0"), outcome.Cancelled}, {job(1, "500"), outcome.Cancelled}, {job(1, "x"), outcome.Done}, {job(1, ""), outcome.Done}, {job(7, ""), outcome.Cancelled},
	} {
		if o, _ := b.run(test.job, nothing); o.State != test.want {
			t.Errorf("%s: %v, want %v", test.job.Payload, o.State, test.want)
		}
	}
	j := job(1, "runs")
	b.running = []*outcome.Job{j}
	o, _ := b.run(j, func(ctx context.Context) error {
		b.server.Do(t, "ZADD", "resque:go:cancelled", -1, "j:runs")
		if err := b.read(); err != nil {
			t.Error(err)
		}
		return ctx.Err()
	})
	if o.State != outcome.Cancelled || len(o.Effects) != 1 {
		t.Errorf("%v, %d effects", o.State, len(o.Effects))
	}
}

// A set of another type is an error, and no job counts as cancelled. A connection that is broken changes
// nothing.
func TestReadFails(t *testing.T) {
	b := setup(t)
	b.cancelled("j:a")
	_ = b.conn.Close()
	if b.read() == nil {
		t.Error("a broken connection is no error")
	}
	if o, _ := b.run(job(1, "a"), nothing); o.State != outcome.Cancelled {
		t.Error("a broken connection has made it forget")
	}
	b.conn = b.server.Dial(t)
	b.server.Do(t, "SET", "resque:go:cancelled", "x")
	if named := new(resque.KeyTypeError); !errors.As(b.read(), &named) {
		t.Error(b.read())
	}
	if o, _ := b.run(job(1, "a"), nothing); o.State != outcome.Done {
		t.Error(o.State)
	}
}

// Only a job whose id the program chose takes a cancel back.
func TestEnqueue(t *testing.T) {
	b := setup(t)
	for chosen, want := range map[bool]string{false: "", true: "resque:go:cancelled"} {
		p := &outcome.Push{Queue: "q", Name: "A", ID: "a", Chosen: chosen}
		if err := b.Enqueue(p); err != nil || p.Lifts.String() != want {
			t.Errorf("chosen %v: %v, %v", chosen, p.Lifts, err)
		}
	}
}
