// Package clients is the page of programs that work over HTTP: the jobs that they hold, their tokens, and the servers that serve them.
package clients

import (
	"context"
	"embed"
	"fmt"
	"time"

	"github.com/goworker/goworker/dashboard/internal/guard"
	"github.com/goworker/goworker/dashboard/internal/site"
)

//go:embed *.html
var files embed.FS

const (
	// rows is how many rows a page lists.
	rows = 50
	// argBytes is how much of a job's arguments a row shows.
	argBytes = 300
)

// Pages are the pages of HTTP.
func Pages() []*site.Page {
	return []*site.Page{
		{Path: "/http", Tab: "http", Title: "HTTP", Load: load, Data: (*HTTP)(nil), Params: []string{"v", "after"}, Template: "http.html tokens.html", Files: files},
	}
}

// Actions are what is done with leases and tokens.
func Actions() []*site.Action {
	return []*site.Action{
		{Name: "lease.release", Path: "/http/leases/{queue}/{id}/release", Role: guard.Operator, Do: release},
		{Name: "token.create", Path: "/http/tokens/create", Role: guard.Admin, Whole: true, Do: create},
		{Name: "token.revoke", Path: "/http/tokens/{id}/revoke", Role: guard.Admin, Whole: true, Do: revoke},
		{Name: "token.rotate", Path: "/http/tokens/{id}/rotate", Role: guard.Admin, Whole: true, Do: rotate},
		{Name: "token.limits", Path: "/http/tokens/{id}/limits", Role: guard.Admin, Whole: true, Do: limit},
	}
}

// HTTP is the page /http.
type HTTP struct {
	View    string   `json:"view"` // leases or tokens
	Leases  []Lease  `json:"leases"`
	Total   *int64   `json:"leases_in_all"` // of the shard that the page is of; null for users who see some queues only
	Tokens  []Token  `json:"tokens"`
	Servers []Server `json:"servers"`
	Refused string   `json:"refused,omitempty"`
	Whole   bool     `json:"-"`
	site.Paged
}

// All is Total for a tab.
func (p *HTTP) All() int64 {
	if p.Total == nil {
		return 0
	}
	return *p.Total
}

// Lease is a job that a client holds.
type Lease struct {
	Queue string    `json:"queue"`
	Class string    `json:"class"`
	ID    string    `json:"id"`
	Lease string    `json:"lease"` // for lease.release
	Args  string    `json:"args"`  // in short
	Ends  site.Time `json:"ends"`
	Left  site.Span `json:"left_ms"` // not positive: it has ended
	Try   int       `json:"try"`
	Tries int       `json:"tries"`
	Shard string    `json:"shard,omitempty"`
}

// Server is a server that takes jobs for clients.
type Server struct {
	ID      string    `json:"id"`
	Host    string    `json:"host"`
	PID     int       `json:"pid"`
	Version string    `json:"version"`
	Address string    `json:"address"`
	Since   site.Time `json:"since"`
	Queues  []string  `json:"queues"`
	Waiting int       `json:"requests_waiting"`
	Shard   string    `json:"shard,omitempty"`
}

func load(ctx context.Context, a *site.Ask) (any, error) {
	page := &HTTP{View: a.Choice("v", "leases", "tokens"), Whole: a.User.Whole()}
	if page.Whole {
		for _, s := range a.Base.Servings {
			page.Servers = append(page.Servers, Server{
				ID: s.ID, Host: s.Host, PID: s.PID, Version: s.Version, Address: s.Address, Since: site.Time{Time: s.Since}, Queues: s.Queues, Waiting: s.Waiting, Shard: s.Shard,
			})
		}
	}
	var err error
	if page.View == "leases" {
		err = page.leases(ctx, a)
	} else {
		err = page.tokens(ctx, a)
	}
	if err != nil {
		if page.Refused = site.Refusal(err); page.Refused == "" {
			return nil, err
		}
	}
	return page, nil
}

func (p *HTTP) leases(ctx context.Context, a *site.Ask) error {
	found, err := a.In().Leases(ctx, a.Param("after"), rows)
	if err != nil {
		return err
	}
	p.Next = found.Next
	if p.Whole {
		p.Total = &found.Total
	}
	for _, j := range found.Jobs {
		if !a.Sees(j.Queue) {
			continue
		}
		p.Leases = append(p.Leases, Lease{
			Queue: j.Queue, Class: j.Class, ID: j.ID, Lease: j.LeaseID, Args: a.Masks.Brief(j.Payload, argBytes), Ends: site.Time{Time: j.Lease},
			Left: site.Span(j.Left), Try: j.Try, Tries: j.Tries, Shard: j.Shard,
		})
	}
	return nil
}

func release(ctx context.Context, a *site.Ask) (site.Outcome, error) {
	queue, id := a.Path("queue"), a.Path("id")
	if err := a.By().ReleaseLease(ctx, queue, id, a.Value("lease")); err != nil {
		return site.Outcome{}, err
	}
	return site.Outcome{Said: fmt.Sprintf("The lease of job %s has ended. Within five seconds the job goes back to queue %s, or is filed as failed if this was its last try.", id, queue), Done: 1}, nil
}

// Over reports whether the lease has ended, and the job waits for a process that puts it back.
func (l Lease) Over() bool { return l.Left <= 0 }

// For is how long the lease lasts still.
func (l Lease) For() time.Duration { return l.Left.D().Truncate(time.Second) }
