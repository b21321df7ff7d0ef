package inspect_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/inspect"
	"github.com/goworker/goworker/internal/redistest"
	"github.com/goworker/goworker/internal/resque"
)

// lossy is a Redis whose connections break in steps of operations.
type lossy struct {
	*lender
	steps atomic.Int64
	// step is called with the number of each step, from 1, and with its keys and values, before Redis has it. made: Redis makes the
	// step. lost: its answer does not come.
	step  func(n int64, args string) (made, lost bool)
	after func(n int64) // is called when the answer to a step has come, or was lost
	read  func()        // is called before a list in the bin is read
	fails func()        // is called before failures are read
}

func (l *lossy) Do(ctx context.Context, f func(s resque.Store, c redis.Conn) error) error {
	before := l.steps.Load()
	err := l.lender.Do(ctx, func(s resque.Store, c redis.Conn) error { return f(s, &lossyConn{Conn: c, l: l}) })
	if n := l.steps.Load(); n > before && l.after != nil {
		l.after(n)
	}
	return err
}

type lossyConn struct {
	redis.Conn
	l    *lossy
	lost bool
}

func (c *lossyConn) Send(command string, args ...any) error {
	if text := fmt.Sprint(args...); strings.HasPrefix(command, "EVAL") && strings.Contains(text, "resque:go:bin:") {
		made, lost := c.l.step(c.l.steps.Add(1), text)
		if c.lost = lost; !made {
			return io.EOF
		}
	}
	return c.Conn.Send(command, args...)
}

func (c *lossyConn) Do(command string, args ...any) (any, error) {
	if command == "LRANGE" && c.l.read != nil && strings.Contains(fmt.Sprint(args...), "resque:go:bin:") {
		c.l.read()
	}
	if command == "LRANGE" && c.l.fails != nil && args[0] == "resque:failed" {
		c.l.fails()
	}
	return c.Conn.Do(command, args...)
}

// Receive waits for Redis's answer even if it is lost, so that the step is made by then.
func (c *lossyConn) Receive() (any, error) {
	reply, err := c.Conn.Receive()
	if err == nil && c.lost {
		return nil, io.EOF
	}
	return reply, err
}

// A workflow hears of its removed steps though the answer to the last change was lost, or an operator stopped the operation just then.
func TestOperationsTellWorkflows(t *testing.T) {
	i, server, l := setup(t)
	for name, stop := range map[string]bool{"lost": false, "stopped": true} {
		server.Do(t, "FLUSHALL")
		started(t, server, "W")
		op, err := i.Operations().Start(t.Context(), inspect.Plan{Verb: inspect.Drop, Query: inspect.Query{Queue: "q"}})
		if err != nil {
			t.Fatal(err)
		}
		breaks := &lossy{lender: l, step: func(n int64, _ string) (made, lost bool) { return true, n == 1 && !stop }}
		breaks.after = func(n int64) {
			if n == 1 && stop {
				_ = i.Operations().Stop(t.Context(), op.ID, "enough")
			}
		}
		for op, err = range inspect.New(breaks).Operations().Run(t.Context(), op.ID) {
			if err != nil && !stop {
				t.Error(err)
			}
		}
		want(t, name, map[bool]inspect.OperationState{false: inspect.OperationDone, true: inspect.OperationStopped}[stop], op.State, nil)
		w, err := i.Workflows().Get(t.Context(), "W")
		want(t, name, inspect.WorkflowCounts{Waiting: 1, Failed: 3}, w.Counts, err)
	}
}

// Steps of workflows are not put into the bin with their queue where the connection broke before they were removed.
func TestOperationsClearStepsAfterBreaks(t *testing.T) {
	i, server, l := setup(t)
	started(t, server, "W")
	server.Do(t, "RPUSH", "resque:queue:q", "{}")
	breaks := inspect.New(&lossy{lender: l, step: func(n int64, _ string) (made, lost bool) { return n > 1, n == 1 }})
	op := run(t, breaks, inspect.Plan{Verb: inspect.ClearQueue, Query: inspect.Query{Queue: "q"}})
	want(t, "cleared", "done 4 3 1", fmt.Sprint(op.State, " ", op.Done, " ", op.Ended, " ", op.Binned), nil)
	w, err := i.Workflows().Get(t.Context(), "W")
	want(t, "the workflow", inspect.WorkflowCounts{Waiting: 1, Failed: 3}, w.Counts, err)
}

