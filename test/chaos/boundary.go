package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/inspect"
)

// boundary is an instant at which a process is killed, or its connection cut: around
// the nth call of a script, in each phase.
type boundary struct {
	script string
	nth    int
	scene  scene
}

// killed are the boundaries at which the caller is killed.
var killed = []boundary{
	{"prove", 1, plain}, {"change", 1, plain}, {"enter", 1, plain}, {"beat", 1, plain}, {"resync", 1, plain}, {"resync", 2, cutOff},
	{"exchange", 1, plain}, {"exchange", 2, plain}, {"exchange", 3, plain}, {"exchange", 4, plain}, {"exchange", 6, plain},
	{"exchange", 1, stopping}, {"renew", 1, plain}, {"renew", 2, plain}, {"leave", 1, stopping},
	{"fence", 1, reaping}, {"commit", 1, reaping}, {"leave", 1, reaping},
	{"prune", 1, pruning}, {"unlock", 1, pruning}, {"trim", 1, trimming}, {"trim", 3, trimming},
	{"push", 1, pushing}, {"push", 3, pushing},
	{"commit", 1, retrying}, {"commit", 2, retrying}, {"commit", 5, retrying}, {"pump", 1, retrying},
	{"commit", 1, ending}, {"commit", 2, ending}, {"commit", 3, ending},
	{"due", 1, delayed}, {"pump", 1, delayed}, {"pump", 2, delayed}, {"bucket", 1, delayed}, {"undelay", 1, delayed},
	{"masterlock", 1, delayed}, {"unlock", 1, delayed},
	{"numbers", 1, limited}, {"take", 1, limited}, {"take", 2, limited}, {"take", 4, limited}, {"sort", 1, limited}, {"sort", 2, limited},
	{"sortlane", 1, crowded}, {"sortlane", 2, crowded}, {"sortclass", 1, classful}, {"sortclass", 2, classful},
	{"commit", 1, limited}, {"commit", 2, limited}, {"commit", 1, regained},
	{"tick", 1, ticking}, {"tick", 4, ticking}, {"tick", 5, ticking}, {"masterlock", 1, ticking},
	{"delay", 1, delaying}, {"lock", 2, locking}, {"lock", 1, relocking}, {"holder", 1, relocking}, {"lock", 2, relocking},
	{"lock", 1, replacing}, {"replace", 1, replacing}, {"replace", 3, replacing}, {"undelay", 1, hurrying}, {"unschedule", 1, hurrying},
	{"retry", 1, refiling}, {"retry", 2, refiling}, {"remove", 1, refiling},
	{"restore", 1, robbed}, {"relane", 1, unnamed}, {"phprunning", 1, tracked},
	{"look", 1, operating}, {"move", 1, operating}, {"walk", 1, operating}, {"swap", 1, operating},
	{"document", 1, operating}, {"glance", 1, operating}, {"asks", 1, operating}, {"asks", 2, operating},
	{"audit", 1, resuming}, {"audit", 2, resuming}, {"audit", 6, resuming}, {"operation-begin", 1, resuming}, {"operation-begin", 3, resuming},
	{"operation-acquire", 1, resuming}, {"operation-acquire", 2, resuming}, {"operation-release", 3, resuming}, {"operation-release", 4, resuming},
	{"operation-retry", 1, resuming}, {"operation-unretry", 1, resuming}, {"operation-remove", 1, resuming}, {"operation-move", 1, resuming},
	{"operation-move", 3, resuming}, {"operation-own", 1, resuming}, {"operation-own", 3, resuming}, {"operation-plain", 1, resuming},
	{"operation-swap", 1, resuming}, {"operation-swap", 2, resuming}, {"operation-delay", 1, resuming}, {"operation-delay", 2, resuming},
	{"operation-restore", 1, resuming}, {"operation-restore", 2, resuming}, {"operation-cancel", 1, resuming}, {"operation-lift", 1, resuming},
	{"operation-clear", 1, resuming}, {"operation-rest", 1, resuming}, {"operation-empty", 1, resuming},
	{"note", 1, noting}, {"commit", 1, noting}, {"cancel", 1, calling}, {"lift", 1, lifting},
	{"drainlist", 1, leaving}, {"drainschedule", 1, leaving}, {"drainremove", 1, leaving}, {"drainown", 1, leaving},
	{"adopt", 1, plain}, {"adopt", 2, plain},
	{"workflow-start", 1, flowing}, {"workflow-start", 2, flowing}, {"workflow-reserve", 1, flowing}, {"workflow-add", 1, flowing},
	{"workflow-add", 2, flowing}, {"workflow-close", 1, flowing}, {"workflow-pause", 1, flowing}, {"workflow-pause", 2, flowing},
	{"workflow-halt", 1, flowing}, {"workflow-retry", 1, flowing}, {"workflow-mark", 1, flowing},
	{"workflow-complete", 1, flowing},
	{"workflow-duelooks", 1, sweeping}, {"workflow-putoff", 1, sweeping}, {"workflow-look", 1, sweeping},
	{"workflow-expire", 1, sweeping}, {"workflow-lose", 1, sweeping}, {"workflow-remove", 1, sweeping}, {"commit", 1, sweeping}, {"commit", 3, sweeping},
	{"commit", 1, gathering}, {"groups-due", 1, gathering}, {"groups-flush", 1, gathering},
	{"recall", 1, counting}, {"cursor", 1, counting}, {"commit", 1, counting},
	{"delayed-mend", 1, bridging}, {"delayed-take", 1, bridging}, {"delayed-take", 2, bridging}, {"delayed-take", 3, bridging},
	{"delayed-add", 1, tasking}, {"delayed-add", 2, tasking},
	{"clear", 1, clearing}, {"clear", 3, clearing}, {"unlane", 1, removing}, {"unlane", 2, removing},
	{"cover", 1, resizing}, {"beat", 2, resizing}, {"cover", 2, resizing}, {"cover", 3, resizing},
	{"cover", 1, relisting}, {"beat", 2, relisting}, {"cover", 2, relisting}, {"beat", 3, relisting}, {"cover", 3, relisting}, {"cover", 4, relisting},
}

