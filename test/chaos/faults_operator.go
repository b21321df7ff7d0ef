package main

import (
	"os"
	"strings"
	"time"
)

// operators remove what is ours, under load: leases, records, registrations; and put
// keys of other types in their places.
func operators(opts options) result {
	return contain(opts, "operators", nil, func(a *arena) {
		a.start()
		a.start()
		a.produce(load{rate: 300, longest: 30, failing: 10})
		acts := []func(){
			func() { a.must("DEL", "resque:workers") },
			func() { a.must("DEL", "resque:workers:heartbeat") },
			func() {
				for _, id := range a.list("SMEMBERS", "resque:workers") {
					a.must("SREM", "resque:workers", id)
				}
			},
			func() { a.must("DEL", "resque:go:processes") },
			func() { a.remove("resque:go:process:*") },
			func() { a.remove("resque:go:inflight:*") },
			func() { a.must("DEL", "resque:go:recovered") },
			func() { a.must("DEL", "resque:queues") },
			func() { a.remove("resque:worker:*") },
			func() { a.wrongType("resque:failed") },
			func() { a.wrongType("resque:workers") },
			func() { a.wrongType("resque:workers:heartbeat") },
			func() { a.wrongType("resque:go:processes") },
			func() { a.wrongType("resque:go:recovered") },
		}
		for i := range acts { // in a random order
			j := i + a.intn(len(acts)-i)
			acts[i], acts[j] = acts[j], acts[i]
		}
		for _, act := range acts {
			time.Sleep(time.Second)
			act()
			a.inject()
			a.healed()
		}
		a.must("SADD", "resque:queues", "work")
		time.Sleep(5 * time.Second)
	})
}

func (a *arena) remove(pattern string) {
	for _, key := range a.list("KEYS", pattern) {
		a.must("DEL", key)
	}
}

// wrongType puts a key out of the way for two seconds, with one of another type in its
// place: each time as one, so that nothing written in between is lost to us.
func (a *arena) wrongType(key string) {
	a.must("EVAL", `if redis.call('EXISTS', KEYS[1]) == 1 then redis.call('RENAME', KEYS[1], KEYS[2]) end
redis.call('SET', KEYS[1], 'of another type')`, 2, key, "aside")
	time.Sleep(2 * time.Second)
	a.must("EVAL", `redis.call('DEL', KEYS[1])
if redis.call('EXISTS', KEYS[2]) == 1 then redis.call('RENAME', KEYS[2], KEYS[1]) end`, 2, key, "aside")
}

// eviction looks at what the daemon does where Redis may remove queues.
func eviction(opts options) result {
	return contain(opts, "eviction", []string{"--maxmemory", "64mb", "--maxmemory-policy", "allkeys-lru"}, func(a *arena) {
		p := a.launch()
		a.eventually("it enters the fleet or ends", func() bool { return !p.alive() || p.id() != "" })
		a.inject()
		text, _ := os.ReadFile(p.output())
		switch {
		case !p.alive():
			a.note("refuses to start")
		case strings.Contains(string(text), "noeviction"):
			a.note("starts with a warning")
		default:
			a.note("starts without a warning")
		}
	})
}
