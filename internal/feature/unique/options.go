package unique

import (
	"errors"
	"fmt"
	"time"

	"github.com/goworker/goworker/internal/outcome"
	"github.com/goworker/goworker/internal/payload"
	"github.com/goworker/goworker/internal/resque"
)

// Shortest is the shortest TTL that Redis can give a lock.
const Shortest = time.Millisecond

// Options is the option of a job or a class that says how a job is unique.
type Options struct {
	Hold    resque.Hold
	Most    time.Duration // the TTL, except with resque.HoldTime
	Elapsed time.Duration // the TTL with resque.HoldTime
	Bounded bool          // the program gave Most
	Replace bool          // the job replaces a holder that waits

	Key func(*outcome.Push) string // names the lock; nil: class and arguments do
}

// Check returns what is wrong with the options.
func (o Options) Check() error {
	switch {
	case o.Hold == resque.HoldTime && o.Bounded:
		return errors.New("UntilElapsed and LockAtMost both say how long a unique job's lock lasts; leave one out")
	case o.ttl() < Shortest:
		return fmt.Errorf("a unique job's lock is to last %s; give it a millisecond or more", o.ttl())
	}
	return nil
}

func (o Options) ttl() time.Duration {
	if o.Hold == resque.HoldTime {
		return o.Elapsed
	}
	return o.Most
}

// field returns the TTL to write into the payload, for the process that runs the job and moves the lock.
// It is 0 for the usual TTL.
func (o Options) field() time.Duration {
	if o.Hold == resque.HoldStart || o.Most == AtMost {
		return 0
	}
	return o.Most
}

// lock returns the lock of a job that is to be enqueued.
func (o Options) lock(s resque.Store, p *outcome.Push) (l resque.Lock, err error) {
	l = resque.Lock{ID: p.MakeID(), Hold: o.Hold, Most: o.ttl(), Queue: p.Queue, At: p.At, Replace: o.Replace}
	if o.Key != nil {
		key := o.Key(p)
		if key == "" {
			return l, fmt.Errorf("the key by which a job of class %s is to be unique is empty", p.Name)
		}
		return s.Named(l, nil, key), nil
	}
	named, class := p.Payload, p.Name // producers that escape otherwise, or use an alias, must name the lock alike
	if p.Class != nil {
		class = p.Class.Name
	}
	if p.List != nil {
		named = payload.AppendList(nil, class, p.List)
	} else if p.Style != payload.Plain || class != p.Name {
		named, err = payload.Encode(class, p.Args, payload.Plain)
	}
	return s.Named(l, named, ""), err
}

// enqueue gives the job a lock. The payload says which, unless the lock does not end with the job. The zero Options are
// those of a job that takes none, whatever its class says.
func enqueue(d outcome.Deps, p *outcome.Push) error {
	o, ok := outcome.Option[Options](p)
	if !ok || o.Hold == "" {
		return nil
	}
	if err := o.Check(); err != nil {
		return err
	}
	l, err := o.lock(d.Store, p)
	if err != nil {
		return err
	}
	if o.Hold != resque.HoldTime {
		value := append(make([]byte, 0, 64), '"')
		value = append(resque.AppendLockField(value, o.Hold, l.Name, o.field()), '"')
		p.Fields = append(p.Fields, payload.Field{Name: "unique", Value: value})
	}
	if d.Clock != nil {
		l.Now = d.Clock.Now()
	}
	p.Guarded = append(p.Guarded, d.Store.Unique(l))
	return nil
}
