package goworker

import (
	"errors"
	"strings"
	"testing"

	"github.com/goworker/goworker/internal/failure"
	"github.com/goworker/goworker/internal/payload"
	"github.com/goworker/goworker/internal/resque"
)

func TestEnqueueRefusesLargePayloads(t *testing.T) {
	t.Parallel()
	b := setup(t, func(s *WorkerSettings) { s.MaxPayload = 1000 })
	t.Cleanup(b.daemon.Close)
	large := &Job{"work", Payload{"Mark", []interface{}{strings.Repeat("x", 1000)}}}
	err := b.daemon.Enqueue(large)
	if err == nil || !strings.Contains(err.Error(), "has 1028 bytes, and MaxPayload (flag -max-payload) allows 1000") {
		t.Errorf("enqueueing 1028 bytes: %v", err)
	}
	fits := &Job{"work", Payload{"Mark", []interface{}{strings.Repeat("x", 1000-28)}}}
	if err := b.daemon.Enqueue(fits); err != nil {
		t.Errorf("enqueueing 1000 bytes: %v", err)
	}
	if n := b.redis.Int(t, "LLEN", "resque:queue:work"); n != 1 {
		t.Errorf("%d jobs in the queue, want 1", n)
	}
}

// A payload that is too large, or large and no job, costs itself: a failure with an
// excerpt, every byte in a list of its own, and from there it comes back.
func TestLargePayloads(t *testing.T) {
	t.Parallel()
	const most = 2 << 20
	for _, backend := range []string{FailureRedis, FailureRedisMultiQueue} {
		b := setup(t, func(s *WorkerSettings) { s.MaxPayload, s.FailureBackend = most, backend })
		large := `{"class":"Mark","args":["` + strings.Repeat("é", most/2) + `"]}`
		junk := strings.Repeat("\x00\xff", payload.MaxInvalid/2) + "\x01" // in JSON six times as long
		fits := job("Mark", "fits"+strings.Repeat("x", most/2))
		b.push(large, job("Mark", "one"), junk, fits, job("Mark", "two"))
		b.start()
		b.eventually("all are dealt with", func() bool { return b.stat("processed") == 5 && b.stat("failed") == 2 })
		if b.runs.ends("one")+b.runs.ends("two") != 2 {
			t.Error("the jobs beside them did not run")
		}
		kept := b.redis.List(t, "LRANGE", "resque:go:kept:work", "0", "-1")
		if len(kept) != 2 || kept[0] != large && kept[1] != large || kept[0] != junk && kept[1] != junk {
			t.Errorf("%d payloads are kept", len(kept))
		}
		list := "resque:failed"
		if backend == FailureRedisMultiQueue {
			list = "resque:work_failed"
		}
		for _, raw := range b.redis.List(t, "LRANGE", list, "0", "-1") {
			f, err := payload.ParseFailure([]byte(raw))
			if err != nil || len(raw) > 12<<10 {
				t.Fatalf("a record of %d bytes: %v", len(raw), err)
			}
			p, err := payload.Parse(f.Payload)
			if err != nil || p.Class != "InvalidPayload" || !strings.Contains(string(p.Args[0]), " bytes)") {
				t.Errorf("payload %s: %v", f.Payload, err)
			}
			if !strings.Contains(f.Error, "LMOVE resque:go:kept:work resque:queue:work RIGHT RIGHT") {
				t.Errorf("the error does not tell where it is: %s", f.Error)
			}
		}
		if err := b.stop(); err != nil {
			t.Fatal(err)
		}
		// The way back that the error names, under a higher limit.
		b.redis.Do(t, "LREM", "resque:go:kept:work", "0", junk)
		b.redis.Do(t, "LMOVE", "resque:go:kept:work", "resque:queue:work", "RIGHT", "RIGHT")
		again := setupOn(t, b.redis, func(s *WorkerSettings) { s.ExitOnComplete = true })
		if err := again.daemon.Run(t.Context()); err != nil || again.runs.ends(strings.Repeat("é", most/2)) != 1 {
			t.Errorf("it did not run: %v", err)
		}
		again.daemon.Close()
	}
}

// A list that cannot keep the payload leaves it where it is, and the others go on.
func TestLargePayloadIsNotLostToAWrongType(t *testing.T) {
	t.Parallel()
	b := setup(t, func(s *WorkerSettings) { s.MaxPayload = 100 })
	b.redis.Do(t, "SET", "resque:go:kept:work", "x")
	large := job("Mark", strings.Repeat("x", 200))
	b.push(large, job("Mark", "one"))
	b.start()
	b.eventually("the other is done", func() bool { return b.runs.ends("one") == 1 && b.stat("processed") == 1 })
	if n := b.redis.Int(t, "LLEN", "resque:failed"); n != 0 {
		t.Errorf("%d failures are filed without their payload", n)
	}
	b.redis.Do(t, "DEL", "resque:go:kept:work")
	b.eventually("it is filed", func() bool { return b.stat("failed") == 1 })
	if kept := b.redis.List(t, "LRANGE", "resque:go:kept:work", "0", "-1"); len(kept) != 1 || kept[0] != large {
		t.Errorf("kept is %d payloads", len(kept))
	}
}

// What handlers say is not filed in any length.
func TestLongErrors(t *testing.T) {
	t.Parallel()
	b := setup(t)
	long := strings.Repeat("much ado ", 10<<20/9)
	b.daemon.Register("Returns", func() error { return errors.New(long) })
	b.daemon.Register("Panics", func() { panic(long) })
	b.daemon.Register("Traces", func() error { return oddError{"x", strings.Split(long, " ")} })
	b.push(`{"class":"Returns","args":[]}`, `{"class":"Panics","args":[]}`, `{"class":"Traces","args":[]}`, `{"class":"`+long+`","args":[]}`)
	b.start()
	b.eventually("all have failed", func() bool { return b.stat("failed") == 4 })
	for _, f := range b.failures() {
		size := len(f.Error)
		for _, line := range f.Backtrace {
			size += len(line)
		}
		if size > 2*failure.MaxText+200 {
			t.Errorf("%s: %d bytes are filed", f.Exception, size)
		}
	}
}

// What is held at a time is bounded in bytes, whatever the concurrency is.
func TestLargePayloadsAreTakenFewAtATime(t *testing.T) {
	t.Parallel()
	const size, most = 1_200_000, 1_500_000
	b := setup(t, func(s *WorkerSettings) { s.MaxPayload, s.Concurrency = most, 20 })
	for i := range 20 {
		b.push(job("Hold", strings.Repeat("x", size)+string(rune('a'+i))))
	}
	b.start()
	b.eventually("as many run as may", func() bool { return b.runs.started()*size >= heldPayloads*most })
	b.daemon.mu.Lock()
	poller := b.daemon.poller
	b.daemon.mu.Unlock()
	for range 20 { // turns of a poller that would take more
		turned := make(chan struct{})
		poller.ask(func() { close(turned) })
		<-turned
	}
	if n := b.runs.started() * size; n > heldPayloads*most+resque.MaxExchangeBytes+size {
		t.Errorf("payloads of %d bytes are held", n)
	}
	b.open()
	b.eventually("all are done", func() bool { return b.stat("processed") == 20 })
}
