package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker"
)

// flowStep is a step that keeps a ledger and takes no results.
func (a *arena) flowStep(id string, ms int, opts ...goworker.EnqueueOption) *goworker.Node {
	return goworker.Step(goworker.NewJob("work", "Nap", id, ms), append(opts, goworker.Immutable())...)
}

// reply is a step that ends by its token. Its class takes that as its last argument.
func (a *arena) reply(id string, within time.Duration) *goworker.Node {
	return goworker.Step(goworker.NewJob("work", "Again", id, 5, 0), goworker.External(within), goworker.Immutable())
}

// startFlow starts a workflow, and notes its jobs as this. It asks again while Redis is away.
func (a *arena) startFlow(p *producer, verdict byte, n *goworker.Node, id string, jobs []string, opts ...goworker.WorkflowOption) {
	var all []job
	for _, id := range jobs {
		all = append(all, job{id: id})
	}
	p.note('t', all...)
	a.insist("workflow "+id+" starts", func(ctx context.Context) error {
		_, err := a.client.Client().Start(ctx, n, append(opts, goworker.WithID(id), goworker.AllowOld())...)
		return err
	})
	p.note(verdict, all...)
}

// insist makes a call again until Redis answers it.
func (a *arena) insist(what string, call func(context.Context) error) {
	var err error
	for deadline := time.Now().Add(soon); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		err = call(ctx)
		cancel()
		if err == nil {
			return
		}
	}
	a.problem("%s: not within %v: %v", what, soon, err)
}

func (a *arena) flowProducer(name string) (p *producer, done func()) {
	p = a.newProducer(name)
	return p, func() {
		_ = p.file.Close()
		close(p.done)
	}
}

// prepareFlows starts the workflows that a scene is about.
func (a *arena) prepareFlows(s scene) {
	p, done := a.flowProducer("flows")
	defer done()
	switch s {
	case flowing:
		a.startFlow(p, 'a', goworker.Chain(a.flowStep("halted-0", 5), a.flowStep("halted-1", 5)), "halted", []string{"halted-0", "halted-1"})
		p.note('a', job{id: "marked-1"})
		a.startFlow(p, 'u', goworker.Chain(a.flowStep("marked-0", 5), a.flowStep("marked-1", 5)), "marked", []string{"marked-0"}) // it may be marked in its queue
		a.startFlow(p, 'a', goworker.Chain(a.reply("outside-0", time.Hour), a.flowStep("outside-1", 5)), "outside", []string{"outside-0", "outside-1"})
	case sweeping:
		var members []*goworker.Node
		jobs := []string{"large-0"}
		for n := 1; n <= 200; n++ { // more than one call sends
			jobs = append(jobs, fmt.Sprint("large-", n))
			members = append(members, a.flowStep(jobs[n], 0))
		}
		a.startFlow(p, 'a', goworker.Chain(a.flowStep("large-0", 5), goworker.Group(members...)), "large", jobs)
		a.startFlow(p, 'u', goworker.Chain(a.reply("late-0", time.Hour), a.flowStep("late-1", 5)), "late", []string{"late-0"}, goworker.Deadline(time.Second))
		a.startFlow(p, 'a', goworker.Chain(a.reply("silent-0", time.Second), a.flowStep("silent-1", 5)), "silent", []string{"silent-0"})
		a.startFlow(p, 'a', goworker.Step(goworker.NewJob("work", "Fail", "kept-0", 5)), "kept", []string{"kept-0"}, goworker.KeepFor(time.Second))
	}
}

// settleFlows does what the process has left undone that was killed, and waits for the ends of all workflows.
func (a *arena) settleFlows(s scene) {
	ctx, c := context.Background(), a.client.Client()
	want := map[string]string{"large": "done", "late": "expired", "silent": "failed"}
	if s == flowing {
		want = map[string]string{"halted": "done", "marked": "done", "outside": "done"}
		state := func(id string) string {
			text, _ := redis.String(a.must("HGET", "resque:go:wf:"+id, "state"), nil)
			return text
		}
		for _, id := range []string{"flow", "batch"} {
			if state(id) != "" {
				want[id] = "done"
			}
		}
		problem := func(err error) {
			if err != nil && !errors.Is(err, goworker.ErrWorkflowEnded) {
				a.problem("%v", err)
			}
		}
		if want["flow"] != "" {
			problem(c.Workflows().Resume(ctx, "flow"))
		}
		if want["batch"] != "" {
			b, err := c.NewBatch(ctx, goworker.Batch{}, goworker.WithID("batch"), goworker.AllowOld())
			if err == nil {
				err = b.Close(ctx)
			}
			problem(err)
		}
		if state("halted") == "cancelled" {
			problem(c.Workflows().Retry(ctx, "halted"))
		}
		known, _ := redis.String(a.must("HGET", "resque:go:wf:outside", "k0"), nil)
		secret, _, _ := strings.Cut(known, " ")
		problem(c.Complete(ctx, "outside.0."+secret, 7))
	}
	if s == sweeping {
		a.eventually("workflow kept is removed", func() bool { return a.number("EXISTS", "resque:go:wf:kept") == 0 })
	}
	for id, want := range want {
		a.eventually(fmt.Sprintf("workflow %s is %s", id, want), func() bool {
			state, _ := redis.String(a.must("HGET", "resque:go:wf:"+id, "state"), nil)
			return state == want
		})
	}
}

