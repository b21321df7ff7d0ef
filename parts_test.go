package goworker

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

func TestSortPartsPutsWhatIsRequiredFirst(t *testing.T) {
	t.Parallel()
	sorted, err := sortParts([]Part{
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

func TestSortPartsRefuses(t *testing.T) {
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
		if _, err := sortParts(tc.parts); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: error %v, want %q", name, err, tc.want)
		}
	}
}

func TestPartsAddedOutliveTheJobs(t *testing.T) {
	t.Parallel()
	d := New(WorkerSettings{})
	d.AddPart(Part{Name: "db"})
	d.AddPart(Part{Name: "cache", Requires: []string{"db"}})
	d.AddPart(Part{Name: "announcer", Requires: []string{"poller"}})
	got, err := d.Parts()
	if err != nil {
		t.Fatal(err)
	}
	before := func(a, b string) {
		t.Helper()
		if slices.Index(got, a) > slices.Index(got, b) {
			t.Errorf("%s starts after %s in %v", a, b, got)
		}
	}
	before("db", "workers")
	before("cache", "workers")
	before("db", "cache")
	before("poller", "announcer")
}

func TestPartsStopInReverseAlsoWhenOneFailsToStart(t *testing.T) {
	t.Parallel()
	var log []string
	part := func(name string, startErr, stopErr error) Part {
		return Part{Name: name,
			Start: func(context.Context) error { log = append(log, "start "+name); return startErr },
			Stop:  func(context.Context) error { log = append(log, "stop "+name); return stopErr },
		}
	}
	broken := errors.New("broken")
	started, err := startParts(t.Context(), []Part{part("a", nil, nil), part("b", nil, broken), part("c", broken, nil), part("d", nil, nil)})
	err = errors.Join(err, stopParts(t.Context(), started))
	want := []string{"start a", "start b", "start c", "stop b", "stop a"}
	if !slices.Equal(log, want) {
		t.Errorf("%v, want %v", log, want)
	}
	if text := err.Error(); !strings.Contains(text, "starting c: broken") || !strings.Contains(text, "stopping b: broken") {
		t.Errorf("error %q names not both", text)
	}
}
