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
