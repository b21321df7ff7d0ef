package gateway

import (
	"context"
	"strings"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/feature/events"
	"github.com/goworker/goworker/internal/feature/webhook"
	"github.com/goworker/goworker/internal/httpjob"
	"github.com/goworker/goworker/internal/outcome"
	"github.com/goworker/goworker/internal/resque"
	"github.com/goworker/goworker/internal/resque/control"
	eventswire "github.com/goworker/goworker/internal/resque/events"
	webhookwire "github.com/goworker/goworker/internal/resque/webhook"
	"github.com/goworker/goworker/internal/taker"
)

// hearing makes what says to listeners what becomes of the jobs of this server, and what writes for webhooks how they end badly. The
// renewals of the server's record read whether that is asked for.
func (g *Gateway) hearing(lend func(context.Context, func(redis.Conn) error) error) (riders []taker.Rider) {
	h := &hearing{store: control.New(g.n.Store)}
	process := func() string { return g.o.Server }
	if g.n.Events != nil {
		g.events = events.New(g.n.Base, events.Config{Now: g.n.Time.Now, Process: process})
		h.events = g.events
	}
	if g.n.Webhooks != nil {
		g.webhooks = webhook.New(g.n.Base, webhook.Config{Now: g.n.Time.Now, Do: lend, Process: process})
		h.webhooks = g.webhooks
	}
	if g.events != nil || g.webhooks != nil {
		riders = append(riders, h)
	}
	return riders
}

// hearing reads from the notice of processes what listeners and deliverers of webhooks ask for. Only renewals call it.
type hearing struct {
	events    *events.Events    // nil: none
	webhooks  *webhook.Webhooks // nil: none
	store     control.Store
	ends, all string // as it was heard last
}

// Load has a renewal read the notice. A server that may not read it says nothing to listeners, and writes nothing for webhooks.
func (h *hearing) Load(c *resque.Cargo) {
	if c.Last {
		return
	}
	h.store.CarryNotice(c, func(notice map[string]string, err error) {
		if err != nil {
			return
		}
		h.listeners(notice)
		for field, value := range notice {
			if name, is := strings.CutPrefix(field, webhookwire.Notice); is && h.webhooks != nil {
				h.webhooks.Heard(name, value)
			}
		}
	})
}

func (h *hearing) listeners(notice map[string]string) {
	if h.events == nil {
		return
	}
	if ends := notice[eventswire.EndsNotice]; ends != h.ends {
		h.ends = ends
		h.events.Ends(ends)
	}
	if all := notice[eventswire.AllNotice]; all != h.all {
		h.all = all
		h.events.All(all)
	}
}

// Answered does nothing: Load has heard it.
func (*hearing) Answered(bool, resque.Due) {}

// startEvents begins to hear listeners, and to write for webhooks.
func (g *Gateway) startEvents(ctx context.Context) {
	if g.webhooks != nil {
		g.n.Webhooks.Take(g.webhooks)
	}
	if g.events != nil {
		_ = g.events.Start(ctx)
		g.n.Events.Take(g.events)
	}
}

// stopEvents sends what is left. No call is under way any more.
func (g *Gateway) stopEvents(ctx context.Context) {
	if g.webhooks != nil {
		g.n.Webhooks.Leave(g.webhooks)
		g.webhooks.Close()
	}
	if g.events != nil {
		g.n.Events.Leave(g.events)
		_ = g.events.Stop(ctx)
		g.events.Close()
	}
}

// sayPublished says which jobs a client has published.
func (g *Gateway) sayPublished(jobs []draft) {
	if g.events == nil || !g.events.Wants() {
		return
	}
	for i := range jobs {
		class := jobs[i].Class
		if class == "" {
			class = httpjob.DefaultClass
		}
		g.events.Enqueued(jobs[i].Queue, class, jobs[i].id)
	}
}

// sayGiven says which jobs a client has got.
func (g *Gateway) sayGiven(jobs []Job) {
	if g.events == nil || !g.events.Wants() {
		return
	}
	for i := range jobs {
		g.events.Given(jobs[i].Queue, jobs[i].Parsed.Class, jobs[i].ID, jobs[i].Attempt)
	}
}

// sayDone says that a client has done a job whose payload nobody has read.
func (g *Gateway) sayDone(a Ack, class string) {
	if g.events != nil {
		g.events.Done(a.Queue, class, a.ID)
	}
}

// sayEnded says how a job has ended that a client had.
func (g *Gateway) sayEnded(j *outcome.Job, o *outcome.Outcome) {
	if g.events != nil {
		g.events.Ended(j, o)
	}
}