// An operation goes on when the answer to a renewal of its lease is lost.
func TestOperationsRestAfterBreaks(t *testing.T) {
	_, server, l := setup(t)
	failures(t, server, 2)
	breaks := &lossy{lender: l, step: func(n int64, _ string) (made, lost bool) { return true, n == 2 }}
	op := run(t, inspect.New(breaks), inspect.Plan{Verb: inspect.Retry, Pace: 0.38}) // a job each 2.6 seconds; the lease is renewed after 2.5
	want(t, "retried", "done 2", fmt.Sprint(op.State, " ", op.Done), nil)
	if n := breaks.steps.Load(); n < 3 {
		t.Errorf("%d steps: the lease was not renewed", n)
	}
}

// A runner keeps its lease while a slow Redis reads it what its operation did: before a brake watches, and before it takes jobs back.
func TestOperationsRestWhileTheyRead(t *testing.T) {
	i, server, l := setup(t)
	failures(t, server, 2500)
	op, err := i.Operations().Start(t.Context(), inspect.Plan{Verb: inspect.Retry, Brake: inspect.Brake{Failed: 0.1}})
	if err != nil {
		t.Fatal(err)
	}
	for op, err = range i.Operations().Run(t.Context(), op.ID) {
		if op.Done >= 2250 || err != nil {
			break
		}
	}
	want(t, "broken off", int64(2250), op.Done, err)
	for _, undone := range []bool{false, true} {
		reads := 0
		slow := &lossy{lender: l, step: func(int64, string) (made, lost bool) { return true, false }}
		rested, steps := false, int64(0)
		slow.read = func() {
			if reads++; reads == 2 { // the first thousand of the jobs that went, behind the list of those that have ended
				steps = slow.steps.Load()
				time.Sleep(3 * time.Second) // the lease is renewed after 2.5
			}
			rested = rested || reads == 3 && slow.steps.Load() == steps+1
		}
		ops := inspect.New(slow).Operations()
		if undone {
			op = drive(t, ops.Undo(t.Context(), op.ID))
		} else {
			op = drive(t, ops.Run(t.Context(), op.ID))
		}
		want(t, fmt.Sprint("undone: ", undone, ", the lease was renewed"), true, rested, nil)
	}
	want(t, "taken back", "undone 2500 0", fmt.Sprint(op.State, " ", op.Back, " ", op.Gone), nil)
}

// A runner keeps its lease while it looks for the records of the failures whose jobs it takes back.
func TestOperationsRestWhileTheyFindFailures(t *testing.T) {
	i, server, l := setup(t)
	failures(t, server, 150)
	op := run(t, i, inspect.Plan{Verb: inspect.Retry})
	reads, rested, steps := 0, false, int64(0)
	slow := &lossy{lender: l, step: func(int64, string) (made, lost bool) { return true, false }}
	slow.fails = func() {
		if reads++; reads == 1 {
			steps = slow.steps.Load()
			time.Sleep(3 * time.Second) // the lease is renewed after 2.5
		}
		rested = rested || reads == 2 && slow.steps.Load() == steps+1
	}
	op = drive(t, inspect.New(slow).Operations().Undo(t.Context(), op.ID))
	want(t, "the lease was renewed", true, rested, nil)
	want(t, "taken back", "undone 150 0", fmt.Sprint(op.State, " ", op.Back, " ", op.Gone), nil)
}

// interrupted is a Redis whose connection its caller gives up when it has acquired an operation.
type interrupted struct {
	*lender
	cancel func()
}

func (l *interrupted) Do(ctx context.Context, f func(s resque.Store, c redis.Conn) error) error {
	return l.lender.Do(ctx, func(s resque.Store, c redis.Conn) error { return f(s, interruptedConn{c, l}) })
}

type interruptedConn struct {
	redis.Conn
	l *interrupted
}

func (c interruptedConn) Do(command string, args ...any) (any, error) {
	reply, err := c.Conn.Do(command, args...)
	if strings.HasPrefix(command, "EVAL") && err == nil && args[len(args)-1] == "run" {
		c.l.cancel()
		return nil, context.Canceled
	}
	return reply, err
}

