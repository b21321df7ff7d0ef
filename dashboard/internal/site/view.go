package site

import (
	"fmt"
	"html/template"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goworker/goworker/dashboard/internal/look"
	"github.com/goworker/goworker/inspect"
)

// Ago is a time as how long it is past or to come; In is the same word for times to come.
func (v *View) Ago(at time.Time) template.HTML   { return v.T.Ago(at) }
func (v *View) In(at time.Time) template.HTML    { return v.T.In(at) }
func (v *View) Clock(at time.Time) template.HTML { return v.T.Clock(at) }
func (v *View) Day(at time.Time) template.HTML   { return v.T.Day(at) }

// Times are those of the page, for plots.
func (v *View) Times() look.Times { return v.T }

func (v *View) Theme() string { return v.theme }

// Refresh is the period of ?refresh=, for readers without script; "": the page does not ask for itself.
func (v *View) Refresh() string {
	if n, err := strconv.Atoi(v.query.Get("refresh")); err == nil && n >= 2 && n <= 3600 {
		return strconv.Itoa(n)
	}
	return ""
}

// Environment names what the dashboard is of.
func (v *View) Environment() string {
	if v.Name != "" {
		return v.Name
	}
	return "Resque"
}

// Where says which Redis and namespace it is.
func (v *View) Where() string {
	where := strings.TrimSuffix(v.Fleet.Client.Namespace(), ":")
	if v.Base != nil && len(v.Base.Servers) == 1 {
		if u, err := url.Parse(v.Base.Servers[0].Name); err == nil && u.Host != "" {
			where += " on " + u.Host
		}
	} else if v.Base != nil && len(v.Base.Servers) > 1 {
		where += fmt.Sprintf(" on %d Redises", len(v.Base.Servers))
	}
	return where
}

// Asset is the address of a file of the look, and Integrity its digest.
func (v *View) Asset(name string) string     { return v.root + v.site.assets.Path(name) }
func (v *View) Integrity(name string) string { return v.site.assets.Integrity(name) }

// Root is the path that cookies of the dashboard are for.
func (v *View) Root() string { return v.root + "/" }

// LiveURL is where the stream of this page is.
func (v *View) LiveURL() string { return v.URL("live", "?page", v.Here()) }

// BackURL is the page that the form of an action was on.
func (v *View) BackURL() string {
	if back := local(v.Value("back")); back != "" {
		return v.prefix + back
	}
	return v.URL()
}

// Below is the address of a path below the prefix.
func (v *View) Below(path string) string { return v.prefix + local(path) }

// FleetURL is the overview of another fleet.
func (v *View) FleetURL(name string) string { return v.root + "/fleets/" + segment(name) + "/" }

func (v *View) RoleText() string {
	if v.User.Can != nil {
		return ""
	}
	return v.User.Role.String()
}

// ReadOnlyText says why there are no buttons.
func (v *View) ReadOnlyText() string {
	if v.ReadOnly {
		return ""
	}
	if why := v.Fleet.Refuses(); why != "" {
		return "This dashboard only shows. " + why
	}
	return ""
}

func (v *View) ZoneText() string { return v.T.Zone() }

func (v *View) RedisText() string {
	if v.Base == nil || len(v.Base.Servers) == 0 {
		return ""
	}
	s := v.Base.Servers[0]
	if len(v.Base.Servers) > 1 {
		return fmt.Sprintf("%d Redises, the first %s away", len(v.Base.Servers), look.Dur(s.RoundTrip))
	}
	return fmt.Sprintf("Redis %s, %s away", s.Version, look.Dur(s.RoundTrip))
}

func (v *View) CostText() string {
	return look.Plural(v.Cost.Trips(), "round trip", "round trips")
}

// Rail are the pages that the rail leads to, for this user.
func (a *Ask) Rail() []Tab { return a.site.tabsOf(a) }

// tabsOf are the links of the rail.
func (s *Site) tabsOf(a *Ask) (all []Tab) {
	whole := a.User.Whole()
	var n numbers
	if a.Base != nil {
		n = numbersOf(a)
	}
	for _, t := range rail {
		if t.whole && !whole || t.shown != nil && !t.shown(a) || !s.has(t.path) {
			continue
		}
		tab := Tab{ID: t.group + "/" + t.id, Name: t.name, Icon: t.icon, URL: a.prefix + t.path, Key: t.key, Current: a.page != nil && a.page.Tab == t.id}
		if t.number != nil {
			tab.N, tab.Class = t.number(n)
		}
		all = append(all, tab)
	}
	for _, e := range a.Extra {
		all = append(all, Tab{ID: "own/" + e.Path, Name: e.Name, Icon: "info", URL: a.URL(e.Path)})
	}
	return all
}

