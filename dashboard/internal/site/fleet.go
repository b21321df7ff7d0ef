package site

import (
	"context"
	"log/slog"
	"reflect"
	"sync"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/control"
	"github.com/goworker/goworker/dashboard/internal/link"
	"github.com/goworker/goworker/dashboard/internal/live"
	"github.com/goworker/goworker/dashboard/internal/mask"
	"github.com/goworker/goworker/inspect"
)

const (
	// fresh is how old a Sample may be to serve a page.
	fresh = 2 * time.Second
	// rest is how long after the last question a fleet closes its connections and forgets its Samples.
	rest = 30 * time.Second
	// patience is how long a page waits for Redis.
	patience = 10 * time.Second
)

// Client is what a fleet needs of a *goworker.Client.
type Client interface {
	Inspect() *inspect.Inspector
	Enqueue(ctx context.Context, job *goworker.Job, opts ...goworker.EnqueueOption) (goworker.Receipt, error)
	Namespace() string
}

// Fleet is one Resque, with what the dashboard knows of it while a reader looks. It is safe for concurrent use.
type Fleet struct {
	Name    string
	Client  Client
	Control *control.Control
	Hub     *live.Hub

	link *link.Link
	in   *inspect.Inspector
	log  *slog.Logger
	wait time.Duration   // see rest
	life context.Context // of what runs in the background
	die  context.CancelFunc
	runs sync.WaitGroup

	mu        sync.Mutex
	base      *Base
	looking   chan struct{} // closed when the look under way ends; nil: there is none
	failed    error         // of the last look
	trail     trail
	samples   []inspect.Sample // of the last ten seconds, the oldest first
	groups    *grouping        // of failures; nil: nobody has asked for them
	used      time.Time
	idle      *time.Timer
	closed    bool
	kept      map[string]*kept
	held      map[reflect.Type]any // see Held
	busy      int                  // operations that run in the background
	operating bool                 // an operation runs, here or elsewhere: the last list of them says so
	refuses   string               // why Redis takes no changes; "": it does
	asked     bool                 // whether it takes changes
}

// Base is what every page knows: the newest Sample, and what happened between the last ones.
type Base struct {
	inspect.Sample
	Rates  inspect.Rates  // of the last ten seconds, as far as samples were taken
	Before inspect.Sample // the oldest one of the last ten seconds; zero: there is none
	Taken  time.Time      // by this machine's clock
	Cost   *link.Cost
}

// Now is Redis's time, which goes on since the Sample was taken.
func (b *Base) Now() time.Time {
	if b == nil || b.Sample.At.IsZero() {
		return time.Now()
	}
	return b.Sample.At.Add(time.Since(b.Taken))
}

// NewFleet returns a fleet. It asks Redis nothing until it is used.
func NewFleet(name string, client Client, ctl *control.Control, masks *mask.Masker, hub live.Settings) *Fleet {
	f := &Fleet{Name: name, Client: client, Control: ctl, link: link.Open(client.Inspect()), kept: make(map[string]*kept), held: make(map[reflect.Type]any), wait: rest, log: hub.Log}
	f.life, f.die = context.WithCancel(context.Background())
	f.in = f.link.Inspect().Masked(masks)
	if f.Control == nil {
		f.Control = control.New(f, control.Face(face))
	}
	hub.Look = func(ctx context.Context) error {
		_, err := f.look(ctx, 0)
		return err
	}
	hub.Count = func(ctx context.Context) (context.Context, func() int) {
		ctx, cost := link.Count(ctx)
		return ctx, cost.Commands
	}
	f.Hub = live.New(hub)
	return f
}

// Inspect returns the Inspector on the dashboard's own connections.
func (f *Fleet) Inspect() *inspect.Inspector { return f.in }

// Base returns what was seen of the fleet within the last two seconds.
func (f *Fleet) Base(ctx context.Context) (*Base, error) { return f.look(ctx, fresh) }

// Last returns what was seen last, nil if nothing was, and why there is nothing newer.
func (f *Fleet) Last() (*Base, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.base, f.failed
}

