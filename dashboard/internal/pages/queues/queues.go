// Package queues is the pages of queues: what waits, who takes it, and how it goes on.
package queues

import (
	"cmp"
	"context"
	"embed"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/goworker/goworker/dashboard/internal/guard"
	"github.com/goworker/goworker/dashboard/internal/look"
	"github.com/goworker/goworker/dashboard/internal/site"
	"github.com/goworker/goworker/inspect"
)

//go:embed *.html
var files embed.FS

const (
	// rows is how many queues, and how many jobs, a page lists.
	rows = 50
	// mostSaid is of how many queues the list says who worked them last: each takes a look at the history.
	mostSaid = 5
)

// Pages are the pages of queues.
func Pages() []*site.Page {
	return []*site.Page{
		{Path: "/queues", Tab: "queues", Title: "Queues", Load: load, Data: (*List)(nil), Params: []string{"q", "sort", "after"}, Template: "queues.html asks.html", Files: files},
		{Path: "/queues/{queue}", Tab: "queues", Load: loadQueue, Data: (*Queue)(nil), Params: []string{"in", "q", "after", "all"}, Template: "queue.html asks.html", Files: files},
		{Path: "/queues/{queue}/job", Tab: "queues", Load: loadJob, Data: (*One)(nil), Params: []string{"ref", "place"}, Template: "job.html asks.html", Files: files},
	}
}

// Actions are what is done with queues, and with jobs that wait.
func Actions() []*site.Action {
	return []*site.Action{
		{Name: "queue.pause", Path: "/queues/{queue}/pause", Role: guard.Operator, Do: pause},
		{Name: "queue.pause", Path: "/queues/pause", Role: guard.Operator, Whole: true, Do: pauseAll},
		{Name: "queue.resume", Path: "/queues/{queue}/resume", Role: guard.Operator, Do: resume},
		{Name: "queue.resume", Path: "/queues/resume", Role: guard.Operator, Whole: true, Do: resumeAll},
		{Name: "queue.clear", Path: "/queues/{queue}/clear", Role: guard.Admin, Do: clearQueue},
		{Name: "queue.remove", Path: "/queues/{queue}/remove", Role: guard.Admin, Do: removeQueue},
		{Name: "job.add", Path: "/queues/{queue}/jobs", Role: guard.Admin, Do: addJob},
		{Name: "job.add", Path: "/jobs", Role: guard.Admin, On: func(a *site.Ask) guard.Target { return guard.Target{Queue: a.Value("queue")} }, Do: addJob},
		{Name: "job.move", Path: "/queues/{queue}/jobs/move", Role: guard.Operator, Do: moveJobs},
		{Name: "job.delay", Path: "/queues/{queue}/jobs/delay", Role: guard.Operator, Do: delayJobs},
		{Name: "job.front", Path: "/queues/{queue}/jobs/front", Role: guard.Operator, Do: frontJobs},
		{Name: "job.remove", Path: "/queues/{queue}/jobs/remove", Role: guard.Admin, Do: removeJobs},
		{Name: "job.cancel", Path: "/queues/{queue}/jobs/cancel", Role: guard.Operator, Do: cancelJobs},
		{Name: "job.edit", Path: "/queues/{queue}/jobs/edit", Role: guard.Admin, Do: editJob},
	}
}

// List is the page /queues.
type List struct {
	Queues  []Row     `json:"queues"`
	Of      int       `json:"of"` // queues that fit
	All     int64     `json:"all"`
	Waiting site.Num  `json:"waiting"` // jobs in all of them
	Pauses  int       `json:"paused"`  // queues that are paused
	Nobody  int       `json:"nobody"`  // queues with jobs that nobody takes
	Sort    string    `json:"sort"`
	Query   string    `json:"-"`
	Paused  bool      `json:"paused_all"` // the key pause-all-workers is set, which every worker obeys
	Key     string    `json:"-"`          // that key
	Since   site.Time `json:"since"`      // since when the plots know something
	Lasting []Lasting `json:"-"`
	site.Paged
}

