package cursor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/clock"
	"github.com/goworker/goworker/internal/failure"
	"github.com/goworker/goworker/internal/logging"
	"github.com/goworker/goworker/internal/outcome"
	"github.com/goworker/goworker/internal/part"
	"github.com/goworker/goworker/internal/redistest"
	"github.com/goworker/goworker/internal/resque"
)

// again is the error of a handler whose job runs again.
type again outcome.State

func (again) Error() string { return "again" }

// ends is the policy of such jobs.
type ends struct{ outcome.None }

func (ends) Decide(_ context.Context, _ *outcome.Job, err error) (o outcome.Outcome, decided bool) {
	state, decided := err.(again)
	return outcome.Outcome{State: outcome.State(state), Err: err}, decided
}

func newEnds(outcome.Deps) outcome.Feature {
	return outcome.Feature{Name: "ends", Bind: func(*outcome.Class) outcome.Policy { return ends{} }}
}

// world is one job, the processes that have run it, and what Redis must have of it.
type world struct {
	t       *testing.T
	r       *rand.Rand
	server  *redistest.Server
	store   resque.Store
	set     *outcome.Set
	process resque.Process
	n       int   // processes
	last    int64 // ticket of the process

	zombies []*life
	said    int            // the last number that was said
	stored  int            // the number that Redis has at least; 0: none
	since   bool           // a number was said since the key was removed
	once    map[string]int // what Redis has of blocks
	known   map[string]int // what this run knows of them
	ran     int            // blocks
	broken  bool           // the key is another program's
}

// life is one run of the job.
type life struct {
	ticket  int64
	process string
	do      chan func(ctx context.Context, r *Run) (end error, over bool)
	done    chan bool // after each
	ended   chan outcome.Outcome
}

const cursorKey = "resque:go:cursor:i"

func newWorld(t *testing.T, seed uint64) *world {
	server := redistest.Start(t)
	log := slog.New(slog.DiscardHandler)
	pool := &redis.Pool{MaxIdle: 4, Dial: func() (redis.Conn, error) { return server.Dial(t), nil }}
	t.Cleanup(func() { pool.Close() })
	w := &world{t: t, r: rand.New(rand.NewPCG(seed, 24)), server: server, store: resque.New(""), once: map[string]int{}, known: map[string]int{}}
	w.set = outcome.New(outcome.Deps{
		Base: part.Base{Log: log, Outages: logging.NewOutages(log, clock.System), Store: w.store, Clock: clock.System},
		Time: fleetTime{}, Settings: outcome.Settings{MaxPayload: 1 << 20},
		Do: func(_ context.Context, f func(redis.Conn) error) error {
			c := pool.Get()
			defer c.Close()
			return f(c)
		},
	}, classes{&outcome.Class{Name: "C"}}, newEnds, New)
	t.Cleanup(w.set.Close)
	w.enter()
	w.push()
	return w
}

func (w *world) push() {
	w.server.Do(w.t, "RPUSH", "resque:queue:q", `{"class":"C","args":[],"id":"i"}`)
}

// enter begins another process.
func (w *world) enter() {
	w.n, w.last = w.n+1, 0
	w.process = resque.Process{ID: fmt.Sprintf("host:%d:aaaaaaaa", w.n), Host: "host", PID: w.n, Concurrency: 1, IDHead: fmt.Sprintf("host.go:%d-", w.n), IDQueues: "q", Queues: "q"}
	if err := w.store.Enter(w.server.Dial(w.t), w.process, time.Hour, time.Now()); err != nil {
		w.t.Fatal(err)
	}
}

// exchange does one exchange of a process. One that was found dead is refused.
func (w *world) exchange(process string, x resque.Exchange) (out resque.Exchanged, err error) {
	x.Process, x.Epoch = process, 1
	c := w.server.Dial(w.t)
	defer c.Close()
	if err := w.store.Send(c, &x); err != nil {
		return out, err
	}
	return w.store.Receive(c, &x)
}

