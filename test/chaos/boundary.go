package main

import (
	"fmt"
	"os/exec"
	"strings"
	"sync"
	"time"
)

// boundary is an instant at which a process is killed, or its connection cut: around
// the nth call of a script, in each phase.
type boundary struct {
	script string
	nth    int
	scene  scene
}

// scene is what is prepared so that a script is called.
type scene string

const (
	plain    scene = "at work"
	stopping scene = "while stopping"     // calls count from a TERM
	reaping  scene = "after a death"      // another process was killed before
	pruning  scene = "after a Ruby death" // a worker of another program was
	cutOff   scene = "after a lost reply" // of an exchange
	pushing  scene = "while pushing"      // a producer

	retrying scene = "while jobs are retried"       // now, later, and for the last time
	ending   scene = "while jobs end in other ways" // unique, discarded, expired, delayed by Ruby's keys
	delayed  scene = "while delayed jobs are due"   // in both schedules
	limited  scene = "while limits hold"
	regained scene = "after a death within limits"
	ticking  scene = "at ticks"

	// Producers.
	delaying  scene = "while delaying"
	locking   scene = "while locking"
	relocking scene = "while a lock is left"
	replacing scene = "while replacing"
	hurrying  scene = "while moving delayed jobs"
)

// produced are the scenes of a process that enqueues, and what it is told.
var produced = map[scene]string{
	pushing: "now,pushed,8", delaying: "later,pushed,3", locking: "unique,pushed,3", relocking: "unique,pushed,1",
	replacing: "replace,pushed,4", hurrying: "delayed,pushed,2",
}

// killed are the boundaries at which the caller is killed.
var killed = []boundary{
	{"prove", 1, plain}, {"enter", 1, plain}, {"beat", 1, plain}, {"resync", 1, plain}, {"resync", 2, cutOff},
	{"exchange", 1, plain}, {"exchange", 2, plain}, {"exchange", 3, plain}, {"exchange", 4, plain}, {"exchange", 6, plain},
	{"exchange", 1, stopping}, {"renew", 1, plain}, {"renew", 2, plain}, {"leave", 1, stopping},
	{"fence", 1, reaping}, {"recover", 1, reaping}, {"leave", 1, reaping},
	{"prune", 1, pruning}, {"unlock", 1, pruning},
	{"push", 1, pushing}, {"push", 3, pushing},
	{"settle", 1, retrying}, {"settle", 2, retrying}, {"settle", 5, retrying}, {"pump", 1, retrying},
	{"settle", 1, ending}, {"settle", 2, ending}, {"settle", 3, ending},
	{"due", 1, delayed}, {"pump", 1, delayed}, {"pump", 2, delayed}, {"bucket", 1, delayed}, {"undelay", 1, delayed},
	{"masterlock", 1, delayed}, {"unlock", 1, delayed},
	{"take", 1, limited}, {"take", 2, limited}, {"take", 4, limited}, {"sort", 1, limited}, {"sort", 2, limited},
	{"settle", 1, limited}, {"settle", 2, limited}, {"regain", 1, regained},
	{"tick", 1, ticking}, {"tick", 4, ticking}, {"tick", 5, ticking}, {"masterlock", 1, ticking},
	{"delay", 1, delaying}, {"unique", 2, locking}, {"unique", 1, relocking}, {"holder", 1, relocking}, {"unique", 2, relocking},
	{"unique", 1, replacing}, {"replace", 1, replacing}, {"replace", 3, replacing}, {"undelay", 1, hurrying}, {"unschedule", 1, hurrying},
}

// cut are those at which the request or its reply is lost and nobody dies.
var cut = []boundary{
	{"enter", 1, plain}, {"beat", 1, plain}, {"resync", 1, plain}, {"renew", 1, plain},
	{"exchange", 1, plain}, {"exchange", 2, plain}, {"exchange", 3, plain}, {"exchange", 4, plain}, {"exchange", 6, plain},
	{"exchange", 1, stopping}, {"leave", 1, stopping},
	{"fence", 1, reaping}, {"recover", 1, reaping}, {"leave", 1, reaping},
	{"settle", 1, retrying}, {"settle", 2, retrying}, {"settle", 1, ending}, {"settle", 2, ending},
	{"pump", 1, delayed}, {"bucket", 1, delayed}, {"undelay", 1, delayed}, {"masterlock", 1, delayed}, {"unlock", 1, delayed},
	{"take", 1, limited}, {"take", 2, limited}, {"sort", 1, limited}, {"settle", 1, limited}, {"regain", 1, regained},
	{"tick", 1, ticking}, {"tick", 4, ticking},
}

