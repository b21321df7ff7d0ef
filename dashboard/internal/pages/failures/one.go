package failures

import (
	"context"
	"net/url"

	"github.com/goworker/goworker/dashboard/internal/site"
	"github.com/goworker/goworker/inspect/groups"
)

// One is the page of one failure.
type One struct {
	*Record
	Before  []Near `json:"before"` // what failed shortly before, the last of these first
	After   []Near `json:"after"`
	Edit    bool   `json:"-"` // the form to edit and run it is open
	Form    *Form  `json:"-"`
	Outside string `json:"-"` // the address of another program's page of failures
}

// Near is a failure that happened shortly before or after.
type Near struct {
	ID        string    `json:"id"`
	Group     string    `json:"group"`
	Class     string    `json:"class"`
	Exception string    `json:"exception"`
	Queue     string    `json:"queue"`
	At        site.Time `json:"failed_at"`
	Retried   bool      `json:"retried"`
	Same      bool      `json:"same_group"`
	Here      bool      `json:"-"` // it is the failure itself
}

// near is how many neighbours are shown on each side.
const near = 5

// PageTitle names the page.
func (o *One) PageTitle() string { return "Failure of " + o.Class }

// Times are the neighbours with the failure among them, the newest first.
func (o *One) Times() (all []Near) {
	all = append(all, o.After...)
	all = append(all, Near{ID: o.ID, Class: o.Class, Exception: o.Exception, Queue: o.Queue, At: o.At, Group: o.Group, Same: true, Here: true})
	return append(all, o.Before...)
}

func loadOne(ctx context.Context, a *site.Ask) (any, error) {
	f, err := find(ctx, a)
	if err != nil {
		return nil, err
	}
	o := &One{Record: recordOf(a, f), Outside: outside(a.FailureURL)}
	x, _, err := index(ctx, a)
	if err != nil {
		return nil, err
	}
	before, later := x.Near(f.ID, seen(a), near)
	for n := len(before) - 1; n >= 0; n-- {
		o.Before = append(o.Before, nearOf(before[n], o.Group))
	}
	for n := len(later) - 1; n >= 0; n-- {
		o.After = append(o.After, nearOf(later[n], o.Group))
	}
	if o.Retryable && a.May("failure.edit", "queue", f.Queue, "class", f.Class, "id", f.ID) {
		o.Form, err = formOf(a, f)
		o.Edit = o.Form != nil && a.Param("edit") != ""
	}
	return o, err
}

func nearOf(n groups.Neighbour, group string) Near {
	return Near{
		ID: n.ID, Group: n.Group, Class: n.Class, Exception: n.Exception, Queue: n.Queue, At: site.Time{Time: n.At}, Retried: n.Retried, Same: n.Group == group,
	}
}

// outside is an address of http or https; "": it is none.
func outside(address string) string {
	if u, err := url.Parse(address); err != nil || u.Scheme != "http" && u.Scheme != "https" {
		return ""
	}
	return address
}
