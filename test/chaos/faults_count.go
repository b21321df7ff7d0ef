package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/goworker/goworker"
)

// counted is what one run of a job of class Count noted.
type counted struct {
	run
	from    int // where its cursor stood; -1: it did not read it
	numbers []numbered
	made    []string // what its function that runs once returned
	said    []string // what Once returned
	snoozed bool
	refused int64 // when its cursor was refused; 0: it was not
}

type numbered struct {
	n  int
	at int64
}

// last is the last number that was counted before a time, and -1 if there is none.
func (c counted) last(before int64) int {
	n := -1
	for _, k := range c.numbers {
		if k.at <= before {
			n = k.n
		}
	}
	return n
}

// What a kill may cost: what was counted in the last second is counted again. Writing it takes a moment more.
const (
	cursorEvery = time.Second
	cursorSlack = 500 * time.Millisecond
)

// cursor has jobs count by cursors while their processes are killed, stopped and frozen for longer than their leases, and
// Redis breaks down.
func cursor(opts options) result {
	return contain(opts, "cursor", durable, func(a *arena) {
		a.harsh = true
		const n = 700
		flags := []string{"-concurrency=4", "-shutdown-timeout=0.3"}
		var fleet []*process
		for range 4 {
			fleet = append(fleet, a.start(flags...))
		}
		jobs := 48
		if opts.short {
			jobs = 24
		}
		a.count(jobs, n)
		replace := func(end func(*process)) {
			k := 2 + a.intn(len(fleet)-2)
			old := fleet[k]
			fleet[k] = a.launch(flags...)
			end(old)
			a.inject()
		}
		frozen := make(chan struct{})
		time.AfterFunc(time.Second, func() {
			defer close(frozen)
			fleet[1].freeze(func() { time.Sleep(leasePeriod + 5*time.Second) })
			a.inject()
		})
		for i := range jobs / 6 {
			time.Sleep(a.between(500*time.Millisecond, 1500*time.Millisecond))
			switch i % 4 {
			case 0:
				replace((*process).kill)
			case 1:
				replace(func(p *process) {
					p.forced = true // its jobs return at the end of the timeout
					p.signal(syscall.SIGTERM)
					<-p.exited
				})
			case 2:
				a.outage(a.hangUp)
			default:
				a.crashRedis(a.between(0, time.Second))
			}
		}
		<-frozen
		a.eventuallyWithin(3*soon, "all have counted to their ends", func() bool { return a.number("EVAL", waiting, 0) == 0 })
		a.checks = append(a.checks, a.checkCounts(jobs, n))
	})
}

// count enqueues jobs that count to n.
func (a *arena) count(jobs, n int) {
	p, done := a.flowProducer("counts")
	defer done()
	for i := range jobs {
		j := job{id: fmt.Sprint("count-", i)}
		p.note('t', j)
		a.insist("job "+j.id+" is enqueued", func(context.Context) error {
			_, err := a.client.EnqueueWith(&goworker.Job{Queue: "work", Payload: goworker.Payload{Class: "Count", Args: []any{j.id, 5, n}}},
				goworker.WithID(j.id), goworker.Unique(goworker.ByKey(j.id)))
			if duplicate := new(goworker.DuplicateError); errors.As(err, &duplicate) {
				return nil // the answer was lost
			}
			return err
		})
		p.note('a', j)
	}
}

// checkCounts looks at what the jobs have counted: no number is missing, few were counted twice, and what was to be done once was.
func (a *arena) checkCounts(jobs, n int) func(ledgers, *result) {
	return func(l ledgers, r *result) {
		var again time.Duration
		refused, repeated := 0, 0
		for i := range jobs {
			id := fmt.Sprint("count-", i)
			runs := l.counts[id]
			slices.SortFunc(runs, func(a, b *counted) int { return cmp.Compare(a.start, b.start) })
			span, times := a.checkCount(id, runs, n)
			again, repeated = max(again, span), repeated+times
			a.checkOnce(id, runs)
			for _, c := range runs {
				if c.refused > 0 {
					refused++
				}
			}
		}
		if jobs < 10 {
			return
		}
		a.note("%d jobs counted to %d; after a death at most what %.2f s had made was counted again, %d times; %d runs were refused their cursors",
			jobs, n, again.Seconds(), repeated, refused)
	}
}

// lastHeard is when a run's process died, or fell silent before it was declared dead; false if neither until a time.
func (c causes) lastHeard(n run, until int64) (time.Time, bool) {
	p := c.byName[n.process]
	at, gone := time.Time{}, false
	if p.dead(until) {
		at, gone = p.died, true
	}
	for _, reaped := range c.reaped[p.pid] {
		if reaped.UnixNano() > until+int64(time.Second) || reaped.UnixNano() < n.start || !c.a.silent(p, reaped) {
			continue
		}
		for _, w := range c.a.silences[p.name] {
			if w.from.Before(reaped) && (!gone || w.from.Before(at)) && w.from.UnixNano() > n.start {
				at, gone = w.from, true
			}
		}
	}
	return at, gone
}

