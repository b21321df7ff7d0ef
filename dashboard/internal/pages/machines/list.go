package machines

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/goworker/goworker/dashboard/internal/look"
	"github.com/goworker/goworker/dashboard/internal/pages/queues"
	"github.com/goworker/goworker/dashboard/internal/site"
	"github.com/goworker/goworker/inspect"
)

// List is the page /processes.
type List struct {
	By    string `json:"by"` // process, worker or queue
	Query string `json:"-"`

	Processes []Process `json:"processes,omitempty"`
	Workers   []Worker  `json:"workers,omitempty"`
	Queues    []Queue   `json:"queues,omitempty"`
	Servers   []Server  `json:"http_servers"`
	Versions  []Version `json:"versions"`
	Nobody    []string  `json:"queues_without_worker"`
	All       Totals    `json:"totals"`
	Of        site.Num  `json:"of"`     // how many there are to list
	Looked    int64     `json:"looked"` // how many of them this page and those before it looked at
	site.Paged
}

// Totals are the numbers of the whole fleet.
type Totals struct {
	Processes int      `json:"processes"`
	Lost      int      `json:"lost"`
	Slots     site.Num `json:"go_workers"`
	Other     site.Num `json:"other_workers"`
	Dead      site.Num `json:"dead_workers"`
	Busy      site.Num `json:"busy"`
}

// Process is a goworker process in a list.
type Process struct {
	ID      string    `json:"id"`
	Name    string    `json:"name,omitempty"`
	Host    string    `json:"host"`
	PID     int       `json:"pid"`
	Version string    `json:"version"` // of goworker
	App     string    `json:"app_version,omitempty"`
	State   string    `json:"state"` // working, idle, stuck, partly, late or lost
	Workers int       `json:"workers"`
	Busy    site.Num  `json:"busy"`
	Stuck   int       `json:"stuck"`
	Jobs    int64     `json:"reserved"` // jobs that it has: those that run, and some that are about to
	Queues  []string  `json:"queues"`   // as its list has them, with their weights
	Control string    `json:"control"`  // off, on, full; "": its release knows no commands
	Memory  int64     `json:"memory_bytes"`
	CPU     site.Span `json:"cpu_ms"` // used since its start
	Load    float64   `json:"cpu_share"`
	RTT     site.Span `json:"rtt_ms"`
	Since   site.Time `json:"since"`
	Seen    site.Time `json:"seen"` // its last sign of life
	Down    []string  `json:"parts_down,omitempty"`
	Scale   string    `json:"autoscale,omitempty"` // between which numbers of workers it changes by itself
	Why     string    `json:"autoscale_reason,omitempty"`
	Shard   string    `json:"shard,omitempty"`
	Newest  bool      `json:"newest_version"`
}

// Slots are its workers, for the picture.
func (p Process) Slots() look.Slots {
	return look.Slots{Total: p.Workers, Busy: int(p.Busy.N), Stuck: p.Stuck}
}

// Word says the state.
func (p Process) Word() string {
	switch p.State {
	case "partly":
		return "starts or stops"
	case "late":
		return "silent"
	}
	return ""
}

// Look is the state whose look it has.
func (p Process) Look() string {
	switch p.State {
	case "partly":
		return "leaving"
	case "late":
		return "stalled"
	}
	return p.State
}

// Obeys reports whether the process obeys commands at all.
func (p Process) Obeys() bool { return p.Control == "on" || p.Control == "full" }

// Version is a version that processes run: of their program, or of goworker where the program has none.
type Version struct {
	Version   string    `json:"version"`
	Processes int       `json:"processes"`
	Since     site.Time `json:"since"` // its deploy, or the start of the first of its processes that still run
	Newest    bool      `json:"newest"`
}

// Server takes jobs for HTTP clients.
type Server struct {
	ID      string    `json:"id"`
	Host    string    `json:"host"`
	PID     int       `json:"pid"`
	Version string    `json:"version"`
	Address string    `json:"address"`
	Since   site.Time `json:"since"`
	Queues  []string  `json:"queues"` // for which requests wait
	Waiting int       `json:"waiting_requests"`
}

