package main

import (
	"fmt"
	"time"
)

// durable is a Redis that acknowledges nothing it has not written to disk.
var durable = []string{"--appendonly", "yes", "--appendfsync", "always"}

// crashRedis kills the server and starts it again.
func (a *arena) crashRedis(down time.Duration) {
	a.outage(func() {
		a.redis.Kill()
		time.Sleep(down)
		a.redis.Restart(a)
	})
}

// redisKill kills Redis under pipelines of pushes.
func redisKill(opts options) result {
	return without(contain(opts, "redis-kill", durable, func(a *arena) {
		for range 3 {
			a.start("-concurrency=10")
		}
		a.produce(load{rate: 3000, longest: 5, failing: 10, node: true})
		for range 10 {
			time.Sleep(a.between(300*time.Millisecond, 1500*time.Millisecond))
			a.crashRedis(a.between(0, time.Second))
		}
		time.Sleep(time.Second)
	}))
}

// redisEmpty starts Redis again without its data: what runs is finished, and the
// workers work on. Nothing waits in the queue meanwhile: that would be Redis's loss.
func redisEmpty(opts options) result {
	return contain(opts, "redis-empty", nil, func(a *arena) {
		a.loose = true
		a.start()
		a.start()
		for i := range 3 {
			a.pushJobs(job{fmt.Sprint("before-", i), "Nap", 1500})
			a.eventually("it runs", func() bool { return a.number("LLEN", "resque:queue:work") == 0 })
			a.losses = append(a.losses, time.Now())
			a.crashRedis(a.between(0, time.Second))
			a.eventually("both processes are back, and their workers", func() bool {
				return a.number("ZCARD", "resque:go:processes") == 2 &&
					a.number("SCARD", "resque:workers") == 10 && a.number("HLEN", "resque:workers:heartbeat") == 10
			})
			a.pushJobs(job{fmt.Sprint("after-", i), "Nap", 10})
		}
		a.produce(load{rate: 300, longest: 5, total: 600})
		a.waitProducers()
	})
}

// flushScripts has Redis forget all scripts, again and again.
func flushScripts(opts options) result {
	return without(contain(opts, "script-flush", nil, func(a *arena) {
		a.start()
		a.start()
		a.produce(load{rate: 600, longest: 10, failing: 10, node: true})
		for range 60 {
			time.Sleep(a.between(0, 100*time.Millisecond))
			a.must("SCRIPT", "FLUSH")
			a.inject()
		}
	}))
}

// redisStops stops Redis for longer than a lease, so that it finds every lease expired
// when it goes on.
func redisStops(opts options) result {
	return standstill(opts, "redis-sigstop", func(a *arena, span time.Duration) {
		a.redis.Pause()
		time.Sleep(span)
		a.redis.Resume()
	})
}

func redisSleeps(opts options) result {
	return standstill(opts, "redis-sleep", func(a *arena, span time.Duration) {
		_, _ = a.ask("DEBUG", "SLEEP", span.Seconds())
	})
}

func clientPause(opts options) result {
	return standstill(opts, "client-pause", func(a *arena, span time.Duration) {
		_, _ = a.ask("CLIENT", "PAUSE", span.Milliseconds(), "ALL")
		time.Sleep(span)
	})
}

// standstill stops Redis for one and a half leases, while jobs run. Some processes
// are cut off from a little before that until a little after it: Redis gets nothing that they
// send meanwhile, and the first process to return sees leases that are long out of date.
func standstill(opts options, name string, still func(a *arena, span time.Duration)) result {
	return without(contain(opts, name, []string{"--enable-debug-command", "yes"}, func(a *arena) {
		for range 3 {
			a.start("-concurrency=12")
		}
		lines := []*line{a.line(), a.line()}
		for _, l := range lines {
			a.start("-concurrency=6", l.uri())
			time.Sleep(a.between(0, time.Second)) // their renewals fall at different times
		}
		for i := range 40 {
			a.pushJobs(job{fmt.Sprint("across-", i), "Wait", 15_000})
		}
		a.produce(load{rate: 200, longest: 100})
		time.Sleep(a.between(500*time.Millisecond, 2*time.Second))
		var heal []func()
		for _, l := range lines {
			heal = append(heal, l.halfOpen())
		}
		time.Sleep(lookEvery + a.between(300*time.Millisecond, time.Second)) // the others see that these leases stand
		a.outage(func() {
			still(a, leasePeriod*3/2)
			for _, h := range heal {
				time.Sleep(a.between(700*time.Millisecond, time.Second))
				h()
			}
		})
		a.noneReaped()
	}))
}

