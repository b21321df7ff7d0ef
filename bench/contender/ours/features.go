package main

import (
	"context"
	"time"

	"github.com/goworker/goworker"

	"github.com/goworker/goworker/bench/probe"
)

// told is what a variant's classes are told.
func told(variant string) []goworker.Option {
	switch variant {
	case "isolated":
		return []goworker.Option{goworker.Isolated()}
	}
	return nil
}

// isolate counts here what runs in children, who count for themselves.
func isolate(count probe.Handler) {
	goworker.Register("Noop", func(string, ...interface{}) error { return nil }, told("isolated")...)
	goworker.AddHooks(goworker.Hooks{Success: func(_ context.Context, d *goworker.Delivery) {
		_ = count(d.Queue, d.Job().Payload.Args...)
	}})
}

// useForOthers uses everything, and nothing of it for the jobs that are counted.
func useForOthers() error {
	nothing := func(string, ...interface{}) error { return nil }
	goworker.Register("Isolated", nothing, told("isolated")...)
	goworker.Register("Unique", nothing, goworker.Unique(), goworker.ExpireAfter(time.Hour))
	if err := goworker.Schedule("nightly", goworker.Recurring{Cron: "0 3 * * * UTC", Class: "Unique", Queue: "other"}); err != nil {
		return err
	}
	if err := goworker.Init(); err != nil {
		return err
	}
	far := time.Now().Add(1000 * time.Hour)
	for range 1000 {
		other := &goworker.Job{Queue: "other", Payload: goworker.Payload{Class: "Isolated", Args: []interface{}{"a", 1}}}
		if _, err := goworker.EnqueueWith(other, goworker.At(far)); err != nil {
			return err
		}
		if err := goworker.EnqueueAt(far, other); err != nil {
			return err
		}
	}
	return nil
}
