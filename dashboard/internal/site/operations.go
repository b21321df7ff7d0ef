package site

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/goworker/goworker/dashboard/internal/look"
	"github.com/goworker/goworker/inspect"
)

// Operation is a change of many jobs, as pages show it.
type Operation struct {
	ID       string    `json:"id"`
	Verb     string    `json:"verb"`
	State    string    `json:"state"` // ready, running, stands, stopped, done or undone
	Why      string    `json:"why,omitempty"`
	Who      string    `json:"who"`
	Reason   string    `json:"reason,omitempty"`
	Filter   string    `json:"filter"`
	Given    bool      `json:"given"` // it is of jobs that were chosen one by one
	Queue    string    `json:"queue,omitempty"`
	To       string    `json:"to_queue,omitempty"`
	Until    Time      `json:"until"` // of a delay
	Pace     float64   `json:"pace"`  // jobs a second; 0: as fast as they go
	Brake    float64   `json:"brake"` // the share of failures that stops it; 0: none does
	Begun    Time      `json:"begun"`
	Changed  Time      `json:"changed"`
	Expected int64     `json:"expected"` // jobs that were counted before; 0: it is not known
	Looked   int64     `json:"looked"`
	Done     int64     `json:"done"`
	Refused  int64     `json:"refused"`
	Refusal  string    `json:"refusal,omitempty"`
	Ended    int64     `json:"ended"`
	Again    int64     `json:"failed_again"`
	Undoing  bool      `json:"undoing"`
	Back     int64     `json:"back"`
	Gone     int64     `json:"gone"`
	Binned   int64     `json:"in_bin"`
	BinEnds  Time      `json:"bin_ends"`
	Share    *float64  `json:"share"` // how far it is, in per cent; null: it is not known
	Rate     PerSecond `json:"rate"`  // of a running one
	Left     Span      `json:"left_ms"`
}

// verbs are what operations do, for people, and what became of their jobs.
var verbs = map[inspect.Verb][2]string{
	inspect.Retry: {"Retry", "retried"}, inspect.Run: {"Run now", "sent to their queues"}, inspect.MoveTo: {"Move", "moved"}, inspect.Delay: {"Delay", "delayed"},
	inspect.Drop: {"Remove", "removed"}, inspect.Revoke: {"Cancel", "cancelled"}, inspect.ClearQueue: {"Clear", "removed"}, inspect.ForgetQueue: {"Remove the queue", "removed"},
}

// Doing is what the operation does: "Retry".
func (o Operation) Doing() string {
	if v, ok := verbs[inspect.Verb(o.Verb)]; ok {
		return v[0]
	}
	return o.Verb
}

// Did is what became of its jobs: "retried".
func (o Operation) Did() string {
	if v, ok := verbs[inspect.Verb(o.Verb)]; ok {
		return v[1]
	}
	return "changed"
}

// Title names the operation: "Retry 10,000 jobs".
func (o Operation) Title() string {
	switch verb := inspect.Verb(o.Verb); {
	case verb == inspect.ClearQueue, verb == inspect.ForgetQueue:
		return o.Doing() + " " + o.Queue
	case o.Expected > 0:
		return o.Doing() + " " + look.Plural(o.Expected, "job", "jobs")
	case o.State == string(inspect.OperationDone), o.State == string(inspect.OperationUndone):
		return o.Doing() + " " + look.Plural(o.Done, "job", "jobs")
	}
	return o.Doing() + " jobs"
}

// Sentence says how far it is.
func (o Operation) Sentence() string {
	var parts []string
	add := func(n int64, text string) {
		if n > 0 {
			parts = append(parts, look.Whole(n)+" "+text)
		}
	}
	if o.Undoing {
		parts = append(parts, look.Whole(o.Back)+" taken back")
		add(o.Gone, "could not be")
	} else {
		parts = append(parts, look.Whole(o.Done)+" "+o.Did())
	}
	add(o.Again, "failed again")
	add(o.Refused, "refused")
	if o.State == string(inspect.OperationRunning) {
		if o.Rate.Known() {
			parts = append(parts, look.Rate(o.Rate.Rate))
		}
		if o.Left > 0 {
			parts = append(parts, look.Dur(o.Left.D())+" left")
		}
	}
	return strings.Join(parts, ", ")
}

// Percent is Share for a bar; 0 where it is not known.
func (o Operation) Percent() float64 {
	if o.Share == nil {
		return 0
	}
	return *o.Share
}

// Runs reports whether a program runs the operation.
func (o Operation) Runs() bool { return o.State == string(inspect.OperationRunning) }

// Waits reports whether the operation goes on if it is run.
func (o Operation) Waits() bool {
	switch inspect.OperationState(o.State) {
	case inspect.OperationReady, inspect.OperationStands, inspect.OperationStopped:
		return true
	}
	return false
}

// Undoable reports whether there is something that undo may bring back.
func (o Operation) Undoable() bool {
	return !o.Runs() && o.State != string(inspect.OperationUndone) && !o.Undoing && o.Done > o.Ended
}

// BringsBack says before what undo brings back.
func (o Operation) BringsBack() string {
	var text string
	switch inspect.Verb(o.Verb) {
	case inspect.Drop, inspect.ClearQueue, inspect.ForgetQueue:
		text = "Undo brings back " + look.Whole(o.Binned) + " of " + look.Whole(o.Done)
	case inspect.Revoke:
		text = "Undo lifts the cancel of those of " + look.Plural(o.Done, "job", "jobs") + " that have not ended"
	default:
		text = "Undo takes back those of " + look.Plural(o.Done, "job", "jobs") + " that still wait; those that have run stay"
	}
	if o.Ended > 0 {
		text += "; " + look.Plural(o.Ended, "has ended for good", "have ended for good")
	}
	return text + "."
}

