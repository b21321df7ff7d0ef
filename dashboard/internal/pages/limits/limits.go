// Package limits is the pages of what holds jobs back: limits, turns, locks of unique jobs, and groups of aggregated jobs.
package limits

import (
	"cmp"
	"context"
	"embed"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goworker/goworker/dashboard/internal/guard"
	"github.com/goworker/goworker/dashboard/internal/look"
	"github.com/goworker/goworker/dashboard/internal/site"
	"github.com/goworker/goworker/inspect"
)

//go:embed *.html
var files embed.FS

// What a page shows, and how long it looks for it.
const (
	rows   = 50
	budget = 150 * time.Millisecond
)

// Pages are the pages of limits and locks.
func Pages() []*site.Page {
	return []*site.Page{
		{Path: "/limits", Tab: "limits", Title: "Limits and locks", Load: load, Data: (*Page)(nil), Params: []string{"v", "q", "after"}, Template: "limits.html", Files: files},
		{Path: "/locks/{lock}", Tab: "limits", Still: true, Load: loadLock, Data: (*LockPage)(nil), Template: "lock.html", Files: files},
	}
}

// Actions are what is done with limits, locks and groups.
func Actions() []*site.Action {
	return []*site.Action{
		{Name: "limit.set", Path: "/limits/{limit}/set", Role: guard.Admin, Whole: true, Do: setLimit},
		{Name: "limit.reset", Path: "/limits/{limit}/reset", Role: guard.Admin, Whole: true, Do: resetLimit},
		{Name: "lock.release", Path: "/locks/{lock}/release", Role: guard.Admin, Do: release},
		{Name: "group.flush", Path: "/aggregates/{group}/flush", Role: guard.Operator, Do: flush},
	}
}

// Page is the page /limits.
type Page struct {
	View   string  `json:"view"` // limits, turns, locks or groups
	Query  string  `json:"-"`
	Limits []Limit `json:"limits,omitempty"`
	Lanes  []Lane  `json:"turns,omitempty"`
	Locks  []Lock  `json:"locks,omitempty"`
	Groups []Group `json:"groups,omitempty"`
	Held   int64   `json:"held_back"` // jobs in lanes: of all queues, or of turns those that are shown
	Some   bool    `json:"partial"`   // there is more than was looked at
	site.Paged
}

// Limit is a limit of the fleet.
type Limit struct {
	Spec    string    `json:"spec"`
	Name    string    `json:"name"`
	Kind    string    `json:"kind"` // running, running per process, starts or starts per process
	Allows  string    `json:"allows"`
	Most    int       `json:"most"`  // of a limit of running jobs; 0: it is none, or each process has its own number
	Keyed   bool      `json:"keyed"` // each key has its own count
	Running int64     `json:"running"`
	Waiting int64     `json:"held_back"`
	Lanes   int64     `json:"lanes"`
	Fullest []Key     `json:"fullest_keys,omitempty"` // of the lanes whose turn comes first
	Fault   string    `json:"fault,omitempty"`
	Set     bool      `json:"overridden"` // by an operator
	By      string    `json:"by,omitempty"`
	Why     string    `json:"why,omitempty"`
	At      site.Time `json:"set_at"`
	Until   site.Time `json:"until"`
	Shard   string    `json:"shard,omitempty"`
	id      string
}

// Key is a key of a limit and the jobs that wait for it.
type Key struct {
	Text string `json:"key"`
	Jobs int64  `json:"jobs"`
}

// AllowsText says what the limit allows.
func (l Limit) AllowsText() string {
	switch {
	case l.Most > 0 && l.Keyed:
		return l.Allows + " at a time of each key"
	case l.Most > 0:
		return l.Allows + " at a time"
	case l.Paused():
		return "nothing: the class is paused"
	case strings.HasPrefix(l.Kind, "starts"):
		text := perUnit.Replace(l.Allows)
		if l.Keyed {
			text += " of each key"
		}
		return text
	}
	return l.Allows
}

var perUnit = strings.NewReplacer("/s", " a second", "/m", " a minute", "/h", " an hour")

// The beginnings of the names of limits that are rules of operators; the class is behind them.
const (
	ruleName  = "rule/"
	pauseName = "pause/"
)

// Paused reports whether the limit is the pause of a class: it ends on the page of the class.
func (l Limit) Paused() bool { return strings.HasPrefix(l.Name, pauseName) }

// Class is the class that a rule of operators limits or pauses; "": the limit is a program's.
func (l Limit) Class() string {
	for _, name := range []string{ruleName, pauseName} {
		if class, ok := strings.CutPrefix(l.Name, name); ok {
			return strings.TrimSuffix(class, "/key")
		}
	}
	return ""
}

