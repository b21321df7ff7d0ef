package limits

import (
	"slices"
	"time"

	"github.com/goworker/goworker/internal/outcome"
	"github.com/goworker/goworker/internal/resque"
	"github.com/goworker/goworker/internal/resque/control"
)

// This file is the limits that operators give classes, whatever their programs have registered. A paused class has a limit of 0.

// ruledLimit is a limit of a class by a rule.
type ruledLimit struct {
	limit Limit
	rule  control.Value
}

// readRules takes the rules as they were read.
func (t *Table) readRules(rules map[string]control.Value) {
	ruled := make(map[string][]ruledLimit)
	for name, v := range rules {
		switch kind, about := control.About(name); {
		case kind == control.ClassRule:
			limit := control.OfPause(about)
			ruled[about] = append(ruled[about], ruledLimit{Limit{Kind: limit.Kind, Name: limit.Name}, v})
		case kind == control.LimitRule && v.Class != "":
			limit, ok := resque.ParseSpec(about)
			if !ok {
				continue
			}
			l := Limit{Kind: limit.Kind, Name: limit.Name}
			if v.Key != "" {
				index, path, err := control.ParseKey(v.Key)
				if err != nil {
					continue
				}
				l.Key = Arg(index, path)
			}
			ruled[v.Class] = append(ruled[v.Class], ruledLimit{l, v})
		}
	}
	if len(ruled) == 0 {
		t.ruled.Store(nil)
		return
	}
	t.ruled.Store(&ruled)
}

func (t *Table) ofRules(class string) []ruledLimit {
	if ruled := t.ruled.Load(); ruled != nil {
		return (*ruled)[class]
	}
	return nil
}

// hasRules reports whether a rule gives the class a limit, one that has ended too.
func (t *Table) hasRules(class string) bool { return len(t.ofRules(class)) > 0 }

// className is the name by which rules know a job's class.
func className(j *outcome.Job) string {
	if j.Class != nil {
		return j.Class.Name
	}
	return j.Name
}

// limitsByRules returns the limits that hold for a job by rules.
func (t *Table) limitsByRules(j *outcome.Job) (limits []resque.Limit) {
	if t.ruled.Load() == nil || !j.Readable() {
		return nil
	}
	for _, r := range t.ofRules(className(j)) {
		if t.Rules.Over(r.rule) {
			continue
		}
		if limit, ok := r.limit.on(j.Args); ok {
			limit.Key = shortKey(limit.Key)
			limits = append(limits, limit)
		}
	}
	return limits
}

// laterRuled reports whether rules hold a job to a limit of which its lane knows nothing.
func (t *Table) laterRuled(j *outcome.Job) bool {
	limits := t.limitsByRules(j)
	if len(limits) == 0 {
		return false
	}
	of := j.Lane.Limits()
	return slices.ContainsFunc(limits, func(l resque.Limit) bool { return !slices.Contains(of, l) })
}

// sortedByRules reports whether lanes were sorted by a limit that a rule gives a class.
func (t *Table) sortedByRules(lanes resque.Lanes) bool {
	ruled := t.ruled.Load()
	if ruled == nil {
		return false
	}
	for _, of := range *ruled {
		for _, r := range of {
			if lanes.SortedBy(resque.Limit{Kind: r.limit.Kind, Name: r.limit.Name, Keyed: r.limit.Key != nil}) {
				return true
			}
		}
	}
	return false
}

// PauseOver reports whether the pause of a queue has an end, which has come.
func (t *Table) PauseOver(queue string) bool { return t.Rules.PauseOver(queue) }

// PauseLeft returns how long the pause of a queue lasts; 0: it has no end, or it has come.
func (t *Table) PauseLeft(queue string) time.Duration { return t.Rules.PauseLeft(queue) }