// noneReaped waits until every process has seen every lease for longer than it
// lasts, and reports a process that was found dead.
func (a *arena) noneReaped() {
	time.Sleep(leasePeriod + 4*time.Second)
	if reaped := a.list("KEYS", "resque:go:reaped:*"); len(reaped) > 0 {
		a.problem("found dead although all live: %q", reaped)
	}
}

// memoryFull lets Redis run out of memory under load, and gives it room again.
func memoryFull(opts options) result {
	return without(contain(opts, "oom", []string{"--maxmemory-policy", "noeviction"}, func(a *arena) {
		a.start()
		a.start()
		a.produce(load{rate: 600, longest: 10, failing: 10, node: true})
		for range 3 {
			time.Sleep(time.Second)
			a.outage(func() { a.starve(3 * time.Second) })
		}
		time.Sleep(time.Second)
	}))
}

func (a *arena) starve(span time.Duration) {
	a.must("CONFIG", "SET", "maxmemory", "1mb")
	time.Sleep(span)
	a.must("CONFIG", "SET", "maxmemory", "0")
}

// readOnly makes the master a replica of an address that does not answer, then a master again.
func readOnly(opts options) result {
	return without(contain(opts, "readonly", nil, func(a *arena) {
		a.start()
		a.start()
		a.produce(load{rate: 600, longest: 10, failing: 10, node: true})
		for range 3 {
			time.Sleep(time.Second)
			a.outage(func() {
				a.must("REPLICAOF", "127.0.0.1", "1")
				time.Sleep(a.between(time.Second, 4*time.Second))
				a.must("REPLICAOF", "NO", "ONE")
			})
		}
		time.Sleep(2 * time.Second)
	}))
}

// churn closes all connections, every 100 ms.
func churn(opts options) result {
	return without(contain(opts, "churn", nil, func(a *arena) {
		a.start()
		a.start()
		a.produce(load{rate: 600, longest: 10, failing: 10, node: true})
		for range 80 {
			time.Sleep(100 * time.Millisecond)
			a.hangUp()
			a.inject()
		}
		a.healed()
		time.Sleep(2 * time.Second)
	}))
}

func (a *arena) hangUp() {
	_, _ = a.ask("CLIENT", "KILL", "TYPE", "normal")
	_, _ = a.ask("CLIENT", "KILL", "TYPE", "pubsub")
}

// busy lets another program's script hold Redis until it is killed.
func busy(opts options) result {
	return without(contain(opts, "busy", impatient, func(a *arena) {
		a.start()
		a.start()
		a.produce(load{rate: 600, longest: 10, failing: 10, node: true})
		for range 4 {
			time.Sleep(time.Second)
			a.outage(func() { a.hog(a.between(1100*time.Millisecond, 2500*time.Millisecond)) })
		}
		time.Sleep(time.Second)
	}))
}

// impatient is a Redis that soon answers BUSY.
var impatient = []string{"--busy-reply-threshold", "100"}

// hog runs a script without end and kills it.
func (a *arena) hog(span time.Duration) {
	ended := make(chan struct{})
	go func() {
		_, _ = a.ask("EVAL", "while true do end", 0)
		close(ended)
	}()
	time.Sleep(span)
	for {
		_, _ = a.ask("SCRIPT", "KILL")
		select {
		case <-ended:
			return
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// maxClients has Redis refuse connections after all were cut.
func maxClients(opts options) result {
	return without(contain(opts, "maxclients", nil, func(a *arena) {
		a.start()
		a.start()
		a.produce(load{rate: 300, longest: 10})
		for range 3 {
			time.Sleep(time.Second)
			a.outage(func() {
				c, err := a.dial() // is the one that stays
				if err != nil {
					a.Fatalf("%v", err)
				}
				defer c.Close()
				_, _ = c.Do("CONFIG", "SET", "maxclients", 1)
				_, _ = c.Do("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
				time.Sleep(3 * time.Second)
				if _, err := c.Do("CONFIG", "SET", "maxclients", 10_000); err != nil {
					a.Fatalf("%v", err)
				}
			})
		}
		time.Sleep(time.Second)
	}))
}
