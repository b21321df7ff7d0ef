package gateway_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/internal/gateway"
	"github.com/goworker/goworker/internal/redistest"
	"github.com/goworker/goworker/internal/resque/leases"
)

// waits has an ask wait, and returns where its jobs come.
func waits(t testing.TB, g *gateway.Gateway, queues ...string) <-chan []gateway.Job {
	t.Helper()
	before := g.Stats().Waiters
	got := make(chan []gateway.Job, 1)
	go func() {
		jobs, err := g.Reserve(t.Context(), gateway.Ask{Queues: queues, TTR: time.Minute, Wait: long})
		if err != nil && t.Context().Err() == nil {
			t.Errorf("waiting for %v: %v", queues, err)
		}
		got <- jobs
	}()
	redistest.Eventually(t, long, "the ask waits", func() bool { return g.Stats().Waiters > before })
	return got
}

// waiting returns the payloads that wait in a queue.
func waiting(t testing.TB, s *redistest.Server, queue string) []string {
	t.Helper()
	return s.List(t, "LRANGE", "resque:queue:"+queue, "0", "-1")
}

// Two gateways of one Redis give each job once, and both wake for what the other publishes.
func TestTwoGateways(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	all := []*gateway.Gateway{start(t, s.URI()), start(t, s.URI())}
	const jobs, consumers = 400, 20
	var mu sync.Mutex
	seen := make(map[string]int)
	var wg sync.WaitGroup
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for i := range consumers {
		g, other := all[i%2], all[(i+1)%2]
		wg.Go(func() {
			for ctx.Err() == nil {
				got, err := g.Reserve(ctx, gateway.Ask{Queues: []string{"mail"}, TTR: time.Minute, Wait: long})
				if err != nil {
					return
				}
				for _, j := range got {
					whats, err := other.Ack(ctx, gateway.Ack{Queue: "mail", ID: j.ID, Lease: j.Lease})
					mu.Lock()
					if seen[j.ID]++; err != nil || whats[0] != gateway.Acked {
						t.Errorf("an acknowledgement: %v, %v", whats, err)
					}
					if len(seen) == jobs {
						cancel()
					}
					mu.Unlock()
				}
			}
		})
	}
	for i := range jobs {
		publish(t, all[i%2], body("mail", fmt.Sprint(i)))
	}
	wg.Wait()
	for id, n := range seen {
		if n != 1 {
			t.Errorf("job %s was given %d times", id, n)
		}
	}
	if len(seen) != jobs {
		t.Errorf("%d jobs were given", len(seen))
	}
}

// A client that goes while it waits, or while its job is on its way, burns no try: the job waits as it was.
func TestClientGone(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	g := start(t, s.URI())
	for i := range 50 {
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan []gateway.Job)
		go func() {
			jobs, _ := g.Reserve(ctx, gateway.Ask{Queues: []string{"mail"}, TTR: time.Minute, Wait: long})
			done <- jobs
		}()
		if i%2 == 0 {
			redistest.Eventually(t, long, "it waits", func() bool { return g.Stats().Waiters == 1 })
		}
		ids := publish(t, g, body("mail", "ada"))
		cancel()
		if jobs := <-done; len(jobs) == 0 {
			jobs = reserve(t, g, long, 1, "mail")
			if len(jobs) != 1 || jobs[0].ID != ids[0] || jobs[0].Attempt != 1 {
				t.Fatalf("%+v", jobs)
			}
			ack(t, g, jobs[0])
		} else {
			ack(t, g, jobs[0])
		}
	}
	if n := s.Int(t, "EXISTS", "resque:go:leases", "resque:go:leased", "resque:go:returned"); n != 0 {
		t.Errorf("%d of the keys of leases are there", n)
	}
}

