package main

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// backWithin is the time in which a job that a kill interrupted must run again.
const backWithin = 15 * time.Second

// concern notes which kills concerned a job: those of the process that held it, and those of a
// process that was taking it back.
type concern struct {
	a      *arena
	kills  map[string][]int64   // by job
	reaper map[string]time.Time // by dead process, when its reaper died
}

// storm kills processes so often that few live for as long as a lease lasts. It spares none,
// and starts another in the place of each at once.
func storm(opts options) result {
	processes, kills, span := 5, 240, 200*time.Second
	if opts.short {
		processes, kills, span = 4, 20, 15*time.Second
	}
	return contain(opts, "storm", nil, func(a *arena) {
		c := concern{a: a, kills: map[string][]int64{}, reaper: map[string]time.Time{}}
		var fleet []*process
		for range processes {
			fleet = append(fleet, a.start("-concurrency=8"))
		}
		a.produce(load{rate: 26 * processes, longest: 300, even: true}) // four deaths would file a job
		time.Sleep(time.Second)
		began := time.Now()
		for i := range kills {
			at := began.Add(span * time.Duration(i) / time.Duration(kills)) // on the average
			time.Sleep(time.Until(at.Add(a.between(0, 2*span/time.Duration(kills)))))
			k := a.intn(processes)
			fleet[k].kill()
			c.killed(fleet[k])
			a.inject()
			fleet[k] = a.launch("-concurrency=8")
		}
		a.checks = append(a.checks, c.check)
	})
}

// killed notes what a process held when it was killed, and what stands in the records of
// processes that are fenced: their reaper may have been this one.
func (c concern) killed(p *process) {
	at := p.died
	for _, id := range c.a.list("ZRANGEBYSCORE", "resque:go:processes", "-1", "-1") {
		if at.Sub(c.reaper[id]) < leasePeriod/2 {
			continue // it died before; another goes on half a lease later
		}
		if c.note("resque:go:inflight:"+id, at) {
			c.reaper[id] = at
		}
	}
	for _, key := range c.a.list("KEYS", fmt.Sprintf("resque:go:inflight:*:%d:*", p.pid)) {
		c.note(key, at)
	}
}

// note adds a kill to all jobs of an in-flight record, and reports whether there are any.
func (c concern) note(record string, at time.Time) bool {
	values := c.a.list("HVALS", record)
	for _, v := range values {
		if id := idOf(v); id != "" {
			c.kills[id] = append(c.kills[id], at.UnixNano())
		}
	}
	return len(values) > 0
}

// idOf finds a job's id, its first argument, in what is written of it.
func idOf(text string) string {
	_, rest, _ := strings.Cut(text, `"args":["`)
	id, _, _ := strings.Cut(rest, `"`)
	return id
}

// check measures how long each interrupted job waited for its next run, from the last kill
// that concerned it.
func (c concern) check(l ledgers, r *result) {
	r.recovery = nil
	late := map[string]string{}
	for id, kills := range c.kills {
		s := l.jobs[id]
		if s == nil {
			continue
		}
		slices.Sort(kills)
		for i, at := range kills {
			n := slices.IndexFunc(s.runs, func(n run) bool { return n.start > at })
			if n < 0 || i+1 < len(kills) && kills[i+1] < s.runs[n].start {
				continue // done before its record said so, or concerned again
			}
			wait := time.Duration(s.runs[n].start - at)
			r.recovery = append(r.recovery, wait)
			if wait > backWithin {
				late[id] = fmt.Sprintf("%s for %.1f s from %s", id, wait.Seconds(), clock(at))
			}
		}
	}
	if len(c.kills) == 0 {
		c.a.problem("no kill interrupted a job")
	}
	c.a.note("%d jobs were interrupted, %d times their reaper was killed too", len(c.kills), len(c.reaper))
	if len(late) > 0 {
		var some []string
		for _, text := range late {
			some = append(some, text)
		}
		slices.Sort(some)
		c.a.problem("%d interrupted jobs waited for more than %v: %s", len(late), backWithin, strings.Join(some[:min(5, len(some))], ", "))
	}
}
