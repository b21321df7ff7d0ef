package goworkertest

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/internal/clock"
	"github.com/goworker/goworker/internal/producer"
	"github.com/goworker/goworker/internal/trial"
)

// Client is a goworker.Client that records what it enqueues and sends nothing out of the test. Code under
// test takes it as a goworker.Enqueuer; the embedded Client is for code that takes a *goworker.Client.
//
// It checks and encodes jobs as any other Client does: a job that would be refused is refused. Its jobs wait in a Redis
// inside the test, so that locks of unique jobs hold, ReplaceWaiting replaces, and Inspect finds jobs. Nothing
// runs them.
//
// Start starts workflows in that Redis too. Jobs does not have their steps: look at those by Workflows, or run them with
// a Runner.
//
// Its clock stands still until Advance. It is safe for concurrent use.
type Client struct {
	*goworker.Client

	log   recorder
	clock *trial.Trial
	redis *server
}

// NewClient returns a Client that is closed at the end of the test. The options are those of
// goworker.NewClient: goworker.Classes for classes that have options for enqueued jobs, and
// goworker.WithEnqueueMiddleware.
func NewClient(t testing.TB, opts ...goworker.ClientOption) *Client {
	t.Helper()
	c := &Client{clock: trial.New(clock.System.Now().Truncate(time.Millisecond))}
	c.clock.Sent = c.log.sent
	c.redis = startServer(t, c.clock)
	opts = append([]goworker.ClientOption{
		goworker.Trial(c.clock).Client(), goworker.WithDialer(scheme, c.redis.open),
	}, opts...)
	client, err := goworker.NewClient(goworker.WorkerSettings{URI: scheme + ":", Logger: discard}, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	c.Client = client
	return c
}

// Now returns the time by the Client's clock, from which jobs are delayed.
func (c *Client) Now() time.Time { return c.clock.Now() }

// Advance moves the Client's clock: locks and the like whose time is over go.
func (c *Client) Advance(d time.Duration) {
	c.clock.Set(c.clock.Now().Add(d))
	c.redis.set(c.clock)
}

// Jobs returns all jobs that were enqueued, in the order of the calls. A job that replaced a waiting one
// stands in its list beside that, and has Replaced.
func (c *Client) Jobs() []Job { return c.log.all() }

// Forget forgets the jobs that were recorded. Their locks stay.
func (c *Client) Forget() { c.log.forget() }

// recorder keeps enqueued jobs.
type recorder struct {
	mu   sync.Mutex
	jobs []Job
}

func (r *recorder) sent(jobs []producer.Sent) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range jobs {
		r.jobs = append(r.jobs, jobOf(s))
	}
}

func (r *recorder) all() []Job {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.jobs)
}

func (r *recorder) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.jobs = nil
}
