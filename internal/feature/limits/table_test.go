package limits

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/goworker/goworker/internal/args"
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
		allocations := func(jobs int) float64 {
			raws := slices.Repeat([][]byte{[]byte(payload)}, jobs)
			return testing.AllocsPerRun(100, func() {
				if lanes := table.Lanes("q", raws); lanes[jobs-1] != (resque.Lane{Queue: "q"}) {
					t.Fatalf("a job %s is held", name)
				}
			})
		}
		if one, many := allocations(1), allocations(100); many > one {
			t.Errorf("100 jobs %s cost %v allocations, one %v", name, many, one)
		}
	}
}

// The lane of a class follows the limits of its class and of its queue.
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
			if lane := table.Lanes(queue, [][]byte{raw})[0]; lane != resque.NewLane(queue, limits...) {
				t.Errorf("a job of queue %s waits in lane %+v", queue, lane)
			}
		}
	}
	ofClass := resque.Limit{Kind: resque.LimitRunning, Name: "Mail"}
	is("q", ofClass)
	is("other", ofClass)
	is("q", ofClass)
	table.SetQueue("q", []Limit{{Kind: resque.LimitStarts, Spec: "1"}})
	is("q", resque.Limit{Kind: resque.LimitStarts, Name: "queue/q"}, ofClass)
	is("other", ofClass)
	classes["Mail"] = class(resque.LimitStarts)
	is("other", resque.Limit{Kind: resque.LimitStarts, Name: "Mail"})
}

// Jobs of a batch are in the lanes in which each is when it is read by itself, whatever form it has.
func TestLanesOfABatch(t *testing.T) {
	t.Parallel()
	first := func(args []json.RawMessage) string { return string(args[0]) } // without arguments it panics
	class := func(name string, limits ...Limit) *outcome.Class {
		c := &outcome.Class{Name: name}
		outcome.Put(c, Named(name, limits))
		return c
	}
	exempt := class("Exempt", Limit{Kind: resque.LimitNone, Key: first})
	outcome.Put(exempt, Exempt(func(j *outcome.Job) bool { return len(j.Args) == 2 }))
	classes := parsed{
		"Free":   {Name: "Free"},
		"Plain":  class("Plain", Limit{Kind: resque.LimitRunning, Spec: "1"}),
		"Fair":   class("Fair", Limit{Kind: resque.LimitNone, Key: first}),
		"Both":   class("Both", Limit{Kind: resque.LimitRunning, Spec: "1"}, Limit{Kind: resque.LimitRunning, Spec: "1", Key: first}),
		"Twice":  class("Twice", Limit{Kind: resque.LimitNone, Key: first}, Limit{Kind: resque.LimitStarts, Spec: "1", Key: first}),
		"Exempt": exempt,
	}
	var jobs [][]byte
	for _, name := range []string{"Free", "Plain", "Fair", "Both", "Twice", "Exempt", "Unknown"} {
		for _, rest := range []string{
			`","args":["a",1]}`, `","args":["b"]}`, `","args":["a",1]} `, `","args":["a",{"x":[1]}],"id":"7"}`, `","args":[]}`, `","args":[""]}`, `"}`, `","args":null}`,
			`","args":{"a":1}}`, `","args":"a"}`, `","queue":"x","args":["a"]}`, `","args":["a"],"args":["b"]}`, `","args":["a"],"\u0061rgs":["b"]}`, `","args":["a"],"class":"Fair"}`,
			`", "args":["a"]}`, `","args":["a` + "\xff" + `"]}`, `","args":["` + strings.Repeat("k", 200) + `"]}`, `","args":["\u00e9"]}`, `","args":[1`, `","args":[1]}}`, `","args":[1,]}`,
		} {
			jobs = append(jobs, []byte(`{"class":"`+name+rest))
		}
	}
	for _, text := range []string{``, `{}`, `x`, `{"class":"","args":["a"]}`, `{"args":["a"],"class":"Fair"}`, `{"class":"Fa\u0069r","args":["a"]}`, ` {"class":"Fair","args":["a"]}`} {
		jobs = append(jobs, []byte(text))
	}
	for _, limits := range [][]Limit{nil, {{Kind: resque.LimitRunning, Spec: "2"}}, {{Kind: resque.LimitNone, Key: first}}} {
		table := NewTable(classes)
		if limits != nil {
			table.SetQueue("q", limits)
		}
		lanes := table.Lanes("q", jobs)
		for i, raw := range jobs {
			want, _ := table.LaneOf(classes.Read("q", raw))
			broken := strings.HasPrefix(string(raw), `{"class":"Plain`) || strings.HasPrefix(string(raw), `{"class":"Free`)
			if lanes[i] != want && !(broken && lanes[i].Shared != "" || broken && limits == nil) {
				t.Errorf("with %d limits of the queue %s is in %+v, read by itself in %+v", len(limits), raw, lanes[i], want)
			}
		}
		alike := 0
		for _, raw := range jobs {
			of, some := table.Alike("q", raw)
			for i, other := range jobs {
				rest, begins := bytes.CutPrefix(other, of.Begin)
				if some && begins && !bytes.Contains(rest, []byte(`\`)) && !bytes.Contains(rest, []byte(`"class"`)) {
					if alike++; lanes[i] != of.Lane {
						t.Errorf("with %d limits of the queue %s is in %+v, as jobs that begin as %s in %+v", len(limits), other, lanes[i], raw, of.Lane)
					}
				}
			}
		}
		if keyed := limits != nil && limits[0].Key != nil; keyed != (alike == 0) {
			t.Errorf("with %d limits of the queue %d pairs of jobs are alike", len(limits), alike)
		}
	}
}

// parsed are classes whose jobs are read as a worker does.
type parsed map[string]*outcome.Class

func (r parsed) All() map[string]*outcome.Class           { return r }
func (r parsed) Class(name string) *outcome.Class         { return r[name] }
func (r parsed) Unknown(name string) error                { return fmt.Errorf("unknown class %s", name) }
func (r parsed) Misfit(class string, _ *args.Error) error { return fmt.Errorf("misfit %s", class) }
func (r parsed) Read(queue string, raw []byte) *outcome.Job {
	j := &outcome.Job{Reserved: resque.Reserved{Queue: queue, Payload: raw}}
	outcome.Read(j, r, 1<<20)
	return j
}