// cut are the boundaries at which the request or its reply is lost and no process dies.
var cut = []boundary{
	{"change", 1, plain}, {"enter", 1, plain}, {"beat", 1, plain}, {"resync", 1, plain}, {"renew", 1, plain},
	{"exchange", 1, plain}, {"exchange", 2, plain}, {"exchange", 3, plain}, {"exchange", 4, plain}, {"exchange", 6, plain},
	{"exchange", 1, stopping}, {"leave", 1, stopping},
	{"fence", 1, reaping}, {"commit", 1, reaping}, {"leave", 1, reaping},
	{"commit", 1, retrying}, {"commit", 2, retrying}, {"commit", 1, ending}, {"commit", 2, ending},
	{"pump", 1, delayed}, {"bucket", 1, delayed}, {"undelay", 1, delayed}, {"masterlock", 1, delayed}, {"unlock", 1, delayed},
	{"take", 1, limited}, {"take", 2, limited}, {"sort", 1, limited}, {"sortlane", 1, crowded}, {"sortclass", 1, classful}, {"commit", 1, limited}, {"commit", 1, regained},
	{"restore", 1, robbed}, {"relane", 1, unnamed}, {"phprunning", 1, tracked},
	{"tick", 1, ticking}, {"tick", 4, ticking}, {"note", 2, noting}, {"commit", 1, noting},
	{"workflow-duelooks", 1, sweeping}, {"workflow-putoff", 1, sweeping}, {"workflow-look", 1, sweeping}, {"workflow-expire", 1, sweeping},
	{"workflow-lose", 1, sweeping}, {"commit", 1, sweeping}, {"commit", 3, sweeping},
	{"commit", 1, gathering}, {"groups-flush", 1, gathering}, {"cursor", 1, counting}, {"commit", 1, counting}, {"delayed-take", 2, bridging}, {"delayed-take", 3, bridging},
	{"cover", 1, resizing}, {"beat", 2, resizing}, {"cover", 2, resizing}, {"cover", 3, resizing},
	{"cover", 1, relisting}, {"beat", 2, relisting}, {"cover", 2, relisting}, {"beat", 3, relisting}, {"cover", 3, relisting}, {"cover", 4, relisting},
}

// unreached are scripts that a process seldom calls: when a workflow has stood still for ten minutes; of servers, when a mark
// is a day old, a clock has jumped, a quota counts delayed jobs, or a token is changed or limited; of operators, when doctor mends, and
// when a step of a workflow is pushed just while its queue is cleared, where TestOperationsClearStepsThatCome kills; of the keeper each ten
// seconds, whose kills and lost answers TestNothingIsLostOrCountedTwice tries; of deliverers, whose kill TestDelivererDies tries; of fleets of more than
// four processes, where TestSentriesDie has sentries die; of producers, when many jobs with ids go in one transaction, of which it is a part, so that TestPushManyLiftsCancels
// is enough; and of faces for operators, which only read: what runs, what keys hold, failures, delayed jobs and results.
var unreached = []string{"history-tally", "history-fold", "workflow-stall", "workflow-resend", "lease-trim", "lease-jump", "lease-count", "lease-tokens", "lease-rate", "forget", "condemn", "operation-sift", "control-announce", "control-tell", "control-listen", "control-answer", "webhook-take", "webhook-read", "webhook-rest", "webhook-wrong", "webhook-lead", "webhook-notice", "sit", "seated", "rise", "lifttail", "inflight", "heads", "keys", "contents", "stretches", "hashes"}

// lastList are the queues of a process whose queues change, at the end.
const lastList = "msgpack:aside,lanes,work"

func killAtBoundaries(opts options) result { return atBoundaries(opts, killed, true) }
func cutAtBoundaries(opts options) result  { return atBoundaries(opts, cut, false) }

