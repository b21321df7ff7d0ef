package queues

import (
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
)

// Queue is one queue and how often it is drawn relative to the others.
type Queue struct {
	Name   string
	weight int
}

// maxWeight keeps the sum of any number of weights far from overflow.
const maxWeight = 1_000_000

// maxLabel is how long the queues' part of a worker id may grow. Every such id
// is copied into several keys, and dashboards print it.
const maxLabel = 1024

// Spec is a parsed queue list. It never changes, so it may be shared.
type Spec struct {
	Patterns []Queue  // names and patterns in order, each once
	excluded []string // patterns, without their exclamation mark
	weighted bool     // a weight was given
	wild     bool     // there is a pattern or an exclusion
}

// Parse reads lists of queues in goworker's and Resque's grammar, which
// the documentation of WorkerSettings.QueuesString describes. Of a name that
// occurs twice the first counts.
func Parse(lists []string) (Spec, error) {
	var q Spec
	for part := range parts(lists) {
		if err := q.add(part); err != nil {
			return Spec{}, err
		}
	}
	return q, q.some()
}

// parts yields the entries of lists.
func parts(lists []string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, list := range lists {
			for part := range strings.SplitSeq(list, ",") {
				if part = strings.TrimSpace(part); part != "" && !yield(part) {
					return
				}
			}
		}
	}
}

// some returns an error for a list that works no queue.
func (q Spec) some() error {
	if len(q.Patterns) > 0 {
		return nil
	}
	if len(q.excluded) > 0 {
		return fmt.Errorf("you must specify at least one queue: %q only excludes; put * beside it to work all others", "!"+strings.Join(q.excluded, ",!"))
	}
	return fmt.Errorf("you must specify at least one queue: with the flag -queues, as in -queues=high,low or -queues='*', or in the settings' QueuesString or Queues")
}

// CheckList says what is wrong with a list of queues. An empty one is right.
func CheckList(list string) error {
	if strings.Trim(list, ", \t\r\n") == "" {
		return nil
	}
	_, err := Parse([]string{list})
	return err
}

func (q *Spec) add(part string) error {
	if pattern, ok := strings.CutPrefix(part, "!"); ok {
		if pattern = strings.TrimSpace(pattern); pattern == "" {
			return fmt.Errorf("an exclamation mark stands alone; write the queue to exclude right behind it, as in !low")
		}
		if err := checkPattern(pattern); err != nil {
			return err
		}
		q.excluded = append(q.excluded, pattern)
		q.wild = true
		return nil
	}
	queue := Queue{Name: part, weight: 1}
	if i := strings.LastIndexByte(part, '='); i >= 0 {
		queue.Name = strings.TrimSpace(part[:i])
		weight, err := strconv.Atoi(strings.TrimSpace(part[i+1:]))
		if err != nil || weight < 1 || weight > maxWeight {
			return fmt.Errorf("%q: the weight must be a numeric value from 1 to %d; write name=weight, as in high=2", part, maxWeight)
		}
		if queue.Name == "" {
			return fmt.Errorf("%q has a weight but no name; write name=weight, as in high=2", part)
		}
		queue.weight = weight
		q.weighted = true
	}
	if IsPattern(queue.Name) {
		if IsOwn(queue.Name) {
			return fmt.Errorf("no pattern finds a MessagePack queue, and %q is one; name each queue, as in %scalc", queue.Name, MessagePack)
		}
		if err := checkPattern(queue.Name); err != nil {
			return err
		}
		q.wild = true
	}
	if !slices.ContainsFunc(q.Patterns, func(p Queue) bool { return p.Name == queue.Name }) {
		q.Patterns = append(q.Patterns, queue)
	}
	return nil
}

func IsPattern(name string) bool { return strings.ContainsAny(name, "*?{}[]") }

// checkPattern refuses a pattern that can match no name, because a set in it has no end.
func checkPattern(pattern string) error {
	for rest := pattern; rest != ""; {
		if rest[0] != '[' {
			_, rest = nextChar(rest)
			continue
		}
		set := rest[1:]
		if strings.HasPrefix(set, "]") {
			return fmt.Errorf("%q matches no queue, since there is nothing in its brackets; write [abc] for one of these letters, or \\[ for a bracket", pattern)
		}
		for set != "" && set[0] != ']' {
			_, set = nextChar(set)
		}
		if set == "" {
			return fmt.Errorf("%q matches no queue, since its bracket is not closed; write [abc] for one of these letters, or \\[ for a bracket", pattern)
		}
		rest = set[1:]
	}
	return nil
}

