package gateway_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/internal/gateway"
	"github.com/goworker/goworker/internal/payload"
	"github.com/goworker/goworker/internal/redistest"
	"github.com/goworker/goworker/internal/resque/leases"
)

// long is as long as a test waits for a job that comes.
const long = time.Minute

func TestPublishReserveAck(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	g := start(t, s.URI())
	ids := publish(t, g, body("mail", "ada"))
	jobs := reserve(t, g, 0, 1, "mail")
	if len(jobs) != 1 || jobs[0].ID != ids[0] || string(jobs[0].Parsed.Args[0]) != `"ada"` || jobs[0].Tries != 1 || jobs[0].Attempt != 1 {
		t.Fatalf("%+v", jobs)
	}
	if w := ack(t, g, jobs[0]); w != gateway.Acked {
		t.Errorf("the first acknowledgement: %s", w)
	}
	if w := ack(t, g, jobs[0]); w != gateway.Unknown {
		t.Errorf("the second acknowledgement: %s", w)
	}
	if jobs := reserve(t, g, 0, 1, "mail"); jobs != nil {
		t.Errorf("%+v", jobs)
	}
}

// A waiter gets a job that is published later, and one that waits for several queues too.
func TestWaiterWakes(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	g := start(t, s.URI())
	got := make(chan []gateway.Job, 1)
	go func() { got <- reserve(t, g, long, 1, "fast", "slow") }()
	redistest.Eventually(t, long, "the ask waits", func() bool { return g.Stats().Waiters == 1 })
	publish(t, g, body("slow", "ada"))
	if jobs := <-got; len(jobs) != 1 || jobs[0].Queue != "slow" {
		t.Errorf("%+v", jobs)
	}
}

// A stop ends in time although Redis does not answer, and the calls under way end with it.
func TestStopWithoutRedis(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	g := start(t, s.URI())
	got := waits(t, g, "mail")
	s.Pause()
	defer s.Resume()
	acked := make(chan error, 1)
	go func() {
		_, err := g.Ack(context.Background(), gateway.Ack{Queue: "mail", ID: "1"})
		acked <- err
	}()
	published := make(chan error, 1)
	go func() {
		_, err := g.Publish(context.Background(), body("mail", "ada"))
		published <- err
	}()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	g.Stop(ctx)
	if jobs := <-got; jobs != nil {
		t.Errorf("%+v", jobs)
	}
	if err := <-acked; err == nil {
		t.Error("an acknowledgement was answered")
	}
	if err := <-published; err == nil {
		t.Error("a publish was answered")
	}
}

// A start that Redis refuses can be made again, and needs no stop.
func TestStartAgain(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	refused := unstarted(t, s.URI())
	s.Do(t, "SET", "resque:go:takers", "no set")
	if err := refused.Start(t.Context()); err == nil {
		t.Error("it started")
	}
	again := unstarted(t, s.URI())
	if err := again.Start(t.Context()); err == nil {
		t.Error("it started")
	}
	s.Do(t, "DEL", "resque:go:takers")
	if err := again.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	publish(t, again, body("mail", "ada"))
	refused.Stop(t.Context())
}

// A job that is published in the place of another one is no larger than any.
func TestRepublishTooLarge(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	g := start(t, s.URI(), func(s *goworker.WorkerSettings, _ *gateway.Options) { s.MaxPayload = 1000 })
	publish(t, g, body("mail", "ada"))
	j := reserve(t, g, 0, 1, "mail")[0]
	var large *payload.SizeError
	if _, _, err := g.Republish(t.Context(), leases.Once{}, "mail", j.ID, body("mail", strings.Repeat("x", 1000))); !errors.As(err, &large) {
		t.Errorf("%v", err)
	}
	if w := ack(t, g, j); w != gateway.Acked {
		t.Errorf("the old job: %s", w)
	}
}