// A runner whose context ends while it acquires an operation leaves no lease behind: another one goes on at once.
func TestOperationsAcquireInterrupted(t *testing.T) {
	i, server, l := setup(t)
	failures(t, server, 2)
	op, err := i.Operations().Start(t.Context(), inspect.Plan{Verb: inspect.Retry})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for op, err = range inspect.New(&interrupted{l, cancel}).Operations().Run(ctx, op.ID) {
	}
	if !errors.Is(err, context.Canceled) || ctx.Err() == nil {
		t.Errorf("it ends with %v", err)
	}
	op = drive(t, i.Operations().Run(t.Context(), op.ID))
	want(t, "retried", "done 2", fmt.Sprint(op.State, " ", op.Done), nil)
}

// A connection that breaks before a step or after it leaves no job of a whole queue, or of those that were given.
func TestOperationsAfterBreaks(t *testing.T) {
	i, server, l := setup(t)
	for _, made := range []bool{false, true} {
		server.Do(t, "FLUSHALL")
		server.Do(t, "SADD", "resque:queues", "mail")
		server.Do(t, "EVAL", `for n = 1, 1100 do redis.call('RPUSH', 'resque:queue:mail', '{"class":"A","args":[' .. n .. ']}') end`, 0)
		before := queue(t, server, "mail")
		breaks := inspect.New(&lossy{lender: l, step: func(n int64, _ string) (bool, bool) { return made || n%2 == 0, n%2 == 1 }})
		op := run(t, breaks, inspect.Plan{Verb: inspect.MoveTo, Query: inspect.Query{Queue: "mail", Places: []inspect.Place{inspect.Queued}}, Queue: "other"})
		want(t, fmt.Sprint("a queue, made ", made), "done 1100", fmt.Sprint(op.State, " ", op.Done), nil)
		want(t, "the other queue", before, queue(t, server, "other"), nil)

		server.Do(t, "FLUSHALL")
		everywhere(t, server)
		jobs := []inspect.Entry{one(t, i, id("mine")), one(t, i, id("laned")), one(t, i, inspect.Query{Class: "A", Places: []inspect.Place{inspect.Failed}})}
		breaks = inspect.New(&lossy{lender: l, step: func(n int64, _ string) (bool, bool) { return made || n > 1, n == 1 }})
		op, err := breaks.Operations().Start(t.Context(), inspect.Plan{Verb: inspect.Drop, Jobs: jobs})
		want(t, fmt.Sprint("given, made ", made), "done 3 0", fmt.Sprint(op.State, " ", op.Done, " ", op.Refused), err)
	}
}

// Given jobs of a long second, which one step does not take together, are all changed, and those that went meanwhile count as refused.
func TestOperationsOnALongSecond(t *testing.T) {
	i, server, _ := setup(t)
	server.Do(t, "EVAL", `redis.call('ZADD', 'resque:delayed_queue_schedule', 4000000000, 4000000000)
		for n = 1, 10000 do
			local item = '{"class":"' .. (n % 40 == 0 and 'B' or 'A') .. '","args":[' .. n .. '],"queue":"mail"}'
			redis.call('RPUSH', 'resque:delayed:4000000000', item)
			redis.call('SADD', 'resque:timestamps:' .. item, 'delayed:4000000000')
		end`, 0)
	var jobs []inspect.Entry
	for e, err := range i.All(t.Context(), inspect.Query{Class: "B", Places: []inspect.Place{inspect.Delayed}}) {
		if jobs = append(jobs, e); err != nil {
			t.Fatal(err)
		}
	}
	want(t, "found", 250, len(jobs), nil)
	for _, n := range []int{40, 10_000} {
		server.Do(t, "LREM", "resque:delayed:4000000000", 1, fmt.Sprintf(`{"class":"B","args":[%d],"queue":"mail"}`, n))
	}
	op, err := i.Operations().Start(t.Context(), inspect.Plan{Verb: inspect.Run, Jobs: jobs})
	want(t, "run", "done 248 2 jobs are no longer where they were found", fmt.Sprint(op.State, " ", op.Done, " ", op.Refused, " ", op.Refusal), err)
	want(t, "the queue", 248, len(queue(t, server, "mail")), nil)
}

