package scheduler

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/logging"
	"github.com/goworker/goworker/internal/recurring"
	"github.com/goworker/goworker/internal/resque"
)

// load brings the entries up to date with the schedules that this process has of its own and those
// that were read from Redis.
func (t *Ticker) load(now time.Time) {
	own := t.table.all()
	all := maps.Clone(own)
	for name, text := range t.dynamic {
		switch old := t.entries[name]; {
		case own[name] != nil:
			t.warn(name, "its own", "this process has a recurring schedule of a name that is in Redis for all; its own counts here")
		case old != nil && old.text == text:
			all[name] = old.Schedule
		case t.refused[name] == text:
		default:
			s, err := recurring.Read(name, text)
			if err != nil {
				t.warn(name, err.Error(), "a recurring schedule in Redis is not understood and does not run", "error", err)
			}
			if err != nil || !s.CountsIn(t.config.Environment) {
				t.refused[name] = text
				continue
			}
			all[name] = s
		}
	}
	for name, e := range t.entries {
		if all[name] == nil {
			delete(t.entries, name)
			e.removed = now
			t.gone = append(t.gone, e)
		}
	}
	for name, s := range all {
		if old := t.entries[name]; old == nil || old.Schedule != s {
			text := ""
			if own[name] == nil {
				text = t.dynamic[name]
			}
			t.entries[name] = &entry{Schedule: s, text: text, loaded: now, wake: now}
		}
	}
	t.gone = slices.DeleteFunc(t.gone, func(e *entry) bool { // it was this process's own and goes on in Redis
		other := t.entries[e.Name]
		return other != nil && other.text != ""
	})
	maps.DeleteFunc(t.refused, func(name, _ string) bool { return !has(t.dynamic, name) })
	maps.DeleteFunc(t.said, func(name string, _ *logging.Once) bool { return !has(t.dynamic, name) && !has(t.entries, name) })
}

func has[T any](all map[string]T, name string) bool {
	_, there := all[name]
	return there
}

// warn logs a message about a schedule, unless it was the last one of its kind and had the same
// cause.
func (t *Ticker) warn(schedule, cause, message string, args ...any) {
	if t.said[schedule] == nil {
		t.said[schedule] = new(logging.Once)
	}
	if t.said[schedule].News(message, cause) {
		t.base.Log.Warn(message, append([]any{"schedule", schedule}, args...)...)
	}
}

// settled forgets that a message was logged about a schedule.
func (t *Ticker) settled(schedule, message string) {
	if said := t.said[schedule]; said != nil {
		said.Over(message)
	}
}

// due returns the entries to check now, the latest first. Unknown are those of them that another
// process may have fired.
func (t *Ticker) due(now time.Time) (due, unknown []*entry) {
	for _, e := range t.entries {
		if !e.wake.IsZero() && !e.wake.After(now) || e.ahead(now) {
			due = append(due, e)
		}
	}
	slices.SortFunc(due, func(a, b *entry) int { return cmp.Or(a.wake.Compare(b.wake), cmp.Compare(a.Name, b.Name)) })
	for _, e := range due {
		if !e.read || e.state.Owner != t.fleet.Self() {
			unknown = append(unknown, e)
		}
	}
	return due, unknown
}

// read reads the state of schedules.
func (t *Ticker) read(c redis.Conn, entries []*entry) error {
	if len(entries) == 0 {
		return nil
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name
	}
	all, err := t.base.Store.ReadTicks(c, names...)
	if err != nil {
		return err
	}
	for i, e := range entries {
		e.saw(all[i], t.redis.Now())
	}
	return nil
}

// disown leaves the schedules of this process's removed entries to other processes. When a schedule
// was removed is noted: a process that loads it later starts it afresh, and its fire times
// between were not missed.
func (t *Ticker) disown(c redis.Conn) error {
	for _, e := range t.gone {
		if !e.read || e.state.Owner != t.fleet.Self() {
			continue
		}
		f := t.note(e, e.state.Last, e.LastFired(e.state, t.redis.Now()))
		f.Owner = resque.NoOwner
		if !e.removed.IsZero() {
			f.Owner = resque.RemovedOwner(e.removed)
		}
		if _, _, err := t.base.Store.Fire(c, f); isRefusal(err) {
			t.warn(e.Name, err.Error(), "a recurring schedule could not be left to others; they fire it some seconds late", "error", err)
		} else if err != nil {
			return err
		}
	}
	t.gone = nil
	return nil
}
