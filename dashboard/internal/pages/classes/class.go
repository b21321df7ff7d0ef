package classes

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goworker/goworker/dashboard/internal/look"
	"github.com/goworker/goworker/dashboard/internal/site"
	"github.com/goworker/goworker/inspect"
	"github.com/goworker/goworker/inspect/groups"
)

// Class is the page of a class.
type Class struct {
	Row
	Span     string      `json:"span"`
	Ends     Ends        `json:"ends"`
	Heat     *Heat       `json:"run_times,omitempty"`
	Record   *Record     `json:"registration,omitempty"`
	Silent   int         `json:"silent_processes"` // that do not say what they have registered
	Set      []Rule      `json:"rules_set"`
	Unaware  []Unaware   `json:"unaware"` // what does not obey rules
	Groups   []Failing   `json:"failure_groups"`
	Marks    []look.Mark `json:"-"`
	NoRecord bool        `json:"-"`
}

// PageTitle is the title of the page.
func (c *Class) PageTitle() string { return c.Name }

// Ends are how the jobs of the class ended within the span.
type Ends struct {
	Done      int64 `json:"done"`
	Failed    int64 `json:"failed"`
	Retried   int64 `json:"retried"`
	Snoozed   int64 `json:"snoozed"`
	Discarded int64 `json:"discarded"`
	Expired   int64 `json:"expired"`
	Cancelled int64 `json:"cancelled"`
}

// Heat is how long the runs took, over time.
type Heat struct {
	From    site.Time   `json:"from"`
	To      site.Time   `json:"to"`
	Buckets []site.Span `json:"buckets_up_to_ms"` // the longest first
	Runs    [][]int64   `json:"runs"`             // by bucket, and in it by time
}

// Record is what processes have registered of the class.
type Record struct {
	Options   []string  `json:"options"`
	Timeout   site.Span `json:"timeout_ms"` // 0: none
	Retries   int       `json:"retries"`    // -1: without end
	Limits    []string  `json:"limits"`
	Processes []string  `json:"processes"`
}

// Rule is what an operator has set.
type Rule struct {
	Kind  string    `json:"kind"`
	Text  string    `json:"value"`
	Key   string    `json:"key,omitempty"`
	By    string    `json:"by"`
	Why   string    `json:"why,omitempty"`
	At    site.Time `json:"at"`
	Until site.Time `json:"until"` // null: until it is taken back
	Fault string    `json:"fault,omitempty"`
	Shard string    `json:"shard,omitempty"`
}

// Says is the rule in words.
func (r Rule) Says() string {
	switch {
	case r.Fault != "":
		return "a rule that cannot be read"
	case r.Kind == "class":
		return "paused"
	case r.Kind == "limit" && r.Key != "":
		return "at most " + r.Text + " for each value of " + r.Key
	case r.Kind == "limit":
		return "at most " + r.Text
	}
	return r.Kind + ": " + r.Text
}

// Unaware is a worker or process that does not obey rules.
type Unaware struct {
	Name    string `json:"name"`
	Version string `json:"version,omitempty"` // of a process; "": it is a worker of another program
}

// Failing is a group of failures of the class.
type Failing struct {
	ID      string `json:"id"`
	Pattern string `json:"pattern"`
	Count   int    `json:"count"`
}

const (
	mostUnaware = 20
	mostGroups  = 10
	mostMarks   = 10
	mostHeat    = 24 // rows
	unawareAge  = 5 * time.Minute
	deploysAge  = time.Minute
)

func loadOne(ctx context.Context, a *site.Ask) (any, error) {
	c := &Class{Row: Row{Name: a.Path("class")}, Span: a.Choice("span", "1h", "24h", "7d", "90d")}
	all, err := rowsOf(ctx, a, c.Span)
	if err != nil {
		return nil, err
	}
	at := slices.IndexFunc(all, func(r Row) bool { return r.Name == c.Name })
	if at < 0 {
		if !waits(ctx, a, c.Name) {
			return nil, site.Missing("no process has registered a class of this name, and none of its jobs ran or failed within this span")
		}
	} else {
		c.Row = all[at]
	}
	h, err := historyOf(ctx, a, c.Span)
	if err != nil {
		return nil, err
	}
	total := h.Total().Classes[c.Name]
	c.Ends = Ends{Done: total.Done, Failed: total.Failed, Retried: total.Retried, Snoozed: total.Snoozed, Discarded: total.Discarded, Expired: total.Expired, Cancelled: total.Cancelled}
	c.heat(a, h)
	c.registered(ctx, a)
	rules, err := rulesOf(ctx, a)
	if err != nil {
		return nil, err
	}
	for _, r := range rules {
		if classOf(r) == c.Name {
			c.Set = append(c.Set, ruleOf(a, r))
		}
	}
	c.failing(ctx, a)
	c.unaware(ctx, a)
	c.marks(ctx, a)
	return c, nil
}

// waits reports whether a class that nothing else knows is one of the older spans: it ran within the last 90 days.
func waits(ctx context.Context, a *site.Ask, class string) bool {
	all, err := rowsOf(ctx, a, "90d")
	return err == nil && slices.ContainsFunc(all, func(r Row) bool { return r.Name == class })
}

