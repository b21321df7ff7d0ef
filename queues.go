package goworker

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// weightedQueue is one queue and how often it is drawn relative to the others.
type weightedQueue struct {
	name   string
	weight int
}

// maxWeight keeps the sum of any number of weights far from overflow.
const maxWeight = 1_000_000

// maxLabel is how long the queues' part of a worker id may grow. Every such id
// is copied into several keys, and dashboards print it.
const maxLabel = 1024

// queueSpec is a parsed queue list. It never changes, so it may be shared.
type queueSpec struct {
	patterns []weightedQueue // names and patterns in order, each once
	excluded []string        // patterns, without their exclamation mark
	weighted bool            // a weight was given
	wild     bool            // there is a pattern or an exclusion
}

// parseQueues reads lists of queues in goworker's and Resque's grammar, which
// the documentation of WorkerSettings.QueuesString describes. Of a name that
// occurs twice the first counts.
func parseQueues(lists []string) (queueSpec, error) {
	var q queueSpec
	for _, list := range lists {
		for part := range strings.SplitSeq(list, ",") {
			if part = strings.TrimSpace(part); part == "" {
				continue
			}
			if err := q.add(part); err != nil {
				return queueSpec{}, err
			}
		}
	}
	if len(q.patterns) > 0 {
		return q, nil
	}
	if len(q.excluded) > 0 {
		return queueSpec{}, fmt.Errorf("you must specify at least one queue: %q only excludes; put * beside it to work all others", "!"+strings.Join(q.excluded, ",!"))
	}
	return queueSpec{}, fmt.Errorf("you must specify at least one queue: with the flag -queues, as in -queues=high,low or -queues='*', or in the settings' QueuesString or Queues")
}

func (q *queueSpec) add(part string) error {
	if pattern, ok := strings.CutPrefix(part, "!"); ok {
		if pattern = strings.TrimSpace(pattern); pattern == "" {
			return fmt.Errorf("queue list: an exclamation mark stands alone; write the queue to exclude right behind it, as in !low")
		}
		q.excluded = append(q.excluded, pattern)
		q.wild = true
		return nil
	}
	queue := weightedQueue{name: part, weight: 1}
	if i := strings.LastIndexByte(part, '='); i >= 0 {
		queue.name = strings.TrimSpace(part[:i])
		weight, err := strconv.Atoi(strings.TrimSpace(part[i+1:]))
		if err != nil || weight < 1 || weight > maxWeight {
			return fmt.Errorf("queue list: %q: the weight must be a numeric value from 1 to %d; write name=weight, as in high=2", part, maxWeight)
		}
		if queue.name == "" {
			return fmt.Errorf("queue list: %q has a weight but no name; write name=weight, as in high=2", part)
		}
		queue.weight = weight
		q.weighted = true
	}
	if isPattern(queue.name) {
		q.wild = true
	}
	if !slices.ContainsFunc(q.patterns, func(p weightedQueue) bool { return p.name == queue.name }) {
		q.patterns = append(q.patterns, queue)
	}
	return nil
}

func isPattern(name string) bool { return strings.ContainsAny(name, "*?{}[]") }

// plainName reports whether a name stands for itself in a list of queues.
func plainName(name string) bool { return !isPattern(name) && !strings.HasPrefix(name, "!") }

// dynamic tells whether the list depends on which queues Resque knows.
func (q queueSpec) dynamic() bool { return q.wild }

// order is the order the list itself asks for.
func (q queueSpec) order() string {
	if q.weighted {
		return OrderWeighted
	}
	return OrderStrict
}

// resolve returns the queues to work, in order and each once. The known queues
// count only if the list is dynamic. Callers must not change the result.
func (q queueSpec) resolve(known []string) []weightedQueue {
	if !q.wild {
		return q.patterns
	}
	known = slices.DeleteFunc(slices.Clone(known), q.excludes)
	slices.Sort(known)
	var queues []weightedQueue
	taken := make(map[string]bool, len(known))
	for _, p := range q.patterns {
		for _, name := range known {
			if !taken[name] && matchGlob(p.name, name) {
				taken[name] = true
				queues = append(queues, weightedQueue{name, p.weight})
			}
		}
	}
	return queues
}

func (q queueSpec) excludes(name string) bool {
	return slices.ContainsFunc(q.excluded, func(p string) bool { return matchGlob(p, name) })
}

// label is the queues' part of a worker id: what was configured, without
// weights and exclusions. Ruby workers fail to start when they meet an id
// without this part, so it is never empty; a long one ends at a comma.
func (q queueSpec) label() string {
	var b strings.Builder
	for i, p := range q.patterns {
		if i > 0 {
			if b.Len()+1+len(p.name) > maxLabel {
				break
			}
			b.WriteByte(',')
		}
		b.WriteString(p.name)
	}
	return b.String()
}
