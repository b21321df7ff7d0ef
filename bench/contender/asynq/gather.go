package main

import (
	"bytes"
	"context"
	"encoding/json"
	"time"

	"github.com/hibiken/asynq"

	"github.com/goworker/goworker/bench/probe"
)

// gathered is the type of a task that was made of a group.
const gathered = "Gathered"

// gather lets the server make one task of at most GroupOf tasks of a group. It looks for groups as often as its grace
// period says, of which a second is the least.
func gather(config *asynq.Config, mux *asynq.ServeMux, handler probe.Handler) {
	config.GroupMaxSize = probe.GroupOf
	config.GroupGracePeriod = time.Second
	config.GroupMaxDelay = time.Second
	config.GroupAggregator = asynq.GroupAggregatorFunc(func(group string, tasks []*asynq.Task) *asynq.Task {
		items := make([][]byte, len(tasks))
		for i, t := range tasks {
			items[i] = t.Payload()
		}
		text := append(append([]byte{'['}, bytes.Join(items, []byte{','})...), ']')
		return asynq.NewTask(gathered, text, asynq.MaxRetry(0))
	})
	mux.HandleFunc(gathered, func(_ context.Context, t *asynq.Task) error {
		var items [][]interface{}
		if err := json.Unmarshal(t.Payload(), &items); err != nil {
			return err
		}
		for _, args := range items {
			if err := handler("", args...); err != nil {
				return err
			}
		}
		return nil
	})
}
