package main

import (
	"context"

	"github.com/goworker/goworker"

	"github.com/goworker/goworker/bench/probe"
)

func (p producer) PushAll(jobs []probe.Job) error {
	switch {
	case p.variant == "chord":
		return p.pushChord(jobs)
	case len(jobs) > 0 && jobs[0].ID != "":
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

// chordEnd is the class of the step that follows the jobs of a chord. It is not counted.
const chordEnd = "ChordEnd"

// pushChord pushes jobs as the members of one chord.
func (p producer) pushChord(jobs []probe.Job) error {
	members := make([]*goworker.Node, len(jobs))
	for i, j := range jobs {
		members[i] = goworker.Step(goworker.NewJob(j.Queue, j.Class, j.Args...))
	}
	end := goworker.Step(goworker.NewJob(p.queue, chordEnd), goworker.Immutable())
	_, err := p.client.Start(context.Background(), goworker.Chord(goworker.Group(members...), end))
	return err
}
