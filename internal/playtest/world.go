package playtest

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/args"
	"github.com/goworker/goworker/internal/clock"
	"github.com/goworker/goworker/internal/conn"
	"github.com/goworker/goworker/internal/fleet"
	"github.com/goworker/goworker/internal/inflight"
	"github.com/goworker/goworker/internal/outcome"
	"github.com/goworker/goworker/internal/part"
	"github.com/goworker/goworker/internal/redistest"
	"github.com/goworker/goworker/internal/resque"
	"github.com/goworker/goworker/internal/resque/delayed"
)

// Slots is how many workers a process has.
const Slots = 3

const (
	maxPayload = 1 << 20
	mostDeaths = 1 // dead processes in which a job may be found; one more and it may be poison
)

// Ground is what all histories of a test share: a Redis.
type Ground struct {
	Store  resque.Store
	Conn   redis.Conn
	Dialer conn.Dialer
	pool   *conn.Pool
}

// NewGround starts a Redis.
func NewGround(t *testing.T) *Ground {
	server := redistest.Start(t)
	dialer, err := conn.NewDialer(t.Context(), conn.Config{URI: "unix://" + server.Socket()}, nil)
	if err != nil {
		t.Fatal(err)
	}
	g := &Ground{Store: resque.New(""), Conn: server.Dial(t), Dialer: dialer, pool: conn.NewPool(dialer, 1)}
	t.Cleanup(func() { g.pool.Close(errors.New("closed")) })
	return g
}

// Rules are those of a world: what its processes run, and who hears of ends.
type Rules struct {
	Queues   []string
	Classes  outcome.Classes
	Features []func(outcome.Deps) outcome.Feature
	// Ended makes of a job's end what a model wants to know of it when it is committed.
	Ended func(payload []byte, o *outcome.Outcome, j *outcome.Job) any
	// Committed is called for each end that Redis has taken, in that order. A plain one is of a job without effects.
	Committed func(end any, plain bool)
	// Poison is called for a job that a reaper has filed.
	Poison func(payload []byte)
}

// World is one history: its processes, and what is broken.
type World struct {
	*Ground
	Rules
	Now     time.Time // by which suspects are on trial
	Procs   []*Process
	Spoiled []string // keys that hold another program's text
	Calm    bool     // no more trouble comes
	Kills   int
	Refused int
}

// NewWorld begins a history in an empty Redis.
func (g *Ground) NewWorld() *World {
	w := &World{Ground: g, Now: clock.System.Now()}
	w.Do("FLUSHALL")
	return w
}

// Close lets all handlers return.
func (w *World) Close() {
	for _, p := range w.Procs {
		p.Kill()
		p.Set.Close()
	}
}

// Must ends the history if there is an error.
func (*World) Must(err error) {
	if err != nil {
		Fatalf("%v", err)
	}
}

// Do sends a command.
func (w *World) Do(command string, args ...any) any {
	reply, err := w.Conn.Do(command, args...)
	w.Must(err)
	return reply
}

// Number sends a command that replies with a number.
func (w *World) Number(command string, args ...any) int {
	n, err := redis.Int(w.Do(command, args...), nil)
	w.Must(err)
	return n
}

// List sends a command that replies with a list.
func (w *World) List(command string, args ...any) []string {
	l, err := redis.Strings(w.Do(command, args...), nil)
	w.Must(err)
	return l
}

// Classes are what handlers are registered for. Only their options matter.
type Classes map[string]*outcome.Class

// Class finds a class.
func (c Classes) Class(name string) *outcome.Class { return c[name] }

// Unknown is the error of a job of another class.
func (Classes) Unknown(class string) error { return fmt.Errorf("unknown class %s", class) }

// Misfit is the error of a job whose arguments do not fit its class.
func (Classes) Misfit(class string, e *args.Error) error {
	return fmt.Errorf("misfit %s: %v", class, e)
}

// Enter has a process enter the fleet.
func (w *World) Enter() *Process {
	n := len(w.Procs)
	id := fmt.Sprint("p", n)
	queues := fmt.Sprint(w.Queues)
	p := &Process{w: w, ends: make(map[int64]any), Process: resque.Process{
		ID: id, Host: "h", PID: n + 1, Version: "1", Queues: queues, Concurrency: Slots, Started: w.Now, IDHead: id + "-", IDQueues: queues,
	}}
	p.Set = outcome.New(outcome.Deps{
		Base: w.Base(slog.New(slog.DiscardHandler)),
		Time: clock.System, Settings: outcome.Settings{MaxPayload: maxPayload}, Do: w.pool.Do,
		Due: func(time.Duration) {},
		Running: func(yield func(*outcome.Job) bool) {
			for _, r := range p.Busy {
				if !yield(&r.Job) {
					return
				}
			}
		},
	}, w.Classes, w.Features...)
	p.rec = inflight.New(p, maxPayload)
	session := fleet.Enter(p.Process)
	session.SetApart(n % 2) // of half the processes all payloads are apart
	p.rec.Begin(session)
	w.Must(w.Store.Enter(w.Conn, p.Process, resque.LeasePeriod, w.Now))
	w.Procs = append(w.Procs, p)
	return p
}

// Base is what parts of this world stand on.
func (w *World) Base(log *slog.Logger) part.Base {
	return part.Base{Log: log, Store: w.Store, Dialer: w.Dialer, Clock: clock.System}
}

// Pump moves the delayed jobs to their queues, as if their time had come.
func (w *World) Pump() bool {
	if len(w.Spoiled) > 0 {
		return false
	}
	jobs := w.List("ZRANGE", w.Store.KeyOfSchedule(), 0, -1)
	if len(jobs) == 0 {
		return false
	}
	for _, member := range jobs {
		w.Do("ZADD", w.Store.KeyOfSchedule(), 1, member)
	}
	pump := delayed.Pump{Store: delayed.New(w.Store), By: "pump"}
	for w.Number("ZCARD", w.Store.KeyOfSchedule()) > 0 {
		_, err := pump.Own(w.Conn)
		w.Must(err)
	}
	return true
}

// Refusal reports whether Redis has refused a call because of a key that holds another program's text.
func (w *World) Refusal(err error) bool {
	if named := new(resque.KeyTypeError); len(w.Spoiled) > 0 && errors.As(err, &named) {
		if !slices.Contains(w.Spoiled, named.Key) {
			Fatalf("%v names another key than %s", err, w.Spoiled)
		}
		w.Refused++
		return true
	}
	return false
}
