package main

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"
)

// Why a job ran more than once.
const (
	causeDied   = "its process died"
	causeSilent = "silent past its lease"
	causeForced = "forced at the shutdown deadline"
	causeLost   = "commit lost by Redis"
	causeGone   = "an operator removed its record, and the reply to its commit was lost"
)

// causes finds out why a job ran again.
type causes struct {
	a      *arena
	byName map[string]*process
	reaped map[int][]time.Time // by process number, when it was declared dead
}

// newCauses reads the tombstones: each lasts a day, so from its end follows when it was
// set.
func (a *arena) newCauses() causes {
	c := causes{a: a, byName: map[string]*process{}, reaped: map[int][]time.Time{}}
	for _, p := range a.fleet {
		c.byName[p.name] = p
	}
	for _, key := range a.list("KEYS", "resque:go:reaped:*") {
		ends, err := redis.Int64(a.must("PEXPIRETIME", key), nil)
		if err != nil || ends < 0 {
			continue
		}
		pid := pidOf(strings.TrimPrefix(key, "resque:go:reaped:"))
		c.reaped[pid] = append(c.reaped[pid], time.UnixMilli(ends).Add(-24*time.Hour))
	}
	for pid, at := range a.found {
		c.reaped[pid] = append(c.reaped[pid], at)
	}
	return c
}

// judgeAll counts the runs of a job that repeat one of the same attempt, and returns how
// many attempts were followed by another.
func (c causes) judgeAll(r *result, id string, s *story) (retried int) {
	latest := map[int]run{}
	for _, n := range s.runs {
		if before, again := latest[n.attempt]; again && !before.again {
			c.judge(r, id, before, n)
		}
		latest[n.attempt] = n
		retried = max(retried, n.attempt-1)
	}
	for _, n := range s.drops {
		retried = max(retried, n.attempt-1)
	}
	return retried
}

// dropped reports whether a job was dropped: since it had expired, or another took its
// place. One that was done before was not; a process that was declared dead may say so. One that Ruby did afterwards was not either: the
// process that said so was killed before it had told Redis.
func (c causes) dropped(s *story) (expired, replaced bool) {
	for _, n := range s.drops {
		if p := c.byName[n.process]; p == nil || p.enqueues {
			replaced = true
			continue
		}
		expired = expired || !slices.ContainsFunc(s.runs, func(r run) bool {
			return r.start < n.start && c.committed(r, n.start) || r.start > n.start && r.end > 0 && !r.failed
		})
	}
	return expired, replaced
}

// committed reports whether a run's good end was committed, as far as its process was not
// dead before a time, nor declared dead.
func (c causes) committed(n run, before int64) bool {
	p := c.byName[n.process]
	return n.end > 0 && !n.failed && !p.dead(before) && !slices.ContainsFunc(c.reaped[p.pid], func(at time.Time) bool {
		return n.start < at.UnixNano() && at.UnixNano() < before
	})
}

// judge counts one repeated run.
func (c causes) judge(r *result, id string, first, again run) {
	p := c.byName[first.process]
	child := first.pid != 0 && first.pid != p.pid // which is killed before its job goes back
	if (first.end == 0 && !child || again.start < first.end) && !p.ended(again.start) {
		r.overlapped++
	}
	cause := c.of(p, first, again)
	if cause == "" && c.a.removed.doubtful[id] {
		cause = causeGone
	}
	if cause == "" && (c.stale(first) || c.stale(again)) {
		cause = causeSilent
	}
	if cause != "" {
		r.twice[cause]++
		return
	}
	r.unexplained = append(r.unexplained, fmt.Sprintf("%s: in %s from %s to %s, then in %s from %s", id,
		first.process, clock(first.start), clock(first.end), again.process, clock(again.start)))
}

func clock(ns int64) string {
	if ns == 0 {
		return "?"
	}
	return time.Unix(0, ns).Format("04:05.000")
}

// handIn is how long a process may take to hand in what it has finished. It takes
// milliseconds, and seconds on a machine that many processes of this harness share.
const handIn = 5 * time.Second

