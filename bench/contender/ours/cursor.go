package main

import (
	"context"

	"github.com/goworker/goworker"

	"github.com/goworker/goworker/bench/probe"
)

// sets is how often a job of the variant "sets" moves its cursor.
const sets = 1000

// advancing are the handlers of jobs that keep how far they are, nil for other variants.
func advancing(variant string, handler probe.Handler) any {
	switch variant {
	case "set":
		return func(ctx context.Context, filler string, number int64) error {
			if err := goworker.Cursor[int64](ctx).Set(ctx, number); err != nil {
				return err
			}
			return handler("", filler, number)
		}
	case "cursor":
		return move(1, handler)
	case "sets":
		return move(sets, handler)
	case "once":
		return func(ctx context.Context, filler string, number int64) error {
			if _, err := goworker.Once(ctx, "charge", func(context.Context) (int64, error) { return number, nil }); err != nil {
				return err
			}
			return handler("", filler, number)
		}
	}
	return nil
}

// move asks for the cursor and sets it so many times.
func move(times int64, handler probe.Handler) any {
	return func(ctx context.Context, filler string, number int64) error {
		cursor := goworker.Cursor[int64](ctx)
		from, _, err := cursor.Get()
		if err != nil {
			return err
		}
		for i := range times {
			if err := cursor.Set(ctx, from+i); err != nil {
				return err
			}
		}
		return handler("", filler, number)
	}
}