// checkCount compares where each run of a job went on with what those before it had counted. It returns the longest time whose
// numbers were counted again, and how often any were.
func (a *arena) checkCount(id string, runs []*counted, n int) (again time.Duration, times int) {
	c := a.newCauses()
	least, most := 0, 0 // where the next run may go on
	seen := make([]bool, n)
	var before *counted
	var heard time.Time
	for _, run := range runs {
		if before != nil {
			least, most, heard = c.goesOn(before, run, least, most)
		}
		if from := run.from; from >= 0 {
			switch {
			case from > most:
				a.problem("job %s went on with %d in %s at %s, and the runs before it had counted to %d", id, from, run.process, clock(run.start), most)
			case from < least:
				a.problem("job %s went back to %d in %s at %s, and must have kept %d", id, from, run.process, clock(run.start), least)
			}
			if before != nil && !heard.IsZero() {
				for _, k := range before.numbers {
					if k.n == from && time.Unix(0, k.at).Before(heard) {
						again, times = max(again, heard.Sub(time.Unix(0, k.at))), times+1
					}
				}
			}
			least, most = from, from
		}
		for _, k := range run.numbers {
			seen[k.n] = true
		}
		before = run
	}
	if missing := slices.Index(seen, false); missing >= 0 {
		a.problem("job %s has never counted %d", id, missing)
	}
	return again, times
}

// goesOn says between which numbers a run goes on after another one, and when that one was last heard if its process died.
func (c causes) goesOn(before, next *counted, least, most int) (int, int, time.Time) {
	heard, died := c.lastHeard(before.run, next.start)
	end := before.end
	if end > 0 && (!died || end < heard.Add(-handIn).UnixNano()) || !died {
		if last := before.last(next.start); last >= 0 {
			least, most = last+1, last+1
		}
		return least, most, time.Time{}
	}
	sure := heard.Add(-cursorEvery - cursorSlack)
	for _, w := range c.a.outages { // it could not be written then, nor shortly after
		if w.to.Add(2*time.Second).After(sure) && w.from.Before(heard) {
			sure = w.from.Add(-cursorEvery - cursorSlack)
		}
	}
	if last := before.last(sure.UnixNano()); last >= 0 {
		least = max(least, last+1)
	}
	if last := before.last(heard.UnixNano()); last >= 0 {
		most = max(most, last+1)
	}
	return least, most, heard
}

// checkOnce looks at what Once returned to the runs of a job: always the same, of a function that ran once, unless its process
// died before that was written.
func (a *arena) checkOnce(id string, runs []*counted) {
	var said, made []string
	for _, run := range runs {
		said, made = append(said, run.said...), append(made, run.made...)
	}
	if len(said) == 0 {
		a.problem("job %s has never done what it does once", id)
		return
	}
	for _, other := range said {
		if other != said[0] {
			a.problem("once was twice in job %s: %q, then %q", id, said[0], other)
			return
		}
	}
	kept := slices.Index(made, said[0])
	if kept < 0 {
		a.problem("job %s has been told %q, and its function said %q", id, said[0], made)
	} else if kept < len(made)-1 {
		a.problem("job %s did what it does once again, after that was written: %q, then %q", id, said[0], made[kept+1:])
	}
}

// snoozes returns how many runs ended by a snooze, which counts as processed, and how many more may have: their processes died
// before that was committed, or after.
func (c causes) snoozes(l ledgers) (sure, maybe int) {
	for _, runs := range l.counts {
		for _, run := range runs {
			p := c.byName[run.process]
			switch {
			case !run.snoozed:
			case p.dead(math.MaxInt64) && p.died.Add(-handIn).UnixNano() < run.end || len(c.reaped[p.pid]) > 0:
				maybe++
			default:
				sure++
			}
		}
	}
	return sure, maybe
}

// addCount reads a line that a run of class Count has noted. It belongs to the latest run of this process.
func (l ledgers) addCount(event byte, id string, at int64, fields []string) {
	runs := l.counts[id]
	if len(runs) == 0 {
		return
	}
	c := runs[len(runs)-1]
	text := strings.Join(fields, "\t")
	n, _ := strconv.Atoi(text)
	switch event {
	case 'q':
		c.from = n
	case 'n':
		c.numbers = append(c.numbers, numbered{n, at})
	case 'w':
		c.made = append(c.made, text)
	case 'o':
		c.said = append(c.said, text)
	case 'z':
		c.refused, c.end = at, at
	case 'k', 'e', 'f':
		c.end, c.snoozed = at, text == "snoozes"
	}
}
