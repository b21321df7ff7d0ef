// Package embedded offers a Redis inside the process, for demos, examples and
// first steps on a machine without Redis. Only a program that imports it links it:
//
//	goworker.RegisterDialer("embedded", embedded.Open)
//	goworker.SetSettings(goworker.WorkerSettings{URI: "embedded:", …})
//
// Tests take package goworkertest, which has one too, with a clock that the test moves.
//
// # What it cannot do
//
// It is miniredis, written in Go: a double of Redis for tests, and no Redis for production. All scripts
// of goworker run in it as they do in Redis. It differs in this:
//
//   - It keeps nothing. The data is in memory, as long as the daemon that opened it lives. There is no
//     snapshot, no append-only file and no restart, so a test sees no loss of data and no recovery of Redis.
//   - It cannot notify the daemon of changed keys (CLIENT TRACKING). The daemon polls every 20 ms. How fast a
//     daemon on Redis starts a job cannot be measured here, and nothing else about speed.
//   - It has no users, passwords, ACL and TLS, and listens on this machine only. A permission that is
//     missing shows in Redis only.
//   - It has no replicas (WorkerSettings.WaitReplicas finds too few), no Sentinel, no Cluster, and no
//     fail-over. Keys of different slots go into one script, which a Cluster would refuse.
//   - It has no limit of memory: it never refuses a write, and evicts nothing.
//   - Keys expire at ticks of a second, not at their millisecond.
//   - Lua is another one: no bit, struct and cmsgpack; unpack ends near 5,000 values, where Redis has 8,000; an error that
//     ends a script has lost its code. A script takes much longer.
//   - A transaction (MULTI) with a command that does not exist is executed without it.
//   - A score that ends in many zeros is printed with an exponent: 1.7e+12.
//   - INFO has few sections and no version, and there are few commands for operators: no MONITOR, no CONFIG, no SAVE.
//   - The child process of an isolated job has another, empty one: jobs that the job enqueues there are lost.
//
// What depends on these is to be tested against the Redis of production.
package embedded

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/internal/prefix"
)

// PollInterval is how often a daemon looks for new jobs in an embedded Redis.
const PollInterval = 20 * time.Millisecond

// Server is one embedded Redis, and the Dialer to it. Its methods may be called
// from several goroutines.
type Server struct {
	redis *miniredis.Miniredis
	addr  string
	opts  goworker.DialOptions

	stop    chan struct{} // closed by Close
	stopped sync.WaitGroup
	once    sync.Once
}

var (
	_ goworker.Opener = Open
	_ goworker.Dialer = (*Server)(nil)
)

// Open starts an embedded Redis for a URI; it is a goworker.Opener.
//
//	embedded:                     on a free port of this machine
//	embedded://127.0.0.1:6390     on this port, so that other programs find it
//
// Each call starts another, empty one. The Dialer is a *Server.
func Open(_ context.Context, uri string, opts goworker.DialOptions) (goworker.Dialer, error) {
	scheme, rest, ok := strings.Cut(strings.TrimSpace(uri), ":")
	if !ok || !strings.EqualFold(scheme, "embedded") {
		return nil, prefix.Errorf("an embedded Redis is opened by the URI embedded: and no other")
	}
	addr := strings.TrimSuffix(strings.TrimPrefix(rest, "//"), "/")
	if addr == "" {
		return Start("127.0.0.1:0", opts)
	}
	if _, _, err := net.SplitHostPort(addr); err != nil || !strings.HasPrefix(rest, "//") || strings.ContainsAny(addr, "@/?#") {
		return nil, prefix.Errorf("the URI of an embedded Redis is embedded: or embedded://127.0.0.1:<port>, without user, password and database")
	}
	return Start(addr, opts)
}

// Start starts an embedded Redis on an address of this machine; port 0 means a
// free one. It has no password, so it does not listen to other machines.
func Start(addr string, opts goworker.DialOptions) (*Server, error) {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, fmt.Errorf("redis: the embedded Redis cannot listen: %w", err)
	}
	if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return nil, fmt.Errorf("redis: the embedded Redis has no password and listens on this machine only; write 127.0.0.1 instead of %q", host)
	}
	s := &Server{redis: miniredis.NewMiniRedis(), opts: opts, stop: make(chan struct{})}
	if err := s.redis.StartAddr(addr); err != nil {
		return nil, fmt.Errorf("redis: the embedded Redis cannot start: %w", err)
	}
	s.addr = s.redis.Addr()
	s.stopped.Go(s.tick)
	return s, nil
}

// tick makes time pass for keys with an expiry, which miniredis does not do.
// Its own clock mode visits every key at every command.
func (s *Server) tick() {
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	last := time.Now()
	for {
		select {
		case <-s.stop:
			return
		case now := <-ticker.C:
			s.redis.FastForward(now.Sub(last))
			last = now
		}
	}
}

// Dial opens a connection.
func (s *Server) Dial(ctx context.Context) (redis.Conn, error) {
	select {
	case <-s.stop:
		return nil, errors.New("redis: the embedded Redis was closed, and its data is gone")
	default:
	}
	if s.opts.ConnectTimeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, s.opts.ConnectTimeout)
		defer cancel()
	}
	c, err := redis.DialContext(ctx, "tcp", s.addr,
		redis.DialReadTimeout(s.opts.ReadTimeout), redis.DialWriteTimeout(s.opts.WriteTimeout))
	if err != nil {
		return nil, fmt.Errorf("redis: no connection to the embedded Redis: %w", err)
	}
	return c, nil
}

// Addr returns the host:port it listens on, for redis-cli or another producer.
func (s *Server) Addr() string { return s.addr }

// PollInterval is how often the daemon looks for jobs: this server cannot notify it.
func (s *Server) PollInterval() time.Duration { return PollInterval }

// Close stops the server, breaks its connections and drops its data. It returns
// when everything has ended; a second call does nothing.
func (s *Server) Close() error {
	s.once.Do(func() {
		close(s.stop)
		s.stopped.Wait()
		s.redis.Close()
	})
	return nil
}
