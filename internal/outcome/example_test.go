package outcome_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/goworker/goworker/internal/args"
	"github.com/goworker/goworker/internal/clock"
	"github.com/goworker/goworker/internal/outcome"
	"github.com/goworker/goworker/internal/part"
	"github.com/goworker/goworker/internal/payload"
	"github.com/goworker/goworker/internal/resque"
)

// Tally is the option of a class whose ends are counted.
type Tally struct{}

// ErrBusy is what a handler returns to run again in a minute.
var ErrBusy = errors.New("busy")

// NewTally makes the feature. The field of the payload switches it on, so it also works in a
// process that does not know the class.
func NewTally(d outcome.Deps) outcome.Feature {
	return outcome.Feature{
		Name:  "tally",
		Field: "tally",
		Open:  func(*outcome.Job) outcome.Policy { return tally{deps: d} },
		Enqueue: func(p *outcome.Push) error {
			if _, counted := outcome.Option[Tally](p); counted {
				p.Fields = append(p.Fields, payload.TextField("tally", "on"))
			}
			return nil
		},
	}
}

type tally struct {
	outcome.None
	deps outcome.Deps
}

// Decide lets a busy job run again without using up an attempt.
func (t tally) Decide(_ context.Context, _ *outcome.Job, err error) (o outcome.Outcome, decided bool) {
	if !errors.Is(err, ErrBusy) {
		return o, false
	}
	return outcome.Outcome{State: outcome.Snoozed, Err: err, At: t.deps.Time.Now().Add(time.Minute)}, true
}

// Settle counts every end by its state. A count that Redis refuses holds no job up.
func (t tally) Settle(j *outcome.Job, o *outcome.Outcome) {
	count := resque.Command("HINCRBY", t.deps.Store.HashKey("tally:"+j.Name), o.State.String(), 1)
	o.Effects = append(o.Effects, count.Soft())
}

type classes map[string]*outcome.Class

func (c classes) Class(name string) *outcome.Class { return c[name] }
func (c classes) Unknown(class string) error       { return fmt.Errorf("no class %s", class) }
func (c classes) Misfit(_ string, e *args.Error) error {
	return fmt.Errorf("%v", e)
}

// docs/internals/seam.md shows the feature of this example.
func Example_feature() {
	report := &outcome.Class{Name: "Report"}
	outcome.Put(report, Tally{})
	deps := outcome.Deps{
		Base: part.Base{Store: resque.New(""), Clock: clock.System}, Time: clock.System,
		Settings: outcome.Settings{MaxPayload: 1 << 20},
	}
	set := outcome.New(deps, classes{"Report": report}, NewTally)

	push := outcome.Push{Queue: "low", Class: report}
	if err := set.Enqueue(&push); err != nil {
		fmt.Println(err)
	}
	bytes, err := payload.SetFields([]byte(`{"class":"Report","args":[]}`), push.Fields...)
	fmt.Println(string(bytes), err)

	run := func(bytes []byte, result error) {
		job := &outcome.Job{Reserved: resque.Reserved{Queue: "low", Payload: bytes}}
		var o outcome.Outcome
		set.Run(context.Background(), job, func(context.Context, *outcome.Job) error { return result }, &o)
		fmt.Println(o.State, o.Next.Place == outcome.Schedule, len(o.Effects))
	}
	run(bytes, nil)
	run(bytes, ErrBusy)
	run([]byte(`{"class":"Report","args":[]}`), nil)

	dead := set.End(&outcome.Job{Reserved: resque.Reserved{Queue: "low", Payload: bytes}, Started: true, Dead: true}, outcome.Failed, errors.New("killed"))
	fmt.Println(dead.State, len(dead.Effects))
	// Output:
	// {"class":"Report","args":[],"tally":"on"} <nil>
	// done false 1
	// snoozed true 2
	// done false 0
	// failed 1
}
