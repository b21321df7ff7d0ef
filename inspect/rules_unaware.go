package inspect

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/queues"
	"github.com/goworker/goworker/internal/resque"
	"github.com/goworker/goworker/internal/resque/control"
)

// Unaware is a worker or a process that takes jobs and knows no rules of classes: it runs jobs of a paused or limited class when it
// takes them from their queue.
type Unaware struct {
	Worker string   // the id of a worker that is not goworker's, such as Ruby's. It knows no limits either, and sees no jobs in lanes
	Queues []string // names and patterns it looks at

	Process string // the id of a goworker process of a release without rules
	Version string // its release

	Shard string // of several Redises, the one where it is
}

// UnawareOfRules returns what in the fleet does not obey rules of classes: processes of older releases, and workers that are not goworker's. Of
// these it returns those that share a queue with goworker's workers, and all if none of goworker's is registered.
func (i *Inspector) UnawareOfRules(ctx context.Context) (all []Unaware, err error) {
	err = i.each(func(one *Inspector) error {
		some, err := one.unawareOfRules(ctx)
		for n := range some {
			if i.several() {
				some[n].Shard = one.name()
			}
		}
		all = append(all, some...)
		return err
	})
	return all, err
}

func (i *Inspector) unawareOfRules(ctx context.Context) (all []Unaware, err error) {
	members, err := query(ctx, i, func(s resque.Store, c redis.Conn) ([]control.Member, error) {
		_, members, err := control.New(s).Members(c)
		return members, err
	})
	if err != nil {
		return nil, err
	}
	for _, m := range members {
		if m.Known && m.Control == "" {
			all = append(all, Unaware{Process: m.ID, Version: m.Version})
		}
	}
	workers, err := i.Workers(ctx)
	var foreign []WorkerInfo
	var ours []string
	for _, w := range workers {
		if strings.HasSuffix(w.Host, resque.GoHost) && strings.Contains(w.PID, "-") {
			ours = append(ours, w.Queues...)
		} else {
			foreign = append(foreign, w)
		}
	}
	for _, w := range foreign {
		if len(ours) == 0 || slices.ContainsFunc(w.Queues, func(q string) bool { return meets(q, ours) }) {
			all = append(all, Unaware{Worker: w.ID, Queues: w.Queues})
		}
	}
	slices.SortStableFunc(all, func(a, b Unaware) int {
		return cmp.Or(cmp.Compare(a.Worker, b.Worker), cmp.Compare(a.Process, b.Process))
	})
	return all, err
}

// meets reports whether a queue or pattern may name a queue of others.
func meets(queue string, others []string) bool {
	return slices.ContainsFunc(others, func(other string) bool {
		return queue == other || queues.MatchGlob(queue, other) || queues.MatchGlob(other, queue)
	})
}