// Redis's connections are cut again and again. Nothing is lost, and nothing is given twice but with an error.
func TestConnectionsAreCut(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	g := start(t, s.URI())
	const jobs = 300
	for i := range jobs {
		publish(t, g, body("mail", fmt.Sprint(i)))
	}
	stop := make(chan struct{})
	var cutter sync.WaitGroup
	cutter.Go(func() {
		c := s.Dial(t)
		for range 30 {
			select {
			case <-stop:
				return
			case <-time.After(10 * time.Millisecond):
				_, _ = c.Do("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
				_, _ = c.Do("CLIENT", "KILL", "TYPE", "pubsub")
			}
		}
	})
	var mu sync.Mutex
	seen := make(map[string]bool)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for {
				mu.Lock()
				over := len(seen) == jobs
				mu.Unlock()
				if over || t.Context().Err() != nil {
					return
				}
				got, err := g.Reserve(t.Context(), gateway.Ask{Queues: []string{"mail"}, TTR: time.Minute})
				if err != nil {
					continue
				}
				for _, j := range got {
					for {
						whats, err := g.Ack(t.Context(), gateway.Ack{Queue: "mail", ID: j.ID, Lease: j.Lease})
						if err != nil {
							continue
						}
						mu.Lock()
						if seen[j.ID] || j.Attempt != 1 || whats[0] == gateway.Changed {
							t.Errorf("job %s was given twice, or lost its lease: %v", j.ID, whats)
						}
						seen[j.ID] = true
						mu.Unlock()
						break
					}
				}
			}
		})
	}
	wg.Wait()
	close(stop)
	cutter.Wait()
	if n := s.Int(t, "EXISTS", "resque:go:leases", "resque:queue:mail"); n != 0 {
		t.Error("jobs are left")
	}
}

// The answer to a turn is lost. Its job goes back as it was, and its client gets it without a try.
func TestLostAnswerOfRedis(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p := s.StartProxy(t)
	g := start(t, "redis://"+p.Addr)
	waiter := waits(t, g, "mail")
	release := p.Hold()
	s.Do(t, "RPUSH", "resque:queue:mail", `{"class":"C","args":["ada"]}`)
	hasty := make(chan []gateway.Job)
	go func() {
		jobs, _ := g.Reserve(t.Context(), gateway.Ask{Queues: []string{"mail"}, TTR: time.Minute})
		hasty <- jobs
	}()
	redistest.Eventually(t, long, "Redis has given the job", func() bool { return s.Int(t, "ZCARD", "resque:go:leases") == 1 })
	p.Refuse(true)
	release()
	p.Refuse(false)
	jobs := <-waiter
	if len(jobs) != 1 || jobs[0].Attempt != 1 || string(jobs[0].Payload) != `{"class":"C","args":["ada"]}` {
		t.Errorf("%+v", jobs)
	}
	<-hasty
	redistest.Eventually(t, long, "the loss is counted", func() bool { return g.Stats().Lost > 0 && g.Stats().Released > 0 })
	if n := s.Int(t, "EXISTS", "resque:go:returned"); n != 0 {
		t.Error("the job is marked as if a client had seen it")
	}
}

// While a Redis takes no writes because another one is about to, a publish waits.
func TestPublishElsewhere(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	g := start(t, s.URI())
	s.Do(t, "REPLICAOF", "127.0.0.1", "1")
	refused := func() int {
		var n int
		_, _ = fmt.Sscanf(strings.Join(strings.SplitAfter(s.Text(t, "INFO", "errorstats"), "errorstat_READONLY:count=")[1:], ""), "%d", &n)
		return n
	}
	before, published := refused(), make(chan error)
	go func() {
		_, err := g.Publish(t.Context(), body("mail", "ada"))
		published <- err
	}()
	redistest.Eventually(t, long, "Redis has refused it", func() bool { return refused() > before })
	s.Do(t, "REPLICAOF", "NO", "ONE")
	if err := <-published; err != nil {
		t.Error(err)
	}
}

// A long poll outlives a pause, of its queue or of all, and wakes at the resume.
func TestPause(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	g := start(t, s.URI())
	if err := g.Pause(t.Context(), "mail"); err != nil {
		t.Fatal(err)
	}
	publish(t, g, body("mail", "ada"), body("mail", "bob"))
	got := waits(t, g, "mail")
	turns := g.Stats().Turns
	if err := g.Resume(t.Context(), "mail"); err != nil {
		t.Fatal(err)
	}
	if jobs := <-got; len(jobs) != 1 {
		t.Errorf("%+v", jobs)
	}
	if n := g.Stats().Turns - turns; n > 10 {
		t.Errorf("%d turns for a resume", n)
	}
	s.Do(t, "SET", "resque:pause-all-workers", "true")
	got = waits(t, g, "mail")
	s.Do(t, "DEL", "resque:pause-all-workers")
	if jobs := <-got; len(jobs) != 1 {
		t.Errorf("%+v", jobs)
	}
}

