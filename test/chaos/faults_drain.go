package main

import (
	"context"
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/goworker/goworker"
)

// drained are the calls at which a drain is killed, in the order in which it makes them: each kill leaves more behind it.
var drained = []string{"fence", "drainlist", "drainlist", "drainschedule", "drainremove"}

// whatRubyWorks are the queues of the fleet that goes back to Ruby.
var whatRubyWorks = []string{"work", "lanes", webNamespace + "." + webQueue}

// drain kills a fleet at work and its HTTP server, and then, at five boundaries, the program that takes it back to Ruby. Workers of
// Ruby's, as a recording has one, and of node-resque run what is left.
func drain(opts options) result {
	return contain(opts, "drain", nil, func(a *arena) {
		a.loose, a.harsh = true, true // a drain removes what goworker has counted
		flags := []string{"-concurrency=8", "-queues=work,lanes"}
		var fleet []*process
		for range 3 {
			fleet = append(fleet, a.start(flags...))
		}
		a.produce(load{rate: 150, longest: 30, failing: 10, orders: true, classes: []string{"Nap", "Wait", "Gather", "Collect"}})
		for i := range 6 {
			time.Sleep(a.between(300*time.Millisecond, 900*time.Millisecond))
			k := 1 + i%2 // the first one finds the dead
			fleet[k].kill()
			a.inject()
			fleet[k] = a.launch(flags...)
		}
		server := a.leaveForRuby()
		time.Sleep(a.between(200*time.Millisecond, 600*time.Millisecond))
		for _, p := range append(a.alive(), server) {
			p.kill()
		}
		a.stopProducers()
		a.note("the fleet left %d jobs in lanes, %d groups, %d delayed jobs, %d jobs with clients and %d locks",
			a.number("EVAL", `local n = 0 for _, lane in ipairs(redis.call('KEYS', 'resque:go:lane:*')) do n = n + redis.call('LLEN', lane) end return n`, 0),
			a.number("ZCARD", "resque:go:groups"), a.number("ZCARD", "resque:go:schedule"), a.number("HLEN", "resque:go:leased"), len(a.list("KEYS", "resque:go:unique:"+strings.Repeat("?", 32))))
		expired := a.number("HGET", "resque:go:stats", "expired")

		client := a.client.Client()
		a.eventually("the killed processes count as dead", func() bool {
			_, err := client.DrainToResque(context.Background(), goworker.DrainDryRun())
			return err == nil
		})
		for i, script := range drained {
			w := a.wire()
			var p *process
			started := make(chan struct{})
			t := w.set(script, 1, phase(a.intn(len(phases))), func() { <-started; p.kill() })
			p = a.run("pushing", exec.Command(opts.worker, w.uri()), fmt.Sprintf("CHAOS_PRODUCE=drain,drained-%d,1", i))
			close(started)
			select {
			case <-t.sprung:
				a.inject()
			case <-time.After(soon):
				a.Fatalf("drain %d did not call %s; see %s", i, script, p.output())
			}
		}
		report, err := client.DrainToResque(context.Background())
		if err != nil {
			a.problem("the last drain: %v\n%s", err, report)
		}
		a.checkLeft(report)
		a.removed.expired = expired - a.number("HGET", "resque:go:stats", "expired")
		a.mu.Lock()
		a.orders = map[string]order{} // Ruby knows nothing of tries, limits and locks
		a.mu.Unlock()
		a.runAsRuby()
		a.remove("resque:go:wf*")                                                // of the workflow that was named
		a.must("DEL", "resque:go:workflows", "resque:go:result:left", pruneLock) // Ruby has that lock for a minute
	})
}