// Of says of what the limit is.
func (l Limit) Of() string {
	text := "of jobs that run"
	if strings.HasPrefix(l.Kind, "starts") {
		text = "of starts"
	}
	if strings.HasSuffix(l.Kind, "per process") {
		text += " in each process"
	}
	return text
}

// Full is how much of the limit is used in per cent, if it counts jobs that run of all keys together.
func (l Limit) Full() float64 {
	if !l.Metered() {
		return 0
	}
	return min(100, 100*float64(l.Running)/float64(l.Most))
}

// Metered reports whether the jobs that run can be compared with the number of the limit.
func (l Limit) Metered() bool {
	return l.Most > 0 && !l.Keyed && l.Kind == string(inspect.LimitRunning)
}

// Ref names the limit in dialogs.
func (l Limit) Ref() string { return l.id }

// Lane is a lane: jobs that wait for the same limits, or for the turn of the same key.
type Lane struct {
	Queue  string    `json:"queue"`
	Limits []string  `json:"limits,omitempty"`
	Key    string    `json:"key,omitempty"`
	Jobs   int64     `json:"jobs"`
	Turn   site.Time `json:"turn"`
}

// How old the limits and lanes of a page may be: reading them sends a command for each lane.
const (
	limitsAge = 5 * time.Second
	keyLimits = "limits"
)

func load(ctx context.Context, a *site.Ask) (any, error) {
	p := &Page{View: a.Choice("v", "limits", "turns", "locks", "groups"), Query: strings.TrimSpace(a.Param("q"))}
	var err error
	switch p.View {
	case "limits":
		err = p.limits(ctx, a)
	case "turns":
		err = p.turns(ctx, a)
	case "locks":
		err = p.locks(ctx, a)
	case "groups":
		err = p.groups(ctx, a)
	}
	return p, err
}

// fits reports whether one of the texts contains what is looked for.
func (p *Page) fits(texts ...string) bool {
	q := strings.ToLower(p.Query)
	return q == "" || slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(strings.ToLower(text), q) })
}

// page cuts a list to the part behind after, a number.
func page[T any](a *site.Ask, p *Page, all []T) ([]T, error) {
	from := 0
	if after := a.Param("after"); after != "" {
		n, err := strconv.Atoi(after)
		if err != nil || n < 0 {
			return nil, site.Bad("after is %q, which no page ended with", after)
		}
		from = min(n, len(all))
	}
	if all = all[from:]; len(all) > rows {
		all, p.Next = all[:rows], strconv.Itoa(from+rows)
	}
	return all, nil
}

func (p *Page) limits(ctx context.Context, a *site.Ask) error {
	infos, err := site.Keep(ctx, a.Fleet, keyLimits, limitsAge, func(ctx context.Context) ([]inspect.LimitInfo, error) { return a.In().Limits(ctx) })
	if err != nil {
		return err
	}
	var all []Limit
	for _, l := range infos {
		if queue, of := strings.CutPrefix(l.Name, "queue/"); !a.User.Whole() && (!of || !a.Sees(queue)) {
			continue
		}
		if strings.HasPrefix(l.Name, pauseName) && l.Waiting == 0 {
			continue
		}
		if p.fits(l.Name, l.Spec) {
			all = append(all, limitOf(a, l))
			p.Some = p.Some || l.Partial
		}
	}
	slices.SortStableFunc(all, func(x, y Limit) int {
		return cmp.Or(cmp.Compare(y.Waiting, x.Waiting), cmp.Compare(y.Running, x.Running))
	})
	if all, err = page(a, p, all); err != nil {
		return err
	}
	keys, err := fullest(ctx, a)
	if err != nil {
		return err
	}
	for n := range all {
		all[n].id = strconv.Itoa(n)
		all[n].Fullest = keys[all[n].Name]
	}
	p.Limits = all
	for _, q := range laned(a) {
		p.Held += q.InLanes.N
	}
	return nil
}

func limitOf(a *site.Ask, l inspect.LimitInfo) Limit {
	one := Limit{Spec: l.Spec, Name: l.Name, Kind: string(l.Kind), Allows: l.Numbers(), Most: l.Most, Running: l.Running, Waiting: l.Waiting, Lanes: l.Lanes, Shard: l.Shard}
	one.Keyed = strings.Contains(l.Name, "/key")
	if l.Invalid != nil {
		one.Fault = l.Invalid.Error()
	}
	if l.Rule != nil {
		one.Set, one.By, one.Why, one.At, one.Until = true, l.Rule.By, a.Masks.Text(l.Rule.Why), site.Time{Time: l.Rule.At}, site.Time{Time: l.Rule.Until}
	}
	return one
}

// What a page reads of lanes at most.
const (
	mostQueues = 20 // with lanes
	mostLanes  = 100
	mostKeys   = 20 // of a limit
)

