package main

import (
	"github.com/goworker/goworker"

	"github.com/goworker/goworker/bench/probe"
)

func (producer) PushAll(jobs []probe.Job) error {
	all := make([]*goworker.Job, len(jobs))
	for i, j := range jobs {
		all[i] = job(j)
	}
	return goworker.EnqueueAll(all...)
}
