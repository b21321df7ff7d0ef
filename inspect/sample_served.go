package inspect

import (
	"slices"
	"strings"

	"github.com/goworker/goworker/internal/queues"
	"github.com/goworker/goworker/internal/resque"
)

// served counts who takes from queues.
type served struct {
	workers         map[string]*[2]int64 // by queue: of goworker, and others
	http            map[string]int64
	goAll, otherAll bool // all of them were looked at
	processes       bool // it is known which processes there are
	known           bool // and which workers
}

const (
	byGo = iota
	byOthers
)

// served reads the lists of queues of all that take jobs. Many workers have the same list, and many lists the same patterns, so each
// list and each pattern is compared with the names of the queues once.
func (t *taken) served() *served {
	s := &served{
		workers: make(map[string]*[2]int64, len(t.g.Queues)), http: make(map[string]int64),
		goAll: int64(len(t.g.Processes)) >= t.g.ProcessCount.N, processes: t.g.ProcessCount.OK,
		otherAll: t.g.WorkersAll, known: t.g.Workers.OK,
	}
	names := make([]string, len(t.g.Queues))
	for n, q := range t.g.Queues {
		names[n] = q.Name
		s.workers[q.Name] = new([2]int64)
	}
	lists := make(map[string]*[2]int64)
	add := func(list string, who int, workers int64) {
		if lists[list] == nil {
			lists[list] = new([2]int64)
		}
		lists[list][who] += workers
	}
	for _, p := range t.g.Processes {
		if !p.Dead {
			add(p.Queues, byGo, int64(p.Concurrency))
		}
	}
	for _, id := range t.g.WorkerIDs {
		if host, list := hostAndList(id); !strings.HasSuffix(host, resque.GoHost) && !t.g.Silent[id] {
			add(list, byOthers, 1)
		}
	}
	matches := make(map[string][]string)
	for list, workers := range lists {
		for name := range meantBy(list, names, matches) {
			if of := s.workers[name]; of != nil {
				of[byGo], of[byOthers] = of[byGo]+workers[byGo], of[byOthers]+workers[byOthers]
			}
		}
	}
	for _, taker := range t.out.Servings {
		for _, queue := range taker.Queues {
			s.http[queue]++
		}
	}
	return s
}

// hostAndList are the host and the list of queues of a worker id.
func hostAndList(id string) (host, list string) {
	parts := strings.SplitN(id, ":", 3)
	if len(parts) < 3 {
		return parts[0], ""
	}
	return parts[0], parts[2]
}

// meantBy is the set of the queues that a list means. matches are the names that patterns of other lists matched.
func meantBy(list string, names []string, matches map[string][]string) map[string]struct{} {
	meant := make(map[string]struct{})
	spec, err := queues.Parse([]string{list})
	if err != nil { // a list of another program
		for name := range strings.SplitSeq(list, ",") {
			meant[name] = struct{}{}
		}
		return meant
	}
	for _, p := range spec.Patterns {
		if !queues.IsPattern(p.Name) {
			meant[p.Name] = struct{}{}
			continue
		}
		of, done := matches[p.Name]
		if !done {
			for _, name := range names {
				if !queues.IsOwn(name) && queues.MatchGlob(p.Name, name) {
					of = append(of, name)
				}
			}
			matches[p.Name] = of
		}
		for _, name := range of {
			meant[name] = struct{}{}
		}
	}
	if spec.Dynamic() {
		for name := range meant {
			if spec.Excludes(name) {
				delete(meant, name)
			}
		}
	}
	return meant
}

// of says who takes from a queue.
func (s *served) of(q *SampleQueue) {
	workers := s.workers[q.Name]
	if s.processes {
		q.Go = exactly(workers[byGo]).all(s.goAll)
	}
	if s.known {
		q.Other = exactly(workers[byOthers]).all(s.otherAll)
	}
	q.HTTP = exactly(s.http[q.Name])
}

