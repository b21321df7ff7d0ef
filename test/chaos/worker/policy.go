package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"time"

	"github.com/goworker/goworker"
)

// Options of the classes of registerPolicies; chaos has the same numbers.
const (
	retries   = 3
	fewAtOnce = 3
	pace      = 20 // a second
)

// registerPolicies registers classes with policies. All have the arguments id, ms, how
// many of their runs fail, key. The first six are retried three times:
//
//	Again   nothing else
//	Few     three run at a time
//	Turn    one of each key runs at a time
//	Paced   twenty are started a second
//	Drop    is discarded when it has failed as often as its argument says
//	Alone   runs in a process of its own, which has started another one
//	Child   the same
//	Exit    runs in a process of its own and ends it
func (l ledger) registerPolicies() {
	perform := func(ctx context.Context, id string, ms, fails int, _ string) error {
		attempt := goworker.FromContext(ctx).Attempt
		l.begin(id, attempt)
		goworker.Progress(ctx, int64(attempt), int64(fails)+1, id) // of a job without a result it is nothing
		time.Sleep(time.Duration(ms) * time.Millisecond)
		if attempt <= fails {
			l.note('f', id)
			return errAsked
		}
		l.note('e', id)
		return nil
	}
	register := func(class string, handler any, opts ...goworker.Option) {
		again := goworker.Retry(retries, goworker.Delays{0, 100 * time.Millisecond, 700 * time.Millisecond})
		goworker.Register(class, handler, append(opts, again)...)
	}
	register("Again", perform)
	if os.Getenv("CHAOS_LIMITLESS") != "" { // as a version of the program that knows of no limit
		register("Few", perform)
	} else {
		register("Few", perform, goworker.MaxRunning(fewAtOnce))
	}
	register("Turn", perform, goworker.MaxRunning(1, goworker.PerKey(goworker.ByArg(3))))
	register("Paced", perform, goworker.RateLimit(pace, time.Second))
	register("Drop", func(ctx context.Context, id string, ms, fails int, key string) error {
		if err := perform(ctx, id, ms, fails, key); err != nil {
			return err
		}
		return goworker.Discard(errAsked)
	})
	child := func(ctx context.Context, id string, ms, fails int, key string) error {
		_ = exec.Command("sleep", "600").Start() // must not outlive the job
		return perform(ctx, id, ms, fails, key)
	}
	register("Alone", child, goworker.Isolated())
	goworker.Register("Child", child, goworker.Isolated())
	goworker.Register("Exit", func(ctx context.Context, id string, ms, _ int, _ string) {
		l.begin(id, goworker.FromContext(ctx).Attempt)
		time.Sleep(time.Duration(ms) * time.Millisecond)
		os.Exit(0)
	}, goworker.Isolated())
	goworker.AddHooks(goworker.Hooks{Expired: func(_ context.Context, d *goworker.Delivery) {
		var id string
		_ = json.Unmarshal(d.Args[0], &id)
		l.write('x', id, fmt.Sprintf("\t%d", d.Attempt))
	}})
}

// schedule registers recurring schedules, whose jobs name their schedule and tick.
func schedule(every string) error {
	for name, r := range map[string]goworker.Recurring{
		"cron":   {Cron: "*/" + every + " * * * * *"},
		"shared": {Cron: "*/" + every + " * * * * * UTC", Shared: true},
	} {
		r.Class, r.Queue, r.Args, r.TickArg = "Tick", "ticks", []any{name}, true
		if err := goworker.Schedule(name, r); err != nil {
			return err
		}
	}
	return nil
}
