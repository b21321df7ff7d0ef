package main

import (
	"fmt"
	"slices"
	"sync"
	"time"
)

// lateCalls has Redis hear calls of scripts late: when their process has given up the connection
// and goes on over another one, or when it was found dead. They must change nothing.
func lateCalls(opts options) result {
	total := newResult()
	var mu sync.Mutex
	var wg sync.WaitGroup
	add := func(r result) {
		mu.Lock()
		defer mu.Unlock()
		total.add(r)
	}
	wg.Go(func() { add(without(superseded(opts))) })
	for _, script := range []string{"exchange", "commit"} {
		for _, left := range []bool{false, true} {
			wg.Go(func() {
				r := posthumous(opts, script, left)
				for i, p := range r.problems {
					r.problems[i] = fmt.Sprintf("%s of a dead process, its record gone: %t: %s", script, left, p)
				}
				add(r)
			})
		}
	}
	wg.Wait()
	return total
}

// superseded has calls delivered after their process has a newer epoch.
func superseded(opts options) result {
	return contain(opts, "late-superseded", nil, func(a *arena) {
		wires := []*wire{a.wire(), a.wire()}
		for _, w := range wires {
			a.start("-concurrency=8", "-queues=work,lanes", w.uri())
		}
		a.produce(load{rate: 300, longest: 20, failing: 50, orders: true})
		time.Sleep(time.Second)
		answers := map[string]int{}
		calls := 120
		if opts.short {
			calls = 30
		}
		for i := range calls {
			w := wires[i%2]
			was := 0
			t := w.set([]string{"exchange", "commit", "take"}[i/2%3], 1+a.intn(4), late, func() { was = w.called("resync") })
			a.await(t, "a call is late")
			a.eventually("the process goes on without it", func() bool { return w.called("resync") > was })
			time.Sleep(time.Duration(a.intn(4)) * 20 * time.Millisecond)
			answers[t.deliver(a)]++
			a.inject()
		}
		a.healed()
		a.note("late calls were answered %v", answers)
	})
}

func (a *arena) await(t *trap, what string) {
	a.eventually(what, func() bool {
		select {
		case <-t.sprung:
			return true
		default:
			return false
		}
	})
}

// posthumous has a call with outcomes delivered after its process was found dead: while the one
// that found it is about to remove its record, or when that is gone.
func posthumous(opts options, script string, left bool) result {
	return contain(opts, fmt.Sprintf("late-%s-%t", script, left), nil, func(a *arena) {
		w, reaper := a.wire(), a.wire()
		p := a.start("-concurrency=8", w.uri())
		var jobs []job
		for i := range 8 {
			j := job{fmt.Sprint("late-", i), []string{"Nap", "Fail"}[i%2], 700}
			jobs = append(jobs, j)
			if script == "commit" {
				j.class = "Again"
				a.order(order{job: j, fails: 1})
			}
		}
		if script == "exchange" {
			a.pushJobs(jobs...)
		}
		a.eventually("all run", func() bool {
			return !slices.ContainsFunc(jobs, func(j job) bool { return !a.running(j.id) })
		})
		id := p.id()
		t := w.set(script, 1, late, w.cut)
		a.await(t, "their outcomes are late")
		a.silence(p, func() {
			var answer string
			if !left { // its finder breaks off, and will find it dead again
				leaving := reaper.set("leave", 1, beforeRequest, func() {
					a.found[p.pid] = time.Now()
					answer = t.deliver(a)
				})
				a.start("-concurrency=8", reaper.uri())
				a.await(leaving, "it is found dead")
			} else {
				a.start("-concurrency=8", reaper.uri())
				a.eventually("its record is gone", func() bool { return a.number("EXISTS", "resque:go:process:"+id) == 0 })
				answer = t.deliver(a)
			}
			a.note("%s of a dead process was answered %s", script, answer)
			w.mend()
		})
		a.eventually("it has another record, and no longer the old one", func() bool {
			now := p.id()
			return now != "" && now != id && a.number("EXISTS", "resque:go:process:"+id) == 0
		})
		a.inject()
	})
}