// laned are the queues that the user sees in which jobs are in lanes, those with the most first.
func laned(a *site.Ask) []inspect.SampleQueue {
	all := slices.DeleteFunc(slices.Clone(a.Queues()), func(q inspect.SampleQueue) bool { return q.InLanes.N == 0 })
	slices.SortStableFunc(all, func(x, y inspect.SampleQueue) int { return cmp.Compare(y.InLanes.N, x.InLanes.N) })
	return all
}

func lanesOf(ctx context.Context, a *site.Ask, queue string) ([]inspect.WaitingInfo, error) {
	return site.Keep(ctx, a.Fleet, "lanes "+queue, limitsAge, func(ctx context.Context) ([]inspect.WaitingInfo, error) {
		return a.In().WaitingFirst(ctx, queue, mostLanes)
	})
}

// fullest are the keys of limits for which most jobs wait, by the name of the limit.
func fullest(ctx context.Context, a *site.Ask) (map[string][]Key, error) {
	jobs := make(map[string]map[string]int64)
	for n, q := range laned(a) {
		if n == mostQueues {
			break
		}
		lanes, err := lanesOf(ctx, a, q.Name)
		if err != nil {
			return nil, err
		}
		for _, l := range lanes {
			for _, limit := range l.Limits {
				if name, key, keyed := strings.Cut(limit, "="); keyed {
					if jobs[name] == nil {
						jobs[name] = make(map[string]int64)
					}
					jobs[name][key] += l.Jobs
				}
			}
		}
	}
	keys := make(map[string][]Key, len(jobs))
	for name, of := range jobs {
		var all []Key
		for key, n := range of {
			all = append(all, Key{Text: a.Masks.Text(key), Jobs: n})
		}
		slices.SortFunc(all, func(x, y Key) int { return cmp.Or(cmp.Compare(y.Jobs, x.Jobs), cmp.Compare(x.Text, y.Text)) })
		keys[name] = all[:min(mostKeys, len(all))]
	}
	return keys, nil
}

// turns are the lanes of all queues, the queue with most jobs in lanes first.
func (p *Page) turns(ctx context.Context, a *site.Ask) error {
	var all []Lane
	for n, q := range laned(a) {
		if n == mostQueues {
			p.Some = true
			break
		}
		lanes, err := lanesOf(ctx, a, q.Name)
		if err != nil {
			return err
		}
		p.Some = p.Some || len(lanes) >= mostLanes
		for _, l := range lanes {
			one := Lane{Queue: q.Name, Key: a.Masks.Text(l.Key), Jobs: l.Jobs, Turn: site.Time{Time: l.Turn}}
			for _, limit := range l.Limits {
				one.Limits = append(one.Limits, a.Masks.Text(limit))
			}
			if p.fits(append(one.Limits, one.Queue, one.Key)...) {
				all = append(all, one)
				p.Held += l.Jobs
			}
		}
	}
	var err error
	p.Lanes, err = page(a, p, all)
	return err
}

// noPause returns an error if the limit is the pause of a class: a number would end the pause, and the rule would say that it goes on.
func noPause(ctx context.Context, a *site.Ask, spec string) error {
	all, err := a.In().Limits(ctx)
	if err != nil {
		return err
	}
	for _, l := range all {
		if class, ok := strings.CutPrefix(l.Name, pauseName); ok && (l.Spec == spec || l.Name == spec) {
			return site.Bad("it is the pause of class %s; resume the class", class)
		}
	}
	return nil
}

func setLimit(ctx context.Context, a *site.Ask) (site.Outcome, error) {
	d, err := a.Duration("for")
	if err != nil {
		return site.Outcome{}, err
	}
	spec, numbers := a.Path("limit"), strings.TrimSpace(a.Value("numbers"))
	if err := noPause(ctx, a, spec); err != nil {
		return site.Outcome{}, err
	}
	was, err := a.By().SetLimitFor(ctx, spec, numbers, d)
	if err != nil {
		return site.Outcome{}, err
	}
	a.Fleet.Forget(keyLimits)
	until := "until it is reset"
	if d > 0 {
		until = "for " + look.Dur(d)
	}
	return site.Outcome{Said: fmt.Sprintf("The limit %s is %s now, %s.", spec, numbers, until), Done: 1, Data: map[string]string{"was": was}}, nil
}

func resetLimit(ctx context.Context, a *site.Ask) (site.Outcome, error) {
	spec := a.Path("limit")
	if err := noPause(ctx, a, spec); err != nil {
		return site.Outcome{}, err
	}
	was, err := a.By().ResetLimit(ctx, spec)
	if err != nil {
		return site.Outcome{}, err
	}
	a.Fleet.Forget(keyLimits)
	return site.Outcome{Said: fmt.Sprintf("The limit %s gets the number of its program again, from the next job that a process takes.", spec), Done: 1, Data: map[string]string{"was": was}}, nil
}
