package part

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
)

func names(parts []Part) []string {
	var n []string
	for _, p := range parts {
		n = append(n, p.Name)
	}
	return n
}

func TestSortPutsWhatIsRequiredFirst(t *testing.T) {
	t.Parallel()
	sorted, err := Sort([]Part{
		{Name: "poller", Requires: []string{"workers"}},
		{Name: "metrics"},
		{Name: "workers", Requires: []string{"lease", "db"}},
		{Name: "lease"},
		{Name: "db"},
	})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := names(sorted), []string{"lease", "db", "workers", "poller", "metrics"}; !slices.Equal(got, want) {
		t.Errorf("order %v, want %v", got, want)
	}
}

func TestSortRefuses(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		parts []Part
		want  string
	}{
		"a circle":          {[]Part{{Name: "a", Requires: []string{"b"}}, {Name: "b", Requires: []string{"a"}}}, `part "a" requires itself, by way of "b"`},
		"what is not there": {[]Part{{Name: "a", Requires: []string{"b"}}}, `part "a" requires "b", which is not there`},
		"a name twice":      {[]Part{{Name: "a"}, {Name: "a"}}, `two parts named "a"`},
		"no name":           {[]Part{{}}, "no name"},
	} {
		if _, err := Sort(tc.parts); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: error %v, want %q", name, err, tc.want)
		}
	}
}

func TestStopInReverseAlsoWhenOneFailsToStart(t *testing.T) {
	t.Parallel()
	var log []string
	part := func(name string, startErr, stopErr error) Part {
		return Part{Name: name,
			Start: func(context.Context) error { log = append(log, "start "+name); return startErr },
			Stop:  func(context.Context) error { log = append(log, "stop "+name); return stopErr },
		}
	}
	broken := errors.New("broken")
	started, err := Start(t.Context(), []Part{part("a", nil, nil), part("b", nil, broken), part("c", broken, nil), part("d", nil, nil)})
	err = errors.Join(err, Stop(t.Context(), started))
	want := []string{"start a", "start b", "start c", "stop b", "stop a"}
	if !slices.Equal(log, want) {
		t.Errorf("%v, want %v", log, want)
	}
	if text := err.Error(); !strings.Contains(text, "starting c: broken") || !strings.Contains(text, "stopping b: broken") {
		t.Errorf("error %q names not both", text)
	}
}

func TestAround(t *testing.T) {
	t.Parallel()
	sorted, err := Around([]Part{
		{Name: "lease"},
		{Name: "workers", Requires: []string{"lease"}},
		{Name: "poller", Requires: []string{"workers"}},
		{Name: "announcer", Requires: []string{"poller"}},
		{Name: "cache", Requires: []string{"db"}},
		{Name: "db"},
	}, "workers", "poller")
	if err != nil {
		t.Fatal(err)
	}
	if got, want := names(sorted), []string{"lease", "db", "cache", "workers", "poller", "announcer"}; !slices.Equal(got, want) {
		t.Errorf("order %v, want %v", got, want)
	}
	if _, err := Around([]Part{{Name: "workers", Requires: []string{"lease"}}}, "workers"); err == nil {
		t.Error("a part that is not there was found")
	}
}

// What a part requires is named once, also where the program or the arrangement names it twice.
func TestRequiresNamesEachPartOnce(t *testing.T) {
	t.Parallel()
	given := []string{"db", "poller", "db"}
	sorted, err := Arrange(Own, nil, []Part{{Name: "db"}, {Name: "web", Requires: given}})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range sorted {
		seen := make(map[string]bool)
		for _, name := range p.Requires {
			if seen[name] {
				t.Errorf("%s requires %q", p.Name, p.Requires)
			}
			seen[name] = true
		}
		if p.Name == "workers" && (!seen["records"] || !seen["db"] || !seen["control"]) || p.Name == "web" && len(seen) != 2 {
			t.Errorf("%s requires %q", p.Name, p.Requires)
		}
	}
	if !slices.Equal(given, []string{"db", "poller", "db"}) {
		t.Errorf("the program's list is now %q", given)
	}
}