// Queue is a queue and who works it.
type Queue struct {
	Name    string    `json:"name"`
	State   string    `json:"state"`
	Waiting site.Num  `json:"waiting"`
	First   site.Wait `json:"first_waits"`
	Go      site.Num  `json:"go_workers"`
	Other   site.Num  `json:"other_workers"`
	HTTP    site.Num  `json:"http_servers"`
	By      []string  `json:"processes"` // goworker processes whose lists have it, ten at most
	More    int       `json:"more_processes"`
}

// late is the age of a lease from which a process is not on time: it renews it every two seconds.
const late = 5 * time.Second

func load(ctx context.Context, a *site.Ask) (any, error) {
	l := &List{By: a.Choice("by", "process", "worker", "queue"), Query: strings.TrimSpace(a.Param("q"))}
	base := a.Base
	l.All = Totals{
		Processes: len(base.Processes), Slots: site.Num{Count: base.Workers.Go}, Other: site.Num{Count: base.Workers.Other},
		Dead: site.Num{Count: base.Workers.Dead}, Busy: site.Num{Count: base.Workers.Busy},
	}
	for _, p := range base.Processes {
		if p.Dead {
			l.All.Lost++
		}
	}
	for _, q := range base.Queues {
		if queues.StateOf(q) == "nobody" {
			l.Nobody = append(l.Nobody, q.Name)
		}
	}
	for _, s := range base.Servings {
		l.Servers = append(l.Servers, Server{s.ID, s.Host, s.PID, s.Version, s.Address, site.Time{Time: s.Since}, s.Queues, s.Waiting})
	}
	var err error
	if l.Versions, err = versions(ctx, a); err != nil {
		return nil, err
	}
	switch l.By {
	case "worker":
		return l, l.workers(ctx, a)
	case "queue":
		l.queues(a)
		return l, nil
	}
	return l, l.processes(ctx, a)
}

// Runs is the version that a process runs, as the rollout counts it.
func (p Process) Runs() string { return cmp.Or(p.App, p.Version) }

// versions counts the processes of each version, the newest version first: that of the process that started last.
func versions(ctx context.Context, a *site.Ask) (found []Version, err error) {
	last := make(map[string]time.Time)
	for _, p := range a.Base.Processes {
		runs := cmp.Or(p.AppVersion, p.Version)
		n := slices.IndexFunc(found, func(v Version) bool { return v.Version == runs })
		if n < 0 {
			n, found = len(found), append(found, Version{Version: runs, Since: site.Time{Time: p.Since}})
		}
		found[n].Processes++
		if p.Since.Before(found[n].Since.Time) {
			found[n].Since = site.Time{Time: p.Since}
		}
		if p.Since.After(last[runs]) {
			last[runs] = p.Since
		}
	}
	if len(found) < 2 {
		return found, nil
	}
	deploys, err := site.Keep(ctx, a.Fleet, "deploys of two days", time.Minute, func(ctx context.Context) ([]inspect.Deploy, error) {
		return a.In().Deploys(ctx, a.Now().Add(-deployed))
	})
	for _, d := range deploys {
		n := slices.IndexFunc(found, func(v Version) bool { return v.Version == cmp.Or(d.Version, d.Goworker) })
		if n >= 0 && d.At.Before(found[n].Since.Time) {
			found[n].Since = site.Time{Time: d.At}
		}
	}
	slices.SortFunc(found, func(x, y Version) int {
		return cmp.Or(last[y.Version].Compare(last[x.Version]), cmp.Compare(x.Version, y.Version))
	})
	found[0].Newest = true
	return found, err
}

// deployed is how far back the list looks for the deploys of the versions.
const deployed = 48 * time.Hour

// Rollout are the parts of the picture of the versions.
func (l *List) Rollout() (parts []look.Part) {
	classes := []string{"", "y", "l", "w"}
	total := 0
	for _, v := range l.Versions {
		total += v.Processes
	}
	for n, v := range l.Versions {
		parts = append(parts, look.Part{Share: 100 * float64(v.Processes) / float64(total), Class: classes[min(n, len(classes)-1)]})
	}
	return parts
}

// Class is the colour of the version with a number in the picture.
func (l *List) Class(n int) string { return l.Rollout()[n].Class }

// full is how many processes a Sample has at most.
const full = 500

