package main

import (
	"fmt"
	"syscall"
	"time"
)

// spell is how long a worker is spared from kills, and then another one is: the dead
// are found by processes that live for longer than a lease.
const spell = 15 * time.Second

// kill kills workers at random instants under load and starts them again at once.
func kill(opts options) result {
	return contain(opts, "kill", nil, func(a *arena) {
		n := max(4, opts.workers)
		var fleet []*process
		for range n {
			fleet = append(fleet, a.start("-concurrency=8"))
		}
		rate := 600
		if opts.jobs > 50_000 {
			rate = opts.jobs / opts.kills * 5 / 2 // done before the last kill, at 1.8 kills a second
		}
		a.produce(load{total: opts.jobs, rate: rate, longest: 10, failing: 10, node: true})
		began := time.Now()
		for range opts.kills {
			time.Sleep(a.between(400*time.Millisecond, 700*time.Millisecond))
			// Two are spared at any time; each spell one of them is another.
			turn := int(time.Since(began) / spell)
			k := (turn + 2 + a.intn(n-2)) % n
			fleet[k].kill()
			a.inject()
			fleet[k] = a.launch("-concurrency=8")
		}
		a.waitProducers()
	})
}

// rolling replaces each worker by a new one, with TERM, under load.
func rolling(opts options) result {
	return without(contain(opts, "rolling", nil, func(a *arena) {
		fleet := []*process{a.start(), a.start(), a.start()}
		a.produce(load{rate: 600, longest: 30, failing: 10, node: true})
		for i := range 20 {
			time.Sleep(a.between(100*time.Millisecond, 600*time.Millisecond))
			old := fleet[i%3]
			fleet[i%3] = a.launch()
			old.stop()
			a.inject()
		}
	}))
}

// deadline stops workers whose jobs do not end in time: at the end of the shutdown
// timeout, and at a second TERM.
func deadline(opts options) result {
	return contain(opts, "deadline", nil, func(a *arena) {
		for i := range 4 {
			second := i%2 == 1
			p := a.start("-concurrency=4", "-shutdown-timeout="+map[bool]string{false: "0.3", true: "0"}[second])
			for k := range 3 {
				a.pushJobs(job{fmt.Sprintf("deaf-%d-%d", i, k), "Nap", 4000}, job{fmt.Sprintf("minds-%d-%d", i, k), "Wait", 4000})
			}
			a.eventually("it works", func() bool {
				running := 0
				for k := range 3 {
					for _, class := range []string{"deaf", "minds"} {
						if a.running(fmt.Sprintf("%s-%d-%d", class, i, k)) {
							running++
						}
					}
				}
				return running >= 4
			})
			time.Sleep(a.between(100*time.Millisecond, 300*time.Millisecond))
			p.term()
			if second {
				time.Sleep(1200 * time.Millisecond) // sooner it would be the same signal
				p.signal(syscall.SIGTERM)
			}
			p.forced = true
			select {
			case <-p.exited:
			case <-time.After(soon):
				a.Fatalf("%s did not end after its deadline", p.name)
			}
			a.inject()
		}
		a.start("-concurrency=24")
	})
}

// zombie stops workers for longer than their lease, then lets them go on: what they
// hand in then must neither be committed nor counted.
func zombie(opts options) result {
	return contain(opts, "zombie", nil, func(a *arena) {
		zombies := []*process{a.start(), a.start()}
		for i := range 10 {
			a.pushJobs(job{fmt.Sprint("held-", i), []string{"Nap", "Wait"}[i%2], 3000})
		}
		a.eventually("the zombies hold them", func() bool { return a.number("LLEN", "resque:queue:work") == 0 })
		a.start("-concurrency=10")
		a.produce(load{rate: 300, longest: 60})
		time.Sleep(500 * time.Millisecond)
		zombies[0].freeze(func() {
			zombies[1].freeze(func() { time.Sleep(13 * time.Second) })
		})
		a.inject()
		a.inject()
		time.Sleep(4 * time.Second) // they finish what they were at
	})
}

// suspend stops all workers for longer than their leases, as a host that is suspended does, and
// has them go on one after the other. None of them is dead.
func suspend(opts options) result {
	return without(contain(opts, "suspend", nil, func(a *arena) {
		for range 4 {
			a.start("-concurrency=8")
			time.Sleep(a.between(0, 500*time.Millisecond)) // their renewals fall at different times
		}
		for i := range 20 {
			a.pushJobs(job{fmt.Sprint("across-", i), "Wait", 15_000})
		}
		a.produce(load{rate: 200, longest: 60})
		time.Sleep(a.between(3*time.Second, 4*time.Second))
		fleet := a.processes()
		for _, p := range fleet {
			p.signal(syscall.SIGSTOP)
		}
		time.Sleep(leasePeriod * 3 / 2)
		// The first that goes on was the last to look: it knows all leases as they still stand.
		for _, id := range a.list("ZREVRANGE", "resque:go:processes", 0, -1) {
			for _, p := range fleet {
				if p.pid == pidOf(id) {
					p.signal(syscall.SIGCONT)
				}
			}
			time.Sleep(a.between(500*time.Millisecond, time.Second))
		}
		a.inject()
		a.healed()
		a.noneReaped()
	}))
}

// stall stops workers for less than their lease.
func stall(opts options) result {
	return without(contain(opts, "stall", nil, func(a *arena) {
		p := a.start()
		a.start()
		a.produce(load{rate: 300, longest: 30})
		for range 3 {
			time.Sleep(time.Second)
			p.signal(syscall.SIGSTOP)
			time.Sleep(4 * time.Second)
			p.signal(syscall.SIGCONT)
			a.inject()
			a.healed()
		}
	}))
}