// Row is a queue.
type Row struct {
	Name      string         `json:"name"`
	Shard     string         `json:"shard,omitempty"`
	State     string         `json:"state"` // working, paused, nobody or idle
	Waiting   site.Num       `json:"waiting"`
	InLanes   site.Num       `json:"in_lanes"`
	First     site.Wait      `json:"first_waits"`
	In        site.PerSecond `json:"pushed"`
	Out       site.PerSecond `json:"taken"`
	EmptyIn   site.Span      `json:"empty_in_ms"`
	Never     bool           `json:"never_empty"` // it grows
	Failing   *float64       `json:"failing"`     // per cent of the jobs that ended within ten minutes; null: nothing has counted them
	Processes int            `json:"processes"`   // of goworker that work it
	Go        site.Num       `json:"go_workers"`
	Other     site.Num       `json:"other_workers"`
	HTTP      site.Num       `json:"http_servers"`
	Bridges   int            `json:"bridges"` // processes that take from it, or put into it, for the library delayed
	Last      *Last          `json:"worked_last,omitempty"`
	Trend     site.Values    `json:"trend"` // jobs that waited, a minute each, up to now
}

// By says who takes jobs from the queue.
func (r Row) By() string {
	var parts []string
	add := func(n site.Num, one, many string) {
		if n.Known() && n.N > 0 {
			parts = append(parts, look.Plural(n.N, one, many))
		}
	}
	if r.Go.N > 0 && r.Processes > 0 {
		parts = append(parts, fmt.Sprintf("%s in %s", look.Plural(r.Go.N, "worker", "workers"), look.Plural(r.Processes, "process", "processes")))
	} else {
		add(r.Go, "goworker", "goworkers")
	}
	add(r.Other, "other worker", "other workers")
	add(r.HTTP, "HTTP server", "HTTP servers")
	if r.Bridges > 0 {
		parts = append(parts, look.Plural(r.Bridges, "bridge of delayed", "bridges of delayed"))
	}
	switch {
	case len(parts) > 0:
		return strings.Join(parts, ", ")
	case r.State != "nobody" && (!r.Go.Known() || r.Other.Bound != inspect.Exact):
		return "not known who works it"
	}
	return "nobody works it"
}

// much is the share of failed jobs, in per cent, above which it is red.
const much = 3.0

// Fails is the share of failed jobs as a text; "": nothing has counted them.
func (r Row) Fails() string {
	switch {
	case r.Failing == nil:
		return ""
	case *r.Failing == 0:
		return "0"
	}
	return fmt.Sprintf("%.1f", *r.Failing)
}

// Red reports whether much fails.
func (r Row) Red() bool { return r.Failing != nil && *r.Failing > much }

// Grows says how fast the queue grows or shrinks; "": nothing is known of it.
func (r Row) Grows() string {
	if !r.In.Known() || !r.Out.Known() {
		return ""
	}
	switch d := r.In.PerSecond - r.Out.PerSecond; {
	case d > 0.05:
		return "grows by " + look.PerSecond(d)
	case d < -0.05:
		return "shrinks by " + look.PerSecond(-d)
	}
	return "steady"
}