// numbers are what the rail says beside its links.
type numbers struct {
	waiting, running, failures, delayed inspect.Count
	lost                                int
}

func numbersOf(a *Ask) (n numbers) {
	n.running, n.failures, n.delayed = a.Base.Workers.Busy, a.Base.Failures, a.Base.Delayed
	n.waiting = a.Base.Waiting
	if !a.User.Whole() {
		n = numbers{waiting: a.Waiting()}
		return n
	}
	for _, p := range a.Base.Processes {
		if p.Dead {
			n.lost++
		}
	}
	n.lost += int(a.Base.Workers.Dead.N)
	return n
}

// Waiting is how many jobs wait in the queues that the user sees.
func (a *Ask) Waiting() inspect.Count {
	sum := inspect.Count{Bound: inspect.Exact}
	for _, q := range a.Queues() {
		sum.N += q.Waiting.N
		if q.Waiting.Bound != inspect.Exact {
			sum.Bound = inspect.AtLeast
		}
	}
	return sum
}

// Queues are those that the user sees, sorted by name.
func (a *Ask) Queues() []inspect.SampleQueue {
	if a.User.Whole() {
		return a.Base.Queues
	}
	return slices.DeleteFunc(slices.Clone(a.Base.Queues), func(q inspect.SampleQueue) bool { return !a.Sees(q.Name) })
}

func counted(c inspect.Count, class string) (string, string) {
	if !c.Known() || c.N == 0 {
		return "", ""
	}
	return look.CountShort(c), class
}

// rail lists the links. A page that is not there has no link.
var rail = []struct {
	group, id, name, icon, path, key string

	whole  bool // not for users who see some queues only
	shown  func(a *Ask) bool
	number func(n numbers) (text, class string)
}{
	{group: "now", id: "overview", name: "Overview", icon: "overview", path: "/", key: "o"},
	{group: "now", id: "queues", name: "Queues", icon: "queues", path: "/queues", key: "q", number: func(n numbers) (string, string) { return counted(n.waiting, "") }},
	{group: "now", id: "running", name: "Running", icon: "running", path: "/running", key: "r", number: func(n numbers) (string, string) { return counted(n.running, "") }},
	{group: "now", id: "failures", name: "Failures", icon: "failures", path: "/failures", key: "f", number: func(n numbers) (string, string) { return counted(n.failures, "bad") }},
	{group: "later", id: "delayed", name: "Delayed", icon: "delayed", path: "/delayed", key: "d", number: func(n numbers) (string, string) { return counted(n.delayed, "") }},
	{group: "later", id: "schedule", name: "Schedule", icon: "schedule", path: "/schedule", key: "s"},
	{group: "later", id: "flows", name: "Workflows", icon: "flows", path: "/workflows", key: "w"},
	{group: "later", id: "jobs", name: "Jobs", icon: "jobs", path: "/jobs", key: "j"},
	{group: "why", id: "classes", name: "Classes", icon: "classes", path: "/classes", key: "c", whole: true},
	{group: "why", id: "limits", name: "Limits, locks", icon: "limits", path: "/limits", key: "l"},
	{group: "why", id: "machines", name: "Processes", icon: "machines", path: "/processes", key: "p", whole: true, number: func(n numbers) (string, string) {
		if n.lost == 0 {
			return "", ""
		}
		return strconv.Itoa(n.lost), "warn"
	}},
	{group: "why", id: "events", name: "Events", icon: "events", path: "/events", key: "e"},
	{group: "why", id: "http", name: "HTTP", icon: "http", path: "/http", key: "h", whole: true, shown: func(a *Ask) bool {
		return a.Base != nil && (a.Base.Leased.N > 0 || len(a.Base.Servings) > 0) || a.page != nil && a.page.Tab == "http"
	}},
	{group: "why", id: "redis", name: "Redis", icon: "redis", path: "/redis", key: "i", whole: true},
	{group: "why", id: "operations", name: "Operations", icon: "ops", path: "/operations", key: "b"},
	{group: "why", id: "audit", name: "Audit log", icon: "audit", path: "/audit", key: "a", whole: true},
}
