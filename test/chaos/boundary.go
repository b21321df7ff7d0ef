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
)

// killed are the boundaries at which the caller is killed.
var killed = []boundary{
	{"prove", 1, plain}, {"enter", 1, plain}, {"beat", 1, plain}, {"resync", 1, plain}, {"resync", 2, cutOff},
	{"exchange", 1, plain}, {"exchange", 2, plain}, {"exchange", 3, plain}, {"exchange", 4, plain}, {"exchange", 6, plain},
	{"exchange", 1, stopping}, {"renew", 1, plain}, {"renew", 2, plain}, {"leave", 1, stopping},
	{"fence", 1, reaping}, {"recover", 1, reaping}, {"leave", 1, reaping},
	{"prune", 1, pruning}, {"unlock", 1, pruning},
	{"push", 1, pushing}, {"push", 3, pushing},
}

// cut are those at which the request or its reply is lost and nobody dies.
var cut = []boundary{
	{"enter", 1, plain}, {"beat", 1, plain}, {"resync", 1, plain}, {"renew", 1, plain},
	{"exchange", 1, plain}, {"exchange", 2, plain}, {"exchange", 3, plain}, {"exchange", 4, plain}, {"exchange", 6, plain},
	{"exchange", 1, stopping}, {"leave", 1, stopping},
	{"fence", 1, reaping}, {"recover", 1, reaping}, {"leave", 1, reaping},
}

func killAtBoundaries(opts options) result { return atBoundaries(opts, killed, true) }
func cutAtBoundaries(opts options) result  { return atBoundaries(opts, cut, false) }

// atBoundaries tries each boundary in each phase, several at once.
func atBoundaries(opts options, cases []boundary, kill bool) result {
	total := newResult()
	var wg sync.WaitGroup
	var mu sync.Mutex
	slots := make(chan struct{}, 16)
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
		switch b.scene {
		case reaping:
			a.leaveCorpse()
		case pruning:
			a.leaveRubyWorker()
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
		switch b.scene {
		case pushing:
			p = a.run("pushing", exec.Command(opts.worker, w.uri()), "CHAOS_PRODUCE=pushed,8")
		case cutOff:
			w.set("exchange", 2, beforeReply, func() {})
			fallthrough
		default:
			p = a.launch(w.uri(), "-concurrency=3")
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
			a.start("-concurrency=3")
		case b.scene == stopping:
			p.mustLeave()
			a.start("-concurrency=3")
		default:
			a.healed()
		}
		if b.scene == pruning {
			a.must("EXPIRE", pruneLock, 1) // of its minute, which the dead cannot give back
			a.eventually("the worker of another program is removed", func() bool {
				return a.number("SISMEMBER", "resque:workers", rubyWorker) == 0 &&
					a.number("EXISTS", pruneLock) == 0
			})
		}
	})
	if !kill && b.scene != reaping {
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

// leaveCorpse leaves a process that was killed with two jobs.
func (a *arena) leaveCorpse() {
	corpse := a.start("-concurrency=3")
	a.eventually("it has nothing more to do", func() bool { return a.number("LLEN", "resque:queue:work") == 0 })
	a.pushJobs(job{"held-1", "Nap", 1500}, job{"held-2", "Nap", 1500})
	a.eventually("it holds them", func() bool { return a.number("LLEN", "resque:queue:work") == 0 })
	corpse.kill()
	a.pushJobs(job{"later-1", "Nap", 10}, job{"later-2", "Wait", 10})
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
