package goworker

import (
	"slices"
	"testing"
)

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
