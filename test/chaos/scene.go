package main

import (
	"fmt"
	"strings"
	"time"
)

// scene is what is prepared so that a script is called.
type scene string

const (
	plain    scene = "at work"
	stopping scene = "while stopping"     // calls count from a TERM
	reaping  scene = "after a death"      // another process was killed before
	pruning  scene = "after a Ruby death" // a worker of another program was
	trimming scene = "with too many failures"
	cutOff   scene = "after a lost reply" // of an exchange
	pushing  scene = "while pushing"      // a producer

	retrying scene = "while jobs are retried"       // now, later, and for the last time
	ending   scene = "while jobs end in other ways" // unique, discarded, expired, delayed by Ruby's keys
	delayed  scene = "while delayed jobs are due"   // in both schedules
	limited  scene = "while limits hold"
	crowded  scene = "while many wait in one lane"
	classful scene = "while many of a class wait"
	regained scene = "after a death within limits"
	ticking  scene = "at ticks"
	robbed   scene = "while its record is restored"
	unnamed  scene = "while lanes are named again"
	tracked  scene = "while PHP jobs run"
	noting   scene = "while jobs with results run"
	sweeping scene = "while workflows run"
	bridging scene = "while tasks of delayed come"

	resizing  scene = "while the concurrency changes"
	relisting scene = "while the queues change"

	gathering scene = "while jobs become one"
	counting  scene = "while jobs count by cursors"

	// Producers.
	delaying  scene = "while delaying"
	locking   scene = "while locking"
	relocking scene = "while a lock is left"
	replacing scene = "while replacing"
	hurrying  scene = "while moving delayed jobs"
	refiling  scene = "while retrying failures"
	clearing  scene = "while clearing delayed jobs"
	removing  scene = "while removing a queue"
	operating scene = "while an operator moves and edits jobs"
	resuming  scene = "while operations change many jobs"
	leaving   scene = "while a fleet goes back to Ruby"
	calling   scene = "while cancelling"
	lifting   scene = "while lifting cancels"
	flowing   scene = "while workflows are started and changed"
	tasking   scene = "while enqueueing tasks of delayed"
)

// produced are the scenes of a process that enqueues, and its orders.
var produced = map[scene]string{
	pushing: "now,pushed,8", delaying: "later,pushed,3", locking: "unique,pushed,3", relocking: "unique,pushed,1",
	replacing: "replace,pushed,4", hurrying: "delayed,pushed,2", refiling: "failed,pushed,1",
	clearing: "clear,pushed,1", removing: "remove,pushed,1", operating: "operate,pushed,1", resuming: "operations,pushed,1", leaving: "drain,pushed,1",
	tasking: "task,pushed,3", calling: "cancel,pushed,2", lifting: "lift,pushed,2", flowing: "workflow,pushed,1",
}

// pushSome pushes n jobs before any process works.
func (a *arena) pushSome(n int) {
	var jobs []job
	for i := range n {
		jobs = append(jobs, job{fmt.Sprint("some-", i), []string{"Nap", "Wait"}[i%2], a.intn(40)})
	}
	a.pushJobs(jobs...)
}

// pushTasks puts tasks of delayed there, in hand of a dead worker the last, without their notifications.
func (a *arena) pushTasks() {
	var jobs []job
	for i := range 12 {
		j := job{fmt.Sprint("task-", i), "Nap", a.intn(40)}
		task := append([]byte("\x92\xa3Nap\xc4"), byte(len(j.id)+3), 0x92, 0xa0|byte(len(j.id))) // the id has less than 32 bytes
		task = append(append(task, j.id...), byte(j.ms))                                         // and the time has one
		if jobs = append(jobs, j); i < 11 {
			a.must("RPUSH", "tasks", task)
		} else {
			a.must("HSET", "tasks_processing", "gone", task)
		}
	}
	a.acknowledged(jobs...)
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
	case noting:
		o := of("Again")
		o.keeps, o.fails = true, 2
		add(6, o)
		for i := range orders {
			orders[i].ms += 250 // so that it is written that they run
		}
	case flowing, sweeping:
		a.prepareFlows(s)
	case gathering:
		a.prepareItems()
	case counting:
		const jobs, n = 3, 300
		a.count(jobs, n)
		a.checks = append(a.checks, a.checkCounts(jobs, n))
	case calling, lifting: // jobs that wait
		for i := range 2 {
			o := of("Nap")
			o.id, o.keeps, o.at = fmt.Sprint("called-", i), true, now.Add(4*time.Second)
			orders = append(orders, o)
		}
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
	case crowded:
		o := of("Turn")
		o.queue, o.key = "lanes", "tenant"
		add(30, o)
	case classful:
		o := of("Few")
		o.queue = "lanes"
		add(90, o)
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
	case removing: // jobs that wait for limits
		for i := range 4 {
			member := fmt.Sprintf("4:gonec:Few%d", i/2)
			a.must("RPUSH", fmt.Sprintf("resque:go:lane:4:gone6:c:Few%df:Few=%d", i/2, i), (&order{job: job{fmt.Sprint("removed-", i), "Few", 0}}).payload())
			a.must("ZADD", "resque:go:lanes:"+member, 1, fmt.Sprint("f:Few=", i))
			a.must("SADD", "resque:go:lanes", member)
		}
	case clearing: // jobs whose end the test does not wait for
		for i := range 12 {
			o := order{job: job{fmt.Sprint("cleared-", i), "Nap", 0}}
			if err := a.client.EnqueueAt(now.Add(time.Duration(i/3)*time.Second+time.Hour), o.goJob()); err != nil {
				a.Fatalf("%v", err)
			}
		}
	case refiling:
		var jobs []job
		for i := range 3 {
			j := job{fmt.Sprint("pushed-", i), "Nap", 10}
			a.must("RPUSH", "resque:failed", fmt.Appendf(nil,
				`{"failed_at":"2026/11/21 03:00:00 UTC","payload":%s,"exception":"E","error":"e","worker":"w","queue":"work"}`, j.payload()))
			jobs = append(jobs, j)
		}
		a.acknowledged(jobs...)
	case operating, leaving:
		for i := range 6 {
			o := of("Nap")
			o.id, o.keeps = fmt.Sprint("waits-", i), s == operating && i%3 < 2
			switch i % 3 {
			case 0: // where no process looks
				o.queue = "aside"
			case 1:
				o.at = now.Truncate(time.Second).Add(time.Hour) // has no hint
			default:
				o.at, o.ruby = now.Truncate(time.Second).Add(time.Hour), true
			}
			orders = append(orders, o)
		}
		if s == leaving {
			a.must("RENAME", "resque:queue:work", "resque:go:lane:4:work6:c:Lost")
			a.must("HSET", "resque:go:limits", "Lost", "1")
		}
	case resuming:
		a.prepareOperations(now)
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
	if s == leaving { // as if a process had named it msgpack:aside
		a.must("RENAME", "resque:queue:aside", "resque:go:queue:aside")
	}
	if s == lifting {
		for _, o := range orders {
			a.cancel(o.id)
		}
	}
}

