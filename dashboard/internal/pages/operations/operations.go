// Package operations is the pages of changes of many jobs: how far they are, what the bin keeps of them, and who changed what.
package operations

import (
	"context"
	"embed"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/goworker/goworker/dashboard/internal/guard"
	"github.com/goworker/goworker/dashboard/internal/look"
	"github.com/goworker/goworker/dashboard/internal/site"
	"github.com/goworker/goworker/inspect"
)

//go:embed *.html
var files embed.FS

// rows is how many rows a page lists.
const rows = 50

// Pages are the pages of operations, of the bin and of the audit.
func Pages() []*site.Page {
	return []*site.Page{
		{Path: "/operations", Tab: "operations", Title: "Operations", Load: load, Data: (*List)(nil), Params: []string{"after"}, Template: "operations.html parts.html", Files: files},
		{Path: "/operations/{id}", Tab: "operations", Load: loadOne, Data: (*One)(nil), Template: "operation.html parts.html", Files: files},
		{Path: "/bin", Tab: "operations", Title: "Bin", Load: loadBin, Data: (*Bin)(nil), Params: []string{"after"}, Template: "bin.html parts.html", Files: files},
		{Path: "/audit", Tab: "audit", Title: "Audit log", Whole: true, Load: loadAudit, Data: (*Audit)(nil), Params: []string{"q", "after"}, Template: "audit.html", Files: files},
		{Path: "/audit/export", Tab: "audit", Title: "Audit log, to keep", Whole: true, Write: export},
	}
}

// Actions are what is done with operations and the bin.
func Actions() []*site.Action {
	return []*site.Action{
		{Name: "operation.run", Path: "/operations/{id}/run", Role: guard.Operator, Do: run},
		{Name: "operation.stop", Path: "/operations/{id}/stop", Role: guard.Operator, Do: stop},
		{Name: "operation.undo", Path: "/operations/{id}/undo", Role: guard.Operator, Do: undo},
		{Name: "bin.empty", Path: "/bin/empty", Role: guard.Admin, Whole: true, Do: empty},
	}
}

// List is the page /operations.
type List struct {
	Operations []site.Operation `json:"operations"`
	All        int              `json:"all"`
	Refused    string           `json:"refused,omitempty"` // what Redis does not permit
	site.Paged
}

func load(ctx context.Context, a *site.Ask) (any, error) {
	l := &List{}
	all, err := a.Operations(ctx)
	if err != nil {
		if l.Refused = site.Refusal(err); l.Refused == "" {
			return nil, err
		}
		return l, nil
	}
	l.All = len(all)
	from, err := behind(a.Param("after"), all, func(op inspect.Operation) string { return op.ID })
	if err != nil {
		return nil, err
	}
	for n, op := range all[from:] {
		if n == rows {
			l.Next = all[from+n-1].ID
			break
		}
		l.Operations = append(l.Operations, a.OperationOf(ctx, op))
	}
	return l, nil
}

// behind is the place in a list that follows the row of an id.
func behind[T any](after string, all []T, id func(T) string) (int, error) {
	if after == "" {
		return 0, nil
	}
	at := slices.IndexFunc(all, func(one T) bool { return id(one) == after })
	if at < 0 {
		return 0, site.Missing("this place of the list is gone; begin with its first page")
	}
	return at + 1, nil
}

// One is the page of an operation.
type One struct {
	site.Operation
	Bin []Binned `json:"bin"`
}

// PageTitle names the operation.
func (o *One) PageTitle() string { return o.Title() }

func loadOne(ctx context.Context, a *site.Ask) (any, error) {
	op, err := get(ctx, a)
	if err != nil {
		return nil, err
	}
	o := &One{Operation: a.OperationOf(ctx, op)}
	if op.Binned > 0 {
		found, err := a.In().Operations().Bin(ctx, op.ID)
		if err != nil {
			return nil, err
		}
		o.Bin = binned(found[:min(rows, len(found))])
	}
	return o, nil
}

// get returns the operation of the path, if the user sees it.
func get(ctx context.Context, a *site.Ask) (inspect.Operation, error) {
	op, err := a.In().Operations().Get(ctx, a.Path("id"))
	if err == nil && !a.SeesOperation(op) {
		err = inspect.ErrNoOperation
	}
	return op, err
}

func run(ctx context.Context, a *site.Ask) (site.Outcome, error) {
	op, err := get(ctx, a)
	switch {
	case err != nil:
		return site.Outcome{}, err
	case op.State == inspect.OperationRunning:
		return site.Outcome{}, fmt.Errorf("operation %s: %w", op.ID, inspect.ErrOperationBusy)
	case op.State == inspect.OperationDone && !op.Undoing, op.State == inspect.OperationUndone:
		return site.Outcome{}, fmt.Errorf("operation %s: %w", op.ID, inspect.ErrOperationOver)
	}
	if op.Undoing {
		a.Fleet.UndoOn(a.User.Name, op.ID)
		return goesOn(op, "Taking back goes on."), nil
	}
	a.Fleet.RunOn(a.User.Name, op.ID)
	return goesOn(op, "The operation goes on in the background."), nil
}

func goesOn(op inspect.Operation, said string) site.Outcome {
	return site.Outcome{Said: said, Operation: op.ID, Status: http.StatusAccepted, To: "/operations/" + op.ID}
}

