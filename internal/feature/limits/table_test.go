package limits

import (
	"strings"
	"testing"

	"github.com/goworker/goworker/internal/outcome"
	"github.com/goworker/goworker/internal/resque"
)

// known are classes whose jobs are not read.
type known map[string]*outcome.Class

func (r known) All() map[string]*outcome.Class { return r }

func (known) Read(queue string, raw []byte) *outcome.Job { return new(outcome.Job) }

// Every job of a process that has limits anywhere is looked at, one after the other.
func TestJobsWithoutLimitsCostNoMemoryBesideOthersWith(t *testing.T) {
	limited := &outcome.Class{Name: "Limited"}
	outcome.Put(limited, Named("Limited", []Limit{{Kind: resque.LimitRunning, Spec: "1"}}))
	table := NewTable(known{"Limited": limited, "Free": {Name: "Free"}})
	table.ClassHasLimits()
	for name, payload := range map[string]string{
		"of a class without limits": `{"class":"Free","args":["a",1]}`,
		"long":                      `{"class":"Free","args":["` + strings.Repeat("a", 1<<16) + `"]}`,
	} {
		raw := []byte(payload)
		if n := testing.AllocsPerRun(100, func() {
			if _, held := table.Lane("q", raw); held {
				t.Fatalf("a job %s is held", name)
			}
		}); n > 0 {
			t.Errorf("a job %s costs %v allocations", name, n)
		}
	}
}

// The lane of a class is found again without memory, until the limits of its class or of its queue change.
func TestLaneOfAClassFollowsItsLimits(t *testing.T) {
	class := func(spec resque.LimitKind) *outcome.Class {
		c := &outcome.Class{Name: "Mail"}
		outcome.Put(c, Named("Mail", []Limit{{Kind: spec, Spec: "1"}}))
		return c
	}
	classes := known{"Mail": class(resque.LimitRunning)}
	table, raw := NewTable(classes), []byte(`{"class":"Mail","args":[]}`)
	table.ClassHasLimits()
	is := func(queue string, limits ...resque.Limit) {
		t.Helper()
		for range 2 {
			if lane, held := table.Lane(queue, raw); !held || lane != resque.NewLane(queue, limits...) {
				t.Errorf("a job of queue %s waits in lane %+v, %t", queue, lane, held)
			}
		}
	}
	ofClass := resque.Limit{Kind: resque.LimitRunning, Name: "Mail"}
	is("q", ofClass)
	is("other", ofClass)
	is("q", ofClass)
	if n := testing.AllocsPerRun(100, func() { table.Lane("q", raw) }); n > 0 {
		t.Errorf("a job costs %v allocations", n)
	}
	table.SetQueue("q", []Limit{{Kind: resque.LimitStarts, Spec: "1"}})
	is("q", resque.Limit{Kind: resque.LimitStarts, Name: "queue/q"}, ofClass)
	is("other", ofClass)
	classes["Mail"] = class(resque.LimitStarts)
	is("other", resque.Limit{Kind: resque.LimitStarts, Name: "Mail"})
}
