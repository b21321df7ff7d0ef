package queues

import "slices"

// Routes are the queue lists of several places. Each queue belongs to one of them.
type Routes []Spec

// Find returns the list to which a queue belongs: the first that names it, else the first
// with a pattern for it. So a list for all other queues may be anywhere. -1 means none.
func (r Routes) Find(queue string) int {
	for _, pattern := range []bool{false, true} {
		i := slices.IndexFunc(r, func(q Spec) bool {
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

// Finder returns a Find that remembers its answers. It is for one goroutine.
func (r Routes) Finder() func(queue string) int {
	found := make(map[string]int)
	return func(queue string) int {
		i, known := found[queue]
		if !known {
			i = r.Find(queue)
			found[queue] = i
		}
		return i
	}
}

// Namer returns the list that names a queue without a pattern, or -1.
func (r Routes) Namer(queue string) int {
	return slices.IndexFunc(r, func(q Spec) bool { return slices.Contains(q.Names(), queue) })
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
