package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"
)

// removals are the keys that an operator removed, with what each removal excuses.
type removals struct {
	gone     map[string]bool     // jobs that stood there and nowhere else
	doubtful map[string]bool     // jobs of a record that went while its process lost its connections, and of one second before
	unheard  map[string]bool     // of these, those of which the process may not have heard
	windows  map[string][]window // in which "slots", "lock", "rate" or "ticks" may not hold
	expired  int                 // jobs that were counted as expired
	n        int                 // jobs in gone that had run before
}

// takeOut reads a key, removes it and leaves one of another type where asked, in one step.
const takeOut = `local kind = redis.call('TYPE', KEYS[1]).ok
local read = {string = {'GET'}, list = {'LRANGE', 0, -1}, set = {'SMEMBERS'}, hash = {'HGETALL'}, zset = {'ZRANGE', 0, -1}}
local found = {}
if read[kind] then
  local command = table.remove(read[kind], 1)
  found = redis.call(command, KEYS[1], unpack(read[kind]))
  if kind == 'string' then found = {found} end
end
redis.call('DEL', KEYS[1])
if ARGV[1] == '' then return found end
if kind == 'string' then redis.call('HSET', KEYS[1], 'another', 'type') else redis.call('SET', KEYS[1], 'another type') end
return found`

// putOut removes the key of another type that takeOut left.
const putOut = `local kind = redis.call('TYPE', KEYS[1]).ok
if kind == 'string' and redis.call('GET', KEYS[1]) == 'another type' or kind == 'hash' and redis.call('HEXISTS', KEYS[1], 'another') == 1 then
  redis.call('DEL', KEYS[1])
end`

// removeKey removes a key. Where span is not 0, one of another type stands there for as long
// first. Where user is not "", the connections of that user are closed in the same step, and
// again and again for half a second after it: no outcome of that time is heard.
func (a *arena) removeKey(key string, span time.Duration, user string) {
	other := map[bool]string{true: "other"}[span > 0]
	c, err := a.dial()
	if err != nil {
		a.Fatalf("%v", err)
	}
	defer c.Close()
	var held holding
	if user != "" {
		held = a.watch(key)
	}
	from := time.Now()
	_ = c.Send("MULTI")
	_ = c.Send("EVAL", takeOut, 1, key, other)
	if user != "" {
		_ = c.Send("CLIENT", "KILL", "USER", user)
	}
	reply, err := redis.Values(c.Do("EXEC"))
	if err != nil {
		a.Fatalf("removing %s: %v", key, err)
	}
	found, _ := redis.Strings(reply[0], nil)
	a.excuse(key, found, held, user != "", from)
	if strings.HasPrefix(key, "resque:go:inflight:") && user != "" {
		a.excuseAnswers(key, from)
	}
	if user != "" {
		for end := time.Now().Add(500 * time.Millisecond); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
			_, _ = c.Do("CLIENT", "KILL", "USER", user)
		}
	}
	if span > 0 {
		time.Sleep(time.Until(from.Add(span)))
		if _, err := c.Do("EVAL", putOut, 1, key); err != nil {
			a.Fatalf("removing %s: %v", key, err)
		}
	}
	a.inject()
}

// holding is which jobs an in-flight record had within a second.
type holding struct {
	seen  map[string]bool      // the answer to their ends may be lost
	since map[string]time.Time // those that are there, and since when
	heard map[string]bool      // of these, those of which their process has heard by now
}

// look takes what stands in the record.
func (h *holding) look(values []string, at time.Time) {
	there := map[string]time.Time{}
	for _, text := range values {
		id := idOf(text)
		if there[id] = h.since[id]; there[id].IsZero() {
			there[id] = at
		}
		h.seen[id] = true
	}
	h.since = there
}

// end ends the looks. A process that wakes late by so much has heard of a job after four times as long.
func (h *holding) end(at time.Time, late time.Duration) {
	for id, from := range h.since {
		h.heard[id] = at.Sub(from) > 4*late
	}
}

