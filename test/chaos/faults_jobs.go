package main

import (
	"bytes"
	"fmt"
	"os/exec"
	"strings"
	"time"
)

// poison pushes a job that ends its process, among good ones; a supervisor starts the
// worker again each time.
func poison(opts options) result {
	r := contain(opts, "poison", nil, func(a *arena) {
		a.start("-concurrency=1", "-queues=other") // finds the dead, runs nothing
		p := a.start("-concurrency=8")
		a.pushJobs(job{"long-1", "Nap", 1500}, job{"die-1", "Die", 0}, job{"long-2", "Nap", 1500})
		a.produce(load{rate: 100, longest: 20, total: 900})
		a.eventuallyWithin(4*soon, "it is filed", func() bool { // it dies four times, and each death is found
			if !p.alive() {
				a.inject()
				p = a.launch("-concurrency=8")
			}
			return a.number("LLEN", "resque:failed") > 0
		})
		a.waitProducers()
	})
	if r.dirty != 1 {
		r.problems = append(r.problems, fmt.Sprintf("%d jobs were filed for killing their process, not 1", r.dirty))
	}
	return r
}

// panics runs handlers that fail in every way a handler can.
func panics(opts options) result {
	return without(contain(opts, "panics", nil, func(a *arena) {
		a.start()
		a.produce(load{rate: 600, total: 1500, longest: 3, classes: []string{"Nap", "Fail", "Panic", "Goexit"}})
		a.waitProducers()
		a.inject()
	}))
}

// badPayloads puts text into the queue that is no job, or a job of an unknown class.
func badPayloads(opts options) result {
	bad := []string{"", "no JSON", "{", "null", "[]", "17", `"text"`, `{}`, `{"class":null,"args":[]}`, `{"class":"","args":[]}`,
		`{"class":7}`, `{"class":"Nobody","args":[1]}`, `{"class":"Nap","args":{}}`, `{"class":"Nap","args":["few"]}`,
		`{"class":"Nap","args":[1,2]}`, "\xff\xfe", "{\"class\":\"Nap\",\"args\":[\"\xff\",1]}", strings.Repeat("[", 5000),
		`{"class":"Nap","args":` + strings.Repeat("[", 500) + strings.Repeat("]", 500) + `}`,
		`{"class":"Nobody","args":["` + string(bytes.Repeat([]byte("x"), 5<<20)) + `"]}`}
	return without(contain(opts, "bad", nil, func(a *arena) {
		a.start()
		a.produce(load{rate: 300, longest: 5})
		for range 3 {
			for _, payload := range bad {
				a.must("RPUSH", "resque:queue:work", payload)
				a.inject()
				a.strange++
				time.Sleep(a.between(0, 20*time.Millisecond))
			}
		}
	}))
}

// mixedFleet has node-resque's workers on the same queue, while ours are killed.
func mixedFleet(opts options) result {
	return contain(opts, "fleet", nil, func(a *arena) {
		if !a.haveNode() {
			a.note("skipped: node-resque is not installed")
			return
		}
		node := a.run("node", exec.Command("node", "worker.mjs", a.port()))
		p, _ := a.start(), a.start()
		a.eventually("node-resque's worker is registered", func() bool {
			return len(a.list("SMEMBERS", "resque:workers")) > 10
		})
		a.produce(load{rate: 300, longest: 10, classes: []string{"Nap"}, node: true})
		for range 4 {
			time.Sleep(time.Second)
			p.kill()
			a.inject()
			p = a.launch()
		}
		time.Sleep(leasePeriod + 2*time.Second)
		a.stopProducers()
		a.drain()
		node.term()
		<-node.exited
		l, err := readLedgers(a.dir)
		if err != nil {
			a.Fatalf("%v", err)
		}
		ran := 0
		for _, s := range l.jobs {
			for _, r := range s.runs {
				if r.process == node.name {
					ran++
				}
			}
		}
		a.note("node-resque ran %d of the jobs", ran)
		if ran == 0 {
			a.problem("node-resque ran none of the jobs")
		}
	})
}
