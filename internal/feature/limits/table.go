package limits

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/goworker/goworker/internal/outcome"
	"github.com/goworker/goworker/internal/resque"
	"github.com/goworker/goworker/internal/rule"
)

// Table knows the limits of all classes and queues of a process on one Redis. It is safe for concurrent use.
type Table struct {
	*registered

	Rules *rule.Table                             // what operators have set there
	ruled atomic.Pointer[map[string][]ruledLimit] // by class; nil: rules concern no class
}

// registered is what the program has registered, for all Redises.
type registered struct {
	classes Classes

	classesHave atomic.Bool // some class has limits
	version     atomic.Uint64
	laid        atomic.Uint64 // how often a configuration file has changed limits of classes
	write       sync.Mutex    // held while queues is replaced
	queues      atomic.Pointer[map[string]Of]
}

// Classes finds what was registered.
type Classes interface {
	// All returns all classes by their names. The map does not change.
	All() map[string]*outcome.Class

	// Read reads a payload and finds its class, as a worker does. It calls no handler.
	Read(queue string, raw []byte) *outcome.Job
}

// NewTable returns the table of these classes.
func NewTable(classes Classes) *Table {
	return tableOf(&registered{classes: classes})
}

// Beside returns a table of the same classes and queues for another Redis: it has rules of its own.
func (t *Table) Beside() *Table { return tableOf(t.registered) }

func tableOf(r *registered) *Table {
	t := &Table{registered: r, Rules: new(rule.Table)}
	t.Rules.OnChange(t.readRules)
	return t
}

// ClassHasLimits is called for each class that is registered with limits.
func (t *Table) ClassHasLimits() { t.classesHave.Store(true) }

// Changed is called when limits of classes have changed while jobs run.
func (t *Table) Changed() { t.laid.Add(1) }

// Any reports whether any class or queue has limits, by its program or by a rule, or LimitQueue named a queue.
func (t *Table) Any() bool {
	return t.classesHave.Load() || t.version.Load() > 0 || t.ruled.Load() != nil
}

// Version changes with the limits of queues and with the rules; 0: there never were any.
func (t *Table) Version() uint64 { return t.version.Load() + t.laid.Load() + t.Rules.Version() }

// SetQueue replaces the limits of a queue. Without limits it only says that the queue holds jobs of
// classes that have some.
func (t *Table) SetQueue(queue string, limits []Limit) {
	t.write.Lock()
	defer t.write.Unlock()
	next := make(map[string]Of)
	if old := t.queues.Load(); old != nil {
		next = maps.Clone(*old)
	}
	next[queue] = Named("queue/"+queue, limits)
	t.queues.Store(&next)
	t.version.Add(1)
}

// Limits reports whether SetQueue named the queue.
func (t *Table) Limits(queue string) bool { return t.ofQueue(queue) != nil }

func (t *Table) ofQueue(queue string) Of {
	if m := t.queues.Load(); m != nil {
		return (*m)[queue]
	}
	return nil
}

// SortedBy reports whether a queue's jobs were sorted by limits that hold here.
func (t *Table) SortedBy(lanes resque.Lanes) bool {
	one := func(l Limit) bool {
		return lanes.SortedBy(resque.Limit{Kind: l.Kind, Name: l.Name, Keyed: l.Key != nil})
	}
	if slices.ContainsFunc(t.ofQueue(lanes.Queue), one) {
		return true
	}
	if t.sortedByRules(lanes) {
		return true
	}
	for _, c := range t.classes.All() {
		if of, ok := outcome.Get[Of](c); ok && slices.ContainsFunc(of, one) {
			return true
		}
	}
	return false
}

// LaneOf returns the lane in which a job that was read waits, and whether it has limits.
func (t *Table) LaneOf(j *outcome.Job) (lane resque.Lane, held bool) {
	all := t.ofQueue(j.Queue)
	var args []json.RawMessage
	if j.Readable() {
		args = j.Args
		if of, _ := outcome.Get[Of](j.Class); len(of) > 0 {
			all = append(all[:len(all):len(all)], of...)
		}
	}
	ruled := t.limitsByRules(j)
	if exempt, ok := outcome.Get[Exempt](j.Class); ok && exempt(j) {
		all = nil // an operator's rules hold for it too
	}
	if len(all)+len(ruled) == 0 && !j.UnknownClass {
		return resque.Lane{Queue: j.Queue}, false
	}
	limits := make([]resque.Limit, 0, len(all)+len(ruled)+1)
	limits = append(limits, ruled...)
	for _, l := range all {
		if limit, ok := l.on(args); ok {
			limit.Key = shortKey(limit.Key)
			limits = append(limits, limit)
		}
	}
	held = len(limits) > 0
	if j.UnknownClass {
		limits = append(limits, resque.Limit{Kind: resque.LimitUnknown, Keyed: true, Key: shortKey(j.Name)})
	}
	return resque.NewLane(j.Queue, limits...), held
}

// Numbers returns the numbers of all limits, as Redis keeps them. The error says which limit was given
// two numbers; the first by its owner's name counts.
func (t *Table) Numbers() (numbers map[string]string, err error) {
	numbers = make(map[string]string)
	from := make(map[string]string)
	add := func(owner string, limits Of) {
		for _, l := range limits {
			if l.Kind == resque.LimitNone {
				continue
			}
			spec, says := resque.Limit{Kind: l.Kind, Name: l.Name}.Spec(), owner+" says "+l.text()
			switch was, ok := numbers[spec]; {
			case !ok:
				numbers[spec], from[spec] = l.Spec, says
			case was != l.Spec && err == nil:
				err = fmt.Errorf("the limit %q was given two numbers: %s, and %s; give it the same everywhere, or two names", l.Name, from[spec], says)
			}
		}
	}
	classes := t.classes.All()
	for _, name := range slices.Sorted(maps.Keys(classes)) {
		of, _ := outcome.Get[Of](classes[name])
		add("class "+classes[name].Name, of)
	}
	if m := t.queues.Load(); m != nil {
		for _, queue := range slices.Sorted(maps.Keys(*m)) {
			add("queue "+queue, (*m)[queue])
		}
	}
	return numbers, err
}