func stop(ctx context.Context, a *site.Ask) (site.Outcome, error) {
	op, err := get(ctx, a)
	if err != nil {
		return site.Outcome{}, err
	}
	why := a.Value("why")
	if why == "" {
		why = "paused by " + a.User.Name
	}
	if err := a.By().Operations().Stop(ctx, op.ID, why); err != nil {
		return site.Outcome{}, err
	}
	a.Fleet.ForgetOperations()
	return site.Outcome{Said: fmt.Sprintf("The operation stands after %s. It can go on, or be taken back.", look.Plural(op.Done, "job", "jobs")), Done: 1, Operation: op.ID}, nil
}

func undo(ctx context.Context, a *site.Ask) (site.Outcome, error) {
	op, err := get(ctx, a)
	switch {
	case err != nil:
		return site.Outcome{}, err
	case op.State == inspect.OperationRunning:
		return site.Outcome{}, fmt.Errorf("operation %s: %w: pause it first", op.ID, inspect.ErrOperationBusy)
	case op.State == inspect.OperationUndone:
		return site.Outcome{}, fmt.Errorf("operation %s: %w", op.ID, inspect.ErrOperationOver)
	}
	a.Fleet.UndoOn(a.User.Name, op.ID)
	return goesOn(op, "It is being taken back."), nil
}

// Bin is the page /bin.
type Bin struct {
	Rows    []Binned `json:"bin"`
	Jobs    int64    `json:"jobs"` // in all of it
	Refused string   `json:"refused,omitempty"`
	site.Paged
}

// Binned is what the bin keeps of one operation from one place.
type Binned struct {
	Operation string    `json:"operation"`
	Verb      string    `json:"verb"`
	Place     string    `json:"place"`
	Queue     string    `json:"queue,omitempty"`
	Shard     string    `json:"shard,omitempty"`
	Jobs      int64     `json:"jobs"`
	Ends      site.Time `json:"ends"`
	Who       string    `json:"who,omitempty"`
}

// key tells the rows of the bin apart.
func (b Binned) key() string { return b.Operation + " " + b.Shard + " " + b.Place }

// Did is what the operation did with these jobs.
func (b Binned) Did() string { return site.Operation{Verb: b.Verb}.Did() }

func binned(found []inspect.Binned) (all []Binned) {
	for _, b := range found {
		all = append(all, Binned{Operation: b.Operation, Verb: string(b.Verb), Place: b.Place, Queue: b.Queue, Shard: b.Shard, Jobs: b.Jobs, Ends: site.Time{Time: b.Ends}})
	}
	return all
}

func loadBin(ctx context.Context, a *site.Ask) (any, error) {
	b := &Bin{}
	known, err := a.Operations(ctx)
	var found []inspect.Binned
	if err == nil {
		found, err = a.In().Operations().Bin(ctx, "")
	}
	if err != nil {
		if b.Refused = site.Refusal(err); b.Refused == "" {
			return nil, err
		}
		return b, nil
	}
	who := make(map[string]string, len(known))
	for _, op := range known {
		who[op.ID] = op.Who
	}
	all := slices.DeleteFunc(binned(found), func(one Binned) bool {
		_, seen := who[one.Operation]
		return !seen && !a.User.Whole()
	})
	for _, one := range all {
		b.Jobs += one.Jobs
	}
	from, err := behind(a.Param("after"), all, Binned.key)
	if err != nil {
		return nil, err
	}
	for n, one := range all[from:] {
		if n == rows {
			b.Next = all[from+n-1].key()
			break
		}
		one.Who = who[one.Operation]
		b.Rows = append(b.Rows, one)
	}
	return b, nil
}

// empty removes what the bin keeps of the operations that the form names, or all of it.
func empty(ctx context.Context, a *site.Ask) (site.Outcome, error) {
	ids := slices.DeleteFunc(slices.Clone(a.Values("ids")), func(id string) bool { return id == "" })
	if len(ids) == 0 && !a.Flag("all") {
		return site.Outcome{}, site.Bad("name the operations in ids, or set all")
	}
	found, err := a.In().Operations().Bin(ctx, "")
	if err != nil {
		return site.Outcome{}, err
	}
	var jobs int64
	for _, b := range found {
		if len(ids) == 0 || slices.Contains(ids, b.Operation) {
			jobs += b.Jobs
		}
	}
	typed := strings.ReplaceAll(strings.TrimSpace(a.Value("confirm")), ",", "")
	switch {
	case jobs == 0:
		return site.Outcome{Said: "The bin has none of these jobs any more."}, nil
	case typed == "":
		return site.Outcome{}, site.Bad("%s would be gone for good; give the number %d as confirm", look.Plural(jobs, "job", "jobs"), jobs)
	case typed != strconv.FormatInt(jobs, 10):
		return site.Outcome{}, site.Changed(jobs, "the bin has %s of them now, and you typed %q; look again", look.Plural(jobs, "job", "jobs"), typed)
	}
	n, err := a.By().Operations().EmptyBin(ctx, ids...)
	if err != nil {
		return site.Outcome{}, err
	}
	a.Fleet.ForgetOperations()
	return site.Outcome{Said: fmt.Sprintf("%s for good.", look.Plural(n, "job is gone", "jobs are gone")), Done: n}, nil
}
