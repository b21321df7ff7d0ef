// Package failures is the pages of failures: what fails, in groups and each, what the failures of a group share, and one failure
// with its job. It retries, removes, edits and exports them. A failure is always known by its id, never by its place.
package failures

import (
	"context"
	"embed"
	"errors"
	"time"

	"github.com/goworker/goworker/dashboard/internal/guard"
	"github.com/goworker/goworker/dashboard/internal/site"
	"github.com/goworker/goworker/inspect"
	"github.com/goworker/goworker/inspect/groups"
)

//go:embed *.html
var files embed.FS

const (
	rows    = 50 // of a list
	members = 20 // of a group, beside one of them

	// searching is how long a page waits for a search of failures; what is left is on the next page.
	searching = 150 * time.Millisecond
)

// Pages are the pages of failures.
func Pages() []*site.Page {
	return []*site.Page{
		{Path: "/failures", Tab: "failures", Title: "Failures", Load: loadList, Data: (*List)(nil), Params: []string{"by", "q", "since", "until", "sort", "after"}, Template: "failures.html each.html parts.html", Files: files},
		{Path: "/failures/groups/{gid}", Tab: "failures", Load: loadGroup, Data: (*GroupPage)(nil), Params: []string{"id", "after"}, Template: "group.html record.html parts.html", Files: files},
		{Path: "/failures/{id}", Tab: "failures", Still: true, Load: loadOne, Data: (*One)(nil), Template: "failure.html record.html parts.html", Files: files},
		{Path: "/failures/export", Tab: "failures", Write: export},
	}
}

// Actions are what is done with failures.
func Actions() []*site.Action {
	return []*site.Action{
		{Name: "failure.retry", Path: "/failures/{id}/retry", Role: guard.Operator, Do: retry},
		{Name: "failure.retry", Path: "/failures/retry", Role: guard.Operator, Do: retryMany},
		{Name: "failure.retry", Path: "/failures/groups/{gid}/retry", Role: guard.Operator, Do: retryGroup},
		{Name: "failure.again", Path: "/failures/{id}/again", Role: guard.Operator, Do: again},
		{Name: "failure.remove", Path: "/failures/{id}/remove", Role: guard.Admin, Do: remove},
		{Name: "failure.remove", Path: "/failures/remove", Role: guard.Admin, Do: removeMany},
		{Name: "failure.remove", Path: "/failures/groups/{gid}/remove", Role: guard.Admin, Do: removeGroup},
		{Name: "failure.edit", Path: "/failures/{id}/edit", Role: guard.Admin, Do: edit},
	}
}

// index returns the failures in groups.
func index(ctx context.Context, a *site.Ask) (*groups.Index, groups.Progress, error) {
	return a.Fleet.Groups(ctx)
}

// seen is what the user sees of the index.
func seen(a *site.Ask) (f groups.Filter) {
	if !a.User.Whole() {
		f.Queues = a.Sees
	}
	return f
}

// find returns the failure of the page's path. One that the user does not see is not there.
func find(ctx context.Context, a *site.Ask) (inspect.Failure, error) {
	x, _, err := index(ctx, a)
	if err != nil {
		return inspect.Failure{}, err
	}
	found, err := x.Find(ctx, a.Path("id"))
	if err != nil && len(found) == 0 {
		return inspect.Failure{}, err
	}
	if len(found) == 0 || !a.Sees(found[0].Queue) {
		return inspect.Failure{}, gone(a.Path("id"))
	}
	return found[0], nil
}

// gone is the error of a failure that is not in its list.
func gone(id string) error {
	return site.Missing("there is no failure %s: it was removed, by this dashboard or by another program, or the list was cleared", id)
}

// unseen is the filter of failures whose queue the user does not see, for lists that were read.
func unseen(a *site.Ask) func(e inspect.Entry) bool {
	return func(e inspect.Entry) bool { return !a.Sees(e.Queue) }
}

// full reports whether an operation was not made because two others run.
func full(err error) bool { return errors.Is(err, inspect.ErrOperationsFull) }
