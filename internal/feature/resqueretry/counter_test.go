package resqueretry

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/goworker/goworker/internal/clock"
	"github.com/goworker/goworker/internal/conn"
	"github.com/goworker/goworker/internal/failure"
	"github.com/goworker/goworker/internal/logging"
	"github.com/goworker/goworker/internal/outcome"
	"github.com/goworker/goworker/internal/part"
	"github.com/goworker/goworker/internal/redistest"
	"github.com/goworker/goworker/internal/resque"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// A run begins when Redis is there: while it is away the run waits.
func TestCountWaitsForRedis(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	d, err := conn.NewDialer(t.Context(), conn.Config{URI: s.URI()}, nil)
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	feature := New(outcome.Deps{Base: part.Base{
		Log: log, Outages: logging.NewOutages(log, clock.System), Store: resque.New(""), Dialer: d, Clock: clock.System,
	}})
	defer feature.Close()
	class := &outcome.Class{Name: "Try"}
	outcome.Put(class, Rule{})
	policy := feature.Bind(class)
	ctx, cancel := context.WithCancelCause(t.Context())
	admit := func() <-chan error {
		done := make(chan error, 1)
		go func() {
			j := &outcome.Job{Name: "Try", Class: class}
			if _, decided := policy.Admit(ctx, j); decided {
				done <- errors.New("the job does not run")
			} else {
				done <- j.Err
			}
		}()
		return done
	}
	s.Kill()
	waits := admit()
	select {
	case err := <-waits:
		t.Fatalf("without Redis the run began: %v", err)
	case <-time.After(200 * time.Millisecond):
	}
	s.Restart(t)
	if err := <-waits; err != nil {
		t.Fatal(err)
	}
	s.Kill()
	waits = admit()
	cancel(failure.ErrShutdown)
	if err := <-waits; !failure.Interrupted(err) || !errors.Is(err, failure.ErrShutdown) {
		t.Errorf("after a stop the run's error is %v", err)
	}
	s.Restart(t)
}