// checkFlows looks at the workflows that are left when all have stopped: none goes on, and those that are done go by themselves.
func (a *arena) checkFlows() {
	n, letters, ended := 0, 0, 0
	for _, key := range a.list("KEYS", "resque:go:wf:*") {
		id := strings.TrimPrefix(key, "resque:go:wf:")
		state, _ := redis.String(a.must("HGET", key, "state"), nil)
		text, _ := redis.String(a.must("GET", "resque:go:wf-steps:"+id), nil)
		n, letters = n+1, letters+len(text)
		switch state {
		case "done":
			ended++
			for _, key := range []string{key, "resque:go:wf-steps:" + id} {
				if a.number("PTTL", key) <= 0 {
					a.problem("workflow %s is done, and %s does not expire", id, key)
				}
			}
			if index, _ := redis.String(a.must("ZSCORE", "resque:go:workflows", id), nil); index != "" {
				a.problem("workflow %s is done, and is in the index at %s", id, index)
			}
			if strings.ContainsAny(text, "swyhr") {
				a.problem("workflow %s is done with the letters %s", id, text)
			}
		case "expired", "cancelled", "failed":
			ended++
			if strings.ContainsAny(text, "r") || state == "failed" && strings.Contains(text, "s") {
				a.problem("workflow %s is %s with the letters %s", id, state, text)
			}
		default:
			a.problem("when all is over, workflow %s is %s: %s", id, state, text)
		}
	}
	if n > 9 {
		a.note("%d workflows with %d letters, %d ended", n, letters, ended)
	}
}

// workflowsUnderFire starts random workflows while workers, connections and Redis break down. Each must be done, and what follows
// a group must have been sent once: a job that ran twice without its process's death is found by the ledgers.
func workflowsUnderFire(opts options) result {
	return contain(opts, "workflows", durable, func(a *arena) {
		var fleet []*process
		for range 4 {
			fleet = append(fleet, a.start("-concurrency=8", "-queues=work,lanes"))
		}
		stop := make(chan struct{})
		var wg sync.WaitGroup
		for n := range 3 {
			wg.Go(func() {
				p, done := a.flowProducer(fmt.Sprint("flows", n))
				defer done()
				for k := 0; ; k++ {
					select {
					case <-stop:
						return
					default:
						a.randomFlow(p, fmt.Sprintf("f%d-%d", n, k))
					}
				}
			})
		}
		for i := range 9 {
			time.Sleep(a.between(300*time.Millisecond, 900*time.Millisecond))
			switch i % 3 {
			case 0: // the first one finds the dead
				k := 1 + a.intn(len(fleet)-1)
				fleet[k].kill()
				a.inject()
				fleet[k] = a.launch("-concurrency=8", "-queues=work,lanes")
			case 1:
				a.outage(a.hangUp)
			default:
				a.crashRedis(a.between(0, time.Second))
			}
		}
		close(stop)
		wg.Wait()
		a.eventuallyWithin(2*soon, "all workflows have ended", func() bool { return a.number("ZCARD", "resque:go:workflows") == 0 })
	})
}

// randomFlow starts a chain, a chord or a batch, nested or not.
func (a *arena) randomFlow(p *producer, id string) {
	var jobs []string
	step := func() *goworker.Node {
		jobs = append(jobs, fmt.Sprint(id, "-", len(jobs)))
		return a.flowStep(jobs[len(jobs)-1], a.intn(20))
	}
	group := func(n int) *goworker.Node {
		var all []*goworker.Node
		for range n {
			if a.intn(4) == 0 {
				all = append(all, goworker.Chain(step(), step()))
			} else {
				all = append(all, step())
			}
		}
		return goworker.Group(all...)
	}
	switch a.intn(4) {
	case 0:
		a.startFlow(p, 'a', goworker.Chain(step(), step(), step()), id, jobs)
	case 1:
		n := goworker.Chord(goworker.Group(group(3), goworker.Chain(step(), group(2))), step())
		a.startFlow(p, 'a', n, id, jobs)
	case 2:
		n := goworker.Chain(group(1+a.intn(8)), group(1+a.intn(8)), step())
		a.startFlow(p, 'a', n, id, jobs)
	default:
		a.randomBatch(p, id)
	}
}

// randomBatch opens a batch, adds to it and closes it, each until Redis answers.
func (a *arena) randomBatch(p *producer, id string) {
	last := job{id: id + "-z"}
	p.note('t', last)
	var b *goworker.OpenBatch
	a.insist("batch "+id+" opens", func(ctx context.Context) (err error) {
		b, err = a.client.Client().NewBatch(ctx, goworker.Batch{OnSuccess: a.flowStep(last.id, 5)}, goworker.WithID(id), goworker.AllowOld())
		return err
	})
	if b == nil {
		return
	}
	for n := range 1 + a.intn(4) {
		one := job{id: fmt.Sprint(id, "-", n)}
		p.note('t', one)
		a.insist("batch "+id+" grows", func(ctx context.Context) error { return b.Add(ctx, a.flowStep(one.id, a.intn(20))) })
		p.note('a', one)
	}
	a.insist("batch "+id+" is closed", func(ctx context.Context) error { return b.Close(ctx) })
	p.note('a', last)
}