func load(ctx context.Context, a *site.Ask) (any, error) {
	l := &List{
		Sort: a.Choice("sort", "wait", "size", "rate", "name"), Query: a.Param("q"), Paused: a.Base.PausedAll, Waiting: site.Num{Count: a.Waiting()},
		Key: a.Base.Namespace + "pause-all-workers", Lasting: lasting,
	}
	all := a.Queues()
	l.All = int64(len(all))
	if a.User.Whole() {
		l.All = a.Base.QueueCount.N
	}
	var fit []inspect.SampleQueue
	for _, q := range all {
		if matches(q.Name, l.Query) {
			fit = append(fit, q)
		}
		switch StateOf(q) {
		case "paused":
			l.Pauses++
		case "nobody":
			l.Nobody++
		}
	}
	slices.SortStableFunc(fit, order(l.Sort, a.Base))
	l.Of = len(fit)
	from := 0
	if after := a.Param("after"); after != "" { // a queue that is gone begins again
		from = slices.IndexFunc(fit, func(q inspect.SampleQueue) bool { return q.Name == after }) + 1
	}
	past := hourOf(ctx, a)
	l.Since = site.Time{Time: past.since}
	for n, q := range fit[from:] {
		if n == rows {
			l.Next = fit[from+n-1].Name
			break
		}
		l.Queues = append(l.Queues, past.row(a, q))
	}
	left := mostSaid
	for n := range l.Queues {
		if l.Queues[n].State == "nobody" && left > 0 {
			left--
			l.Queues[n].Last = lastOf(ctx, a, l.Queues[n].Name)
		}
	}
	return l, nil
}

// matches reports whether a name fits what the user looks for: a part of it, or a pattern.
func matches(name, query string) bool {
	query = strings.ToLower(strings.TrimSpace(query))
	if query == "" {
		return true
	}
	name = strings.ToLower(name)
	if strings.ContainsAny(query, "*?[") {
		match, err := path.Match(query, name)
		return err == nil && match
	}
	return strings.Contains(name, query)
}

// order sorts queues; paused ones come last, as nobody is surprised by what waits there.
func order(by string, base *site.Base) func(x, y inspect.SampleQueue) int {
	key := func(q inspect.SampleQueue) float64 {
		switch by {
		case "size":
			return -float64(q.Waiting.N)
		case "rate":
			return -base.Rates.Queues[q.Name].In.PerSecond
		case "wait":
			if q.Waiting.N == 0 {
				return 1
			}
			return -q.Oldest.For.Seconds()
		}
		return 0
	}
	return func(x, y inspect.SampleQueue) int {
		if by != "name" && x.Paused != y.Paused {
			if x.Paused {
				return 1
			}
			return -1
		}
		return cmp.Or(cmp.Compare(key(x), key(y)), cmp.Compare(-x.Waiting.N, -y.Waiting.N), cmp.Compare(x.Name, y.Name))
	}
}

// RowOf is a queue as lists show it.
func RowOf(a *site.Ask, q inspect.SampleQueue, trail []site.Point) Row {
	rates := a.Base.Rates.Queues[q.Name]
	r := Row{
		Name: q.Name, Shard: q.Shard, State: StateOf(q), Waiting: site.Num{Count: q.Waiting}, InLanes: site.Num{Count: q.InLanes}, First: site.Wait{Age: q.Oldest},
		In: site.PerSecond{Rate: rates.In}, Out: site.PerSecond{Rate: rates.Out}, EmptyIn: site.Span(rates.EmptyIn), Never: rates.Never,
		Go: site.Num{Count: q.Go}, Other: site.Num{Count: q.Other}, HTTP: site.Num{Count: q.HTTP},
	}
	for _, p := range trail {
		r.Trend = append(r.Trend, float64(p.Queues[q.Name]))
	}
	r.Trend = append(r.Trend, float64(q.Waiting.N))
	r.Processes, r.Bridges = workedBy(a, q.Name)
	if r.Bridges > 0 && r.State == "nobody" {
		r.State = "working"
	}
	return r
}

// StateOf is the state of a queue: paused, working, idle, or nobody if jobs wait and nobody takes them.
func StateOf(q inspect.SampleQueue) string {
	served := q.Go.N > 0 || q.Other.N > 0 || q.HTTP.N > 0
	known := q.Go.Known() && q.Other.Bound == inspect.Exact
	switch {
	case q.Paused:
		return "paused"
	case !served && known && q.Waiting.N > 0:
		return "nobody"
	case q.Waiting.N == 0:
		return "idle"
	}
	return "working"
}