func killAtBoundaries(opts options) result { return atBoundaries(opts, killed, true) }
func cutAtBoundaries(opts options) result  { return atBoundaries(opts, cut, false) }

// atBoundaries tries each boundary in each phase, several at once.
func atBoundaries(opts options, cases []boundary, kill bool) result {
	total := newResult()
	var wg sync.WaitGroup
	var mu sync.Mutex
	slots := make(chan struct{}, 28)
	for _, b := range cases {
		for at := range phases {
			slots <- struct{}{}
			wg.Go(func() {
				defer func() { <-slots }()
				r := b.try(opts, phase(at), kill)
				for i, p := range r.problems {
					r.problems[i] = fmt.Sprintf("%s %d %s, %s: %s", b.script, b.nth, b.scene, phases[at], p)
				}
				mu.Lock()
				defer mu.Unlock()
				total.add(r)
			})
		}
	}
	wg.Wait()
	return total
}

// try has one process run into the boundary. Where it was killed, another one does
// what is left.
func (b boundary) try(opts options, at phase, kill bool) result {
	name := strings.ReplaceAll(fmt.Sprintf("%s-%d-%s-%d-%t", b.script, b.nth, b.scene, at, kill), " ", "-")
	r := contain(opts, name, nil, func(a *arena) {
		a.pushSome(24)
		w := a.wire()
		flags, environment := []string{"-concurrency=3", "-queues=work,lanes"}, []string(nil)
		switch b.scene {
		case reaping:
			a.leaveCorpse("work")
		case regained:
			a.leaveCorpse("lanes")
		case pruning:
			a.leaveRubyWorker()
		case ticking:
			a.tickEvery = 1
			environment = []string{"CHAOS_TICKS=1"}
		default:
			a.prepare(b.scene)
		}
		var p *process
		started := make(chan struct{})
		spring := func() {}
		if kill {
			spring = func() { <-started; p.kill() }
		}
		var t *trap
		if b.scene != stopping {
			t = w.set(b.script, b.nth, at, spring)
		}
		if b.scene == cutOff {
			w.set("exchange", 2, beforeReply, func() {})
		}
		if how := produced[b.scene]; how != "" {
			p = a.run("pushing", exec.Command(opts.worker, w.uri()), "CHAOS_PRODUCE="+how)
		} else {
			p = a.launchWith(environment, append(flags, w.uri())...)
		}
		close(started)
		if b.scene == stopping {
			a.eventually("it works", func() bool { return a.number("GET", "resque:stat:processed") > 3 })
			t = w.set(b.script, b.nth, at, spring)
			p.term()
		}
		select {
		case <-t.sprung:
		case <-time.After(soon):
			a.Fatalf("this boundary was not reached")
		}
		a.inject()
		switch {
		case kill:
			if p.status != -1 && (p.status != 0 || at != afterReply) {
				a.problem("%s was not killed but exited with status %d", p.name, p.status)
			}
			p.termed = false
			a.startWith(environment, flags...)
		case b.scene == stopping:
			p.mustLeave()
			a.start(flags...)
		default:
			a.healed()
		}
		switch b.scene {
		case ticking:
			n := a.number("LLEN", "resque:queue:ticks")
			a.eventually("ticks go on", func() bool { return a.number("LLEN", "resque:queue:ticks") > n+3 })
		case hurrying:
			for i := range 2 {
				o := a.orders[fmt.Sprint("pushed-", i)]
				if _, err := a.client.EnqueueDelayed(o.goJob()); err != nil {
					a.problem("%v", err)
				}
				o.at = time.Time{}
				a.expect(o)
			}
		case relocking: // whoever wants the lock now gets it
			a.order(order{job: job{"after", "Nap", 0}, unique: "pushed-0"})
		case pruning:
			a.must("EXPIRE", pruneLock, 1) // of its minute, which the dead cannot give back
			a.eventually("the worker of another program is removed", func() bool {
				return a.number("SISMEMBER", "resque:workers", rubyWorker) == 0 &&
					a.number("EXISTS", pruneLock) == 0
			})
		}
	})
	if !kill && b.scene != reaping && b.scene != regained {
		r = without(r)
	}
	return r
}