// A thousand wait for what Ruby pushes: each job goes to one of them, and a stop ends all others at once.
func TestThousandWaiters(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	g := start(t, s.URI())
	const waiters, jobs = 1000, 40
	var wg sync.WaitGroup
	var mu sync.Mutex
	got := 0
	for range waiters {
		wg.Go(func() {
			some, err := g.Reserve(t.Context(), gateway.Ask{Queues: []string{"mail"}, TTR: time.Minute, Wait: time.Hour})
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			got += len(some)
			mu.Unlock()
		})
	}
	redistest.Eventually(t, long, "all wait", func() bool { return g.Stats().Waiters == waiters })
	for range jobs {
		s.Do(t, "RPUSH", "resque:queue:mail", `{"class":"C","args":[]}`)
	}
	redistest.Eventually(t, long, "all jobs are given", func() bool { return g.Stats().Reserved == jobs })
	g.Stop(t.Context())
	wg.Wait()
	if got != jobs {
		t.Errorf("%d jobs were given", got)
	}
	if err := g.Healthy(); !errors.Is(err, gateway.ErrStopping) {
		t.Errorf("after the stop: %v", err)
	}
	if _, err := g.Publish(t.Context(), body("mail", "ada")); !errors.Is(err, gateway.ErrStopping) {
		t.Errorf("a publish after the stop: %v", err)
	}
}

// Without tracking the desk looks.
func TestWithoutNotifications(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	g := unstarted(t, s.URI(), func(w *goworker.WorkerSettings, _ *gateway.Options) { w.DisableTracking = true })
	if err := g.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	got := waits(t, g, "mail")
	if g.Stats().Tracking {
		t.Error("it tracks")
	}
	publish(t, g, body("mail", "ada"))
	if jobs := <-got; len(jobs) != 1 {
		t.Errorf("%+v", jobs)
	}
}

// A lease that runs out returns the job with a try used up, and then files it.
func TestLeaseRunsOut(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	g := start(t, s.URI())
	p := body("mail", "ada")
	p.Tries = 2
	publish(t, g, p)
	for attempt := 1; attempt <= 2; attempt++ {
		jobs, err := g.Reserve(t.Context(), gateway.Ask{Queues: []string{"mail"}, TTR: time.Second, Wait: long})
		if err != nil || len(jobs) != 1 || jobs[0].Attempt != attempt || jobs[0].Tries != 2 {
			t.Fatalf("%+v, %v", jobs, err)
		}
	}
	redistest.Eventually(t, long, "it is filed", func() bool {
		_, n, err := g.DeadPeek(t.Context(), "mail")
		return err == nil && n == 1
	})
	redistest.Eventually(t, long, "both are counted", func() bool { return g.Stats().RanOut == 1 && g.Stats().Filed == 1 })
}

// Where no daemon lives a gateway moves delayed jobs when they are due, and a waiter gets them.
func TestDelayed(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	g := start(t, s.URI())
	p := body("mail", "ada")
	p.Delay = time.Second
	id := publish(t, g, p)[0]
	if jobs := reserve(t, g, long, 1, "mail"); len(jobs) != 1 || jobs[0].ID != id {
		t.Errorf("%+v", jobs)
	}
}

// A key makes one job, however often it is published.
func TestPublishOnce(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	g := start(t, s.URI())
	once := leases.Once{Key: "k", Fingerprint: "f"}
	first, replayed, err := g.PublishOnce(t.Context(), once, body("mail", "a"), body("mail", "b"))
	if err != nil || replayed || len(first) != 2 {
		t.Fatalf("%v, %v, %v", first, replayed, err)
	}
	again, replayed, err := g.PublishOnce(t.Context(), once, body("mail", "a"), body("mail", "b"))
	if err != nil || !replayed || fmt.Sprint(again) != fmt.Sprint(first) {
		t.Errorf("%v, %v, %v; want %v", again, replayed, err, first)
	}
	once.Fingerprint = "other"
	if _, _, err := g.PublishOnce(t.Context(), once, body("mail", "c")); !errors.Is(err, leases.ErrKeyReused) {
		t.Errorf("another request: %v", err)
	}
	if n := len(waiting(t, s, "mail")); n != 2 {
		t.Errorf("%d jobs", n)
	}
}

// A connection that takes too long to make is given up, and the request learns that, not that something was closed.
func TestSlowConnection(t *testing.T) {
	t.Parallel()
	proxy := redistest.Start(t).StartProxy(t)
	proxy.Delay(350 * time.Millisecond) // each way; the desk makes two connections, in two seconds at most
	g := unstarted(t, "redis://"+proxy.Addr)
	if err := g.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, err := g.Reserve(t.Context(), gateway.Ask{Queues: []string{"mail"}, TTR: time.Minute})
	proxy.Delay(0)
	if err == nil || !strings.Contains(err.Error(), "connecting to Redis took longer than 2s") {
		t.Errorf("the error is %v", err)
	}
}