// begin reserves the job, and calls its handler.
func (w *world) begin() *life {
	w.known, w.since = map[string]int{}, false
	out, err := w.exchange(w.process.ID, resque.Exchange{Last: w.last, Want: 1, Asks: []resque.Ask{{Queue: "q"}}})
	if err != nil || len(out.Jobs) != 1 {
		w.t.Fatalf("reserved %v: %v", out.Jobs, err)
	}
	w.last = out.Jobs[0].Ticket
	l := &life{
		ticket: out.Jobs[0].Ticket, process: w.process.ID,
		do: make(chan func(context.Context, *Run) (error, bool)), done: make(chan bool), ended: make(chan outcome.Outcome, 1),
	}
	go func() {
		var o outcome.Outcome
		w.set.Run(context.Background(), &outcome.Job{Reserved: out.Jobs[0], Process: l.process}, func(ctx context.Context, _ *outcome.Job) error {
			for f := range l.do {
				r, err := Of(ctx, ctx)
				if err != nil {
					w.t.Error(err)
				}
				end, over := f(ctx, r)
				if over {
					return end
				}
				l.done <- true
			}
			return nil
		}, &o)
		l.ended <- o
	}()
	return l
}

// step has the run do something.
func (l *life) step(f func(ctx context.Context, r *Run)) {
	l.do <- func(ctx context.Context, r *Run) (error, bool) { f(ctx, r); return nil, false }
	<-l.done
}

// end ends the run with an error, and hands its outcome in: perhaps twice, as where the answer was lost.
func (w *world) end(l *life, with error) {
	l.do <- func(context.Context, *Run) (error, bool) { return with, true }
	o := <-l.ended
	ended := o.Ended(l.ticket)
	for range 1 + w.r.IntN(2) {
		_, _ = w.exchange(l.process, resque.Exchange{Ended: []resque.Ended{ended}})
	}
}

// kill has the process of a run found dead. Its handler goes on as a zombie.
func (w *world) kill(l *life) {
	c := w.server.Dial(w.t)
	defer c.Close()
	lease := w.server.Text(w.t, "ZSCORE", "resque:go:processes", l.process)
	if fenced, err := w.store.Fence(c, l.process, lease); !fenced {
		w.t.Fatalf("not fenced: %v", err)
	}
	if _, err := w.store.Recover(c, w.process, 3, time.Now(), w.set.Bury); err != nil {
		w.t.Fatal(err)
	}
	w.zombies = append(w.zombies, l)
	w.enter()
}

// state is what Redis has.
func (w *world) state() map[string]string {
	if w.broken {
		return map[string]string{"text": w.server.Text(w.t, "GET", cursorKey)}
	}
	fields := map[string]string{}
	list := w.server.List(w.t, "HGETALL", cursorKey)
	for i := 0; i < len(list); i += 2 {
		fields[list[i]] = list[i+1]
	}
	return fields
}

// write has the run write its cursor, and waits for that.
func (w *world) write(l *life) {
	l.step(func(ctx context.Context, r *Run) {
		switch err := r.write(ctx); {
		case w.broken:
		case err != nil:
			w.t.Error(err)
		case w.since:
			w.stored = w.said
		}
	})
}

// haunt has a zombie try everything. It changes nothing. What the living run has not written is written before, or else the
// writer could do that meanwhile.
func (w *world) haunt(zombie, living *life) {
	w.write(living)
	before := w.state()
	zombie.step(func(ctx context.Context, r *Run) {
		_ = r.Set(ctx, []byte("-1")) // may not know it yet
		write := r.write(ctx)
		_, once := r.Once(ctx, fmt.Sprint("late ", w.r.IntN(1000)), func(context.Context) ([]byte, error) { w.t.Error("a zombie ran a block"); return []byte("-1"), nil })
		_, get := r.Get(ctx)
		for _, err := range []error{write, r.Set(ctx, []byte("-1")), once, get} {
			if !errors.Is(err, failure.ErrNotHeld) {
				w.t.Errorf("a zombie got %v", err)
			}
		}
	})
	if after := w.state(); !maps.Equal(before, after) {
		w.t.Errorf("a zombie made %v of %v", after, before)
	}
}

// get compares where the run is with where it may be.
func (w *world) get(ctx context.Context, r *Run) {
	value, err := r.Get(ctx)
	at, _ := strconv.Atoi(string(value))
	switch {
	case w.broken:
		if err == nil {
			w.t.Errorf("it is at %q in another program's key", value)
		}
	case err != nil || at < w.stored || at > w.said:
		w.t.Errorf("it is at %d, %v; %d is written, and %d said", at, err, w.stored, w.said)
	}
	if err == nil {
		w.stored, w.said = at, at // what was said behind it is lost
	}
}

