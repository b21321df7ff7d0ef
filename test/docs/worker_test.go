package docs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/control/profile"
	"github.com/goworker/goworker/sentinel"
)

// register has the worker know the classes of the pages: some that work, and one for each way to go wrong.
func register() {
	goworker.Register("Hello", func(name string) { fmt.Println("hello", name) })
	goworker.Register("Report", func(ctx context.Context, account string) error { return wait(ctx) }, goworker.Concurrency(1))
	goworker.Register("Slow", func(ctx context.Context) error { return wait(ctx) })
	goworker.Register("Nap", func() { time.Sleep(300 * time.Millisecond) })
	goworker.Register("Charge", func(account string) error { return errors.New("the bank does not answer") })
	goworker.Register("Pay", pay)
	goworker.Register("Fetch", func(url string) error { return errors.New("no answer") }, goworker.Retry(5))
	goworker.Register("Poison", poison, goworker.Isolated())
	goworker.Register("Deaf", func() { time.Sleep(time.Minute) }, goworker.Timeout(10*time.Millisecond)) // it does not heed its context
	goworker.Register("Spin", spin)
	goworker.Register("Hoard", hoard)
	goworker.Register("Invoice", func(customer string) error { return nil }, goworker.Unique())
	goworker.RegisterDialer("redis+sentinel", sentinel.Open)
	goworker.AddVerb(profile.Verb())
}

// poison ends its process unless there is a file antidote in the home directory of the page.
func poison() {
	if _, err := os.Stat(filepath.Join(os.Getenv("HOME"), "antidote")); err != nil {
		os.Exit(3)
	}
}

// pay fails while there is a file bank-is-down in the home directory of the page.
func pay(string) error {
	if _, err := os.Stat(filepath.Join(os.Getenv("HOME"), "bank-is-down")); err == nil {
		return errors.New("the bank does not answer")
	}
	return nil
}

// spin computes until its context ends.
func spin(ctx context.Context) error {
	sum := 0
	for ctx.Err() == nil {
		for i := range 1 << 20 {
			sum += i * i
		}
	}
	return fmt.Errorf("%w at %d", ctx.Err(), sum)
}

// hoard holds memory until its context ends.
func hoard(ctx context.Context) error {
	held := make([]byte, 200<<20)
	for i := 0; i < len(held) && ctx.Err() == nil; i += 4096 { // memory is taken when it is written to
		held[i] = 1
	}
	<-ctx.Done()
	return fmt.Errorf("%w with %d bytes", ctx.Err(), len(held))
}

func wait(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(time.Minute):
		return nil
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
		case "invoice":
			job.Payload.Class = "Invoice"
			with(goworker.Unique())
		default:
			return fmt.Errorf("no kind %q is known", kind)
		}
	}
	return errors.Join(errs...)
}
