package metrics

import (
	"strings"
	"sync"

	"github.com/goworker/goworker/internal/resque/history"
)

// How many names of a kind have a label of their own. Jobs of further ones have the label Other.
const (
	MostClasses = 100
	MostQueues  = 100
	MostPairs   = 500 // of a queue and a class
	MostOthers  = 100 // limits, schedules, parts and webhooks, of each
)

// Labels in place of names.
const (
	Other   = history.Other   // of names beyond the bounds
	Unknown = history.Unknown // of classes that are not registered: any producer may invent them
)

// names gives labels to names. A name that has one keeps it, so that no counter goes back. It is safe for concurrent use.
type names struct {
	mu    sync.Mutex
	known map[string]map[string]struct{} // by kind
}

// label is the label of a name, valid UTF-8 and not too long.
func (n *names) label(kind, name string, most int) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.of(kind, name, most)
}

func (n *names) of(kind, name string, most int) string {
	if name == Other || name == Unknown {
		return name
	}
	name = history.Name(strings.ToValidUTF8(name, "\uFFFD"))
	if n.known == nil {
		n.known = make(map[string]map[string]struct{})
	}
	all := n.known[kind]
	if all == nil {
		all = make(map[string]struct{})
		n.known[kind] = all
	}
	if _, ok := all[name]; ok {
		return name
	}
	if len(all) >= most {
		return Other
	}
	all[strings.Clone(name)] = struct{}{}
	return name
}

// pair labels a queue and a class. Where there are too many pairs, both are Other.
func (n *names) pair(kind, queue, class string) [2]string {
	n.mu.Lock()
	defer n.mu.Unlock()
	p := [2]string{n.of("queue", queue, MostQueues), n.of("class", class, MostClasses)}
	if p == [2]string{Other, Other} || n.of(kind, p[0]+"\x00"+p[1], MostPairs) != Other {
		return p
	}
	return [2]string{Other, Other}
}
