package main

import (
	"github.com/goworker/goworker"

	"github.com/goworker/goworker/bench/probe"
)

// sharded works the queue of each shard, whose place in c.Shards is that of its Redis.
func sharded(c probe.Config, handlers map[string]probe.Handler) error {
	common := settings(c)
	common.URI, common.QueuesString = "", ""
	shards := make([]goworker.Shard, len(c.Shards))
	for i, addr := range c.Shards {
		shards[i] = goworker.Shard{URI: "redis://" + addr + "/", Queues: []string{c.Queues[i]}}
	}
	s := goworker.NewShards(common, shards...)
	for class, handler := range handlers {
		s.Register(class, handler)
	}
	return s.Work()
}
