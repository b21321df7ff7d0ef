package follow

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"
)

// learnEvery is how often an adviser is asked for other advisers.
const learnEvery = time.Minute

// Advisers are servers that know where the master is: the Sentinels, or the nodes
// of a Cluster. One of them is asked, on a connection that stays open, until it does not
// answer or its answer was wrong; then the next.
type Advisers struct{ *advisers }

type advisers struct {
	name  string
	dial  func(ctx context.Context, addr string) (redis.Conn, error)
	ask   func(c redis.Conn, at string) (master string, err error)
	learn func(c redis.Conn, at string) ([]string, error)

	mu      sync.Mutex
	seeds   []string
	addrs   []string // the seeds and those learned, the next one to ask first
	conn    redis.Conn
	learned time.Time
}

// NewAdvisers returns Advisers of which the seeds are known. The name, in the
// plural, is for errors. dial connects to one, ask asks it for the master,
// and learn for the other advisers. If an adviser refuses learn, that is no error.
func NewAdvisers(name string, seeds []string,
	dial func(ctx context.Context, addr string) (redis.Conn, error),
	ask func(c redis.Conn, at string) (master string, err error),
	learn func(c redis.Conn, at string) ([]string, error),
) Advisers {
	return Advisers{&advisers{name: name, dial: dial, ask: ask, learn: learn, seeds: seeds, addrs: slices.Clone(seeds)}}
}

// Find returns the master's address from the first adviser that answers.
func (a *advisers) Find(ctx context.Context) (string, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	var refused, last error
	for range len(a.addrs) {
		at := a.addrs[0]
		master, err := a.consult(ctx, at)
		if err == nil {
			return master, nil
		}
		last = err
		if replyCode(err) != "" || a.conn != nil && a.conn.Err() == nil {
			refused = err
		}
		a.next()
		if ctx.Err() != nil {
			break
		}
	}
	if refused != nil {
		return "", fmt.Errorf("redis: no master was found by way of %s: %w", a.name, refused)
	}
	return "", fmt.Errorf("redis: no master was found by way of %s; none of them answers: %w", a.name, last)
}

func (a *advisers) consult(ctx context.Context, at string) (string, error) {
	if a.conn == nil || a.conn.Err() != nil {
		conn, err := a.dial(ctx, at)
		if err != nil {
			return "", err
		}
		a.conn, a.learned = conn, time.Time{}
	}
	conn := a.conn
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() }) // interrupts a pending read
	defer stop()
	master, err := a.ask(conn, at)
	if err != nil {
		return "", err
	}
	if time.Since(a.learned) >= learnEvery {
		a.learned = time.Now()
		if others, err := a.learn(conn, at); err == nil {
			a.addrs = []string{at}
			for _, addr := range slices.Concat(a.seeds, others) {
				if !slices.Contains(a.addrs, addr) {
					a.addrs = append(a.addrs, addr)
				}
			}
		}
	}
	return master, nil
}

// next moves on to the next adviser.
func (a *advisers) next() {
	if a.conn != nil {
		_ = a.conn.Close()
		a.conn = nil
	}
	a.addrs = append(a.addrs[1:], a.addrs[0])
}

// Doubt reports that the last answer was wrong: the next adviser may know better.
func (a *advisers) Doubt() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.next()
}

// Leave closes the connection to the adviser. The next question redials.
func (a *advisers) Leave() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.conn != nil {
		_ = a.conn.Close()
		a.conn = nil
	}
}