// processes lists goworker processes. Of a fleet that the Sample has whole it asks Redis nothing.
func (l *List) processes(ctx context.Context, a *site.Ask) error {
	all, after := a.Base.Processes, a.Param("after")
	newest := ""
	if len(l.Versions) > 1 {
		newest = l.Versions[0].Version
	}
	row := func(p inspect.SampleProcess) Process {
		r := processOf(a.Now(), p)
		r.Newest = newest != "" && r.Runs() == newest
		return r
	}
	if len(all) >= full && l.Query == "" {
		page, err := a.In().ProcessesPage(ctx, after, rows)
		if err != nil {
			return err
		}
		for _, p := range page.Processes {
			busy := inspect.Count{N: int64(p.Vitals.Busy), Bound: inspect.Exact}
			l.Processes = append(l.Processes, row(inspect.SampleProcess{ProcessInfo: p, Busy: busy}))
		}
		l.Next, l.Of = page.Next, site.Num{Count: page.Of}
		return nil
	}
	var fit []Process
	for _, p := range all {
		if r := row(p); r.fits(l.Query) {
			fit = append(fit, r)
		}
	}
	l.Looked, l.Of = int64(len(all)), site.Num{Count: inspect.Count{N: int64(len(fit)), Bound: inspect.Exact}}
	from, _ := slices.BinarySearchFunc(fit, after, func(p Process, id string) int { return cmp.Compare(p.ID, id) })
	for from < len(fit) && after != "" && fit[from].ID <= after {
		from++
	}
	l.Processes = fit[from:]
	if len(l.Processes) > rows {
		l.Processes = l.Processes[:rows]
		l.Next = l.Processes[rows-1].ID
	}
	return nil
}

// processOf is a process as lists show it.
func processOf(now time.Time, p inspect.SampleProcess) Process {
	r := Process{
		ID: p.ID, Name: p.Name, Host: p.Host, PID: p.PID, Version: p.Version, App: p.AppVersion, Workers: p.Concurrency, Busy: site.Num{Count: p.Busy}, Stuck: len(p.Stuck),
		Jobs: p.Jobs, Control: p.Control, Memory: p.Vitals.RSS, CPU: site.Span(p.Vitals.CPU), RTT: site.Span(p.Vitals.RTT), Since: site.Time{Time: p.Since},
		Seen: site.Time{Time: now.Add(-p.LeaseAge)}, Down: p.Vitals.Down, Why: p.Vitals.Autoscale.Reason, Shard: p.Shard,
	}
	if p.Vitals.Autoscale.Max > 0 {
		r.Scale = look.Whole(p.Vitals.Autoscale.Min) + " to " + look.Whole(p.Vitals.Autoscale.Max)
	}
	if up := p.Vitals.At.Sub(p.Since); up > 0 && p.Vitals.CPU > 0 {
		r.Load = float64(p.Vitals.CPU) / float64(up)
	}
	for queue := range strings.SplitSeq(p.Queues, ",") {
		if queue = strings.TrimSpace(queue); queue != "" {
			r.Queues = append(r.Queues, queue)
		}
	}
	switch {
	case p.Dead:
		r.State = "lost"
	case p.LeaseAge > late:
		r.State = "late"
	case r.Stuck > 0:
		r.State = "stuck"
	case len(r.Down) > 0:
		r.State = "partly"
	case p.Busy.N > 0:
		r.State = "working"
	default:
		r.State = "idle"
	}
	return r
}

// fits reports whether a process fits what the user looks for: words that all fit.
func (p Process) fits(query string) bool {
	for word := range strings.FieldsSeq(strings.ToLower(query)) {
		name, value, named := strings.Cut(word, ":")
		fit := false
		switch {
		case named && name == "version":
			fit = strings.HasPrefix(strings.ToLower(p.Version), value) || strings.HasPrefix(strings.ToLower(p.App), value)
		case named && name == "host":
			fit = strings.HasPrefix(strings.ToLower(p.Host), value)
		case named && name == "name":
			fit = strings.HasPrefix(strings.ToLower(p.Name), value)
		case named && name == "state":
			fit = p.State == value || p.Word() == value
		case named && name == "queue":
			fit = slices.ContainsFunc(p.Queues, func(q string) bool { return strings.Contains(strings.ToLower(q), value) })
		default:
			fit = strings.Contains(strings.ToLower(p.ID+" "+p.Name), word)
		}
		if !fit {
			return false
		}
	}
	return true
}
