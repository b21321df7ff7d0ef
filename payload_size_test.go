package goworker_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/internal/daemontest"
	"github.com/goworker/goworker/internal/payload"
	"github.com/goworker/goworker/internal/resque"
)

func TestEnqueueRefusesLargePayloads(t *testing.T) {
	t.Parallel()
	b := daemontest.Setup(t, func(s *goworker.WorkerSettings) { s.MaxPayload = 1000 })
	t.Cleanup(b.Daemon.Close)
	large := &goworker.Job{Queue: "work", Payload: goworker.Payload{Class: "Mark", Args: []interface{}{strings.Repeat("x", 1000)}}}
	err := b.Daemon.Enqueue(large)
	if err == nil || !strings.Contains(err.Error(), "has 1028 bytes, and MaxPayload (flag -max-payload) allows 1000") {
		t.Errorf("enqueueing 1028 bytes: %v", err)
	}
	fits := &goworker.Job{Queue: "work", Payload: goworker.Payload{Class: "Mark", Args: []interface{}{strings.Repeat("x", 1000-28)}}}
	if err := b.Daemon.Enqueue(fits); err != nil {
		t.Errorf("enqueueing 1000 bytes: %v", err)
	}
	if n := b.Redis.Int(t, "LLEN", "resque:queue:work"); n != 1 {
		t.Errorf("%d jobs in the queue, want 1", n)
	}
}

// A payload that is too large, or large and no job, costs itself: a failure with an
// excerpt, every byte in a list of its own, and from there it comes back.
func TestLargePayloads(t *testing.T) {
	t.Parallel()
	const most = 2 << 20
	for _, backend := range []string{goworker.FailureRedis, goworker.FailureRedisMultiQueue} {
		b := daemontest.Setup(t, func(s *goworker.WorkerSettings) { s.MaxPayload, s.FailureBackend = most, backend })
		large := `{"class":"Mark","args":["` + strings.Repeat("é", most/2) + `"]}`
		junk := strings.Repeat("\x00\xff", payload.MaxInvalid/2) + "\x01" // in JSON six times as long
		fits := daemontest.Job("Mark", "fits"+strings.Repeat("x", most/2))
		b.Push(large, daemontest.Job("Mark", "one"), junk, fits, daemontest.Job("Mark", "two"))
		b.Start()
		b.Eventually("all are dealt with", func() bool { return b.Stat("processed") == 5 && b.Stat("failed") == 2 })
		if b.Runs.Ends("one")+b.Runs.Ends("two") != 2 {
			t.Error("the jobs beside them did not run")
		}
		kept := b.Redis.List(t, "LRANGE", "resque:go:kept:work", "0", "-1")
		if len(kept) != 2 || kept[0] != large && kept[1] != large || kept[0] != junk && kept[1] != junk {
			t.Errorf("%d payloads are kept", len(kept))
		}
		list := "resque:failed"
		if backend == goworker.FailureRedisMultiQueue {
			list = "resque:work_failed"
		}
		for _, raw := range b.Redis.List(t, "LRANGE", list, "0", "-1") {
			f, err := payload.ParseFailure([]byte(raw))
			if err != nil || len(raw) > 12<<10 {
				t.Fatalf("a record of %d bytes: %v", len(raw), err)
			}
			p, err := payload.Parse(f.Payload)
			if err != nil || p.Class != "InvalidPayload" || !strings.Contains(string(p.Args[0]), " bytes)") {
				t.Errorf("payload %s: %v", f.Payload, err)
			}
			if !strings.Contains(f.Error, "LMOVE resque:go:kept:work resque:queue:work RIGHT RIGHT") {
				t.Errorf("the error does not say where it is: %s", f.Error)
			}
		}
		if err := b.Stop(); err != nil {
			t.Fatal(err)
		}
		// The way back that the error names, under a higher limit.
		b.Redis.Do(t, "LREM", "resque:go:kept:work", "0", junk)
		b.Redis.Do(t, "LMOVE", "resque:go:kept:work", "resque:queue:work", "RIGHT", "RIGHT")
		again := daemontest.SetupOn(t, b.Redis, func(s *goworker.WorkerSettings) { s.ExitOnComplete = true })
		if err := again.Daemon.Run(t.Context()); err != nil || again.Runs.Ends(strings.Repeat("é", most/2)) != 1 {
			t.Errorf("it did not run: %v", err)
		}
		again.Daemon.Close()
	}
}

