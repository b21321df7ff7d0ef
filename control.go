package goworker

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/goworker/goworker/internal/control"
	"github.com/goworker/goworker/internal/fleet"
	"github.com/goworker/goworker/internal/health"
	"github.com/goworker/goworker/internal/part"
	"github.com/goworker/goworker/internal/payload"
	wire "github.com/goworker/goworker/internal/resque/control"
	"github.com/goworker/goworker/internal/roster"
	"github.com/goworker/goworker/internal/setting"
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

func (v Verb) own() control.Verb {
	own := control.Verb{Name: v.Name, Help: v.Help, Level: control.Full, Addressed: v.Addressed, Whole: true}
	if v.Harmless {
		own.Level = control.On
	}
	if v.Do != nil {
		own.Do = func(ctx context.Context, c *control.Call) (any, error) { return v.Do(ctx, c.Args) }
	}
	return own
}

// controlKey returns what reads the key of commands, which may be replaced while the program runs; nil: the settings name none.
func (c config) controlKey() func() ([]byte, error) {
	if c.ControlKeyFile == "" {
		return nil
	}
	return func() ([]byte, error) { return wire.ReadKey(c.ControlKeyFile) }
}

// newControl makes the part that obeys operators, with the verbs of every daemon and those of the program.
func newControl(b part.Base, c config, key func() ([]byte, error), p *poller, l *fleet.Lease, program control.Program, verbs []Verb) *control.Control {
	obeys := control.ParseLevel(c.Control)
	k := control.New(b, control.Config{Level: obeys, Key: key, Unsigned: c.ControlUnsigned, Common: program.Common, Now: l.Now, Since: l.Since, Process: l.Process})
	for _, v := range verbs {
		k.Add(v.own())
	}
	program.Ahead = p.ahead
	program.Hold = func(paused bool) { p.hold(byOperator, paused) }
	k.Add(program.Verbs(b.Clock)...)
	if obeys > control.Off {
		p.keeper.Noticed = k.Noticed
	}
	return k
}

// ahead lists the jobs that the poller holds and no worker has, as a command may ask.
func (p *poller) ahead(ctx context.Context) ([]wire.Job, error) {
	jobs := make(chan []wire.Job, 1)
	p.ask(func() {
		held := []wire.Job{}
		for _, t := range p.record.Waiting() {
			one := wire.Job{Queue: t.Queue, Ticket: t.Ticket}
			if parsed, err := payload.Parse(t.Payload); err == nil {
				one.Class, one.ID = parsed.Class, parsed.ID
			}
			held = append(held, one)
		}
		jobs <- held
	})
	select {
	case held := <-jobs:
		return held, nil
	case <-p.ended:
		return []wire.Job{}, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("the poller has not answered: %w", ctx.Err())
	}
}

// shown are the settings as an operator may see them: without a password, and without the values of program code.
func (c config) shown(present roster.List) (all []wire.Setting) {
	for _, s := range setting.Show(settingRows, &c.WorkerSettings, c.origins) {
		one := wire.Setting{Name: s.Field, Value: s.Value, Default: s.Constant, Source: s.Origin.String()}
		if s.Field == "QueuesString" {
			one.Value, one.Default = present.String(), false
		}
		all = append(all, one)
	}
	return all
}

// queuesOf says which queues a daemon works, and what keeps it from taking jobs.
func queuesOf(l roster.List, h health.Report) wire.Queues {
	return wire.Queues{Queues: l.String(), Order: l.Order, Ready: h.Ready, Reasons: append([]string{}, h.Reasons...)}
}
