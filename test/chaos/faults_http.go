package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"time"
)

// times is how often a row of HTTP does its fault.
func (o options) times(short, long int) int {
	if o.short {
		return short
	}
	return long
}

// httpKill kills servers and consumers at random instants. Two servers give the jobs of one queue.
func httpKill(opts options) result {
	return contain(opts, "http-kill", durable, func(a *arena) {
		w := a.web()
		w.produce(4, opts.rate())
		w.killSome(opts.times(8, 60))
		w.finish(webLoss{})
	})
}

// httpBoundary is an instant of a server at which it is killed, or its connection cut.
type httpBoundary struct {
	script string
	nth    int
	call   func(*web) // is called again and again so that it comes; nil: publishing and taking jobs is enough
	slow   bool       // it takes more than a minute
}

// httpBoundaries are those of all scripts of a server.
var httpBoundaries = []httpBoundary{
	{"lease-served", 1, nil, false}, {"lease-taker", 1, nil, false}, {"lease-turn", 1, nil, false}, {"lease-turn", 2, nil, false}, {"lease-turn", 3, nil, false},
	{"lease-turn", 5, nil, false}, {"lease-turn", 8, nil, false}, {"lease-publish", 1, nil, false}, {"lease-publish", 2, nil, false},
	{"lease-publish", 5, nil, false}, {"push", 1, nil, false}, {"commit", 1, nil, false}, {"commit", 2, nil, false},
	{"lease-touch", 1, nil, false}, {"lease-expired", 1, nil, false}, {"lease-expired", 2, nil, false},
	{"lease-destroy", 1, (*web).destroy, false}, {"lease-seize", 1, (*web).cancel, false}, {"lease-respawn", 1, (*web).respawn, false},
	{"lease-adopt", 1, (*web).forget, true},
}

// destroy destroys a queue that has jobs.
func (w *web) destroy() {
	w.send(http.MethodPost, 0, "queues/gone/jobs", "gone 0 ack", "")
	w.send(http.MethodDelete, 0, "queues/gone", "", "")
}

// cancel cancels a job that waits.
func (w *web) cancel() {
	_, answer := w.send(http.MethodPost, 0, "queues/gone/jobs", "gone 0 ack", "")
	var made struct {
		ID string `json:"id"`
	}
	if json.Unmarshal(answer, &made) == nil && made.ID != "" {
		w.send(http.MethodDelete, 0, "queues/gone/jobs/"+made.ID, "", "")
	}
}

// respawn has a dead letter run again, in a queue from which nobody takes.
func (w *web) respawn() {
	w.a.must("RPUSH", "resque:"+webNamespace+".dead_failed", `{"failed_at":"","payload":{"class":"HTTPJob","args":["dead 0 ack"]},"exception":"E","error":"e","backtrace":[],"worker":"w","queue":"shop.dead"}`)
	w.respawned.Add(1)
	request, err := http.NewRequestWithContext(context.Background(), http.MethodPut, "http://"+w.addresses[0]+"/api/"+webNamespace+"/dead/deadletter?limit=1", nil)
	if err != nil {
		w.a.Fatalf("%v", err)
	}
	if reply, err := w.client.Do(request); err == nil {
		_ = reply.Body.Close()
	}
}

// forget removes the leases of all jobs: who has them nobody knows any more, so each gets a new one.
func (w *web) forget() {
	w.a.must("DEL", "resque:go:leases")
	time.Sleep(webTTR)
}

func httpKillAtBoundaries(opts options) result { return atHTTPBoundaries(opts, true) }
func httpCutAtBoundaries(opts options) result  { return atHTTPBoundaries(opts, false) }

// atHTTPBoundaries tries each boundary in each phase, several at once. The short form tries half of them, each in one
// phase.
func atHTTPBoundaries(opts options, kill bool) result {
	total := newResult()
	var wg sync.WaitGroup
	var mu sync.Mutex
	slots := make(chan struct{}, 8)
	for n, b := range httpBoundaries {
		for at := range phases {
			if opts.short && (b.slow || (uint64(n+at)+opts.seed)%uint64(2*len(phases)) != 0) {
				continue
			}
			slots <- struct{}{}
			wg.Go(func() {
				defer func() { <-slots }()
				r := b.try(opts, phase(at), kill)
				for i, p := range r.problems {
					r.problems[i] = fmt.Sprintf("%s %d, %s: %s", b.script, b.nth, phases[at], p)
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

// try has one of two servers run into the boundary. Where it was killed, it is started again.
func (b httpBoundary) try(opts options, at phase, kill bool) result {
	name := fmt.Sprintf("http-%s-%d-%d-%t", b.script, b.nth, at, kill)
	return contain(opts, name, durable, func(a *arena) {
		l := a.wire()
		w := a.newWeb(2)
		spring := func() {}
		started := make(chan struct{})
		if kill {
			spring = func() { <-started; w.server(0).kill() }
		}
		t := l.set(b.script, b.nth, at, spring)
		w.serve(0, l.uri())
		w.serve(1, "-uri="+a.redis.URI())
		close(started)
		w.ready(1)
		w.consume(2)
		w.consume(2)
		w.produce(2, 60)
		for deadline, reached := time.Now().Add(soon), false; !reached; {
			if b.call != nil {
				b.call(w)
			}
			select {
			case <-t.sprung:
				reached = true
			case <-time.After(20 * time.Millisecond):
				if time.Now().After(deadline) {
					a.Fatalf("this boundary was not reached")
				}
			}
		}
		a.inject()
		if kill {
			w.serve(0, "-uri="+a.redis.URI())
			w.ready(0)
		}
		w.finish(webLoss{whole: !kill})
		if n := a.number("LLEN", "resque:queue:shop.dead") + a.number("LLEN", "resque:shop.dead_failed"); n != int(w.respawned.Load()) {
			a.problem("%d of %d dead letters that were to run again are there", n, w.respawned.Load())
		}
	})
}