// pushSome pushes n jobs before anybody works.
func (a *arena) pushSome(n int) {
	var jobs []job
	for i := range n {
		jobs = append(jobs, job{fmt.Sprint("some-", i), []string{"Nap", "Wait"}[i%2], a.intn(40)})
	}
	a.pushJobs(jobs...)
}

// prepare enqueues what a scene is about.
func (a *arena) prepare(s scene) {
	var orders []order
	add := func(n int, o order) {
		for i := range n {
			each := o
			each.id, each.ms = fmt.Sprintf("%s-%d-%d", strings.ToLower(o.class), len(orders), i), a.intn(40)
			if o.fails > 0 {
				each.fails = 1 + i%o.fails
			}
			if o.unique != "" {
				each.unique = fmt.Sprint(o.unique, i)
			}
			orders = append(orders, each)
		}
	}
	of := func(class string) order { return order{job: job{class: class}} }
	now := time.Now()
	switch s {
	case retrying:
		o := of("Again")
		o.fails = retries + 1
		add(12, o)
	case ending:
		o := of("Again")
		o.unique = "done-"
		add(3, o)
		o.unique, o.fails = "failed-", retries+1
		add(4, o)
		o = of("Drop")
		o.fails = 2
		add(4, o)
		o = of("Nap")
		o.expires, o.unique = now, "expired-"
		add(4, o)
	case delayed:
		for i := range 4 {
			o := of("Nap")
			o.at = now.Add(time.Duration(500+i*700) * time.Millisecond)
			add(3, o)
			o.ruby = true
			add(3, o)
			o.at = o.at.Truncate(time.Second).Add(time.Second) // has no hint
			add(3, o)
		}
	case limited:
		o := of("Few")
		o.queue, o.fails = "lanes", 1
		add(8, o)
		o.class, o.unique = "Turn", "turn-"
		for i := range 2 {
			o.key = fmt.Sprint("tenant-", i)
			o.unique = fmt.Sprintf("turn-%d-", i)
			add(6, o)
		}
	case relocking:
		o := of("Nap")
		o.id, o.unique = "gone", "pushed-0"
		if _, err := o.enqueue(a.client); err != nil {
			a.Fatalf("%v", err)
		}
		a.must("RPOP", "resque:queue:work")
		time.Sleep(leasePeriod + time.Second) // it is not believed to have its job for longer
	case replacing:
		for i := range 4 {
			a.expect(order{job: job{fmt.Sprint("pushed-", i), "Nap", 0}, unique: "one", swaps: true})
		}
	case hurrying:
		for i := range 2 {
			o := of("Nap")
			o.id, o.at, o.ruby = fmt.Sprint("pushed-", i), now.Add(time.Hour), i == 0
			orders = append(orders, o)
		}
	}
	if len(orders) > 0 {
		a.order(orders...)
	}
}

// leaveCorpse leaves a process that was killed with two jobs, on a queue in which jobs
// wait for limits or not.
func (a *arena) leaveCorpse(queue string) {
	corpse := a.start("-concurrency=3", "-queues=work,lanes")
	a.eventually("it has nothing more to do", func() bool { return a.number("EVAL", waiting, 0) == 0 })
	class := map[string]string{"work": "Nap", "lanes": "Turn"}[queue]
	for i, ms := range []int{1500, 1500, 10, 10} {
		a.order(order{job: job{fmt.Sprint("held-", i), class, ms}, queue: queue, key: fmt.Sprint("tenant-", i%2)})
		if i == 1 {
			a.eventually("it runs them", func() bool { return a.running("held-0") && a.running("held-1") })
			corpse.kill()
		}
	}
}

// running tells whether a job has begun.
func (a *arena) running(id string) bool {
	l, err := readLedgers(a.dir)
	return err == nil && l.jobs[id] != nil && len(l.jobs[id].runs) > 0
}

const (
	rubyWorker = "elsewhere:77:work"
	pruneLock  = "resque:pruning_dead_workers_in_progress"
)

// leaveRubyWorker leaves what a Ruby worker leaves that was killed an hour ago.
func (a *arena) leaveRubyWorker() {
	a.must("SADD", "resque:workers", rubyWorker)
	a.must("HSET", "resque:workers:heartbeat", rubyWorker, time.Now().Add(-time.Hour).Format(time.RFC3339))
	a.must("SET", "resque:worker:"+rubyWorker,
		`{"queue":"work","run_at":"2026-01-01T00:00:00Z","payload":{"class":"Ruby","args":[]}}`)
	a.strange, a.pruned = 1, 1
}
