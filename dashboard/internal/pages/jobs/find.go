package jobs

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/goworker/goworker/dashboard/internal/site"
	"github.com/goworker/goworker/inspect"
)

// found is what is known of a job.
type found struct {
	id      string
	status  *inspect.Status     // nil: it keeps no result, or that is over
	entry   *inspect.Entry      // where it lies; nil: it was not found
	running *inspect.RunningJob // how it runs, of one that does
	next    string              // where the search for it goes on; "": all was looked at
	seen    int64               // jobs that were looked at
	of      int64
}

// mark is where a link says that the job was: a queue, a place and a Ref.
type mark struct{ queue, place, ref string }

// atLeast is how many jobs are looked at, whatever time that takes.
const atLeast = 3000

// searched is how long readers of an ended job share what was found of it.
const searched = time.Minute

// isRef reports whether a text is the Ref of a job or the ID of a failure.
func isRef(text string) bool {
	return len(text) == 28 && strings.Trim(text, "0123456789abcdef") == ""
}

// find looks for a job by its id, or by its Ref, within a time.
func find(ctx context.Context, a *site.Ask, id string, at mark, after string, budget time.Duration) (*found, error) {
	f := &found{id: id}
	switch s, err := a.In().Status(ctx, id); {
	case err == nil:
		f.status = &s
	case !errors.Is(err, inspect.ErrNoResult):
		return nil, err
	}
	if f.status != nil && (f.status.OfWorkflow || !a.Sees(f.status.Queue)) {
		return f, nil
	}
	q := inspect.Query{ID: id, Places: f.places()}
	if at.queue != "" {
		q.Queue = at.queue
	} else if f.status != nil && f.status.State != inspect.StateFailed {
		q.Queue = f.status.Queue
	}
	if place := inspect.Place(at.place); place != "" {
		q.Places = []inspect.Place{place}
	}
	byRef := f.status == nil && isRef(id)
	if at.ref != "" {
		q.Ref = at.ref
	}
	if byRef {
		q.ID, q.Ref = "", id
	}
	look := func(ctx context.Context) (found, error) { return search(ctx, a, *f, q, after, budget) }
	var seen found
	var err error
	if f.over() { // it stays as it is, and only a record of an earlier failure is looked for
		key := strings.Join([]string{"job", id, string(f.status.State), f.status.Ended.String(), at.queue, at.place, at.ref, after}, "\x00")
		seen, err = site.Keep(ctx, a.Fleet, key, searched, look)
	} else {
		key := strings.Join([]string{"job", id, "goes on", at.queue, at.place, at.ref, after}, "\x00")
		seen, err = site.Seldom(ctx, a, key, look)
	}
	if err != nil {
		return nil, err
	}
	f.entry, f.next, f.seen, f.of = seen.entry, seen.next, seen.seen, seen.of
	if f.entry != nil && f.entry.Place != inspect.Running && f.entry.Place != inspect.Leased || f.over() {
		return f, nil
	}
	page, err := a.In().Running(ctx, "", rows, inspect.RunningFilter{Text: id})
	if err != nil {
		return nil, err
	}
	for n, j := range page.Jobs {
		if j.ID == id || f.entry != nil && f.entry.Place == inspect.Running && j.Process == f.entry.Process && j.Ticket == f.entry.Ticket {
			f.running = &page.Jobs[n]
		}
	}
	return f, nil
}

// search looks for the job's bytes within a time.
func search(ctx context.Context, a *site.Ask, f found, q inspect.Query, after string, budget time.Duration) (found, error) {
	until := time.Now().Add(budget)
	for {
		page, err := a.In().Find(ctx, q, after, 1, inspect.LookAt(atLeast), inspect.Budget(further))
		if err != nil {
			return f, err
		}
		f.seen, f.of = page.Seen, page.Of
		if len(page.Jobs) > 0 {
			f.entry, f.next = &page.Jobs[0], ""
			return f, nil
		}
		if after, f.next = page.Next, page.Next; after == "" || time.Now().After(until) {
			return f, nil
		}
	}
}

// over reports whether the job has ended and lies nowhere.
func (f *found) over() bool {
	return f.status != nil && f.status.Over() && f.status.State != inspect.StateFailed && f.status.State != inspect.StateCancelled
}

// blind reports whether the arguments of the job are not known: it is done, or was not found. Nothing says then which of its texts hold what
// is masked in them, so errors, log lines and notes are shown only to an administrator who asks for them.
func (f *found) blind(a *site.Ask) bool {
	return f.entry == nil && (f.running == nil || f.running.Cut) && !a.Masks.Shows()
}

// places are where a job in its state may be.
func (f *found) places() []inspect.Place {
	if f.status == nil {
		return nil
	}
	switch f.status.State {
	case inspect.StateFailed:
		return []inspect.Place{inspect.Failed}
	case inspect.StateDone, inspect.StateDiscarded, inspect.StateExpired:
		return []inspect.Place{inspect.Failed} // the record of an earlier failure still says what its arguments were
	case inspect.StateCancelled:
		return nil
	}
	return []inspect.Place{inspect.Delayed, inspect.Queued, inspect.InLane, inspect.Leased, inspect.Running}
}

// queue is the queue of the job.
func (f *found) queue() string {
	switch {
	case f.entry != nil:
		return f.entry.Queue
	case f.status != nil:
		return f.status.Queue
	case f.running != nil:
		return f.running.Queue
	}
	return ""
}

func (f *found) class() string {
	switch {
	case f.entry != nil && f.entry.Class != "":
		return f.entry.Class
	case f.status != nil:
		return f.status.Class
	case f.running != nil:
		return f.running.Class
	}
	return ""
}

// none reports whether nothing is known of the job, or nothing that the user sees.
func (f *found) none(a *site.Ask) bool {
	return f.status == nil && f.entry == nil && f.running == nil || !a.Sees(f.queue())
}

// missing is the error of an id that nothing is known of, with what it may be in place of one.
func (f *found) missing(a *site.Ask) error {
	p := site.Missing("no job with the id %q is known: it is done and kept no result, or its result is over, or the id is that of something else", f.id).(*site.Problem)
	if f.status != nil && f.status.OfWorkflow && a.User.Whole() {
		p = site.Missing("%q is a workflow", f.id).(*site.Problem)
		p.Links = append(p.Links, site.Link{Name: "Workflow " + f.id, URL: a.URL("workflows", f.id)})
	}
	if isRef(f.id) {
		p.Links = append(p.Links, site.Link{Name: "Failure " + f.id, URL: a.URL("failures", f.id)})
	}
	if f.next != "" {
		p.Links = append(p.Links, site.Link{Name: "Look further for the job", URL: a.With("after", f.next)})
	}
	p.Links = append(p.Links, site.Link{Name: "Search for it", URL: a.URL("search", "?q", f.id)})
	return p
}
