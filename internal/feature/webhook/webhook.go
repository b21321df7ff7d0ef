// Package webhook has a process write how its jobs ended badly for the deliverers of webhooks, while one is announced. While none is,
// nothing is encoded or sent.
package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/clock"
	"github.com/goworker/goworker/internal/conn"
	"github.com/goworker/goworker/internal/logging"
	"github.com/goworker/goworker/internal/outcome"
	"github.com/goworker/goworker/internal/part"
	"github.com/goworker/goworker/internal/resque/events"
	"github.com/goworker/goworker/internal/resque/webhook"
)

// proveWithin is how long Redis may take to say whether it lets a process write.
const proveWithin = 2 * time.Second

// Config is what Webhooks are given of their process.
type Config struct {
	Now func() time.Time                                            // Redis's time
	Do  func(ctx context.Context, f func(c redis.Conn) error) error // a short call on one of the daemon's connections
}

// Webhooks are those that a process writes for. All methods are safe for concurrent use.
type Webhooks struct {
	Config
	base   part.Base
	store  webhook.Store
	ctx    context.Context // ends with the last job
	cancel context.CancelFunc
	proofs sync.WaitGroup

	wanted atomic.Pointer[[]hook] // those that the process writes for; nil: there are none

	mu    sync.Mutex
	known map[string]*known
}

// hook is a webhook that the process writes for.
type hook struct {
	name  string
	until time.Time // by this machine's clock
	kinds []string
	args  bool
}

// known is a webhook that was announced.
type known struct {
	hook
	proven bool // Redis lets the process write
}

// New returns Webhooks of a process.
func New(b part.Base, c Config) *Webhooks {
	w := &Webhooks{Config: c, base: b, store: webhook.New(b.Store), known: make(map[string]*known)}
	w.ctx, w.cancel = context.WithCancel(context.Background())
	return w
}

// Feature makes the feature. It comes last in the list: what it says of an end is what all features made of it.
func (w *Webhooks) Feature(outcome.Deps) outcome.Feature {
	return outcome.Feature{
		Name: "webhook",
		Bind: func(c *outcome.Class) outcome.Policy {
			if c == nil { // of bad ends
				return policy{w: w}
			}
			return nil
		},
		Close: func() {
			w.mu.Lock()
			w.cancel() // no proof begins after this
			w.mu.Unlock()
			w.proofs.Wait()
		},
	}
}

// Heard hears an announcement. One that is gone was lost with the notice, and holds until its time is over: its deliverers may be
// away, and this is for them.
func (w *Webhooks) Heard(name, value string) {
	a, ok := webhook.ParseAnnouncement(value)
	if !ok || !webhook.IsName(name) {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ctx.Err() != nil {
		return
	}
	k := w.known[name]
	if k == nil {
		k = new(known)
		w.known[name] = k
		w.prove(name)
	}
	asked := min(time.UnixMilli(a.Until).Sub(w.Now()), webhook.Announced)
	k.hook = hook{name: name, until: w.base.Clock.Now().Add(asked), kinds: a.Kinds, args: a.Arguments}
	if asked <= 0 {
		delete(w.known, name)
	}
	w.publish()
}

// publish has Settle see what is known. The caller holds the mutex.
func (w *Webhooks) publish() {
	var wanted []hook
	for _, name := range slices.Sorted(maps.Keys(w.known)) {
		if k := w.known[name]; k.proven && len(wanted) < webhook.MostWebhooks {
			wanted = append(wanted, k.hook)
		}
	}
	if wanted == nil {
		w.wanted.Store(nil)
		return
	}
	w.wanted.Store(&wanted)
}

// prove finds out whether Redis lets the process write for a webhook: a commit with a key that is refused would be refused whole.
func (w *Webhooks) prove(name string) {
	w.proofs.Go(func() {
		defer w.base.Catch("webhook")
		var retry part.Backoff
		for w.ctx.Err() == nil {
			ctx, cancel := context.WithTimeout(w.ctx, proveWithin)
			err := w.Do(ctx, func(c redis.Conn) error { return w.store.Prove(c, name) })
			cancel()
			var refused redis.Error
			switch {
			case err == nil:
				w.mu.Lock()
				if k := w.known[name]; k != nil {
					k.proven = true
					w.publish()
				}
				w.mu.Unlock()
				return
			case errors.As(err, &refused) && conn.Classify(err) != conn.KindWait:
				w.base.Log.Warn("Redis refuses what this process would write for a webhook, so the webhook lacks the failures of this process; the jobs run all the same",
					"webhook", name, "error", err)
				return
			}
			timer := w.base.Clock.NewTimer(retry.Next())
			select {
			case <-timer.C():
			case <-w.ctx.Done():
			}
			timer.Stop()
		}
	})
}

// policy says how a job ended badly.
type policy struct {
	outcome.None
	w *Webhooks
}

// Settle adds the event to the commit, so that it stands there with the end or not at all.
func (p policy) Settle(j *outcome.Job, o *outcome.Outcome) {
	hooks := p.w.wanted.Load()
	if hooks == nil {
		return
	}
	kind := o.BadEnd(j)
	if kind == "" {
		return
	}
	now := p.w.base.Clock.Now()
	var event, args []byte
	for _, h := range *hooks {
		if !now.Before(h.until) || !slices.Contains(h.kinds, kind) {
			continue
		}
		if event == nil {
			event, args = p.w.event(kind, j, o), arguments(j)
		}
		if h.args {
			o.Effects = append(o.Effects, p.w.store.Post(h.name, event, args))
		} else {
			o.Effects = append(o.Effects, p.w.store.Post(h.name, event, nil))
		}
	}
}

// event is what is said of an end.
func (w *Webhooks) event(kind string, j *outcome.Job, o *outcome.Outcome) []byte {
	name := func(text string) string { return logging.Shorten(text, events.MostName) }
	e := events.Event{
		Kind: kind, At: w.Now().UnixMilli(), Process: name(j.Process), Queue: name(j.Queue), Class: name(j.Name), ID: name(j.ID), Attempt: j.Attempt,
	}
	if j.Started && !j.Dead && !j.StartedAt.IsZero() {
		e.Took = float64(clock.Since(w.base.Clock, j.StartedAt).Microseconds()) / 1000
	}
	if o.Err != nil {
		e.Text = logging.Shorten(fmt.Sprint(o.Err), events.MostText)
	}
	return e.Append(nil)
}

// arguments are those of a job as JSON; nil: there are too many bytes of them.
func arguments(j *outcome.Job) []byte {
	size := 2
	for _, a := range j.Args {
		size += len(a) + 1
	}
	if size > webhook.MostArgs {
		return nil
	}
	if j.Args == nil {
		return []byte("[]")
	}
	text, err := json.Marshal(j.Args)
	if err != nil || len(text) > webhook.MostArgs {
		return nil
	}
	return text
}
