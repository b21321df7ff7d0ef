package dashboard

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The table of docs/dashboard.md has all actions with their roles and paths, and no others.
func TestDocsListActions(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../docs/dashboard.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(page), "\n| action | role | path (`POST`) |")
	table, _, _ = strings.Cut(table, "\n\n")
	quoted := regexp.MustCompile("`([^`]+)`")
	var shown []string
	for line := range strings.Lines(table) {
		cells := strings.SplitN(line, " | ", 4)
		if len(cells) < 4 || !strings.HasPrefix(line, "| `") {
			continue
		}
		names, last := quoted.FindAllStringSubmatch(cells[0], -1), ""
		var paths []string
		for _, m := range quoted.FindAllStringSubmatch(cells[2], -1) {
			path := m[1]
			if verb, ok := strings.CutPrefix(path, "…"); ok { // the path before with another verb
				path = last[:strings.LastIndexByte(last, '/')] + verb
			}
			if last = path; strings.HasPrefix(path, "/") {
				paths = append(paths, path)
			}
		}
		for n, name := range names {
			for i, path := range paths {
				if i%len(names) == n { // of several actions in a row each has its paths in turn
					shown = append(shown, name[1]+" "+cells[1]+" POST "+path)
				}
			}
		}
	}
	var want []string
	for _, act := range actions() {
		want = append(want, act.Name+" "+act.Role.String()+" POST "+act.Path)
	}
	slices.Sort(shown)
	slices.Sort(want)
	for _, row := range want {
		if !slices.Contains(shown, row) {
			t.Errorf("docs/dashboard.md lacks %s", row)
		}
	}
	for _, row := range shown {
		if !slices.Contains(want, row) {
			t.Errorf("docs/dashboard.md has %s, which is no action", row)
		}
	}
}
