package fleet

import (
	"slices"
	"testing"
	"time"

	"github.com/goworker/goworker/internal/redistest"
)

// beatCalls are the calls of beat.lua among commands, and renewals those of renew.lua.
func beatCalls(commands [][]string) (beats, renewals int) {
	for _, c := range commands {
		switch {
		case len(c) < 4 || c[0] != "EVALSHA" && c[0] != "EVAL":
		case c[3] == "resque:workers:heartbeat":
			beats++
		case c[3] == "resque:go:processes":
			renewals++
		}
	}
	return beats, renewals
}

// The heartbeats ride with a renewal. An idle process sends 30 commands a minute for its lease and its workers. Where a program has removed a
// worker, where Redis refuses the heartbeats, and where the process was wrong about Redis's clock, they go by themselves at once.
func TestHeartbeatsRide(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.start()
	b.eventually("the lease is renewed", func() bool { return b.called("held") })
	b.loop.Stop(t.Context())
	b.line.Limit = time.Minute // a busy machine is slow
	beat := func() {
		t.Helper()
		if err := b.beat(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	beat()
	m := b.redis.Monitor(t)
	stale := func() {
		b.redis.Do(t, "HSET", "resque:workers:heartbeat", "me:2-0:work", "old", "me:2-1:work", "old")
	}
	fresh := func(when string) {
		t.Helper()
		for _, at := range b.redis.List(t, "HVALS", "resque:workers:heartbeat") {
			if parsed, err := time.Parse(time.RFC3339, at); err != nil || time.Since(parsed).Abs() > time.Minute {
				t.Errorf("%s: a heartbeat at %s", when, at)
			}
		}
	}
	ahead := func() { // with Redis's clock
		b.late.Add(int64(renewEvery))
		b.Saw(time.Now())
	}
	stale()
	for range 30 {
		ahead()
		beat()
	}
	if beats, renewals := beatCalls(m.Commands()); beats != 0 || renewals != 30 {
		t.Errorf("in a minute it has sent %d renewals and %d heartbeats that were alone", renewals, beats)
	}
	fresh("in a minute")

	until := func() { // the next renewal has heartbeats
		for ahead(); !b.due(b.Now()); ahead() {
			beat()
		}
	}
	alone := func(when string, want int, happen func()) {
		t.Helper()
		until()
		before, _ := beatCalls(m.Commands())
		happen()
		stale()
		beat()
		if beats, _ := beatCalls(m.Commands()); beats-before != want {
			t.Errorf("%s: %d calls by themselves, want %d", when, beats-before, want)
		}
		fresh(when)
		if n := b.redis.Int(t, "SCARD", "resque:workers"); n != 2 {
			t.Errorf("%s: %d workers are registered", when, n)
		}
	}
	alone("as ever", 0, func() {})
	alone("a worker was removed", 1, func() { // as Ruby prunes it
		b.redis.Do(t, "SREM", "resque:workers", "me:2-0:work")
		b.redis.Do(t, "DEL", "resque:worker:me:2-0:work:started")
	})
	if b.redis.Int(t, "EXISTS", "resque:worker:me:2-0:work:started") != 1 {
		t.Error("a worker that was removed is registered again without the time of its start")
	}
	alone("the clock was wrong", 1, func() { b.Saw(time.Now().Add(-time.Hour)) })

	until()
	b.registrar.sending.Lock()
	stale()
	if beat(); !slices.Contains(b.redis.List(t, "HVALS", "resque:workers:heartbeat"), "old") {
		t.Error("it sends heartbeats while the registrar sends ids")
	}
	b.registrar.sending.Unlock()
	beat()
	fresh("after the registrar")

	until()
	b.redis.Kill()
	if err := b.beat(t.Context()); err == nil || !b.registrar.sending.TryLock() {
		t.Errorf("a renewal without Redis: %v; the registrar must not wait for the next one", err)
	} else {
		b.registrar.sending.Unlock()
	}
	if b.cargo.Cargo.Clear(); b.beats.on {
		t.Error("the heartbeats are still to be sent")
	}
	b.redis.Restart(t)
	redistest.Eventually(t, 30*time.Second, "it is in the fleet again", func() bool { return b.beat(t.Context()) == nil })
}
