package main

import (
	"os"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/redistest"
)

// rate is how many jobs are published a second, fewer than two consumers do.
func (o options) rate() int { return o.times(60, 100) }

// httpRedis kills Redis, fills its memory, closes all connections, and has it forget its scripts.
func httpRedis(opts options) result {
	return contain(opts, "http-redis", append([]string{"--maxmemory-policy", "noeviction"}, durable...), func(a *arena) {
		w := a.web()
		w.produce(4, opts.rate())
		for range opts.times(1, 8) {
			time.Sleep(a.between(300*time.Millisecond, time.Second))
			a.crashRedis(a.between(0, 500*time.Millisecond))
			time.Sleep(a.between(300*time.Millisecond, time.Second))
			a.outage(func() { a.starve(time.Second) })
			time.Sleep(a.between(300*time.Millisecond, time.Second))
			a.hangUp()
			a.must("SCRIPT", "FLUSH")
			a.inject()
		}
		w.finish(webLoss{})
	})
}

// httpStop stops Redis for longer than all leases last.
func httpStop(opts options) result {
	return contain(opts, "http-stop", durable, func(a *arena) {
		w := a.web()
		w.produce(4, opts.rate())
		for range opts.times(1, 3) {
			time.Sleep(a.between(time.Second, 2*time.Second))
			a.outage(func() {
				a.redis.Pause()
				time.Sleep(time.Duration(opts.times(5, 20)) * time.Second)
				a.redis.Resume()
			})
		}
		w.finish(webLoss{})
	})
}

// httpFailOver has a replica that has all of it become the master, while servers are at work.
func httpFailOver(opts options) result {
	return contain(opts, "http-failover", nil, func(a *arena) {
		w := a.wired()
		w.produce(4, opts.rate())
		for range opts.times(1, 4) {
			time.Sleep(a.between(500*time.Millisecond, time.Second))
			next := a.replica(a.redis.Addr)
			time.Sleep(a.between(0, 500*time.Millisecond))
			a.outage(func() {
				for _, l := range w.wires {
					l.cut()
				}
				a.hangUp()
				a.eventually("the replica has all", a.replicated)
				a.redis = next
				a.must("REPLICAOF", "NO", "ONE")
				for _, l := range w.wires {
					l.redirect(next.Addr)
					l.mend()
				}
			})
		}
		w.finish(webLoss{})
	})
}

// replica starts a replica that reaches its master at an address, and returns when it has all.
func (a *arena) replica(master string) *redistest.Server {
	next := redistest.Start(a, "--replicaof", strings.ReplaceAll(master, ":", " "))
	a.eventually("a replica has come", a.replicated)
	return next
}

// replicated writes something, and reports whether a replica has that, and so all before it.
func (a *arena) replicated() bool {
	c, err := a.dial()
	if err != nil {
		return false
	}
	defer c.Close()
	if _, err := c.Do("SET", "resque:connection_test_key", "ok"); err != nil {
		return false
	}
	n, err := redis.Int(c.Do("WAIT", 1, 1000))
	return err == nil && n == 1
}

// httpEverySec has Redis lose what it wrote in the last second, as a machine does that loses its power.
func httpEverySec(opts options) result {
	everysec := []string{"--appendonly", "yes", "--appendfsync", "everysec"}
	return contain(opts, "http-everysec", everysec, func(a *arena) {
		w := a.wired()
		w.produce(4, opts.rate())
		for range opts.times(1, 10) {
			time.Sleep(a.between(time.Second, 2*time.Second))
			file, size := a.appendOnlyFile()
			time.Sleep(a.between(100*time.Millisecond, time.Second))
			w.lose(func() {
				a.redis.Kill()
				if err := os.Truncate(file, size); err != nil {
					a.Fatalf("%v", err)
				}
				a.redis.Restart(a)
			})
		}
		w.finish(webLoss{})
	})
}

// httpEmpty starts Redis again without its data.
func httpEmpty(opts options) result {
	return contain(opts, "http-empty", nil, func(a *arena) {
		w := a.wired()
		w.produce(4, opts.rate())
		for range opts.times(1, 10) {
			time.Sleep(a.between(time.Second, 2*time.Second))
			w.lose(func() { a.redis.Restart(a) })
		}
		w.finish(webLoss{})
	})
}

func httpBehind(opts options) result { return failOverBehind(opts, "http-behind", 0) }
func httpWait(opts options) result   { return failOverBehind(opts, "http-wait", 1) }

// failOverBehind has a replica become the master that has not got what was written last. Where each publish waits for a
// replica, none that was acknowledged is lost.
func failOverBehind(opts options, name string, replicas int) result {
	return contain(opts, name, nil, func(a *arena) {
		w := a.newWeb(2)
		w.wires = []*wire{a.wire(), a.wire()}
		if replicas > 0 {
			w.setting = func(int) string { return "CHAOS_REPLICAS=1" }
		}
		l := a.line()
		next := a.replica(l.proxy.Listen)
		w.open()
		w.produce(4, opts.rate())
		for i := range opts.times(1, 6) {
			if i > 0 {
				l = a.line()
				next = a.replica(l.proxy.Listen)
			}
			time.Sleep(a.between(time.Second, 2*time.Second))
			l.halfOpen()
			time.Sleep(a.between(100*time.Millisecond, time.Second))
			w.lose(func() {
				a.redis = next
				a.must("REPLICAOF", "NO", "ONE")
			})
		}
		if replicas > 0 { // publishes that are repeated wait for one
			a.replica(a.redis.Addr)
		}
		w.finish(webLoss{safe: replicas > 0})
	})
}