func ruleOf(a *site.Ask, r inspect.Rule) Rule {
	one := Rule{Kind: r.Kind, Text: r.Text(), Key: r.Key, By: r.By, Why: a.Masks.Text(r.Why), At: site.Time{Time: r.At}, Until: site.Time{Time: r.Until}, Shard: r.Shard}
	if r.Invalid != nil {
		one.Fault = r.Invalid.Error()
	}
	return one
}

// heat counts the runs by how long they took and when.
func (c *Class) heat(a *site.Ask, h inspect.History) {
	total := h.Total().Classes[c.Name].Runs.Buckets()
	total = slices.DeleteFunc(total, func(b inspect.Bucket) bool { return b.Count == 0 })
	if len(total) == 0 {
		return
	}
	s := spans[c.Span]
	from := a.Now().Add(-s.span).Truncate(s.step)
	columns := int(s.span/s.step) + 1
	heat := &Heat{From: site.Time{Time: from}, To: site.Time{Time: from.Add(time.Duration(columns) * s.step)}}
	each := (len(total) + mostHeat - 1) / mostHeat
	at := make(map[time.Duration]int) // by the upper edge of a bucket, the row from below
	for n, b := range total {
		if at[b.To] = n / each; n/each == len(heat.Buckets) {
			heat.Buckets = append(heat.Buckets, 0)
			heat.Runs = append(heat.Runs, make([]int64, columns))
		}
		heat.Buckets[n/each] = site.Span(b.To)
	}
	for _, row := range h.Rows {
		column := int(row.At.Sub(from) / s.step)
		if column < 0 || column >= columns {
			continue
		}
		for _, b := range row.Classes[c.Name].Runs.Buckets() {
			if y, known := at[b.To]; known {
				heat.Runs[y][column] += b.Count
			}
		}
	}
	slices.Reverse(heat.Buckets)
	slices.Reverse(heat.Runs)
	c.Heat = heat
}

// Plot is the heat map as a picture.
func (c *Class) Plot(t look.Times) look.Heat {
	p := look.Heat{Label: "Run times of " + c.Name + ": half of the runs took up to " + look.Dur(c.P50.D()) + ", 95 % up to " + look.Dur(c.P95.D()), Rows: c.Heat.Runs, From: c.Heat.From.In(t.Loc), To: c.Heat.To.In(t.Loc), Marks: c.Marks}
	for n, b := range c.Heat.Buckets {
		name := ""
		if n%3 == 0 || n == len(c.Heat.Buckets)-1 && n%3 == 2 {
			name = look.Dur(b.D())
		}
		p.Names = append(p.Names, name)
	}
	return p
}

func (c *Class) registered(ctx context.Context, a *site.Ask) {
	all, err := registeredOf(ctx, a)
	if err != nil {
		c.NoRecord = true
		return
	}
	c.Silent = len(all.Silent)
	if at := slices.IndexFunc(all.Classes, func(r inspect.ClassRecord) bool { return r.Name == c.Name }); at >= 0 {
		r := all.Classes[at]
		c.Record = &Record{Options: r.Options, Timeout: site.Span(r.Timeout), Retries: r.Retries, Limits: r.Limits, Processes: r.Processes[:min(rows, len(r.Processes))]}
	}
}

// RetriesText says how often a job is retried.
func (r *Record) RetriesText() string {
	if r.Retries < 0 {
		return "as often as needed"
	}
	return strconv.Itoa(r.Retries)
}

// Option is an option of Register in words.
type Option struct{ What, Is string }

// Words are the options in words.
func (r *Record) Words() (all []Option) {
	for _, text := range r.Options {
		o := Option{Is: text}
		if what, is, ok := strings.Cut(text, ": "); ok {
			o = Option{what, is}
		}
		all = append(all, o)
	}
	return all
}

func (c *Class) failing(ctx context.Context, a *site.Ask) {
	x, _, err := a.Fleet.Groups(ctx)
	if err != nil {
		return
	}
	for _, g := range x.Groups(groups.Filter{}) {
		if g.Class == c.Name && len(c.Groups) < mostGroups {
			c.Groups = append(c.Groups, Failing{ID: g.ID, Pattern: a.Masks.Text(g.Pattern), Count: g.Count})
		}
	}
}

func (c *Class) unaware(ctx context.Context, a *site.Ask) {
	all, err := site.Keep(ctx, a.Fleet, "unaware", unawareAge, func(ctx context.Context) ([]inspect.Unaware, error) { return a.In().UnawareOfRules(ctx) })
	if err != nil {
		return
	}
	for _, u := range all[:min(mostUnaware, len(all))] {
		one := Unaware{Name: u.Worker}
		if u.Process != "" {
			one = Unaware{Name: u.Process, Version: u.Version}
		}
		c.Unaware = append(c.Unaware, one)
	}
}

// marks are the deploys within the span.
func (c *Class) marks(ctx context.Context, a *site.Ask) {
	deploys, err := site.Keep(ctx, a.Fleet, "deploys", deploysAge, func(ctx context.Context) ([]inspect.Deploy, error) {
		return a.In().Deploys(ctx, a.Now().Add(-spans["90d"].span))
	})
	if err != nil || c.Heat == nil {
		return
	}
	for _, d := range deploys {
		if d.At.After(c.Heat.From.Time) {
			c.Marks = append(c.Marks, look.Mark{At: d.At, Text: cmp.Or(d.Version, "goworker "+d.Goworker) + " deployed"})
		}
	}
	c.Marks = c.Marks[max(0, len(c.Marks)-mostMarks):]
}