// mergeSamples adds the Samples of two shards.
func mergeSamples(a, b Sample) Sample {
	if a.Servers == nil { // it did not answer: what it has is unknown
		a, b = b, a
	}
	if b.Servers == nil {
		return atLeastOf(a)
	}
	sum := func(to *Count, from Count) { *to = to.plus(from) }
	sum(&a.Processed, b.Processed)
	sum(&a.Failed, b.Failed)
	sum(&a.Waiting, b.Waiting)
	sum(&a.Delayed, b.Delayed)
	sum(&a.Retrying, b.Retrying)
	sum(&a.Failures, b.Failures)
	sum(&a.Leased, b.Leased)
	if b.Late.For > a.Late.For || !a.Late.Known() {
		a.Late = b.Late
	}
	a.Servers = append(a.Servers, b.Servers...)
	a.Servings = append(a.Servings, b.Servings...)
	a.Refused = append(a.Refused, b.Refused...)
	a.PausedAll = a.PausedAll || b.PausedAll
	a.Queues = mergeQueues(a.Queues, b.Queues)
	a.QueueCount = exactly(int64(len(a.Queues))).all(a.NextQueues == "" && b.NextQueues == "")
	a.NextQueues = ""

	// A process has a lease in each shard, and its workers are registered in each.
	for _, p := range b.Processes {
		if !slices.ContainsFunc(a.Processes, func(of SampleProcess) bool { return of.Host == p.Host && of.PID == p.PID && of.Since.Equal(p.Since) }) {
			a.Processes = append(a.Processes, p)
		}
	}
	a.Stuck = append(a.Stuck, b.Stuck...)
	wider := func(to *Count, from Count) {
		if from.N > to.N {
			to.N = from.N
		}
		to.Bound = AtLeast
	}
	wider(&a.Workers.All, b.Workers.All)
	wider(&a.Workers.Go, b.Workers.Go)
	wider(&a.Workers.Other, b.Workers.Other)
	wider(&a.Workers.Dead, b.Workers.Dead)
	sum(&a.Workers.Busy, b.Workers.Busy)
	a.Workers.Looked = max(a.Workers.Looked, b.Workers.Looked)
	return a
}

// atLeastOf is a Sample from which the numbers of a shard are missing.
func atLeastOf(s Sample) Sample {
	for _, c := range []*Count{&s.Processed, &s.Failed, &s.Waiting, &s.Delayed, &s.Retrying, &s.Failures, &s.Leased, &s.QueueCount,
		&s.Workers.All, &s.Workers.Go, &s.Workers.Other, &s.Workers.Dead, &s.Workers.Busy} {
		*c = c.all(false)
	}
	return s
}

// mergeQueues adds the queues of two shards.
func mergeQueues(a, b []SampleQueue) []SampleQueue {
	all := append(slices.Clone(a), b...)
	slices.SortStableFunc(all, func(x, y SampleQueue) int { return strings.Compare(x.Name, y.Name) })
	merged := all[:0]
	for _, q := range all {
		last := len(merged) - 1
		if last < 0 || merged[last].Name != q.Name {
			merged = append(merged, q)
			continue
		}
		to := &merged[last]
		to.Oldest = older(to.Oldest, q.Oldest, to.Waiting == exactly(0))
		if q.Waiting == exactly(0) && to.Waiting != q.Waiting { // nothing waits there
			to.Oldest = merged[last].Oldest
		}
		to.Shard, to.Waiting, to.InLanes = "", to.Waiting.plus(q.Waiting), to.InLanes.plus(q.InLanes)
		to.Paused = to.Paused || q.Paused
		to.Go, to.Other, to.HTTP = most(to.Go, q.Go), most(to.Other, q.Other), to.HTTP.plus(q.HTTP)
		to.Counted = to.Counted && q.Counted
		to.Pushed, to.Taken = to.Pushed+q.Pushed, to.Taken+q.Taken
		if to.rates == nil || q.rates == nil {
			to.rates = nil
		} else {
			to.rates = &depthRates{bothKnown(to.rates.in, q.rates.in), bothKnown(to.rates.out, q.rates.out)}
		}
		for mark, ends := range q.ends {
			if to.ends == nil {
				to.ends = make(map[string]endsOf)
			}
			to.ends[mark] = ends
		}
	}
	return merged
}

func bothKnown(a, b float64) float64 {
	if a < 0 || b < 0 {
		return -1
	}
	return a + b
}

// most is the larger of two counts of the same workers, who are registered in each shard.
func most(a, b Count) Count {
	if b.Known() && (!a.Known() || b.N > a.N) {
		return b
	}
	return a
}

// pushedSince is how many jobs came to a queue since its ends were read; -1: nobody knows. It counts one job less for each that is
// equal to the last one of then.
func pushedSince(before endsOf, q resque.GlanceQueue) int64 {
	switch {
	case before.length == 0:
		return q.Length.N
	case q.Behind >= 0:
		return q.Behind
	}
	return -1
}
