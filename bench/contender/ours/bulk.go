package main

import (
	"context"

	"github.com/goworker/goworker"

	"github.com/goworker/goworker/bench/probe"
)

func (p producer) PushAll(jobs []probe.Job) error {
	if len(jobs) > 0 && jobs[0].ID != "" {
		return p.pushNamed(jobs)
	}
	all := make([]*goworker.Job, len(jobs))
	for i, j := range jobs {
		all[i] = job(j)
	}
	return goworker.EnqueueAll(all...)
}

// pushNamed pushes jobs with ids.
func (p producer) pushNamed(jobs []probe.Job) error {
	items := make([]goworker.Item, len(jobs))
	for i, j := range jobs {
		items[i] = goworker.Item{Job: job(j), Options: []goworker.EnqueueOption{goworker.WithID(j.ID)}}
	}
	_, err := p.client.EnqueueMany(context.Background(), items...)
	return err
}
