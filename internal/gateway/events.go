package gateway

import (
	"context"

	"github.com/goworker/goworker/internal/feature/events"
	"github.com/goworker/goworker/internal/httpjob"
	"github.com/goworker/goworker/internal/outcome"
	"github.com/goworker/goworker/internal/resque"
	"github.com/goworker/goworker/internal/resque/control"
	eventswire "github.com/goworker/goworker/internal/resque/events"
	"github.com/goworker/goworker/internal/taker"
)

// hearing makes what says to listeners what becomes of the jobs of this server. The renewals of the server's record read whether one
// asks for it.
func (g *Gateway) hearing() []taker.Rider {
	if g.n.Events == nil {
		return nil
	}
	g.events = events.New(g.n.Base, events.Config{Now: g.n.Time.Now, Process: func() string { return g.o.Server }})
	return []taker.Rider{&hearing{events: g.events, store: control.New(g.n.Store)}}
}

// hearing reads from the notice of processes what listeners ask for. Only renewals call it.
type hearing struct {
	events    *events.Events
	store     control.Store
	ends, all string // as it was heard last
}

// Load has a renewal read the notice. A server that may not read it says nothing to listeners.
func (h *hearing) Load(c *resque.Cargo) {
	if c.Last {
		return
	}
	h.store.CarryNotice(c, func(notice map[string]string, err error) {
		if err != nil {
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
	})
}

// Answered does nothing: Load has heard it.
func (*hearing) Answered(bool, resque.Due) {}

// startEvents begins to hear listeners.
func (g *Gateway) startEvents(ctx context.Context) {
	if g.events != nil {
		_ = g.events.Start(ctx)
		g.n.Events.Take(g.events)
	}
}

// stopEvents sends what is left. No call is under way any more.
func (g *Gateway) stopEvents(ctx context.Context) {
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
