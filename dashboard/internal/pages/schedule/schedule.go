// Package schedule is the pages of recurring schedules: when they fire, which jobs they enqueue, and where they are kept.
package schedule

import (
	"cmp"
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"encoding/json"
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

const (
	rows  = 100            // of a page
	day   = 24 * time.Hour // of the picture
	dense = 73             // ticks above which the picture has a line
	ahead = 10             // ticks that the page of a schedule lists
)

// Pages are the pages of schedules.
func Pages() []*site.Page {
	return []*site.Page{
		{Path: "/schedule", Tab: "schedule", Title: "Schedule", Load: load, Template: "schedule.html parts.html", Files: files, Data: (*List)(nil), Params: []string{"q", "after"}},
		{Path: "/schedule/{name}", Tab: "schedule", Load: loadOne, Template: "one.html parts.html", Files: files, Data: (*One)(nil)},
	}
}

// Actions are what is done with schedules.
func Actions() []*site.Action {
	return []*site.Action{
		{Name: "schedule.run", Path: "/schedule/{name}/run", Role: guard.Operator, Do: run},
		{Name: "schedule.pause", Path: "/schedule/{name}/pause", Role: guard.Operator, Do: pause},
		{Name: "schedule.resume", Path: "/schedule/{name}/resume", Role: guard.Operator, Do: resume},
		{Name: "schedule.set", Path: "/schedule/{name}/set", Role: guard.Admin, Do: set},
		{Name: "schedule.set", Path: "/schedule/set", Role: guard.Admin, Do: set}, // of a form that asks for the name
		{Name: "schedule.delete", Path: "/schedule/{name}/delete", Role: guard.Admin, Do: remove},
	}
}

// List is the page /schedule.
type List struct {
	Now         site.Time `json:"server_time"`
	Environment string    `json:"environment"`
	Schedules   []Row     `json:"schedules"`
	All         int       `json:"all"`
	Of          int       `json:"of"` // that fit
	Paused      int       `json:"paused"`
	Owners      []string  `json:"on_duty"` // processes that fire schedules
	Locks       []Lock    `json:"locks"`   // of schedulers
	Diffs       []Diff    `json:"differences"`
	FileError   string    `json:"file_error,omitempty"` // why the file of schedules cannot be compared
	HasFile     bool      `json:"has_file"`
	Query       string    `json:"-"`
	site.Paged
}

// Lock is a lock of schedulers, as Ruby's.
type Lock struct {
	Holder string    `json:"holder"`
	Left   site.Span `json:"left_ms"` // 0: it does not end by itself
	Shard  string    `json:"shard,omitempty"`
}

// Row is a schedule.
type Row struct {
	Name         string          `json:"name"`
	State        string          `json:"state"` // "", paused, broken, or elsewhere: it counts in other environments
	Words        string          `json:"words,omitempty"`
	Cron         string          `json:"cron,omitempty"`
	Every        site.Span       `json:"every_ms,omitempty"`
	Zone         string          `json:"zone,omitempty"`
	Next         site.Time       `json:"next"`
	LastTick     site.Time       `json:"last_tick"`
	LastEnqueued site.Time       `json:"last_enqueued"`
	Class        string          `json:"class,omitempty"`
	Queue        string          `json:"queue,omitempty"`
	Args         site.Args       `json:"args,omitempty"`
	Description  string          `json:"description,omitempty"`
	Environments []string        `json:"environments,omitempty"`
	Source       string          `json:"source"` // Redis, code or file, Ruby's, or nowhere
	Owner        string          `json:"owner,omitempty"`
	Processes    []string        `json:"processes,omitempty"` // that have it in their code or in a file
	Broken       string          `json:"broken,omitempty"`
	Parameters   []Parameter     `json:"parameters,omitempty"`
	Shard        string          `json:"shard,omitempty"`
	Kept         bool            `json:"kept"` // in Redis: it can be run, changed and deleted here
	Digest       string          `json:"digest,omitempty"`
	Config       json.RawMessage `json:"config,omitempty"` // masked

	ticks []time.Time
}

// When is what says when it fires, as it is written.
func (r Row) When() string {
	if r.Cron != "" || r.Every == 0 {
		return r.Cron
	}
	return "every " + look.Dur(r.Every.D())
}

// OtherZone is the zone of a cron that does not name it; "": it is that of the process, or the cron has it.
func (r Row) OtherZone() string {
	if r.Zone == "Local" || strings.HasSuffix(r.Cron, " "+r.Zone) {
		return ""
	}
	return r.Zone
}

// Host is the machine of the process that fires it.
func (r Row) Host() string {
	host, _, _ := strings.Cut(r.Owner, ":")
	return host
}

// Parameter is a value that resque-scheduler asks for when a job is run by hand.
type Parameter struct {
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
	Default     string `json:"default,omitempty"` // masked
}

// all are the schedules that the user sees.
func all(ctx context.Context, a *site.Ask) ([]inspect.ScheduleInfo, error) {
	infos, err := site.Keep(ctx, a.Fleet, keyOfAll, 5*time.Second, a.In().Schedules)
	if err != nil || a.User.Whole() {
		return infos, err
	}
	return slices.DeleteFunc(slices.Clone(infos), func(s inspect.ScheduleInfo) bool { return !sees(a, s) }), nil
}

const keyOfAll = "schedules"

// sees reports whether the user sees a schedule: not one whose queue nobody knows.
func sees(a *site.Ask, s inspect.ScheduleInfo) bool {
	return a.User.Whole() || s.Queue != "" && a.Sees(s.Queue)
}

func load(ctx context.Context, a *site.Ask) (any, error) {
	infos, err := all(ctx, a)
	if err != nil {
		return nil, err
	}
	l := &List{Now: site.Time{Time: a.Now()}, Environment: a.Name, All: len(infos), Query: strings.TrimSpace(a.Param("q"))}
	var fit []inspect.ScheduleInfo
	for _, s := range infos {
		if s.Paused {
			l.Paused++
		}
		if s.Owner != "" && !slices.Contains(l.Owners, s.Owner) {
			l.Owners = append(l.Owners, s.Owner)
		}
		if matches(s, l.Query) {
			fit = append(fit, s)
		}
	}
	slices.SortStableFunc(fit, func(x, y inspect.ScheduleInfo) int {
		if x.Next.IsZero() != y.Next.IsZero() {
			return map[bool]int{true: 1, false: -1}[x.Next.IsZero()]
		}
		return cmp.Or(x.Next.Compare(y.Next), cmp.Compare(x.Name, y.Name))
	})
	l.Of = len(fit)
	from, _ := strconv.Atoi(a.Param("after"))
	from = max(0, min(from, len(fit)))
	for _, s := range fit[from:min(len(fit), from+rows)] {
		r := rowOf(a, s)
		if r.State == "" {
			r.ticks = s.Upcoming(a.Now().Add(day), dense)
		}
		l.Schedules = append(l.Schedules, r)
	}
	if from+rows < len(fit) {
		l.Next = strconv.Itoa(from + rows)
	}
	if !a.User.Whole() {
		l.Owners = nil
		return l, nil
	}
	locks, err := site.Keep(ctx, a.Fleet, "scheduler locks", 5*time.Second, a.In().SchedulerLocks)
	for _, k := range locks {
		l.Locks = append(l.Locks, Lock{k.Holder, site.Span(k.Left), k.Shard})
	}
	if l.HasFile = a.Schedule != ""; l.HasFile {
		l.compare(ctx, a)
	}
	return l, err
}

// matches reports whether a part of a schedule's name, class or queue is what the user looks for.
func matches(s inspect.ScheduleInfo, query string) bool {
	query = strings.ToLower(query)
	return query == "" || slices.ContainsFunc([]string{s.Name, s.Class, s.Queue}, func(text string) bool { return strings.Contains(strings.ToLower(text), query) })
}

// rowOf is a schedule as the pages show it.
func rowOf(a *site.Ask, s inspect.ScheduleInfo) Row {
	r := Row{
		Name: s.Name, Cron: s.Cron, Every: site.Span(s.Every), Zone: s.Zone, Next: site.Time{Time: s.Next}, LastTick: site.Time{Time: s.LastTick},
		LastEnqueued: site.Time{Time: s.LastEnqueued}, Class: s.Class, Queue: s.Queue, Description: a.Masks.Text(s.Description), Environments: s.Environments,
		Owner: s.Owner, Processes: s.Processes, Shard: s.Shard, Kept: s.Kept, Source: sourceOf(s),
	}
	if s.Args != nil {
		r.Args = a.Masks.Args(s.Class, s.Args)
	}
	switch {
	case s.Cron != "":
		r.Words = Words(s.Cron)
	case s.Every > 0:
		r.Words = every(s.Every)
	}
	switch {
	case s.Broken != nil:
		r.State, r.Broken = "broken", a.Masks.Text(strings.TrimPrefix(s.Broken.Error(), "goworker: "))
	case s.Paused:
		r.State = "paused"
	case s.Environments != nil && a.Name != "" && !slices.Contains(s.Environments, a.Name):
		r.State = "elsewhere"
	}
	if s.Kept {
		r.Digest = digestOf(s)
		r.Config = maskedConfig(a, s)
		r.Parameters = parametersOf(a, s)
	}
	return r
}

// sourceOf says where a schedule is.
func sourceOf(s inspect.ScheduleInfo) string {
	switch {
	case s.Kept:
		return "Redis"
	case s.Source == inspect.SourceCode, !s.LastTick.IsZero():
		return "code or file"
	case !s.LastEnqueued.IsZero():
		return "Ruby's"
	}
	return "nowhere"
}

// digestOf names what a schedule is, so that nobody changes one that is other than they saw.
func digestOf(s inspect.ScheduleInfo) string {
	sum := sha256.Sum256(s.Config)
	return hex.EncodeToString(sum[:6])
}

// maskedConfig is the entry of a schedule without secrets.
func maskedConfig(a *site.Ask, s inspect.ScheduleInfo) json.RawMessage {
	var fields map[string]json.RawMessage
	if json.Unmarshal(s.Config, &fields) != nil || fields == nil {
		return a.Masks.JSON(s.Config)
	}
	for name, value := range fields {
		if name != "args" {
			one, _ := json.Marshal(map[string]json.RawMessage{name: value})
			var back map[string]json.RawMessage
			if json.Unmarshal(a.Masks.JSON(one), &back) == nil {
				fields[name] = back[name]
			}
			continue
		}
		masked := a.Masks.Args(s.Class, s.Args)
		if len(value) > 0 && value[0] != '[' && len(masked) == 1 {
			fields[name] = masked[0]
		} else if s.Broken == nil {
			fields[name], _ = json.Marshal(masked)
		} else {
			fields[name] = a.Masks.JSON(value)
		}
	}
	text, err := json.Marshal(fields)
	if err != nil {
		return a.Masks.JSON(s.Config)
	}
	return text
}

// rawParameters are the parameters of an entry of resque-scheduler, with their defaults as texts.
func rawParameters(s inspect.ScheduleInfo) (all []Parameter) {
	var entry struct {
		Parameters map[string]struct {
			Description string          `json:"description"`
			Default     json.RawMessage `json:"default"`
		} `json:"parameters"`
	}
	if json.Unmarshal(s.Config, &entry) != nil {
		return nil
	}
	for name, p := range entry.Parameters {
		one := Parameter{Name: name, Description: p.Description}
		if json.Unmarshal(p.Default, &one.Default) != nil && string(p.Default) != "null" {
			one.Default = string(p.Default)
		}
		all = append(all, one)
	}
	slices.SortFunc(all, func(x, y Parameter) int { return cmp.Compare(x.Name, y.Name) })
	return all
}

// parametersOf are the parameters as the pages show them.
func parametersOf(a *site.Ask, s inspect.ScheduleInfo) []Parameter {
	all := rawParameters(s)
	for n, p := range all {
		all[n].Description = a.Masks.Text(p.Description)
		all[n].Default = maskedDefault(a, p)
	}
	return all
}

func maskedDefault(a *site.Ask, p Parameter) string {
	one, _ := json.Marshal(map[string]string{p.Name: p.Default})
	var back map[string]string
	if json.Unmarshal(a.Masks.JSON(one), &back) != nil {
		return ""
	}
	return back[p.Name]
}

// Plot is the picture of the next 24 hours.
func (l *List) Plot(v *site.View) look.Day {
	d := look.Day{From: l.Now.In(v.Loc), To: l.Now.Add(day).In(v.Loc)}
	fires := 0
	for _, r := range l.Schedules {
		if len(r.ticks) == 0 {
			continue
		}
		fires++
		d.Rows = append(d.Rows, look.Ticks{Name: r.Name, At: r.ticks})
	}
	d.Label = fmt.Sprintf("When schedules fire in the next 24 hours: %s", look.Plural(fires, "schedule does", "schedules do"))
	return d
}

// Drawn reports whether the picture has a row.
func (l *List) Drawn() bool {
	return slices.ContainsFunc(l.Schedules, func(r Row) bool { return len(r.ticks) > 0 })
}

// One is the page of a schedule.
type One struct {
	Row
	Now   site.Time   `json:"server_time"`
	Ticks []site.Time `json:"next_ticks"`
}

// PageTitle is the schedule's name.
func (o *One) PageTitle() string { return "Schedule " + o.Name }

// ArgsText is the arguments as JSON, for a form.
func (r Row) ArgsText() string {
	if r.Args == nil {
		return "[]"
	}
	text, _ := json.Marshal([]json.RawMessage(r.Args))
	return string(text)
}

// ConfigText is the entry as text.
func (r Row) ConfigText() string { return string(r.Config) }

// EveryText is the period as a form takes it.
func (r Row) EveryText() string {
	if r.Every == 0 {
		return ""
	}
	return strconv.FormatFloat(r.Every.D().Seconds(), 'f', -1, 64) + "s"
}

// one finds the schedule of the path. A user who does not see it finds none.
func one(ctx context.Context, a *site.Ask, name string) (inspect.ScheduleInfo, error) {
	s, err := a.In().Schedule(ctx, name)
	if err == nil && !sees(a, s) {
		err = fmt.Errorf("schedule %s: %w", name, inspect.ErrUnknownSchedule)
	}
	return s, err
}

func loadOne(ctx context.Context, a *site.Ask) (any, error) {
	s, err := one(ctx, a, a.Path("name"))
	if err != nil {
		return nil, err
	}
	o := &One{Row: rowOf(a, s), Now: site.Time{Time: a.Now()}}
	for _, at := range s.Upcoming(time.Unix(1<<40, 0), ahead) {
		o.Ticks = append(o.Ticks, site.Time{Time: at})
	}
	return o, nil
}

// Blank is what the form of a new schedule begins with.
func (l *List) Blank() Row { return Row{} }
