package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/delayedbridge"
	"github.com/goworker/goworker/inspect"
)

// produce enqueues jobs, or moves delayed and failed ones, and notes what became of each:
// acknowledged, refused, or unknown.
func (l ledger) produce(order string) {
	how, rest, _ := strings.Cut(order, ",")
	prefix, count, _ := strings.Cut(rest, ",")
	n, _ := strconv.Atoi(count)
	if how == "workflow" {
		if err := l.flows(); err != nil {
			fmt.Fprintln(os.Stderr, "worker:", err)
		}
	}
	for i := range n {
		id := fmt.Sprintf("%s-%d", prefix, i)
		l.note('t', id)
		replaced, err := produceOne(how, id)
		if replaced != "" {
			l.note('x', replaced)
		}
		var refusal redis.Error
		switch {
		case err == nil:
			l.note('a', id)
		case errors.As(err, &refusal):
			l.note('r', id)
		default:
			l.note('u', id)
		}
	}
}

// produceOne enqueues a job in one of the ways there are, and returns the id of the one
// whose place it has taken.
func produceOne(how, id string) (replaced string, err error) {
	job := &goworker.Job{Queue: "work", Payload: goworker.Payload{Class: "Nap", Args: []interface{}{id, 0}}}
	with := func(opts ...goworker.EnqueueOption) (string, error) {
		receipt, err := goworker.EnqueueWith(job, append(opts, goworker.WithID(id))...)
		return receipt.Replaced, err
	}
	switch how {
	case "now", "workflow":
		return "", goworker.Enqueue(job)
	case "task": // of delayed
		return "", delayedbridge.Enqueue(context.Background(), goworker.Default().Client(), "tasks", delayedbridge.GoTask("Nap", id, 0))
	case "later":
		return "", goworker.EnqueueIn(2*time.Second, job)
	case "unique":
		return with(goworker.Unique(goworker.ByKey(id)))
	case "replace":
		return with(goworker.Unique(goworker.ByKey("one"), goworker.ReplaceWaiting()))
	case "delayed": // is delayed, and is to run now
		_, err = goworker.EnqueueDelayed(job)
		return "", err
	case "clear": // the jobs that were delayed before
		if err = goworker.Delayed().Clear(); err == nil {
			err = goworker.Enqueue(job)
		}
		return "", err
	case "remove": // a queue
		if err = goworker.RemoveQueue("gone"); err == nil {
			err = goworker.Enqueue(job)
		}
		return "", err
	case "operate": // jobs are moved from a queue, and delayed ones edited
		if err = operate(); err == nil {
			err = goworker.Enqueue(job)
		}
		return "", err
	case "operations": // of each kind, and each is taken back
		if err = operations(); err == nil {
			err = goworker.Enqueue(job)
		}
		return "", err
	case "cancel", "lift": // a job that waits
		client, other := goworker.Default().Client(), strings.Replace(id, "pushed", "called", 1)
		if how == "cancel" {
			err = client.Cancel(context.Background(), other)
		} else {
			err = client.Lift(context.Background(), other)
		}
		if err == nil {
			err = goworker.Enqueue(job)
		}
		return "", err
	case "drain": // a fleet goes back to Ruby
		if _, err = goworker.Default().Client().DrainToResque(context.Background()); err == nil {
			err = goworker.Enqueue(job)
		}
		return "", err
	case "failed": // all that failed is to run again
		if _, err = goworker.Failures().RetryAll(); err == nil {
			_, err = goworker.Failures().ClearRetried()
		}
		return "", err
	}
	return "", fmt.Errorf("chaos: there is no way %q to enqueue", how)
}

// operate moves the jobs that wait where no process looks, and edits the delayed ones.
func operate() error {
	in, ctx := goworker.Default().Client().Inspect(), context.Background()
	aside, err := in.List(ctx, "aside", "", 10)
	if err != nil {
		return err
	}
	if _, err := in.Move(ctx, "work", aside.Jobs...); err != nil {
		return err
	}
	for job, err := range in.All(ctx, inspect.Query{Class: "Nap", Places: []inspect.Place{inspect.Delayed}}) {
		if err != nil {
			return err
		}
		if _, err := in.Edit(ctx, job, inspect.Edit{Queue: "lanes"}); err != nil && !errors.Is(err, inspect.ErrNoJob) {
			return err
		}
	}
	if _, err := in.Sample(ctx); err != nil {
		return err
	}
	_, err = in.Running(ctx, "", 10, inspect.RunningFilter{})
	return err
}
