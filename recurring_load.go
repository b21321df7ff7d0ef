package goworker

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/resque"
)

// load takes in which schedules there are, and which are no more.
func (t *ticker) load(now time.Time) {
	all := t.d.recurring.all()
	for name, text := range t.dynamic {
		switch old := t.entries[name]; {
		case all[name] != nil:
			t.warn(name, "its own", "this process has a recurring schedule of a name that is in Redis for all; its own counts here")
		case old != nil && old.text == text:
			all[name] = old.recurring
		case t.refused[name] == text:
		default:
			d, err := readRecurring(name, text)
			if err != nil {
				t.warn(name, err.Error(), "a recurring schedule in Redis is not understood and does not run", "error", err)
			}
			if err != nil || !inEnvironment(d.Environments, t.d.config.environment) {
				t.refused[name] = text
				continue
			}
			all[name] = d
		}
	}
	for name, e := range t.entries {
		if all[name] == nil {
			delete(t.entries, name)
			e.removed = now
			t.gone = append(t.gone, e)
		}
	}
	for name, d := range all {
		if old := t.entries[name]; old == nil || old.recurring != d {
			text := ""
			if t.d.recurring.get(name) == nil {
				text = t.dynamic[name]
			}
			t.entries[name] = &scheduled{recurring: d, text: text, loaded: now, wake: now}
		}
	}
	t.gone = slices.DeleteFunc(t.gone, func(e *scheduled) bool { // it was our own and goes on in Redis
		other := t.entries[e.name]
		return other != nil && other.text != ""
	})
	maps.DeleteFunc(t.refused, func(name, _ string) bool { return !has(t.dynamic, name) })
	maps.DeleteFunc(t.warned, func(w warning, _ string) bool { return !has(t.dynamic, w.schedule) && !has(t.entries, w.schedule) })
}

func has[T any](all map[string]T, name string) bool {
	_, there := all[name]
	return there
}

// inEnvironment reports whether a schedule counts where this process runs.
func inEnvironment(of []string, here string) bool { return of == nil || slices.Contains(of, here) }

// warn logs something about a schedule, unless it was logged and is about the same still.
func (t *ticker) warn(name, what, message string, args ...any) {
	if w := (warning{name, message}); t.warned[w] != what {
		t.warned[w] = what
		t.d.log.Warn(message, append([]any{"schedule", name}, args...)...)
	}
}

// due are the schedules that must be looked at now, the latest first, and those of them
// whose ticks somebody else may have fired.
func (t *ticker) due(now time.Time) (due, unknown []*scheduled) {
	for _, e := range t.entries {
		if !e.wake.IsZero() && !e.wake.After(now) || e.ahead(now) {
			due = append(due, e)
		}
	}
	slices.SortFunc(due, func(a, b *scheduled) int { return cmp.Or(a.wake.Compare(b.wake), cmp.Compare(a.name, b.name)) })
	for _, e := range due {
		if !e.known || e.ticks.Owner != t.self() {
			unknown = append(unknown, e)
		}
	}
	return due, unknown
}

func (t *ticker) read(c redis.Conn, entries []*scheduled) error {
	if len(entries) == 0 {
		return nil
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.name
	}
	all, err := t.d.store.ReadTicks(c, names...)
	if err != nil {
		return err
	}
	for i, e := range entries {
		e.saw(all[i], t.now())
	}
	return nil
}

// disown leaves schedules to whoever else has them. That one was removed is noted, since
// for who is given it later it is a new one, and its ticks meanwhile were not missed.
func (t *ticker) disown(c redis.Conn) error {
	for _, e := range t.gone {
		if e.known && e.ticks.Owner == t.self() {
			f := t.fire(e, e.ticks.Last, e.done(e.ticks, t.now()))
			f.Owner = resque.NoOwner
			if !e.removed.IsZero() {
				f.Owner = resque.RemovedOwner(e.removed)
			}
			if _, _, err := t.d.store.Fire(c, f); isRefusal(err) {
				t.warn(e.name, err.Error(), "a recurring schedule could not be left to others; they fire it some seconds late", "error", err)
			} else if err != nil {
				return err
			}
		}
	}
	t.gone = nil
	return nil
}
