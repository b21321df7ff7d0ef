package main

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/goworker/goworker"
)

// Options of the worker's classes with policies.
const (
	retries   = 3
	fewAtOnce = 3
	pace      = 20 // a second
)

// order is a job with a policy, and what must come of it.
type order struct {
	job
	queue   string // "": work
	fails   int    // how many of its runs fail
	key     string // of Turn
	unique  string // no two jobs of one such key are there at once; "": it has no lock
	swaps   bool   // it takes the place of the one that has the lock and waits
	starts  bool   // it gives up its lock when it starts
	at      time.Time
	ruby    bool      // delayed as Ruby does it
	expires time.Time // it is dropped if it has not begun then
	keeps   bool      // what becomes of it is kept
}

// attempts is how often the job runs if no process dies.
func (o order) attempts() int {
	switch o.class {
	case "Again", "Few", "Turn", "Paced", "Alone", "Drop":
		return min(o.fails, retries) + 1
	}
	return 1
}

// fail reports whether it is filed as failed in the end.
func (o order) fail() bool { return o.attempts() > 1 && o.fails > retries || o.class == "Exit" }

func (o order) goJob() *goworker.Job {
	return &goworker.Job{Queue: cmp.Or(o.queue, "work"), Payload: goworker.Payload{Class: o.class, Args: o.args()}}
}

func (o order) args() []any {
	switch o.class {
	case "Nap", "Wait", "Fail":
		return []any{o.id, o.ms}
	}
	return []any{o.id, o.ms, o.fails, o.key}
}

// enqueue gives the job to the library, and returns the id of the one whose place it has
// taken.
func (o order) enqueue(client *goworker.Daemon) (replaced string, err error) {
	opts := []goworker.EnqueueOption{goworker.WithID(o.id)}
	if o.unique != "" {
		how := []goworker.UniqueOption{goworker.ByKey(o.unique)}
		if o.swaps {
			how = append(how, goworker.ReplaceWaiting())
		}
		if o.starts {
			how = append(how, goworker.UntilStart())
		}
		opts = append(opts, goworker.Unique(how...))
	}
	if !o.expires.IsZero() {
		opts = append(opts, goworker.ExpiresAt(o.expires))
	}
	if !o.at.IsZero() {
		opts = append(opts, goworker.ProcessAt(o.at))
	}
	if o.keeps {
		opts = append(opts, goworker.WithResult(time.Hour))
	}
	switch {
	case o.ruby:
		return "", client.EnqueueAt(o.at, o.goJob())
	case len(opts) == 1:
		return "", client.Enqueue(o.goJob())
	}
	receipt, err := client.EnqueueWith(o.goJob(), opts...)
	return receipt.Replaced, err
}

// expect keeps what must come of jobs.
func (a *arena) expect(orders ...order) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, o := range orders {
		a.orders[o.id] = o
	}
}

// order enqueues jobs one after the other, where Redis is there to take them.
func (a *arena) order(orders ...order) {
	a.expect(orders...)
	a.mu.Lock()
	name := fmt.Sprint("ordered", len(a.producers))
	a.mu.Unlock()
	p := a.newProducer(name)
	defer close(p.done)
	defer p.file.Close()
	for _, o := range orders {
		_, err := o.enqueue(a.client)
		var duplicate *goworker.DuplicateError
		if err != nil && !errors.As(err, &duplicate) {
			a.Fatalf("enqueueing %s: %v", o.id, err)
		}
		p.note(verdict(err), o.job)
	}
}

// pushOrders is a way to push: it makes jobs with policies of the plain ones it is given.
func pushOrders(p *producer, jobs []job) {
	for _, j := range jobs {
		o := p.a.drawOrder(j)
		p.a.expect(o)
		replaced, err := o.enqueue(p.a.client)
		if replaced != "" {
			p.note('x', job{id: replaced})
		}
		p.note(verdict(err), j)
		if err == nil && o.keeps {
			p.a.kept(o)
		}
	}
}

// drawOrder gives a job policies at random.
func (a *arena) drawOrder(j job) order {
	o := order{job: j, queue: []string{"work", "lanes"}[a.intn(2)]}
	switch n := a.intn(100); {
	case n < 5:
		o.class = "Nap"
		o.unique, o.swaps, o.starts = fmt.Sprint("swap-", a.intn(4)), a.intn(2) == 0, a.intn(2) == 0
		if a.intn(2) == 0 {
			o.at = time.Now().Add(a.between(0, time.Second))
		}
		return o
	case n < 10:
		o.class = "Paced"
	case n < 30:
		o.class = "Few"
	case n < 50:
		o.class = "Turn"
		o.key = fmt.Sprint("tenant-", a.intn(6))
	case n < 53:
		o.class = "Alone"
	case n < 54:
		o.class = "Exit"
		return o
	case n < 80:
		o.class = "Again"
	default:
		o.class = "Nap"
	}
	if o.class != "Nap" && a.intn(3) == 0 {
		o.fails = 1 + a.intn(retries+1)
	}
	switch n := a.intn(100); {
	case n < 20:
		o.unique = fmt.Sprint("one-", a.intn(10))
	case n < 25:
		o.expires = time.Now().Add(a.between(0, 100*time.Millisecond))
	}
	switch n := a.intn(100); {
	case n < 15:
		o.at = time.Now().Add(a.between(0, 4*time.Second))
	case n < 30 && o.unique == "" && o.expires.IsZero():
		o.at, o.ruby = time.Now().Add(a.between(0, 4*time.Second)), true
	}
	o.keeps = a.keeps && !o.ruby && a.intn(2) == 0
	if !o.at.IsZero() && !o.expires.IsZero() {
		o.expires = o.at.Add(a.between(0, 100*time.Millisecond))
	}
	return o
}