// block runs a block. In some the process dies, before what it returned is written.
func (w *world) block(ctx context.Context, r *Run, dies func()) (died bool) {
	name := fmt.Sprint("block ", w.r.IntN(6))
	died = w.r.IntN(8) == 0
	was, there := w.known[name]
	knew := there
	if !knew {
		was, there = w.once[name]
	}
	ran := false
	value, err := r.Once(ctx, name, func(context.Context) ([]byte, error) {
		if ran = true; died {
			dies()
		}
		w.ran++
		return []byte(strconv.Itoa(w.ran)), nil
	})
	got, _ := strconv.Atoi(string(value))
	switch {
	case ran && died:
		if !errors.Is(err, failure.ErrNotHeld) {
			w.t.Errorf("%s: the process died, and it returns %v", name, err)
		}
		return true
	case there && (ran || got != was || err != nil):
		w.t.Errorf("%s: ran %v, %d, %v; it returned %d before", name, ran, got, err, was)
	case !there && !w.broken && (!ran || err != nil):
		w.t.Errorf("%s: ran %v, %v", name, ran, err)
	case !there && w.broken && (ran || err == nil):
		w.t.Errorf("%s: ran %v in another program's key, %v", name, ran, err)
	}
	if err == nil && !knew {
		w.once[name], w.known[name] = got, got
	}
	return false
}

// forget is what the model knows after an operator has removed the key.
func (w *world) forget() { w.stored, w.since, w.once = 0, false, map[string]int{} }

// Whatever kills, retries, snoozes, zombies and operators do: a run goes on where the job was, at most behind what was said and
// not written before a kill, and exactly after any other end. A block that was written does not run again. A job that
// is done leaves nothing.
func TestModel(t *testing.T) {
	t.Parallel()
	steps := 1500
	if testing.Short() {
		steps = 300
	}
	for seed := range uint64(4) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, seed)
			counts := map[string]int{}
			l := w.begin()
			l.step(w.get)
			next := func(with error) {
				w.end(l, with)
				if w.since {
					w.stored = w.said
				}
				switch {
				case with == nil && !w.broken:
					if n := w.server.Int(t, "EXISTS", cursorKey); n != 0 {
						t.Error("a job that is done leaves its cursor")
					}
					w.forget()
					w.said = 0
					w.push()
				case with == nil:
					w.push()
				case with == error(errLuck):
					w.push() // an operator retries it
				}
				if w.broken { // what could not be written is lost
					w.server.Do(t, "DEL", cursorKey)
					w.forget()
					w.said, w.broken = 0, false
				}
				l = w.begin()
				l.step(w.get)
			}
			for range steps {
				if t.Failed() {
					break
				}
				switch act := w.r.IntN(100); {
				case act < 40:
					l.step(func(ctx context.Context, r *Run) {
						w.said++
						w.since = true
						if err := r.Set(ctx, []byte(strconv.Itoa(w.said))); err != nil && !w.broken && !resque.IsWrongType(err) { // of the write before
							t.Error(err)
						}
					})
				case act < 50:
					w.write(l)
				case act < 65:
					died := false
					l.step(func(ctx context.Context, r *Run) { died = w.block(ctx, r, func() { w.kill(l) }) })
					if died {
						counts["killed inside"]++
						l = w.begin()
						l.step(w.get)
					}
				case act < 72:
					counts["killed"]++
					w.kill(l)
					if w.broken {
						w.server.Do(t, "DEL", cursorKey)
						w.forget()
						w.broken = false
					}
					l = w.begin()
					l.step(w.get)
				case act < 80:
					counts["snoozed"]++
					next(again(outcome.Snoozed))
				case act < 86:
					counts["retried"]++
					next(again(outcome.Retried))
				case act < 90:
					counts["failed"]++
					next(errLuck)
				case act < 92:
					counts["done"]++
					next(nil)
				case act < 96 && len(w.zombies) > 0:
					counts["haunted"]++
					w.haunt(w.zombies[w.r.IntN(len(w.zombies))], l)
				case act < 98:
					counts["removed"]++
					w.server.Do(t, "DEL", cursorKey)
					w.forget()
					w.broken = false
				default:
					counts["another's"]++
					w.server.Do(t, "SET", cursorKey, "mine")
					w.forget()
					w.broken = true
				}
			}
			w.end(l, nil)
			for _, z := range w.zombies { // their ends are refused
				before := w.state()
				w.end(z, errLuck)
				if after := w.state(); !maps.Equal(before, after) {
					t.Errorf("the end of a zombie made %v of %v", after, before)
				}
			}
			t.Logf("%v; %d blocks ran", counts, w.ran)
		})
	}
}

var errLuck = errors.New("no luck")