// of is why a job that ran first ran again; "" is no reason that is allowed.
func (c causes) of(p *process, first, again run) string {
	end := first.end
	if end == 0 {
		end = math.MaxInt64
	}
	if p.dead(again.start) {
		from := time.Unix(0, first.start)
		late := handIn + shared(c.a.outages, from, p.died) + shared(c.a.silences[p.name], from, p.died)
		if p.forced || p.termed && p.status > 0 {
			return causeForced
		}
		if p.died.Add(-late).UnixNano() <= end {
			return causeDied
		}
	}
	if p.forced {
		return causeForced // and still running
	}
	for _, at := range c.reaped[p.pid] {
		ns := at.UnixNano()
		if ns > first.start-int64(time.Second) && ns < again.start+int64(time.Second) && c.a.silent(p, at) {
			return causeSilent
		}
	}
	for _, at := range c.a.losses {
		if ns := at.UnixNano(); first.start < ns && ns <= again.start {
			return causeLost
		}
	}
	return ""
}

// stale reports whether a job began in a process that had been declared dead meanwhile: it
// was frozen when a worker had the job and the handler had not.
func (c causes) stale(n run) bool {
	const thaws = 2 * time.Second
	p, began := c.byName[n.process], time.Unix(0, n.start)
	return slices.ContainsFunc(c.reaped[p.pid], func(at time.Time) bool {
		return at.Before(began) && c.a.silent(p, at) && slices.ContainsFunc(c.a.silences[p.name], func(w window) bool {
			return w.from.Before(at) && (w.to.IsZero() || began.Before(w.to.Add(thaws)))
		})
	})
}

// shared is how much of the time from one moment to another the windows cover, counted
// again for each of them. One that has no end lasts.
func shared(windows []window, from, to time.Time) (sum time.Duration) {
	for _, w := range windows {
		lo, hi := w.from, w.to
		if lo.Before(from) {
			lo = from
		}
		if hi.IsZero() || hi.After(to) {
			hi = to
		}
		sum += max(0, hi.Sub(lo))
	}
	return sum
}

// silent reports whether faults kept the process from being heard, for about as long as a
// lease lasts, when it was declared dead. The last renewal may be 2 s older, and an outage
// of Redis may have gone before that it had no time to recover from, or come after.
func (a *arena) silent(p *process, at time.Time) bool {
	const slack = 3 * time.Second
	return slices.ContainsFunc(a.silences[p.name], func(w window) bool {
		from, to := w.from, w.to
		for _, o := range a.outages {
			if o.from.Before(from) && from.Before(o.to.Add(slack)) {
				from = o.from
			}
			if !to.IsZero() && o.from.Before(to.Add(slack)) && to.Before(o.to) {
				to = o.to
			}
		}
		return at.Sub(from) >= leasePeriod-slack && (to.IsZero() || at.Before(to.Add(slack)))
	})
}

// recoveries measures how long jobs that a death interrupted waited for their next
// run, and how long the slowest process took to work again after a fault that killed
// none. Time counts from when the fault was over, Redis was there, and a process that
// survived was there to recover them.
func (c causes) recoveries(l ledgers) (all []time.Duration) {
	starts := map[string][]int64{}
	for _, s := range l.jobs {
		for i, n := range s.runs {
			starts[n.process] = append(starts[n.process], n.start)
			if i == 0 || !c.byName[s.runs[i-1].process].dead(n.start) {
				continue
			}
			from := c.witnessed(c.byName[s.runs[i-1].process].died, n.start)
			all = append(all, max(0, time.Unix(0, n.start).Sub(from)))
		}
	}
	for _, heal := range c.a.heals {
		var slowest time.Duration
		for _, of := range starts {
			slices.Sort(of)
			if i, _ := slices.BinarySearch(of, heal.UnixNano()); i > 0 && i < len(of) {
				slowest = max(slowest, time.Unix(0, of[i]).Sub(heal))
			}
		}
		if slowest > 0 {
			all = append(all, slowest)
		}
	}
	return all
}

// witnessed is when a process that lived until the given time could first notice a death.
func (c causes) witnessed(died time.Time, until int64) time.Time {
	from := died
	var first time.Time
	for _, p := range c.a.fleet {
		if !p.node && (p.alive() || p.died.UnixNano() > until) && (first.IsZero() || p.begun.Before(first)) {
			first = p.begun
		}
	}
	if first.After(from) {
		from = first
	}
	for _, w := range c.a.outages {
		if w.to.After(from) && w.to.UnixNano() < until {
			from = w.to // the silence of all processes restarts
		}
	}
	return from
}
