package queues

import (
	"fmt"
	"slices"
	"strings"
)

// Routes are the queue lists of several shards. Each queue belongs to one of them.
type Routes []Route

// Route is the queue list of one shard.
type Route struct {
	Spec
	Shard string // its name in errors
	List  string // the list as it was given

	first *Spec // the list before the first Change; nil: it did not change
}

// lists are those by which queues lie on the shard: the present one and the first. What lay there stays there.
func (r Route) lists() []*Spec {
	if r.first == nil {
		return []*Spec{&r.Spec}
	}
	return []*Spec{&r.Spec, r.first}
}

// Add returns the routes and one more. It refuses a queue that two lists name.
func (r Routes) Add(shard string, spec Spec, list []string) (Routes, error) {
	if err := r.free(spec, shard, -1); err != nil {
		return nil, err
	}
	return append(r, Route{Spec: spec, Shard: shard, List: strings.Join(list, ",")}), nil
}

// Change returns the routes with another list for the shard i. It refuses a queue that the list of another shard names, or named at
// first.
func (r Routes) Change(i int, spec Spec) (Routes, error) {
	if err := r.free(spec, r[i].Shard, i); err != nil {
		return nil, err
	}
	r = slices.Clone(r)
	if r[i].first == nil {
		first := r[i].Spec
		r[i].first = &first
	}
	r[i].Spec, r[i].List = spec, spec.String()
	return r, nil
}

// free returns an error for a list with a queue that a shard other than i names.
func (r Routes) free(spec Spec, shard string, i int) error {
	for _, queue := range spec.Names() {
		if at := r.namer(queue, i); at >= 0 {
			return fmt.Errorf("queue %q is named by two shards, %s and %s; a queue lies on one, so name it once", queue, r[at].Shard, shard)
		}
	}
	return nil
}

// Find returns the list to which a queue belongs: the first that names it, else the first
// with a pattern for it. So a list for all other queues may be anywhere. -1 means none.
func (r Routes) Find(queue string) int {
	for _, pattern := range []bool{false, true} {
		for first := range 2 {
			i := slices.IndexFunc(r, func(q Route) bool {
				lists := q.lists()
				return first < len(lists) && lists[first].has(queue, pattern)
			})
			if i >= 0 {
				return i
			}
		}
	}
	return -1
}

// has reports whether the list has a queue, by its name or by a pattern.
func (q *Spec) has(queue string, pattern bool) bool {
	return !q.Excludes(queue) && slices.ContainsFunc(q.Patterns, func(p Queue) bool {
		return IsPattern(p.Name) == pattern && (p.Name == queue || pattern && MatchGlob(p.Name, queue))
	})
}

// Finder returns a Find that remembers its answers. Its error for a queue that belongs nowhere names all
// lists. It is for one goroutine.
func (r Routes) Finder() func(queue string) (int, error) {
	found := make(map[string]int)
	return func(queue string) (int, error) {
		i, known := found[queue]
		if !known {
			i = r.Find(queue)
			found[queue] = i
		}
		if i < 0 {
			return i, r.nowhere(queue)
		}
		return i, nil
	}
}

func (r Routes) nowhere(queue string) error {
	lists := make([]string, len(r))
	for i, q := range r {
		lists[i] = q.Shard + " (" + q.List + ")"
	}
	return fmt.Errorf("queue %q lies on no shard; there are %s", queue, strings.Join(lists, ", "))
}

// namer returns the list, not that of the shard but, that names a queue without a pattern, or -1.
func (r Routes) namer(queue string, but int) int {
	for i, q := range r {
		if i != but && q.names(queue) {
			return i
		}
	}
	return -1
}

// names reports whether a list of the shard names a queue without a pattern.
func (r Route) names(queue string) bool {
	return slices.ContainsFunc(r.lists(), func(q *Spec) bool { return slices.Contains(q.Names(), queue) })
}

// Names returns the queues that the list names without a pattern.
func (q Spec) Names() []string {
	var names []string
	for _, p := range q.Patterns {
		if !IsPattern(p.Name) {
			names = append(names, p.Name)
		}
	}
	return names
}
