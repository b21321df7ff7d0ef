package main

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/goworker/goworker"

	"github.com/goworker/goworker/bench/probe"
)

// plenty is more than any job ever has to wait for.
const plenty = 1_000_000

// told returns the options of a variant's classes.
func told(variant string, handlers map[string]probe.Handler) []goworker.Option {
	switch variant {
	case "retried":
		return []goworker.Option{goworker.Retry(3, goworker.Delays{time.Millisecond}), goworker.WithMiddleware(failOnce(handlers["Begin"]))}
	case "limited":
		return []goworker.Option{goworker.MaxRunning(plenty)}
	case "keyed":
		return []goworker.Option{goworker.MaxRunning(plenty, goworker.PerKey(tenant))}
	case "many-keys":
		return []goworker.Option{goworker.MaxRunning(plenty, goworker.PerKey(customer))}
	case "rated":
		return []goworker.Option{goworker.RateLimit(plenty, time.Second, goworker.Burst(plenty))}
	case "fair":
		return []goworker.Option{goworker.FairBy(tenant)}
	case "isolated":
		return []goworker.Option{goworker.Isolated()}
	case "reused":
		return []goworker.Option{goworker.Isolated(goworker.Reuse(plenty))}
	}
	return nil
}

var errFirst = errors.New("the first run of each job fails")

func failOnce(begin probe.Handler) goworker.Middleware {
	return func(next goworker.Handler) goworker.Handler {
		return goworker.HandlerFunc(func(ctx context.Context, d *goworker.Delivery) error {
			if d.Attempt == 1 {
				return errors.Join(begin(d.Queue), errFirst)
			}
			return next.Perform(ctx, d)
		})
	}
}

// tenant is one of ten by the job's number.
func tenant(args []json.RawMessage) string {
	number := args[len(args)-1]
	return string(number[len(number)-1:])
}

// customer is one of a hundred thousand by the job's number.
func customer(args []json.RawMessage) string {
	number := args[len(args)-1]
	return string(number[max(0, len(number)-5):])
}

// isolate counts here the jobs that run in children, which count for themselves.
func isolate(variant string, count probe.Handler) {
	goworker.Register("Noop", func(string, ...interface{}) error { return nil }, told(variant, nil)...)
	goworker.AddHooks(goworker.Hooks{Success: func(_ context.Context, d *goworker.Delivery) {
		_ = count(d.Queue, d.Job().Payload.Args...)
	}})
}

// useForOthers uses everything, and nothing of it for the jobs that are counted.
func useForOthers() error {
	nothing := func(string, ...interface{}) error { return nil }
	goworker.Register("Retried", nothing, goworker.Retry(3))
	goworker.Register("Limited", nothing, append(told("limited", nil), told("rated", nil)...)...)
	goworker.Register("PerTenant", nothing, told("keyed", nil)...)
	goworker.Register("Fair", nothing, told("fair", nil)...)
	goworker.Register("Isolated", nothing, told("isolated", nil)...)
	goworker.Register("Unique", nothing, goworker.Unique(), goworker.ExpireAfter(time.Hour))
	goworker.Default().LimitQueue("other", goworker.MaxRunning(1))
	if err := goworker.Schedule("nightly", goworker.Recurring{Cron: "0 3 * * * UTC", Class: "Unique", Queue: "other"}); err != nil {
		return err
	}
	if err := goworker.Init(); err != nil {
		return err
	}
	if err := goworker.PauseQueue("paused"); err != nil {
		return err
	}
	far := time.Now().Add(1000 * time.Hour)
	for range 1000 {
		other := &goworker.Job{Queue: "other", Payload: goworker.Payload{Class: "Retried", Args: []interface{}{"a", 1}}}
		if _, err := goworker.EnqueueWith(other, goworker.ProcessAt(far)); err != nil {
			return err
		}
		if err := goworker.EnqueueAt(far, other); err != nil {
			return err
		}
	}
	return nil
}
