package httpapi

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/httpjob"
	"github.com/goworker/goworker/internal/part"
	"github.com/goworker/goworker/internal/queues"
	"github.com/goworker/goworker/internal/resque"
)

const (
	lookoutEvery = time.Minute // how often the workers are compared with the queues
	lookoutQuiet = time.Second // and how soon after a queue that is new here
)

// lookout looks which workers take jobs from the queues of HTTP: a Ruby worker of a pattern that means such a queue fails every
// job whose class it does not know.
type lookout struct {
	pool *pool
	loop *part.Loop

	mu      sync.Mutex
	queues  map[string]bool // to which jobs of DefaultClass were published
	workers []worker
	warned  map[string]bool // the lists of queues that a warning has named
}

// worker is how a registered worker names its queues.
type worker struct {
	id   string
	list string
	spec queues.Spec
}

func newLookout(p *pool) *lookout {
	l := &lookout{pool: p, queues: make(map[string]bool), warned: make(map[string]bool)}
	l.loop = part.NewLoop(p.neighbor.Base, "workers of queues of HTTP", l.look)
	l.loop.Quiet = lookoutQuiet
	return l
}

// published notes that a job of a class was published to a queue.
func (l *lookout) published(queue, class string) {
	if class != "" && class != httpjob.DefaultClass {
		return
	}
	l.mu.Lock()
	known := l.queues[queue] || len(l.queues) >= mostQueues
	if !known {
		l.queues[queue] = true
	}
	l.mu.Unlock()
	if !known {
		l.loop.Wake()
	}
}

// look reads the workers, and warns of those whose pattern means a queue of HTTP.
func (l *lookout) look(ctx context.Context) (time.Duration, error) {
	l.mu.Lock()
	idle := len(l.queues) == 0
	l.mu.Unlock()
	if idle {
		return part.Never, nil
	}
	var found []resque.Worker
	err := l.pool.neighbor.Do(ctx, func(s resque.Store, c redis.Conn) (err error) {
		found, err = s.Workers(c)
		return err
	})
	if err != nil {
		return 0, err
	}
	workers := make([]worker, 0, len(found))
	for _, w := range found {
		one := worker{id: w.ID, list: strings.Join(w.Queues, ",")}
		if one.spec, err = queues.Parse(w.Queues); err == nil {
			workers = append(workers, one)
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.workers = workers
	for _, w := range workers {
		if !strings.ContainsAny(w.list, "*?[") || l.warned[w.list] || len(l.warned) >= mostQueues {
			continue // an operator who names a queue knows what is in it
		}
		for q := range l.queues {
			if w.spec.Works(q) {
				l.warned[w.list] = true
				l.warn(w, q)
				break
			}
		}
	}
	return lookoutEvery, nil
}

// warn names the queue and the exclusion to add.
func (l *lookout) warn(w worker, queue string) {
	exclude := "!" + queue
	if namespace, name := lmstfyName(queue); namespace != "" && name != "" {
		exclude = "!" + namespace + ".*"
	}
	l.pool.neighbor.Log.Warn("a worker takes jobs that were published over HTTP, and a Ruby worker fails those whose class it does not have; "+
		"define the class, or exclude the queues", "class", httpjob.DefaultClass, "queue", queue, "worker", w.id, "exclude", fmt.Sprintf("%s,%s", w.list, exclude))
}

// takenBy returns the workers that take jobs of a queue beside HTTP, as of the last look.
func (l *lookout) takenBy(queue string) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var ids []string
	for _, w := range l.workers {
		if w.spec.Works(queue) {
			ids = append(ids, w.id)
		}
	}
	slices.Sort(ids)
	return ids[:min(len(ids), mostTakers)]
}

// mostTakers is how many workers are named.
const mostTakers = 100