// The program that changes given jobs is killed. No other program knows which they were, so none says that all is done.
func TestOperationsOnGivenJobsOfTheKilled(t *testing.T) {
	i, server, l := setup(t)
	halves := 0
	for nth := 1; ; nth++ {
		server.Do(t, "FLUSHALL")
		everywhere(t, server)
		jobs := []inspect.Entry{one(t, i, id("mine")), one(t, i, id("laned"))}
		mortal := redistest.NewMortal(nth, nth%2 == 0)
		dies := *l
		dies.mortal = mortal
		_, err := inspect.New(&dies).Operations().Start(mortal.Life(t.Context()), inspect.Plan{Verb: inspect.Drop, Jobs: jobs})
		if !mortal.Dead() {
			want(t, "alive", nil, err, nil)
			break
		}
		server.Do(t, "DEL", "resque:go:operating")
		all, err := i.Operations().List(t.Context())
		want(t, "operations", true, len(all) < 2, err)
		for _, op := range all {
			last, err := op, error(nil)
			for last, err = range i.Operations().Run(t.Context(), op.ID) {
			}
			if errors.Is(err, inspect.ErrOperationOver) {
				last, err = op, nil
			}
			whole := last.Done == 2
			if err != nil || whole != (last.State == inspect.OperationDone) || !whole && last.State != inspect.OperationStopped {
				t.Errorf("killed at %d: %+v, %v", nth, last, err)
			}
			if !whole {
				halves++
				want(t, "why", fmt.Sprintf("the program that changed 2 given jobs has ended after %d of them; find the others and change them", last.Done), last.Why, nil)
			}
			last = undo(t, i, op.ID)
			want(t, fmt.Sprint("killed at ", nth, ", taken back"), "undone 0", fmt.Sprint(last.State, " ", last.Gone), nil)
			one(t, i, id("mine"))
			one(t, i, id("laned"))
		}
	}
	if halves < 3 {
		t.Errorf("only %d operations were broken off", halves)
	}
}

// A workflow hears of steps that came into a queue while it was put into the bin, also where the program that did it was killed.
func TestOperationsClearStepsThatCome(t *testing.T) {
	i, server, l := setup(t)
	for _, before := range []bool{false, true} { // there is a workflow already
		for nth := 0; ; nth++ { // 0: it is not killed
			server.Do(t, "FLUSHALL")
			if before {
				started(t, server, "V")
			}
			server.Do(t, "RPUSH", "resque:queue:q", `{"class":"A","args":[]}`)
			server.Do(t, "SADD", "resque:queues", "q")
			op, err := i.Operations().Start(t.Context(), inspect.Plan{Verb: inspect.ClearQueue, Query: inspect.Query{Queue: "q"}})
			if err != nil {
				t.Fatal(err)
			}
			dies, late := *l, false
			dies.mortal = redistest.NewMortal(nth, nth%2 == 0)
			breaks := &lossy{lender: &dies, step: func(_ int64, args string) (made, lost bool) {
				if !late && strings.Contains(args, ":queue:qresque:go:bin:") { // the queue is about to be renamed
					late = true
					started(t, server, "W")
				}
				return true, false
			}}
			id := op.ID
			for range inspect.New(breaks).Operations().Run(dies.mortal.Life(t.Context()), id) {
			}
			if dies.mortal.Dead() {
				server.Do(t, "DEL", "resque:go:operating")
				for range i.Operations().Run(t.Context(), id) {
				}
			}
			op, err = i.Operations().Get(t.Context(), id)
			of := map[bool]int{true: 3}[before] + map[bool]int{true: 3}[late]
			waits := server.Int(t, "LLEN", "resque:queue:q") // a queue that was renamed keeps what comes behind the others
			if want := fmt.Sprintf("done %d %d 1", 1+of, of); err != nil || waits != 0 || want != fmt.Sprint(op.State, " ", op.Done, " ", op.Ended, " ", op.Binned) {
				t.Errorf("a workflow before: %v, killed at %d: %+v, not %s; %d jobs wait, %v", before, nth, op, want, waits, err)
			}
			for id, there := range map[string]bool{"V": before, "W": late} {
				if there {
					w, err := i.Workflows().Get(t.Context(), id)
					want(t, fmt.Sprintf("workflow %s, killed at %d", id, nth), inspect.WorkflowCounts{Waiting: 1, Failed: 3}, w.Counts, err)
				}
			}
			op = undo(t, i, id)
			want(t, "taken back", "undone 1 0 1", fmt.Sprint(op.State, " ", op.Back, " ", op.Gone, " ", len(queue(t, server, "q"))), nil)
			if t.Failed() || nth > 0 && !dies.mortal.Dead() {
				break
			}
		}
	}
}
