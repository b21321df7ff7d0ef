// Command ours is this module with the benchmark's handlers: the same program
// as the goworker contender, after the import path has changed. Its variants use
// the options of jobs.
package main

import (
	"time"

	"github.com/goworker/goworker"

	"github.com/goworker/goworker/bench/probe"
)

func main() { probe.Main(work, produce) }

func configure(c probe.Config) { goworker.SetSettings(settings(c)) }

func settings(c probe.Config) goworker.WorkerSettings {
	history := goworker.HistoryOn
	if c.Variant == "no-history" {
		history = goworker.HistoryOff
	}
	return goworker.WorkerSettings{
		URI:              "redis://" + c.Addr + "/",
		Namespace:        "resque:",
		QueuesString:     c.QueueList(),
		Concurrency:      c.Workers,
		Connections:      max(2, c.Producers),
		UseNumber:        true,
		DisableLookAhead: c.Variant == "no-look-ahead",
		History:          history,
	}
}

func work(c probe.Config, handlers map[string]probe.Handler) error {
	if c.Variant == "fleet" {
		return fleet(c, handlers)
	}
	if c.Variant == "shards" {
		return sharded(c, handlers)
	}
	configure(c)
	handlers["Last"] = handlers["Callback"]
	for class, handler := range handlers {
		if probe.Gathers(class) && c.Variant == "gathering" {
			gather(class, handler)
			continue
		}
		perform := flowHandler(class, handler)
		if perform == nil {
			perform = typed(class, handler)
		}
		if perform == nil && class == "Noop" {
			perform = advancing(c.Variant, handler)
		}
		if perform == nil {
			perform = answering(class, c.Variant, handler)
		}
		goworker.Register(class, perform, told(c.Variant, handlers)...)
	}
	switch c.Variant {
	case "called":
		answered = handlers["Answer"]
		registerFunc(c)
	case "isolated", "reused":
		isolate(c.Variant, handlers["Noop"])
	case "chord":
		goworker.Register(chordEnd, func() error { return nil })
	case "traced":
		trace()
	case "unused":
		if err := useForOthers(); err != nil {
			return err
		}
	}
	return goworker.Work()
}

func produce(c probe.Config) (probe.Producer, error) {
	configure(c)
	if c.Variant == "called" {
		registerFunc(c)
	}
	return producer{c.Variant, c.Queues[0], goworker.Default().Client()}, goworker.Init()
}

type producer struct {
	variant string
	queue   string
	client  *goworker.Client
}

func (p producer) Push(j probe.Job) error {
	var err error
	switch {
	case p.variant == "results":
		_, err = p.Call(j)
	case p.variant == "unique":
		_, err = goworker.EnqueueWith(job(j), goworker.Unique())
	case p.variant == "expiring":
		_, err = goworker.EnqueueWith(job(j), goworker.ExpireAfter(time.Hour))
	case j.ID != "":
		_, err = goworker.EnqueueWith(job(j), goworker.WithID(j.ID))
	case j.At.IsZero():
		err = goworker.Enqueue(job(j))
	case p.variant == "plain":
		err = goworker.EnqueueAt(j.At, job(j))
	default:
		_, err = goworker.EnqueueWith(job(j), goworker.ProcessAt(j.At))
	}
	return err
}

func job(j probe.Job) *goworker.Job {
	return &goworker.Job{Queue: j.Queue, Payload: goworker.Payload{Class: j.Class, Args: j.Args}}
}
