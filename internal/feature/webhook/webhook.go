// Package webhook writes the bad ends of a process's jobs for the deliverers of webhooks, while a webhook is announced. While none is,
// the process encodes and sends nothing.
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
	"github.com/goworker/goworker/internal/payload"
	"github.com/goworker/goworker/internal/resque/events"
	"github.com/goworker/goworker/internal/resque/webhook"
)

// proveWithin is how long Redis may take to say whether it lets a process write.
const proveWithin = 2 * time.Second

// mostKnown is how many announced webhooks a process knows at a time. Deliverers announce no more than webhook.MostWebhooks, and any
// program that writes to Redis can announce more.
const mostKnown = 4 * webhook.MostWebhooks

// Config is what Webhooks are given of their process.
type Config struct {
	Now     func() time.Time                                            // Redis's time
	Do      func(ctx context.Context, f func(c redis.Conn) error) error // a short call on one of the daemon's connections
	Process func() string                                               // as whom it is in the fleet
}

// Webhooks are the webhooks that a process writes for. All methods are safe for concurrent use.
type Webhooks struct {
	Config
	base   part.Base
	store  webhook.Store
	seat   Seat            // its own, which it holds
	ctx    context.Context // ends with the last job
	cancel context.CancelFunc
	proofs sync.WaitGroup

	wanted atomic.Pointer[[]hook] // the webhooks that the process writes for; nil: there are none

	mu    sync.Mutex
	known map[string]*known
	said  logging.Once
}

// hook is a webhook that the process writes for.
type hook struct {
	name  string
	until time.Time // by this machine's clock
	kinds []string
	args  bool
}

// known is an announced webhook.
type known struct {
	hook
	value   string // the announcement
	proving bool
	proven  bool // Redis lets the process write
}

// New returns Webhooks of a process.
func New(b part.Base, c Config) *Webhooks {
	w := &Webhooks{Config: c, base: b, store: webhook.New(b.Store), known: make(map[string]*known)}
	w.ctx, w.cancel = context.WithCancel(context.Background())
	w.seat.Take(w)
	return w
}

// Feature makes the feature. It must come last in the list: then it sees an end as all other features have decided it.
func (w *Webhooks) Feature(d outcome.Deps) outcome.Feature {
	f := w.seat.Feature(d)
	f.Close = w.Close
	return f
}

// Close ends the proofs. Heard ignores announcements after it.
func (w *Webhooks) Close() {
	w.mu.Lock()
	w.cancel() // no proof begins after this
	w.mu.Unlock()
	w.proofs.Wait()
}

// Seat is where Webhooks take part in the ends of jobs. The features with which a client's servers end jobs are made once, while
// servers come and go: the last that came has the seat. A daemon's Webhooks have a seat of their own. All methods are safe for
// concurrent use.
type Seat struct{ held atomic.Pointer[Webhooks] }

// Take gives the seat to Webhooks.
func (s *Seat) Take(w *Webhooks) { s.held.Store(w) }

// Leave leaves the seat empty, if these Webhooks have it.
func (s *Seat) Leave(w *Webhooks) { s.held.CompareAndSwap(w, nil) }

// Feature makes the feature of those that have the seat. It comes last in the list.
func (s *Seat) Feature(outcome.Deps) outcome.Feature {
	return outcome.Feature{Name: "webhook", Bind: func(c *outcome.Class) outcome.Policy {
		if c == nil { // of bad ends
			return policy{seat: s}
		}
		return nil
	}}
}

// Heard hears an announcement, also again and again. One that is gone was lost with the notice, and holds until its time is over: its
// deliverers may be away, and this is for them.
func (w *Webhooks) Heard(name, value string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	k := w.known[name]
	if w.ctx.Err() != nil || k != nil && k.value == value || !webhook.IsName(name) {
		return
	}
	a, ok := webhook.ParseAnnouncement(value)
	if !ok {
		return
	}
	now := w.base.Clock.Now()
	maps.DeleteFunc(w.known, func(name string, k *known) (over bool) {
		if over = !now.Before(k.until); over {
			w.said.Over(name)
		}
		return over
	})
	asked := min(time.UnixMilli(a.Until).Sub(w.Now()), webhook.Announced)
	switch k = w.known[name]; {
	case asked <= 0:
		delete(w.known, name)
	case k == nil && len(w.known) >= mostKnown:
		if w.said.News("", "full") {
			w.base.Log.Warn("more webhooks are announced than a process writes for; this process ignores those that were announced last", "webhooks", mostKnown)
		}
	case k == nil:
		k = new(known)
		w.known[name] = k
		w.said.Over("")
		fallthrough
	default:
		k.hook, k.value = hook{name: name, until: now.Add(asked), kinds: a.Kinds, args: a.Arguments}, value
		if !k.proving { // a permission may have been given, or taken, since
			k.proving = true
			w.prove(name)
		}
	}
	w.publish()
}

