package docs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/control/profile"
	"github.com/goworker/goworker/internal/redistest"
)

// TestMain is also the programs worker and produce of the hidden setups, which begin in the folder standin: a
// daemon with some classes, and a producer.
func TestMain(m *testing.M) {
	switch os.Getenv("DOCS_WORKER") {
	case "":
		redistest.Main(m)
		return
	case "produce":
		if err := produce(os.Args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	goworker.Register("Hello", func(name string) { fmt.Println("hello", name) })
	goworker.Register("Report", func(ctx context.Context, account string) error { return wait(ctx) }, goworker.Concurrency(1))
	goworker.Register("Slow", func(ctx context.Context) error { return wait(ctx) })
	goworker.Register("Charge", func(account string) error { return errors.New("the bank does not answer") })
	goworker.Register("Fetch", func(url string) error { return errors.New("no answer") }, goworker.Retry(5))
	goworker.Register("Exit", func() { os.Exit(3) })
	goworker.AddVerb(profile.Verb())
	if err := goworker.Work(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// produce enqueues jobs of the kinds that are named.
func produce(kinds []string) error {
	d := goworker.New(goworker.WorkerSettings{})
	defer d.Close()
	job := &goworker.Job{Queue: "mail", Payload: goworker.Payload{Class: "Hello", Args: []any{"Ada"}}}
	var errs []error
	with := func(opts ...goworker.EnqueueOption) {
		_, err := d.EnqueueWith(job, opts...)
		errs = append(errs, err)
	}
	for _, kind := range kinds {
		switch kind {
		case "plain":
			errs = append(errs, d.Enqueue(job), d.EnqueueAll(job, job))
			with(goworker.WithID("a"))
		case "delayed":
			errs = append(errs, d.EnqueueIn(time.Hour, job))
			with(goworker.ProcessIn(time.Hour))
		case "unique":
			with(goworker.Unique())
			with(goworker.Unique(goworker.ReplaceWaiting()))
		default:
			return fmt.Errorf("no kind %q is known", kind)
		}
	}
	return errors.Join(errs...)
}

func wait(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(time.Minute):
		return nil
	}
}
