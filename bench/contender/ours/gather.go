package main

import (
	"time"

	"github.com/goworker/goworker"

	"github.com/goworker/goworker/bench/probe"
)

// gather registers the handler of groups of a class, which counts each item of one.
func gather(class string, handler probe.Handler) {
	goworker.Register(class, func(key string, numbers []int64) error {
		for _, number := range numbers {
			if err := handler("", key, number); err != nil {
				return err
			}
		}
		return nil
	}, goworker.Aggregate(goworker.KeyArgs(0), goworker.MaxCount(probe.GroupOf), goworker.MaxWait(time.Second)))
}

// typed is the handler of a class whose arguments have types, nil for other classes.
func typed(class string, handler probe.Handler) any {
	switch class {
	case probe.Item, probe.OneKey, probe.Small:
		return func(text string, number int64) error { return handler("", text, number) }
	case probe.Thing:
		return func(r probe.Record, number int64) error { return handler("", r, number) }
	case probe.Numbers:
		return func(list []int64, number int64) error { return handler("", list, number) }
	}
	return nil
}