// look returns a Base that is not older than age. Those who ask at the same time share one look.
func (f *Fleet) look(ctx context.Context, age time.Duration) (*Base, error) {
	for {
		f.mu.Lock()
		f.touch()
		if f.base != nil && f.failed == nil && time.Since(f.base.Taken) < age {
			defer f.mu.Unlock()
			return f.base, nil
		}
		if f.looking == nil {
			done := make(chan struct{})
			f.looking = done
			before := f.base
			f.mu.Unlock()
			base, err := f.sample(ctx, before)
			f.mu.Lock()
			defer f.mu.Unlock()
			f.looking = nil
			close(done)
			if f.failed = err; err != nil {
				return nil, err
			}
			f.base = base
			f.trail.add(base)
			f.samples = append(f.samples, base.Sample)
			return base, nil
		}
		done := f.looking
		f.mu.Unlock()
		select {
		case <-done:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		age = max(age, fresh) // the look that has just ended serves
	}
}

func (f *Fleet) sample(ctx context.Context, before *Base) (*Base, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	ctx, cost := link.Count(ctx)
	var options []inspect.SampleOption
	if before != nil {
		options = append(options, inspect.SampleAfter(before.Sample))
	}
	s, err := f.in.Sample(ctx, options...)
	if err != nil {
		return nil, err
	}
	base := &Base{Sample: s, Taken: time.Now(), Cost: cost}
	if before != nil {
		f.mu.Lock()
		base.Rates = f.trail.rates(s.Rates(before.Sample), s)
		for len(f.samples) > 1 && s.At.Sub(f.samples[1].At) >= lately {
			f.samples = f.samples[1:]
		}
		base.Before = f.samples[0]
		f.mu.Unlock()
	}
	return base, nil
}

// touch notes that the fleet is used. mu is held.
func (f *Fleet) touch() {
	f.used = time.Now()
	if f.idle == nil && !f.closed {
		f.idle = time.AfterFunc(f.wait, f.idles)
	}
}

// idles closes the connections if nothing was asked for a while.
func (f *Fleet) idles() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if left := f.wait - time.Since(f.used); left > 0 || f.looking != nil || f.busy > 0 || f.groups.builds() || f.Hub.Streams() > 0 {
		if !f.closed {
			f.idle.Reset(max(left, time.Second))
		}
		return
	}
	f.idle = nil
	f.link.Rest()
	f.base, f.failed, f.asked, f.operating = nil, nil, false, false
	f.trail, f.samples, f.groups = trail{}, nil, nil
	clear(f.kept)
}

// Close ends the streams and closes the connections.
func (f *Fleet) Close(ctx context.Context) error {
	f.mu.Lock()
	f.closed = true
	if f.idle != nil {
		f.idle.Stop()
		f.idle = nil
	}
	f.mu.Unlock()
	err := f.Hub.Close(ctx)
	f.die()
	f.runs.Wait()
	f.link.Rest()
	return err
}

// kept is an answer that several pages share for a while.
type kept struct {
	mu    sync.Mutex
	value any
	at    time.Time
}

// Keep returns the answer of ask under a key, or one that is not older than age. Those who ask at the same time share one
// question. It keeps no error.
func Keep[T any](ctx context.Context, f *Fleet, key string, age time.Duration, ask func(ctx context.Context) (T, error)) (T, error) {
	f.mu.Lock()
	k := f.kept[key]
	if k == nil {
		if len(f.kept) >= mostKept {
			for other, k := range f.kept {
				if k.mu.TryLock() {
					if time.Since(k.at) > rest {
						delete(f.kept, other)
					}
					k.mu.Unlock()
				}
			}
		}
		k = new(kept)
		f.kept[key] = k
	}
	f.mu.Unlock()
	k.mu.Lock()
	defer k.mu.Unlock()
	if v, ok := k.value.(T); ok && time.Since(k.at) < age {
		return v, nil
	}
	v, err := ask(ctx)
	if err != nil {
		return v, err
	}
	k.value, k.at = v, time.Now()
	return v, nil
}

// seldom is how often a live page asks what costs Redis many commands.
const seldom = 10 * time.Second

// Seldom is Keep for answers that cost many commands: a live page asks each ten seconds, and a page that is opened asks at once.
func Seldom[T any](ctx context.Context, a *Ask, key string, ask func(ctx context.Context) (T, error)) (T, error) {
	if !a.Live() {
		a.Fleet.Forget(key)
	}
	return Keep(ctx, a.Fleet, key, seldom, ask)
}

// mostKept is how many answers are kept before old ones are dropped.
const mostKept = 256

// Forget drops a kept answer, because an action has changed what it says.
func (f *Fleet) Forget(key string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.kept, key)
}