// checkOrder compares what became of a job with its order.
func (a *arena) checkOrder(o order, s *story, failed bool) {
	tried := map[int]bool{}
	most := 0
	for _, n := range s.runs {
		if n.start < o.at.UnixNano() && !o.at.IsZero() {
			a.problem("job %s ran %v before its time", o.id, o.at.Sub(time.Unix(0, n.start)))
		}
		most = max(most, n.attempt)
		if n.end > 0 && n.failed {
			tried[n.attempt] = true
		}
	}
	for n := 1; n < most; n++ {
		if !tried[n] {
			a.problem("job %s was tried for the %d. time without having failed for the %d.", o.id, most, n)
		}
	}
	switch want := o.attempts(); {
	case most > want:
		a.problem("job %s was tried %d times, not %d", o.id, most, want)
	case a.documents[o.id] == "cancelled":
	case most > 0 && most < want && !failed && len(s.drops) == 0 && !a.removed.unheard[o.id]:
		a.problem("job %s was tried %d times only, not %d", o.id, most, want)
	case failed && !o.fail() && !a.childKilled(s):
		a.problem("job %s was filed as failed after %d of %d tries", o.id, most, want)
	}
}

// replaced reports whether another job may have taken its place whose push had no answer,
// but which is there.
func (a *arena) replaced(o order, l ledgers) bool {
	for id, s := range l.jobs {
		other := a.orders[id]
		if len(s.runs)+len(s.drops) > 0 && s.push != 'a' && other.swaps && other.unique == o.unique && id != o.id {
			return true
		}
	}
	return false
}

// span is the time for which a run counts as one: while it ran, and its process was not
// declared dead. One that began later does not count.
func (c causes) span(n run) (from, to int64) {
	if c.stale(n) {
		return n.start, n.start
	}
	p := c.byName[n.process]
	to = n.end
	if to == 0 {
		to = n.start // its child was killed, at once
		if !p.alive() {
			to = max(to, p.died.UnixNano())
		}
	}
	for _, at := range c.reaped[p.pid] {
		if ns := at.UnixNano(); ns > n.start && ns < to {
			to = ns
		}
	}
	return n.start, to
}

// checkLimits looks for moments at which more jobs ran than may, of a class or of a key,
// and for two that had one lock.
func (c causes) checkLimits(l ledgers) {
	type edge struct {
		at   int64
		more int
		id   string
	}
	groups := map[string][]edge{}
	for id, s := range l.jobs {
		o := c.a.orders[id]
		if c.a.removed.doubtful[id] { // there may be two of it, of which the first to end releases the lock of both
			continue
		}
		var of []string
		switch o.class {
		case "Few":
			of = append(of, "Few")
		case "Turn":
			of = append(of, "Turn "+o.key)
		}
		if o.unique != "" && !o.starts {
			of = append(of, "lock "+o.unique)
		}
		for _, name := range of {
			for _, n := range s.runs {
				from, to := c.span(n)
				groups[name] = append(groups[name], edge{from, 1, id}, edge{to, -1, id})
			}
		}
	}
	for name, edges := range groups {
		slices.SortFunc(edges, func(a, b edge) int { return cmp.Or(cmp.Compare(a.at, b.at), a.more-b.more) })
		limit := 1
		if name == "Few" {
			limit = fewAtOnce
		}
		running, most, when := map[string]int{}, 0, int64(0)
		for _, e := range edges {
			if running[e.id] += e.more; running[e.id] == 0 {
				delete(running, e.id)
			}
			rule, _, _ := strings.Cut(name, " ")
			if rule != "lock" {
				rule = "slots"
			}
			if len(running) > max(most, limit) && !c.a.removed.within(rule, e.at) {
				most, when = len(running), e.at
			}
		}
		if most > limit {
			c.a.problem("%d ran at once, at %s, where %s lets %d", most, clock(when), name, limit)
		}
	}
}

// checkPace looks for five seconds in which more jobs were started than may be. Some are
// taken in time and started later, when their process goes on.
func (c causes) checkPace(l ledgers) {
	const span, slack = 5, 2 * pace
	var starts []int64
	for id, s := range l.jobs {
		if c.a.orders[id].class == "Paced" {
			for _, n := range s.runs {
				starts = append(starts, n.start)
			}
		}
	}
	slices.Sort(starts)
	for i := range starts {
		first, _ := slices.BinarySearch(starts, starts[i]-int64(span*time.Second))
		if n := i - first + 1; n > span*pace+slack && !c.a.removed.within("rate", starts[i]) {
			c.a.problem("%d jobs of class Paced were started in %d s before %s, where %d may be", n, span, clock(starts[i]), span*pace)
			return
		}
	}
}