// CheckName returns an error for the name of a queue that no list of queues can have: it is written as a
// list, or is a whole key of Redis, which begins with prefix. Jobs in such a queue would wait for ever.
func CheckName(name, prefix string) error {
	switch {
	case strings.Contains(name, ","):
		return fmt.Errorf("the queue %q has a comma in its name, and no list of queues could name it; give each job one queue", name)
	case strings.Contains(name, "="):
		return fmt.Errorf("the queue %q has an equals sign in its name, and in lists of queues that is a weight; give the name alone", name)
	case strings.HasPrefix(name, "!"):
		return fmt.Errorf("the queue %q begins with an exclamation mark, and in lists of queues that excludes; give another name", name)
	case name == MessagePack:
		return fmt.Errorf("the queue %q has no name behind %s; write it there, as in %scalc", name, MessagePack, MessagePack)
	case strings.TrimSpace(name) != name:
		return fmt.Errorf("the queue %q has a blank at an end of its name, and lists of queues drop it; take it away", name)
	case strings.HasPrefix(name, prefix):
		return fmt.Errorf("the queue %q is named by its whole key; give the name behind %s, which is added to it", name, prefix)
	}
	return nil
}

// MessagePack begins the name of a queue that is goworker's own: its jobs may be MessagePack, which ends a Ruby worker. No
// pattern finds such a queue, and Ruby's keys have neither its name nor its jobs.
const MessagePack = "msgpack:"

// IsOwn reports whether a queue is goworker's own.
func IsOwn(name string) bool { return strings.HasPrefix(name, MessagePack) }

// Own returns the queues of the list that are goworker's own.
func (q Spec) Own() (names []string) {
	for _, p := range q.Patterns {
		if IsOwn(p.Name) && !IsPattern(p.Name) && !q.Excludes(p.Name) {
			names = append(names, p.Name)
		}
	}
	return names
}

// PlainName reports whether a name stands for itself in a list of queues.
func PlainName(name string) bool { return !IsPattern(name) && !strings.HasPrefix(name, "!") }

// Dynamic reports whether the list depends on which queues Resque knows.
func (q Spec) Dynamic() bool { return q.wild }

// Order is the order the list itself asks for.
func (q Spec) Order() string {
	if q.weighted {
		return Weighted
	}
	return Strict
}

// Useless is a warning for weights that have no effect in an order; "": there are none.
func (q Spec) Useless(order string) string {
	if !q.weighted || order == Weighted {
		return ""
	}
	return fmt.Sprintf("the weights of the queues have no effect, because Order (-order) is %s; leave it out, or the weights", order)
}

// Resolve returns the queues to work, in order and each once. The known queues
// count only if the list is dynamic. Callers must not change the result.
func (q Spec) Resolve(known []string) []Queue {
	if !q.wild {
		return q.Patterns
	}
	known = slices.DeleteFunc(slices.Clone(known), func(name string) bool { return IsOwn(name) || q.Excludes(name) })
	known = append(known, q.Own()...) // which are there because they are named
	slices.Sort(known)
	var queues []Queue
	taken := make(map[string]bool, len(known))
	for _, p := range q.Patterns {
		for _, name := range known {
			if !taken[name] && p.matches(name) {
				taken[name] = true
				queues = append(queues, Queue{name, p.weight})
			}
		}
	}
	return queues
}

func (q Spec) Excludes(name string) bool {
	return slices.ContainsFunc(q.excluded, func(p string) bool { return MatchGlob(p, name) })
}

// Works reports whether a queue is in the list, by its name or by a pattern.
func (q Spec) Works(name string) bool {
	return !q.Excludes(name) && slices.ContainsFunc(q.Patterns, func(p Queue) bool {
		return p.Name == name || IsPattern(p.Name) && p.matches(name)
	})
}

// matches reports whether the name or pattern means a queue. Goworker's own queues are named, not found.
func (p Queue) matches(name string) bool {
	if IsOwn(name) {
		return p.Name == name
	}
	return MatchGlob(p.Name, name)
}

// Label is the queues' part of a worker id: what was configured, without
// weights and exclusions. Ruby workers fail to start when they meet an id
// without this part, so it is never empty; a long one ends at a comma.
func (q Spec) Label() string {
	var b strings.Builder
	for i, p := range q.Patterns {
		if i > 0 {
			if b.Len()+1+len(p.Name) > maxLabel {
				break
			}
			b.WriteByte(',')
		}
		b.WriteString(p.Name)
	}
	return b.String()
}
