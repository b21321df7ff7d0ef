package inspect

import (
	"context"
	"errors"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/resque"
	"github.com/goworker/goworker/internal/resque/workflows"
)

// Counted is what a plan would do.
type Counted struct {
	Jobs    int64
	More    bool    // there may be more: the count has looked at as many as it may
	Ended   int64   // Drop: jobs with a lock, a step or a result; ClearQueue, ForgetQueue: steps. They end as cancelled, and Undo does not bring them back
	Samples []Entry // the first three
}

// Count says what a plan would do now, and changes nothing. It looks at about a million jobs at most.
func (o *Operations) Count(ctx context.Context, p Plan) (n Counted, err error) {
	if p, err = p.check(); err != nil {
		return n, err
	}
	if err := o.in.usable(); err != nil {
		return n, err
	}
	add := func(e Entry) {
		if n.Jobs++; len(n.Samples) < 3 {
			n.Samples = append(n.Samples, e)
		}
		if p.does(e) == Drop && e.featured() {
			n.Ended++
		}
	}
	switch {
	case len(p.Jobs) > 0:
		for _, e := range p.Jobs {
			if p.wants(e) {
				add(e)
			}
		}
		return n, nil
	case p.Verb == ClearQueue || p.Verb == ForgetQueue:
		return o.countQueue(ctx, p.Query.Queue)
	}
	for looked, after := 0, ""; ; {
		page, err := o.in.Find(ctx, p.Query, after, MaxPage)
		if err != nil {
			return n, err
		}
		for _, e := range page.Jobs {
			if p.wants(e) {
				add(e)
			}
		}
		looked += page.Looked
		if after = page.Next; after == "" {
			return n, errors.Join(page.Refused...)
		}
		if looked >= mostSought {
			n.More = true
			return n, errors.Join(page.Refused...)
		}
	}
}

// countQueue counts the jobs of a queue, and steps of workflows among them where there are workflows.
func (o *Operations) countQueue(ctx context.Context, queue string) (n Counted, err error) {
	if n.Jobs, err = o.in.QueueSize(ctx, queue); err != nil {
		return n, err
	}
	page, err := o.in.List(ctx, queue, "", 3)
	if err != nil {
		return n, err
	}
	n.Samples = page.Jobs
	err = o.in.each(func(one *Inspector) error {
		any, err := query(ctx, one, func(s resque.Store, c redis.Conn) (bool, error) { return workflows.New(s).Any(c) })
		if err != nil || !any {
			return err
		}
		for e, err := range one.All(ctx, Query{Queue: queue, Places: []Place{Queued, InLane}}) {
			if err != nil {
				return err
			}
			if isStep(e) {
				n.Ended++
			}
		}
		return nil
	})
	return n, err
}

func isStep(e Entry) bool {
	_, ok := workflows.PlaceOf(e.Payload)
	return ok
}