// leaveCorpse leaves a process that was killed with two jobs, on a queue in which jobs
// wait for limits or not.
func (a *arena) leaveCorpse(queue string) {
	corpse := a.start("-concurrency=3", "-queues=work,lanes")
	a.eventually("it has nothing more to do", func() bool { return a.number("EVAL", waiting, 0) == 0 })
	class := map[string]string{"work": "Nap", "lanes": "Turn"}[queue]
	for i, ms := range []int{6000, 6000, 10, 10} {
		a.order(order{job: job{fmt.Sprint("held-", i), class, ms}, queue: queue, key: fmt.Sprint("tenant-", i%2)})
		if i == 1 {
			a.eventually("it runs them", func() bool { return a.running("held-0") && a.running("held-1") })
			corpse.kill()
		}
	}
}

// running reports whether a job has begun.
func (a *arena) running(id string) bool {
	l, err := readLedgers(a.dir)
	return err == nil && l.jobs[id] != nil && len(l.jobs[id].runs) > 0
}

const (
	rubyWorker = "elsewhere:77:work"
	pruneLock  = "resque:pruning_dead_workers_in_progress"
)

// failuresKept is what is to be left of those of leaveFailures.
const failuresKept = 7

// leaveFailures leaves more failures of other programs than are removed together, twice.
func (a *arena) leaveFailures() {
	a.must("EVAL", `for i = 1, 2500 do redis.call('RPUSH', KEYS[1], ARGV[1]) end`, 1, "resque:failed",
		`{"failed_at":"2026/11/21 03:00:00 UTC","payload":{"class":"Ruby","args":[]},"exception":"E","error":"e","worker":"w","queue":"work"}`)
	a.strange, a.pruned = failuresKept, failuresKept
}

// pushTracked pushes jobs that php-resque tracks, and that run for long enough to say so.
func (a *arena) pushTracked() {
	for i := range 3 {
		j := job{fmt.Sprint("tracked-", i), "Nap", 500}
		a.must("SET", "resque:job:"+j.id+":status", `{"status":1,"updated":1,"started":1,"result":null}`, "EX", 3600)
		a.must("RPUSH", "resque:queue:work", fmt.Sprintf(`{"class":"Nap","args":[%q,%d],"id":%[1]q,"prefix":"","queue_time":1.5}`, j.id, j.ms))
		a.acknowledged(j)
	}
	a.checks = append(a.checks, func(_ ledgers, r *result) {
		for _, key := range a.list("KEYS", "resque:job:*") {
			if said := a.list("MGET", key)[0]; !strings.HasPrefix(said, `{"status":4,`) {
				r.problems = append(r.problems, fmt.Sprintf("%s says %s when all is done", key, said))
			}
		}
	})
}

// leaveRubyWorker leaves what a Ruby worker leaves that was killed an hour ago.
func (a *arena) leaveRubyWorker() {
	a.must("SADD", "resque:workers", rubyWorker)
	a.must("HSET", "resque:workers:heartbeat", rubyWorker, time.Now().Add(-time.Hour).Format(time.RFC3339))
	a.must("SET", "resque:worker:"+rubyWorker,
		`{"queue":"work","run_at":"2026-01-01T00:00:00Z","payload":{"class":"Ruby","args":[]}}`)
	a.strange, a.pruned = 1, 1
}