// publish has Settle see what is known. The caller holds the mutex.
func (w *Webhooks) publish() {
	var wanted []hook
	now := w.base.Clock.Now()
	for _, name := range slices.Sorted(maps.Keys(w.known)) {
		if k := w.known[name]; k.proven && now.Before(k.until) && len(wanted) < webhook.MostWebhooks {
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
			if bad := errors.As(err, &refused) && conn.Classify(err) != conn.KindWait; err == nil || bad {
				w.proved(name, err)
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

// proved hears whether Redis lets the process write for a webhook. Where it does not, the next announcement tries it again.
func (w *Webhooks) proved(name string, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if k := w.known[name]; k != nil {
		k.proving, k.proven = false, err == nil
		w.publish()
	}
	if err == nil {
		w.said.Over(name)
	} else if w.said.News(name, err.Error()) {
		w.base.Log.Warn("Redis refuses the events of this process for a webhook, so the webhook lacks its failures; its jobs run all the same",
			"webhook", name, "error", err)
	}
}

// policy adds the event of a bad end.
type policy struct {
	outcome.None
	seat *Seat
}

// Settle adds the event to the commit, so Redis takes it with the end or not at all.
func (p policy) Settle(j *outcome.Job, o *outcome.Outcome) {
	w := p.seat.held.Load()
	if w == nil {
		return
	}
	hooks := w.wanted.Load()
	if hooks == nil {
		return
	}
	kind := o.BadEnd(j)
	if kind == "" {
		return
	}
	now := w.base.Clock.Now()
	var event, args []byte
	for _, h := range *hooks {
		if !now.Before(h.until) || !slices.Contains(h.kinds, kind) {
			continue
		}
		if event == nil {
			event, args = w.event(kind, j, o)
		}
		if h.args {
			o.Effects = append(o.Effects, w.store.Post(h.name, event, args))
		} else {
			o.Effects = append(o.Effects, w.store.Post(h.name, event, nil))
		}
	}
}

// event is what is said of an end, and the arguments of its job.
func (w *Webhooks) event(kind string, j *outcome.Job, o *outcome.Outcome) (event, args []byte) {
	name := func(text string) string { return logging.Shorten(text, events.MostName) }
	class, id, attempt, given := j.Name, j.ID, j.Attempt, j.Args
	if !j.Opened() { // a reaper puts a job back without reading it, unless a worker had it
		if read, err := payload.Parse(j.Payload); err == nil {
			class, id, attempt, given = read.Class, read.ID, read.Attempt, read.Args
		}
	}
	e := events.Event{
		Kind: kind, At: w.Now().UnixMilli(), Process: name(j.Process), Queue: name(j.Queue), Class: name(class), ID: name(id), Attempt: attempt,
	}
	if j.Place != "" { // a client had it, which is in no process
		e.Process = name(w.Process())
	}
	if j.Started && !j.Dead && !j.StartedAt.IsZero() {
		e.Took = float64(clock.Since(w.base.Clock, j.StartedAt).Microseconds()) / 1000
	}
	if o.Err != nil {
		e.Text = logging.Shorten(fmt.Sprint(o.Err), events.MostText)
	}
	if o.Failure != nil {
		e.Failure = o.Failure.String()
	}
	return e.Append(nil), arguments(given)
}

// arguments returns the arguments of a job as JSON; nil: they have too many bytes.
func arguments(given []json.RawMessage) []byte {
	size := 2
	for _, a := range given {
		size += len(a) + 1
	}
	if size > webhook.MostArgs {
		return nil
	}
	if given == nil {
		return []byte("[]")
	}
	text, err := json.Marshal(given)
	if err != nil || len(text) > webhook.MostArgs {
		return nil
	}
	return text
}