func newHolding() holding { return holding{seen: map[string]bool{}, heard: map[string]bool{}} }

// watch looks at an in-flight record for a second. It takes the time in which a process wakes from how late it wakes itself: on a
// machine with much to do that is tens of milliseconds.
func (a *arena) watch(key string) holding {
	const pause = 10 * time.Millisecond
	held, late := newHolding(), time.Duration(0)
	for end := time.Now().Add(time.Second); ; {
		asked := time.Now()
		held.look(a.list("HVALS", key), asked)
		time.Sleep(pause) // also behind the last look, whose jobs their process is to hear of
		if late = max(late, time.Since(asked)-pause); asked.After(end) {
			held.end(time.Now().Add(-pause), late)
			return held
		}
	}
}

// windowOf says which rule may not hold after the removal of a key, since it stood only there
// which jobs the rule holds.
var windowOf = map[string]string{"slots": "slots", "unique": "lock", "rate": "rate", "ticks": "ticks"}

// excuse notes what stood in a key that was removed.
func (a *arena) excuse(key string, found []string, held holding, broken bool, from time.Time) {
	kind, _, _ := strings.Cut(strings.TrimPrefix(key, "resque:go:"), ":")
	a.mu.Lock()
	defer a.mu.Unlock()
	for i, text := range found {
		id := idOf(text)
		switch {
		case kind == "stats" && i%2 == 1 && found[i-1] == "expired":
			n := 0
			_, _ = fmt.Sscan(text, &n)
			a.removed.expired += n
		case id == "":
		case kind == "lane", kind == "schedule":
			a.removed.gone[id] = true
		case kind == "inflight" && broken:
			a.removed.doubtful[id] = true
			a.removed.unheard[id] = a.removed.unheard[id] || !held.heard[id]
		}
	}
	for id := range held.seen {
		a.removed.doubtful[id] = true
	}
	if name := windowOf[kind]; name != "" {
		a.removed.windows[name] = append(a.removed.windows[name], window{from, from.Add(10 * time.Second)})
	}
}

// excuseAnswers notes the jobs that ended or were dropped in a process just before its record was removed: the
// answer to their commit may have been lost with the connection.
func (a *arena) excuseAnswers(key string, removed time.Time) {
	l, err := readLedgers(a.dir)
	if err != nil {
		a.Fatalf("%v", err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	name := ""
	for _, p := range a.fleet {
		if strings.Contains(key, fmt.Sprintf(":%d:", p.pid)) {
			name = p.name
		}
	}
	for id, s := range l.jobs {
		for _, r := range s.runs {
			ended := time.Unix(0, r.end)
			if r.end > 0 && r.process == name && removed.Sub(ended).Abs() < time.Second {
				a.removed.doubtful[id] = true
			}
		}
		for _, d := range s.drops {
			if d.process == name && removed.Sub(time.Unix(0, d.start)).Abs() < time.Second {
				a.removed.doubtful[id] = true
			}
		}
	}
}

// within reports whether a rule may not hold at a time, since an operator removed what it needs.
func (r *removals) within(name string, at int64) bool {
	return slices.ContainsFunc(r.windows[name], func(w window) bool {
		return w.from.UnixNano() <= at && at <= w.to.UnixNano()
	})
}

// excused reports whether a job that has no outcome was removed by an operator.
func (r *removals) excused(id string, s *story) bool {
	// A job whose last reservation the process never heard of stood in the removed record only.
	unheard := r.unheard[id] && !slices.ContainsFunc(s.runs, func(n run) bool { return n.end == 0 })
	if !r.gone[id] && !unheard {
		return false
	}
	if len(s.runs) > 0 {
		r.n++ // its runs counted, and a retry of it was removed
	}
	return true
}

func newRemovals() removals {
	return removals{gone: map[string]bool{}, doubtful: map[string]bool{}, unheard: map[string]bool{}, windows: map[string][]window{}}
}
