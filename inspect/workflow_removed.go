package inspect

import (
	"context"
	"errors"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/prefix"
	"github.com/goworker/goworker/internal/resque"
	"github.com/goworker/goworker/internal/resque/workflows"
)

// gone is a waiting job that was removed.
type gone struct {
	queue string
	raw   []byte
}

// fail ends the steps among removed jobs as failed, so that their workflows go on or fail visibly. It is no part of the
// removal. If it fails, the workflows stand still until the sweep finds that the jobs are gone.
func (i *Inspector) fail(ctx context.Context, jobs []gone) error {
	steps := jobs[:0:0]
	for _, j := range jobs {
		if _, ok := workflows.PlaceOf(j.raw); ok {
			steps = append(steps, j)
		}
	}
	if len(steps) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), documentWithin)
	defer cancel()
	err := i.do(ctx, func(s resque.Store, c redis.Conn) error {
		for _, j := range steps {
			if err := workflows.New(s).Removed(c, j.queue, j.raw); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		err = prefix.Errorf("the jobs were removed, but workflows still wait for them; resume those when they are shown as stalled: %w", err)
	}
	return err
}

// failAll removes, one by one, the steps among jobs that a command is about to remove without reading them. Where there
// is no workflow it reads none.
func (i *Inspector) failAll(ctx context.Context, q Query) error {
	any, err := query(ctx, i, func(s resque.Store, c redis.Conn) (bool, error) { return workflows.New(s).Any(c) })
	if err != nil || !any {
		return err
	}
	quiet := *i
	quiet.who = "" // the command is recorded
	for after := ""; ; {
		page, err := i.Find(ctx, q, after, MaxPage)
		if err != nil {
			return err
		}
		var steps []Entry
		for _, e := range page.Jobs {
			if _, ok := workflows.PlaceOf(e.Payload); ok {
				steps = append(steps, e)
			}
		}
		_, failed := quiet.act(ctx, removal, steps)
		for _, err := range joined(failed) {
			if !errors.Is(err, ErrNoJob) { // else a worker was faster
				return failed
			}
		}
		if after = page.Next; after == "" {
			return nil
		}
	}
}