// atBoundaries tries each boundary in each phase, several at once. In a short run it tries half of them, each in one phase. The
// seed chooses which.
func atBoundaries(opts options, cases []boundary, kill bool) result {
	total := newResult()
	var wg sync.WaitGroup
	var mu sync.Mutex
	slots := make(chan struct{}, 28)
	for i, b := range cases {
		for at := range phases {
			if opts.short && (uint64(at+i)+opts.seed)%uint64(2*len(phases)) != 0 {
				continue
			}
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
		flags, environment := []string{"-concurrency=3", "-queues=work,lanes,msgpack:aside"}, []string(nil)
		switch b.scene {
		case reaping:
			a.leaveCorpse("work")
		case regained:
			a.leaveCorpse("lanes")
		case pruning:
			a.leaveRubyWorker()
		case unnamed:
			a.must("RENAME", "resque:queue:work", "resque:go:lane:4:work6:c:Lost")
		case tracked:
			a.pushTracked()
		case trimming:
			a.leaveFailures()
			flags = append(flags, fmt.Sprint("-failed-max-size=", failuresKept))
		case bridging, tasking:
			if environment = []string{"CHAOS_BRIDGE=1"}; b.scene == bridging {
				a.pushTasks()
			}
		case resizing:
			environment = []string{"CHAOS_RESIZE=9,2,12,3,5"}
		case relisting:
			environment = []string{"CHAOS_RELIST=work,lanes lanes,extra,msgpack:aside " + lastList}
		case ticking:
			a.tickEvery = 1
			environment = []string{"CHAOS_TICKS=1"}
		case stopping: // it has jobs to commit when the signal comes
			a.pushJobs(job{"long-0", "Nap", 5000}, job{"long-1", "Nap", 5000}, job{"long-2", "Nap", 5000})
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
			a.eventually("a long job runs", func() bool {
				text, _ := os.ReadFile(a.ledger(p.name))
				return strings.Contains(string(text), "\ns\tlong-")
			})
			t = w.set(b.script, b.nth, at, spring)
			p.term()
		}
		if b.scene == robbed {
			a.eventually("all is done", func() bool { return a.number("GET", "resque:stat:processed") == 24 })
			a.remove("resque:go:inflight:*")
			a.pushJobs(job{"robbed-0", "Nap", 300}, job{"robbed-1", "Nap", 300})
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
		case refiling:
			if _, err := a.client.Failures().RetryAll(); err != nil {
				a.problem("%v", err)
			}
			if _, err := a.client.Failures().ClearRetried(); err != nil {
				a.problem("%v", err)
			}
		case operating, leaving: // what the operator has not done
			in, ctx := a.client.Client().Inspect(), context.Background()
			if _, err := in.MoveWhere(ctx, inspect.Query{Queue: "aside", Places: []inspect.Place{inspect.Queued}}, "work", ""); err != nil {
				a.problem("%v", err)
			}
			if _, err := in.RunWhere(ctx, inspect.Query{Class: "Nap", Places: []inspect.Place{inspect.Delayed}}, inspect.Tail, ""); err != nil {
				a.problem("%v", err)
			}
			for i := range 6 {
				o := a.orders[fmt.Sprint("waits-", i)]
				o.at = time.Time{}
				a.expect(o)
			}
		case resuming:
			a.resumeOperations()
		case calling, lifting:
			for i := range 2 {
				id := fmt.Sprint("called-", i)
				if b.scene == calling {
					a.cancel(id)
				} else if err := a.client.Client().Lift(context.Background(), id); err != nil && !errors.Is(err, goworker.ErrUnknownJob) {
					a.problem("%v", err)
				} else {
					delete(a.cancels, id)
				}
			}
		case flowing, sweeping:
			a.settleFlows(b.scene)
		case clearing:
			if err := a.client.Delayed().Clear(); err != nil {
				a.problem("%v", err)
			}
			if left := append(a.list("KEYS", "resque:delayed*"), a.list("KEYS", "resque:timestamps:*")...); len(left) > 0 {
				a.problem("of the delayed jobs that were cleared, these keys are left: %q", left)
			}
		case removing:
			if err := a.client.RemoveQueue("gone"); err != nil {
				a.problem("%v", err)
			}
			if left := append(a.list("KEYS", "resque:go:lane*"), a.list("SMEMBERS", "resque:go:lanes")...); len(left) > 0 {
				a.problem("of the queue that was removed, this is left: %q", left)
			}
		case trimming:
			a.eventually("the oldest failures are removed", func() bool { return a.number("LLEN", "resque:failed") <= failuresKept })
		case resizing:
			a.eventually("each slot of the living has its worker, and nothing else has one", func() bool {
				return a.number("SCARD", "resque:workers") == 5 && a.number("HLEN", "resque:workers:heartbeat") == 5
			})
		case relisting:
			a.eventually("each slot of the living has its worker under the last list, and nothing else has one", func() bool {
				ids := a.list("SMEMBERS", "resque:workers")
				return len(ids) == 3 && a.number("HLEN", "resque:workers:heartbeat") == 3 &&
					!slices.ContainsFunc(ids, func(id string) bool { return !strings.HasSuffix(id, ":"+lastList) })
			})
		case relocking: // any job may take the lock now
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
