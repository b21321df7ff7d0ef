package goworkertest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/internal/trial"
)

// scheme is that of the URIs of a server.
const scheme = "goworkertest"

// pollInterval is how often a daemon looks for jobs that came in while it drained its queues.
const pollInterval = time.Millisecond

// server is a Redis inside the test, whose clock is that of the trial. It is a goworker.Dialer.
type server struct{ redis *miniredis.Miniredis }

// startServer starts a server that ends with the test, after what is cleaned up before.
func startServer(t testing.TB, clock *trial.Trial) *server {
	t.Helper()
	s := &server{miniredis.NewMiniRedis()}
	s.set(clock)
	s.redis.ClockTTL(true)
	if err := s.redis.Start(); err != nil {
		t.Fatalf("goworkertest: the Redis of the test cannot listen on this machine: %v", err)
	}
	t.Cleanup(s.redis.Close)
	return s
}

// set sets the server's clock.
func (s *server) set(clock *trial.Trial) { s.redis.SetTime(clock.Now()) }

func (s *server) open(context.Context, string, goworker.DialOptions) (goworker.Dialer, error) {
	return s, nil
}

// Dial opens a connection.
func (s *server) Dial(ctx context.Context) (redis.Conn, error) {
	c, err := redis.DialContext(ctx, "tcp", s.redis.Addr())
	if err != nil {
		return nil, fmt.Errorf("redis: no connection to the Redis of the test, which ends with it: %w", err)
	}
	return c, nil
}

// PollInterval is how often a daemon looks for jobs: this server cannot notify it.
func (s *server) PollInterval() time.Duration { return pollInterval }