// leaveForRuby has jobs wait in each place of which Ruby knows nothing, and returns a server whose client holds some.
func (a *arena) leaveForRuby() (server *process) {
	now := time.Now()
	var orders []order
	for i := range 24 {
		o := order{job: job{fmt.Sprint("later-", i), "Nap", 5}, at: now.Add(25 * time.Second)}
		switch i % 3 {
		case 0:
			o.unique = o.id
		case 1:
			o.ruby = true
		default:
			o.expires = now.Add(time.Hour)
		}
		orders = append(orders, o)
	}
	for i := range 40 {
		orders = append(orders, order{job: job{fmt.Sprint("laned-", i), []string{"Few", "Turn"}[i%2], 400}, queue: "lanes", key: fmt.Sprint("tenant-", i%3), unique: fmt.Sprint("laned-", i)})
	}
	a.order(orders...)

	var held []job
	for i := range 6 {
		j := job{fmt.Sprint("held-", i), "Nap", 5}
		a.must("RPUSH", "resque:queue:"+whatRubyWorks[2], j.payload())
		held = append(held, j)
	}
	a.acknowledged(held...)
	w := a.newWeb(1)
	server = w.serve(0, w.uri(0))
	w.ready(0)
	status, answer := w.send(http.MethodPost, 0, "reservations", fmt.Sprintf(`{"queues":[%q],"count":4,"ttr_ms":600000}`, webQueue), "")
	if n := a.number("HLEN", "resque:go:leased"); status != http.StatusOK || n != 4 {
		a.Fatalf("a client holds %d jobs over HTTP, not 4: status %d, %s", n, status, answer)
	}

	p, done := a.flowProducer("flows")
	defer done()
	var steps []*goworker.Node
	var jobs []string
	for i := range 3 {
		jobs = append(jobs, fmt.Sprint("step-", i))
		steps = append(steps, a.flowStep(jobs[i], 3000))
	}
	a.startFlow(p, 'a', goworker.Chain(goworker.Group(steps...), a.flowStep("behind", 5)), "left", jobs)
	return server
}

// checkLeft looks at what a drain has left: the workflow, which it names, and nothing else.
func (a *arena) checkLeft(report goworker.DrainReport) {
	if len(report.Left) > 0 || !strings.Contains(report.String(), "1 workflow") || a.number("EXISTS", "resque:go:wf:left") == 0 {
		a.problem("the drain is to name one workflow and to leave it, and nothing else:\n%s", report)
	}
	for _, key := range a.list("KEYS", "resque:go:*") {
		for _, holds := range []string{"inflight:", "lane:", "schedule", "leased", "group", "unique:", "kept:", "queue:"} {
			if strings.HasPrefix(key, "resque:go:"+holds) {
				a.problem("after the drain there is %s", key)
			}
		}
	}
}

// runAsRuby has Ruby's scheduler and worker and node-resque's worker run all jobs.
func (a *arena) runAsRuby() {
	recording, err := filepath.Abs("../../internal/redistest/testdata/golden/work_success.json")
	if err != nil {
		a.Fatalf("%v", err)
	}
	queues := strings.Join(whatRubyWorks, ",")
	all := []*process{
		a.run("ruby", exec.Command(a.opts.worker), "CHAOS_RUBY="+a.redis.Addr+",3600"),
		a.run("ruby", exec.Command(a.opts.worker), "CHAOS_RUBY_WORKER="+a.redis.Addr, "CHAOS_RECORDING="+recording, "CHAOS_QUEUES="+queues),
	}
	if a.haveNode() {
		all = append(all, a.run("node", exec.Command("node", append([]string{"worker.mjs", a.port()}, whatRubyWorks...)...)))
	} else {
		a.note("node-resque is not installed: Ruby's worker runs all")
	}
	a.eventuallyWithin(2*soon, "Ruby and node-resque have run all jobs", func() bool {
		n := a.number("ZCARD", "resque:delayed_queue_schedule")
		for _, queue := range whatRubyWorks {
			n += a.number("LLEN", "resque:queue:"+queue)
		}
		return n == 0
	})
	for _, p := range all {
		p.term()
	}
	for _, p := range all {
		select {
		case <-p.exited:
			if p.status != 0 {
				a.problem("%s exited with status %d; see %s", p.name, p.status, p.output())
			}
		case <-time.After(soon):
			a.Fatalf("%s did not end; see %s", p.name, p.output())
		}
	}
	l, err := readLedgers(a.dir)
	if err != nil {
		a.Fatalf("%v", err)
	}
	ran := map[string]int{}
	for _, s := range l.jobs {
		for _, r := range s.runs {
			ran[r.process]++
		}
	}
	for _, p := range all[1:] {
		if ran[p.name] == 0 {
			a.problem("%s has run no job", p.name)
		}
		a.note("%s ran %d jobs", p.name, ran[p.name])
	}
	if l.jobs["behind"] != nil {
		a.problem("a step ran whose workflow was left")
	}
}
