package search

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/goworker/goworker/dashboard/internal/site"
	"github.com/goworker/goworker/inspect"
)

// mostFound is how many rows the palette has.
const mostFound = 20

// commands are what the palette leads to beside pages: the page on which the dialog is.
var commands = []struct{ name, icon, action, path string }{
	{"Pause or resume a queue", "pause", "queue.pause", "queues"},
	{"Add a job", "plus", "queue.add", "queues"},
	{"Clear a queue", "trash", "queue.clear", "queues"},
	{"Retry failures", "retry", "failure.retry", "failures"},
	{"Run a delayed job now", "play", "delayed.run", "delayed"},
	{"Run a schedule now", "play", "schedule.run", "schedule"},
	{"Pause a class", "pause", "class.pause", "classes"},
	{"Change a limit", "limits", "limit.set", "limits"},
	{"Release a lock", "lock", "lock.release", "limits"},
	{"Cancel a job", "cancel", "job.cancel", "jobs"},
	{"Shut a process down", "stop", "process.shutdown", "processes"},
	{"Take an operation back", "undo", "operation.undo", "operations"},
}

// candidate is a row of the palette with how well it fits.
type candidate struct {
	site.Found
	rank int
}

// Palette finds what a user may jump to: pages, commands that the user may do, queues, classes, processes, and the job or workflow with this
// id. It returns at most 20 rows, and sends at most four commands.
func Palette(ctx context.Context, a *site.Ask, q string) ([]site.Found, error) {
	var all []candidate
	add := func(kind, name, icon, url, end string, handicap int) {
		if n, ok := fits(name, q); ok {
			all = append(all, candidate{site.Found{Kind: kind, Name: name, Icon: icon, URL: url, End: end}, n + handicap})
		}
	}
	there := make(map[string]bool)
	for _, t := range a.Rail() {
		there[t.URL] = true
		add("Pages", t.Name, t.Icon, t.URL, goTo(t.Key), 0)
	}
	for _, c := range commands {
		if url := a.URL(c.path); there[url] && a.May(c.action) {
			add("Commands", c.name, c.icon, url, "", 1)
		}
	}
	if q != "" {
		for _, name := range queuesOf(a) {
			add("Queues", name, "queues", a.URL("queues", name), "", 0)
		}
		if a.User.Whole() {
			classes, err := classesOf(ctx, a)
			if err != nil {
				return nil, err
			}
			for _, name := range classes {
				add("Classes", name, "classes", a.URL("classes", name), "", 0)
			}
			for _, name := range processesOf(a) {
				add("Processes", name, "machines", a.URL("processes", name), "", 0)
			}
		}
		if err := ids(ctx, a, q, &all); err != nil {
			return nil, err
		}
	}
	slices.SortStableFunc(all, func(x, y candidate) int { return cmp.Compare(x.rank, y.rank) })
	if q != "" {
		all = append(all[:min(len(all), mostFound-1)], candidate{Found: site.Found{Kind: "Search", Name: "Search for " + short(q, 100), Icon: "search", URL: a.URL("search", "?q", q)}})
	}
	all = all[:min(len(all), mostFound)]
	found := make([]site.Found, 0, len(all))
	for _, kind := range kindsOf(all) { // rows of a kind stand together, the kind that fits best first
		for _, c := range all {
			if c.Kind == kind {
				found = append(found, c.Found)
			}
		}
	}
	return found, nil
}

func kindsOf(all []candidate) (kinds []string) {
	for _, c := range all {
		if !slices.Contains(kinds, c.Kind) {
			kinds = append(kinds, c.Kind)
		}
	}
	return kinds
}

func goTo(key string) string {
	if key == "" {
		return ""
	}
	return "g " + key
}

// ids adds the job or the workflow with this id.
func ids(ctx context.Context, a *site.Ask, q string, all *[]candidate) error {
	if len(q) < 4 || strings.ContainsAny(q, " \t\"") {
		return nil
	}
	add := func(name, icon, url, end string) {
		*all = append(*all, candidate{site.Found{Kind: "By id", Name: name, Icon: icon, URL: url, End: end}, -1})
	}
	if isRef(q) {
		add("Failure "+q, "failures", a.URL("failures", q), "")
		add("Job "+q, "jobs", a.URL("jobs", q), "")
		return nil
	}
	switch s, err := a.In().Status(ctx, q); {
	case errors.Is(err, inspect.ErrNoResult):
		return nil
	case err != nil:
		return err
	case s.OfWorkflow && a.User.Whole():
		add("Workflow "+q, "flows", a.URL("workflows", q), string(s.State))
	case !s.OfWorkflow && a.Sees(s.Queue):
		add("Job "+q, "jobs", a.URL("jobs", q), s.Class+", "+string(s.State))
	}
	return nil
}

// fits says how well a name fits what was typed: 0 is the same, or nothing was typed; 1 begins so; 2 has a word that begins so; 3 has it in it; 4 has its
// letters in this order.
func fits(name, typed string) (rank int, ok bool) {
	name, typed = strings.ToLower(name), strings.ToLower(typed)
	at := strings.Index(name, typed)
	switch {
	case typed == "" || name == typed:
		return 0, true
	case at == 0:
		return 1, true
	case at > 0 && !letter(name[at-1]):
		return 2, true
	case at > 0:
		return 3, true
	}
	rest := []rune(typed)
	for _, r := range name {
		if len(rest) > 0 && r == rest[0] {
			rest = rest[1:]
		}
	}
	return 4, len(rest) == 0
}

func letter(c byte) bool { return c >= 'a' && c <= 'z' || c >= '0' && c <= '9' }
