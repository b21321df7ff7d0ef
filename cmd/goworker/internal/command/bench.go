package command

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/spf13/cobra"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/cluster"
	"github.com/goworker/goworker/cmd/goworker/internal/view"
	"github.com/goworker/goworker/embedded"
	"github.com/goworker/goworker/internal/resque"
	"github.com/goworker/goworker/sentinel"
)

// bench measures with the Redis of a fleet, in a namespace of its own.
func (p *program) bench() *cobra.Command {
	b := benchmark{}
	c := p.change(&cobra.Command{
		Use: "bench", Short: "Measure how fast jobs are pushed and run here, with your Redis", Args: noArguments,
		Long: "bench pushes jobs that do nothing, runs them in this process, and measures how long an idle worker takes to begin one. It works in a namespace of its own, which it removes\n" +
			"at its end, also after Ctrl-C. Redis is as busy meanwhile as it can be: other programs of that Redis wait. It is refused in a protected context.",
	}, func(ctx context.Context, o *operator, _ []string) error {
		switch {
		case o.place.Protect:
			return usagef("the context %s is protected, and bench would load its Redis", o.place.Name)
		case b.jobs < 1 || b.jobs > 1_000_000 || b.workers < 1 || b.pings < 1 || b.pings > 100_000:
			return usagef("--jobs takes 1 to 1,000,000, --workers at least 1, --pings 1 to 100,000")
		}
		what := plan{Sentence: fmt.Sprintf("push and run %s with %s", view.Plural(int64(b.jobs), "job"), view.Plural(int64(b.workers), "worker")), Count: int64(b.jobs)}
		if o.dryRun {
			return o.plan(o.out, what)
		}
		b.operator = o
		return b.run(ctx)
	})
	c.Flags().IntVar(&b.jobs, "jobs", 10_000, "how many jobs to push and run")
	c.Flags().IntVar(&b.workers, "workers", goworker.DefaultConcurrency, "how many workers run them")
	c.Flags().IntVar(&b.pings, "pings", 200, "how many jobs to begin one after the other")
	return c
}

// benchmark is one run of bench.
type benchmark struct {
	*operator
	jobs, workers, pings int

	settings goworker.WorkerSettings
	started  chan time.Time // when a handler began
}

const (
	benchPrefix = "goworker-bench-" // of its namespaces
	benchQueue  = "bench"
	benchStep   = 1000
)

func (b *benchmark) run(ctx context.Context) (err error) {
	random := make([]byte, 8)
	_, _ = rand.Read(random)
	// Braces keep the keys on one node of a Cluster.
	b.settings = goworker.WorkerSettings{
		URI: b.place.URI, Namespace: "{" + benchPrefix + hex.EncodeToString(random) + "}:", QueuesString: benchQueue, Concurrency: b.workers,
		TLSCertPath: b.place.CA, TLSClientCertPath: b.place.Cert, TLSClientKeyPath: b.place.Key, Logger: slog.New(slog.DiscardHandler),
	}
	b.started = make(chan time.Time, b.jobs)
	d := worker(b.settings)
	d.Register("Bench", goworker.HandlerFunc(func(context.Context, *goworker.Delivery) error {
		b.started <- time.Now()
		return nil
	}))
	defer d.Close()
	client := d.Client()
	defer func() {
		clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer cancel()
		err = errors.Join(err, removeAll(clean, client))
	}()

	pushed, single, err := b.push(ctx, client)
	if err != nil {
		return err
	}
	running, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	begun := time.Now()
	go func() { ended <- d.Run(running) }()
	defer func() {
		stop()
		err = errors.Join(err, <-ended)
	}()
	var ran time.Duration
	for range b.jobs {
		at, err := b.next(ctx, ended)
		if err != nil {
			return err
		}
		ran = at.Sub(begun)
	}
	var waits []time.Duration
	for range b.pings {
		if err := sleep(ctx, 5*time.Millisecond); err != nil { // the worker is idle again
			return err
		}
		at := time.Now()
		if _, err := client.Enqueue(ctx, goworker.NewJob(benchQueue, "Bench")); err != nil {
			return err
		}
		start, err := b.next(ctx, ended)
		if err != nil {
			return err
		}
		waits = append(waits, start.Sub(at))
	}
	slices.Sort(single)
	slices.Sort(waits)
	rate := func(n int, took time.Duration) float64 { return float64(n) / max(took.Seconds(), 1e-9) }
	object := view.Object{
		{Key: "jobs", Value: b.jobs}, {Key: "workers", Value: b.workers}, {Key: "push_per_second", Value: rate(b.jobs, pushed)},
		{Key: "push_p50", Value: percentile(single, 50)}, {Key: "push_p95", Value: percentile(single, 95)}, {Key: "run_per_second", Value: rate(b.jobs, ran)},
		{Key: "start_p50", Value: percentile(waits, 50)}, {Key: "start_p95", Value: percentile(waits, 95)}, {Key: "start_p99", Value: percentile(waits, 99)},
	}
	return b.show(object,
		[2]string{"push", fmt.Sprintf("%s jobs/s in steps of %s", view.Rate(rate(b.jobs, pushed)), view.Count(benchStep))},
		[2]string{"push one", fmt.Sprintf("p50 %s, p95 %s", view.Span(percentile(single, 50)), view.Span(percentile(single, 95)))},
		[2]string{"run", fmt.Sprintf("%s jobs/s with %s, from its start on", view.Rate(rate(b.jobs, ran)), view.Plural(int64(b.workers), "worker"))},
		[2]string{"push to start", fmt.Sprintf("p50 %s, p95 %s, p99 %s, of an idle worker", view.Span(percentile(waits, 50)), view.Span(percentile(waits, 95)), view.Span(percentile(waits, 99)))},
	)
}