// A list that cannot keep the payload leaves it where it is, and the others go on.
func TestLargePayloadIsNotLostToAWrongType(t *testing.T) {
	t.Parallel()
	b := daemontest.Setup(t, func(s *goworker.WorkerSettings) { s.MaxPayload = 100 })
	b.Redis.Do(t, "SET", "resque:go:kept:work", "x")
	large := daemontest.Job("Mark", strings.Repeat("x", 200))
	b.Push(large, daemontest.Job("Mark", "one"))
	b.Start()
	b.Eventually("the other is done", func() bool { return b.Runs.Ends("one") == 1 && b.Stat("processed") == 1 })
	if n := b.Redis.Int(t, "LLEN", "resque:failed"); n != 0 {
		t.Errorf("%d failures are filed without their payload", n)
	}
	b.Redis.Do(t, "DEL", "resque:go:kept:work")
	b.Eventually("it is filed", func() bool { return b.Stat("failed") == 1 })
	if kept := b.Redis.List(t, "LRANGE", "resque:go:kept:work", "0", "-1"); len(kept) != 1 || kept[0] != large {
		t.Errorf("kept is %d payloads", len(kept))
	}
}

// traced is an error with a backtrace of its own.
type traced []string

func (traced) Error() string         { return "x" }
func (e traced) Backtrace() []string { return e }

// What handlers say is not filed in any length.
func TestLongErrors(t *testing.T) {
	t.Parallel()
	b := daemontest.Setup(t)
	long := strings.Repeat("much ado ", 10<<20/9)
	b.Daemon.Register("Returns", func() error { return errors.New(long) })
	b.Daemon.Register("Panics", func() { panic(long) })
	b.Daemon.Register("Traces", func() error { return traced(strings.Split(long, " ")) })
	b.Push(`{"class":"Returns","args":[]}`, `{"class":"Panics","args":[]}`, `{"class":"Traces","args":[]}`, `{"class":"`+long+`","args":[]}`)
	b.Start()
	b.Eventually("all have failed", func() bool { return b.Stat("failed") == 4 })
	for _, f := range b.Failures() {
		size := len(f.Error)
		for _, line := range f.Backtrace {
			size += len(line)
		}
		if size > 2*goworker.MaxErrorText+200 {
			t.Errorf("%s: %d bytes are filed", f.Exception, size)
		}
	}
}

// What is held at a time is bounded in bytes, whatever the concurrency is.
func TestLargePayloadsAreTakenFewAtATime(t *testing.T) {
	t.Parallel()
	const size, most = 1_200_000, 1_500_000
	b := daemontest.Setup(t, func(s *goworker.WorkerSettings) { s.MaxPayload, s.Concurrency = most, 20 })
	for i := range 20 {
		b.Push(daemontest.Job("Hold", strings.Repeat("x", size)+string(rune('a'+i))))
	}
	b.Start()
	b.Eventually("as many run as may", func() bool { return b.Runs.Started()*size >= goworker.HeldPayloads*most })
	for range 20 { // turns of a poller that would take more
		goworker.Turn(b.Daemon)
	}
	if n := b.Runs.Started() * size; n > goworker.HeldPayloads*most+resque.MaxExchangeBytes+size {
		t.Errorf("payloads of %d bytes are held", n)
	}
	b.Open()
	b.Eventually("all are done", func() bool { return b.Stat("processed") == 20 })
}
