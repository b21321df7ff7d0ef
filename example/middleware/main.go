// Middleware puts code around jobs: middleware for all classes and for one,
// hooks that watch, and a time limit.
//
//	go run ./example/enqueue
//	go run ./example/middleware -queues=reports
package main

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/goworker/goworker"
)

// timed wraps every class. It runs around the handler and sees its result and
// error. It could also change the error, or not call the handler.
func timed(next goworker.Handler) goworker.Handler {
	return goworker.HandlerFunc(func(ctx context.Context, d *goworker.Delivery) error {
		start := time.Now()
		err := next.Perform(ctx, d)
		fmt.Printf("%s took %s: result %v, error %v\n", d.Class, time.Since(start).Round(time.Millisecond), d.Result, err)
		return err
	})
}

// databaseKey is the context key under which reports find their database.
type databaseKey struct{}

// inDatabase wraps one class and passes it a value through the context.
func inDatabase(name string) goworker.Middleware {
	return func(next goworker.Handler) goworker.Handler {
		return goworker.HandlerFunc(func(ctx context.Context, d *goworker.Delivery) error {
			return next.Perform(context.WithValue(ctx, databaseKey{}, name), d)
		})
	}
}

// report makes the report of a month; "2026-10" is one, "October" is not.
func report(ctx context.Context, month string) (string, error) {
	if _, err := time.Parse("2006-01", month); err != nil {
		return "", fmt.Errorf("a month looks like 2026-10, not like %q", month)
	}
	return fmt.Sprintf("%s from %s", month, ctx.Value(databaseKey{})), nil
}

func register(d *goworker.Daemon) {
	d.Use(timed)
	d.AddHooks(goworker.Hooks{
		Success: func(_ context.Context, d *goworker.Delivery) { fmt.Println("hook:", d.Class, "is done") },
		Failure: func(_ context.Context, d *goworker.Delivery, err error) {
			fmt.Println("hook:", d.Class, "failed:", err)
		},
		Shutdown: func() { fmt.Println("hook: stopping") },
	})
	d.Register("Report", report, // Timeout ends the context of a longer run
		goworker.Timeout(time.Minute), goworker.WithMiddleware(inDatabase("archive")))
}

func main() {
	register(goworker.Default())
	if err := goworker.Work(); err != nil {
		log.Fatal(err)
	}
}
