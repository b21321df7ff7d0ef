package goworker

import (
	"context"
	"encoding/json"

	"github.com/goworker/goworker/inspect"
	"github.com/goworker/goworker/internal/clock"
	"github.com/goworker/goworker/internal/control"
	"github.com/goworker/goworker/internal/part"
	wire "github.com/goworker/goworker/internal/resque/control"
)

// Verb is something that operators can ask a program to do while it runs, beside what every daemon does: to flush a cache, to say
// how large a pool is. See docs/remote-control.md.
type Verb struct {
	// Name is at most 64 small letters, digits and hyphens. A verb of goworker's own cannot be replaced.
	Name string

	// Help is one sentence that says what it does.
	Help string

	// Harmless says that processes with Control "on" do it too. Otherwise they need "full", and the command a signature.
	Harmless bool

	// Addressed says that a command for all processes is refused: the answer is large, or not to be asked of all.
	Addressed bool

	// Do does it. args is what the operator gave, as JSON; nil: nothing. What it returns is answered as JSON, and an error as its
	// text. The context ends when the command does. It runs in a goroutine of its own, and a panic is an answer too.
	Do func(ctx context.Context, args json.RawMessage) (any, error)
}

// AddVerb adds a verb, from the next run on. It panics if the verb has no name or no function. That is a mistake in the program.
func (d *Daemon) AddVerb(v Verb) {
	control.MustBeVerb(v.own())
	d.mu.Lock()
	defer d.mu.Unlock()
	d.verbs = append(d.verbs, v)
}

// AddVerb adds a verb to all shards; see Daemon.AddVerb.
func (s *Shards) AddVerb(v Verb) { s.each(func(d *Daemon) { d.AddVerb(v) }) }

func (v Verb) own() control.Verb {
	own := control.Verb{Name: v.Name, Help: v.Help, Level: control.Full, Addressed: v.Addressed}
	if v.Harmless {
		own.Level = control.On
	}
	if v.Do != nil {
		own.Do = func(ctx context.Context, c *control.Call) (any, error) { return v.Do(ctx, c.Args) }
	}
	return own
}

// controlKey reads the key of commands; nil: the settings name none.
func (c config) controlKey() ([]byte, error) {
	if c.ControlKeyFile == "" {
		return nil, nil
	}
	return wire.ReadKey(c.ControlKeyFile)
}

// newControl makes the part that obeys operators. The caller holds the mutex.
func (d *Daemon) newControl(key []byte) *control.Control {
	base := part.Base{Log: d.log, Outages: d.outages, Store: d.store, Dialer: d.dialer, Clock: clock.System, Crashed: d.crew.Crashed}
	level := control.ParseLevel(d.config.Control)
	k := control.New(base, control.Config{
		Level: level, Key: key, Unsigned: d.config.ControlUnsigned, Now: d.lease.Now, Process: d.lease.Process,
	})
	for _, v := range d.verbs {
		k.Add(v.own())
	}
	k.Add(control.Verb{Name: "ping", Help: "Answer", Do: func(context.Context, *control.Call) (any, error) { return nil, nil }})
	if level > control.Off {
		d.poller.keeper.Noticed = k.Noticed
	}
	return k
}

// Inspect returns what answers questions about queues, jobs, failures and workers: that of the daemon's Client.
func (d *Daemon) Inspect() *inspect.Inspector { return d.Client().Inspect() }

// Inspect returns what answers questions about all shards: that of their Client.
func (s *Shards) Inspect() *inspect.Inspector { return s.Client().Inspect() }
