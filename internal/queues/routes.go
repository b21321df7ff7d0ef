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
}

// Add returns the routes and one more. It refuses a queue that two lists name.
func (r Routes) Add(shard string, spec Spec, list []string) (Routes, error) {
	for _, queue := range spec.Names() {
		if other := r.Namer(queue); other >= 0 {
			return nil, fmt.Errorf("queue %q is named by two shards, %s and %s; a queue lies on one, so name it once",
				queue, r[other].Shard, shard)
		}
	}
	return append(r, Route{spec, shard, strings.Join(list, ",")}), nil
}

// Find returns the list to which a queue belongs: the first that names it, else the first
// with a pattern for it. So a list for all other queues may be anywhere. -1 means none.
func (r Routes) Find(queue string) int {
	for _, pattern := range []bool{false, true} {
		i := slices.IndexFunc(r, func(q Route) bool {
			return !q.Excludes(queue) && slices.ContainsFunc(q.Patterns, func(p Queue) bool {
				return IsPattern(p.Name) == pattern && (p.Name == queue || pattern && MatchGlob(p.Name, queue))
			})
		})
		if i >= 0 {
			return i
		}
	}
	return -1
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

// Namer returns the list that names a queue without a pattern, or -1.
func (r Routes) Namer(queue string) int {
	return slices.IndexFunc(r, func(q Route) bool { return slices.Contains(q.Names(), queue) })
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
