// Package rule has a process's copy of the rules of operators. Redis keeps the rules, and a process reads them again when Redis reports a
// change. While there are none the copy costs one load.
package rule

import (
	"math"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/resque/control"
)

// Table has the rules. It is safe for concurrent use.
type Table struct {
	version atomic.Uint64
	rules   atomic.Pointer[map[string]control.Value] // by name; the map does not change. nil: there are none
	now     atomic.Pointer[func() time.Time]

	mu      sync.Mutex // held while the rules are replaced
	changed []func(map[string]control.Value)
}

// UseClock gives the table Redis's clock, by which rules end.
func (t *Table) UseClock(now func() time.Time) { t.now.Store(&now) }

// OnChange makes the table call f with all readable rules after each change.
func (t *Table) OnChange(f func(map[string]control.Value)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.changed = append(t.changed, f)
}

// Read reads the rules. A rule that cannot be read has no effect.
func (t *Table) Read(s control.Store, c redis.Conn) error {
	texts, err := s.ReadRules(c)
	if err != nil {
		return err // the last rules are better than none
	}
	rules := make(map[string]control.Value, len(texts))
	for name, text := range texts {
		if kind, _ := control.About(name); kind == control.HideRule {
			continue // it is for operators, and a process with no other rule has none
		}
		if v, err := control.ParseValue(text); err == nil {
			rules[name] = v
		}
	}
	t.Set(rules)
	return nil
}

// Set replaces the rules.
func (t *Table) Set(rules map[string]control.Value) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(rules) == 0 && t.rules.Load() == nil {
		return
	}
	t.rules.Store(&rules)
	if len(rules) == 0 {
		t.rules.Store(nil)
	}
	for _, f := range t.changed {
		f(rules)
	}
	t.version.Add(1)
}

// Version changes with each change of the rules; 0: there were none so far.
func (t *Table) Version() uint64 { return t.version.Load() }

// Any reports whether there are rules, including ended ones.
func (t *Table) Any() bool { return t.rules.Load() != nil }

// All returns all rules, including ended ones. The map does not change.
func (t *Table) All() map[string]control.Value {
	if rules := t.rules.Load(); rules != nil {
		return *rules
	}
	return nil
}

// Get returns a rule, unless it has ended.
func (t *Table) Get(kind, about string) (v control.Value, ok bool) {
	rules := t.rules.Load()
	if rules == nil {
		return v, false
	}
	v, ok = (*rules)[control.RuleName(kind, about)]
	return v, ok && !t.Over(v)
}

// Over reports whether a rule has ended.
func (t *Table) Over(v control.Value) bool {
	now := t.now.Load()
	return v.Until > 0 && now != nil && v.Ended((*now)())
}

// Late reports whether a rule ended this long ago and is still there.
func (t *Table) Late(d time.Duration) bool {
	now := t.now.Load()
	if now == nil {
		return false
	}
	at := (*now)().Add(-d)
	for _, v := range t.All() {
		if v.Ended(at) {
			return true
		}
	}
	return false
}

// PauseOver reports whether the pause of a queue has ended by its time. Redis may still list the queue as paused.
func (t *Table) PauseOver(queue string) bool {
	v, there := t.All()[control.RuleName(control.PauseRule, queue)]
	return there && t.Over(v)
}

// PauseLeft returns how long the pause of a queue still lasts; 0: it has no end, or has ended.
func (t *Table) PauseLeft(queue string) time.Duration {
	v, there := t.All()[control.RuleName(control.PauseRule, queue)]
	now := t.now.Load()
	if !there || v.Until == 0 || now == nil {
		return 0
	}
	return max(0, time.UnixMilli(v.Until).Sub((*now)()))
}

// Timeout returns the time limit that a rule sets for the jobs of a class.
func (t *Table) Timeout(class string) (limit time.Duration, ok bool) {
	v, ok := t.Get(control.TimeoutRule, class)
	if !ok {
		return 0, false
	}
	ms, err := strconv.ParseInt(v.Value, 10, 64)
	return time.Duration(ms) * time.Millisecond, err == nil && ms >= 0 && ms <= int64(math.MaxInt64/time.Millisecond)
}

// Retries returns how often a failed job of a class runs again by a rule; -1: without end.
func (t *Table) Retries(class string) (n int, ok bool) {
	v, ok := t.Get(control.RetriesRule, class)
	if !ok {
		return 0, false
	}
	n, err := strconv.Atoi(v.Value)
	return n, err == nil && n >= -1
}