// push pushes the jobs, most of them in steps, and some one by one.
func (b *benchmark) push(ctx context.Context, client *goworker.Client) (took time.Duration, single []time.Duration, err error) {
	alone := min(b.jobs/10, b.pings)
	for range alone {
		at := time.Now()
		if _, err := client.Enqueue(ctx, goworker.NewJob(benchQueue, "Bench")); err != nil {
			return 0, nil, err
		}
		single = append(single, time.Since(at))
	}
	begun, left := time.Now(), b.jobs-alone
	for left > 0 {
		items := make([]goworker.Item, min(left, benchStep))
		for n := range items {
			items[n].Job = goworker.NewJob(benchQueue, "Bench")
		}
		if _, err := client.EnqueueMany(ctx, items...); err != nil {
			return 0, nil, err
		}
		left -= len(items)
	}
	took = time.Since(begun)
	return took * time.Duration(b.jobs) / time.Duration(max(1, b.jobs-alone)), single, nil
}

// next waits until a handler begins.
func (b *benchmark) next(ctx context.Context, ended <-chan error) (time.Time, error) {
	select {
	case at := <-b.started:
		return at, nil
	case err := <-ended:
		return time.Time{}, errors.Join(errors.New("the worker has stopped"), err)
	case <-ctx.Done():
		return time.Time{}, ctx.Err()
	}
}

// percentile is the time within which this share of sorted times stays.
func percentile(sorted []time.Duration, percent int) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[(len(sorted)-1)*percent/100]
}

// worker returns a daemon that reaches each kind of Redis.
func worker(s goworker.WorkerSettings) *goworker.Daemon {
	d := goworker.New(s)
	d.RegisterDialer("redis+sentinel", sentinel.Open)
	d.RegisterDialer("rediss+sentinel", sentinel.Open)
	d.RegisterDialer("redis+cluster", cluster.Open)
	d.RegisterDialer("rediss+cluster", cluster.Open)
	d.RegisterDialer("embedded", embedded.Open)
	return d
}

// removeAll removes the namespace of a benchmark.
func removeAll(ctx context.Context, client *goworker.Client) error {
	for _, door := range client.Inspect().Doors() {
		err := door.Do(ctx, func(s resque.Store, c redis.Conn) error { return s.RemoveNamespace(c, benchPrefix) })
		if err != nil {
			return fmt.Errorf("removing the namespace %s: %w", client.Namespace(), err)
		}
	}
	return nil
}
