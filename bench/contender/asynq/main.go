// Command asynq is hibiken/asynq with the benchmark's handlers; its variant "results"
// keeps each job's result for an hour, and "gathering" makes one task of many.
package main

import (
	"context"
	"encoding/json"
	"time"

	"github.com/hibiken/asynq"

	"github.com/goworker/goworker/bench/probe"
)

func main() { probe.Main(work, produce) }

func redis(c probe.Config) asynq.RedisClientOpt {
	// Its default is ten connections a core; more never hurt it here.
	return asynq.RedisClientOpt{Addr: c.Addr, PoolSize: min(max(20, c.Workers+10, c.Producers), 1000)}
}

func work(c probe.Config, handlers map[string]probe.Handler) error {
	queues := map[string]int{}
	for i, name := range c.Queues {
		queues[name] = 1
		switch {
		case c.Order == probe.Strict:
			queues[name] = len(c.Queues) - i // the first has the highest priority
		case c.Order == probe.Weighted:
			queues[name] = c.Weight(i)
		}
	}
	mux := asynq.NewServeMux()
	config := asynq.Config{
		Concurrency:    c.Workers,
		Queues:         queues,
		StrictPriority: c.Order == probe.Strict,
		LogLevel:       asynq.FatalLevel,
	}
	if c.Variant == "gathering" {
		gather(&config, mux, handlers[probe.Item])
	}
	for class, handler := range handlers {
		mux.HandleFunc(class, func(_ context.Context, t *asynq.Task) error {
			var args []interface{}
			if err := json.Unmarshal(t.Payload(), &args); err != nil {
				return err
			}
			err := handler("", args...)
			if err == nil && c.Variant == "results" && probe.Answers(class) {
				_, err = t.ResultWriter().Write([]byte(probe.Answer()))
			}
			return err
		})
	}
	return asynq.NewServer(redis(c), config).Run(mux)
}

func produce(c probe.Config) (probe.Producer, error) {
	return producer{asynq.NewClient(redis(c)), c.Variant}, nil
}

type producer struct {
	client  *asynq.Client
	variant string
}

func (p producer) Push(j probe.Job) error {
	payload, err := json.Marshal(j.Args)
	if err != nil {
		return err
	}
	opts := []asynq.Option{asynq.Queue(j.Queue), asynq.MaxRetry(0)}
	if !j.At.IsZero() {
		opts = append(opts, asynq.ProcessAt(j.At))
	}
	switch p.variant {
	case "unique":
		opts = append(opts, asynq.Unique(time.Hour))
	case "results":
		opts = append(opts, asynq.Retention(time.Hour))
	case "gathering":
		if j.Class == probe.Item {
			opts = append(opts, asynq.Group(j.Args[0].(string)))
		}
	}
	_, err = p.client.Enqueue(asynq.NewTask(j.Class, payload), opts...)
	return err
}