// OperationOf is an operation as pages show it.
func (a *Ask) OperationOf(ctx context.Context, op inspect.Operation) Operation {
	o := Operation{
		ID: op.ID, Verb: string(op.Plan.Verb), State: string(op.State), Why: a.Masks.Text(op.Why), Who: op.Who, Reason: a.Masks.Text(op.Reason),
		Given: op.Given, Queue: op.Plan.Query.Queue, To: op.Plan.Queue, Until: Time{op.Plan.At}, Pace: op.Plan.Pace, Brake: op.Plan.Brake.Failed,
		Begun: Time{op.Begun}, Changed: Time{op.Changed}, Expected: op.Plan.Expected, Looked: op.Looked, Done: op.Done, Refused: op.Refused,
		Refusal: a.Masks.Text(op.Refusal), Ended: op.Ended, Again: op.Again, Undoing: op.Undoing, Back: op.Back, Gone: op.Gone, Binned: op.Binned, BinEnds: Time{op.BinEnds},
	}
	if !op.Given {
		o.Filter = a.Masks.Text(op.Plan.Query.String())
	}
	did, of := op.Done+op.Refused, op.Plan.Expected
	if op.Undoing {
		did, of = op.Back, op.Done-op.Ended
	}
	switch {
	case op.State == inspect.OperationDone, op.State == inspect.OperationUndone:
		whole := 100.0
		o.Share = &whole
	case of > 0:
		share := min(100, float64(did)/float64(of)*100)
		o.Share = &share
	}
	if op.State != inspect.OperationRunning {
		return o
	}
	p, err := Keep(ctx, a.Fleet, "pace of "+op.ID, time.Hour, func(context.Context) (*pace, error) { return new(pace), nil })
	if err != nil {
		return o
	}
	rate := p.rate(a.Now(), did)
	if o.Rate.Rate = rate; rate.PerSecond > 0 && of > did {
		o.Left = Span(min(float64(of-did)/rate.PerSecond, longest.Seconds()) * float64(time.Second))
	}
	return o
}

// pace is how fast an operation was within the last looks.
type pace struct {
	mu   sync.Mutex
	seen []reached
}

type reached struct {
	at  time.Time
	did int64
}

// rate notes how far the operation is, and returns how fast it was within the last ten seconds.
func (p *pace) rate(now time.Time, did int64) inspect.Rate {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := len(p.seen); n > 0 && (did < p.seen[n-1].did || now.Sub(p.seen[n-1].at) > time.Minute) {
		p.seen = nil // it is taken back now, or nobody has looked for a while
	}
	if n := len(p.seen); n == 0 || now.Sub(p.seen[n-1].at) > time.Second {
		p.seen = append(p.seen, reached{now, did})
	}
	for len(p.seen) > 2 && now.Sub(p.seen[1].at) >= lately {
		p.seen = p.seen[1:]
	}
	over := now.Sub(p.seen[0].at).Seconds()
	if over < 1 {
		return inspect.Rate{}
	}
	return inspect.Rate{PerSecond: float64(did-p.seen[0].did) / over, Bound: inspect.Exact}
}

// keyOperations is under which the operations are kept.
const keyOperations = "operations"

// ForgetOperations has the next page read the operations again, because an action has changed one.
func (f *Fleet) ForgetOperations() { f.Forget(keyOperations) }

// Operations are those of the last seven days that the user sees, the newest first, as they were within the last two seconds.
func (a *Ask) Operations(ctx context.Context) ([]inspect.Operation, error) {
	all, err := Keep(ctx, a.Fleet, keyOperations, fresh, func(ctx context.Context) ([]inspect.Operation, error) { return a.In().Operations().List(ctx) })
	if err != nil {
		return nil, err
	}
	runs := slices.ContainsFunc(all, func(op inspect.Operation) bool { return op.State == inspect.OperationRunning })
	a.Fleet.mu.Lock()
	a.Fleet.operating = runs
	a.Fleet.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(all), func(op inspect.Operation) bool { return !a.SeesOperation(op) }), nil
}

// SeesOperation reports whether the user sees an operation. Users who see some queues only see those that they have begun, of
// jobs of these queues.
func (a *Ask) SeesOperation(op inspect.Operation) bool {
	if a.User.Whole() {
		return true
	}
	if op.Who != a.User.Name || op.Plan.Queue != "" && !a.Sees(op.Plan.Queue) {
		return false
	}
	if op.Given {
		return true // they were chosen among the jobs that the user sees
	}
	q := op.Plan.Query
	return a.confine(&q) == nil
}

// going are the operations that run, for the top of a page. Redis is asked only while one is known to run.
func (a *Ask) going(ctx context.Context) (all []Operation) {
	a.Fleet.mu.Lock()
	known := a.Fleet.busy > 0 || a.Fleet.operating
	a.Fleet.mu.Unlock()
	if !known || a.page != nil && a.page.Tab == "operations" {
		return nil
	}
	found, err := a.Operations(ctx)
	if err != nil {
		return nil // the page of operations says why
	}
	for _, op := range found {
		if op.State == inspect.OperationRunning {
			all = append(all, a.OperationOf(ctx, op))
		}
	}
	return all
}
