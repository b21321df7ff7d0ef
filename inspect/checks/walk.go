package checks

import (
	"slices"

	"github.com/goworker/goworker/internal/clock"
	"github.com/goworker/goworker/internal/resque"
)

// Some checks are about keys that nothing lists. One SCAN over the server's keys serves them all, in half of the time that
// is left, so that the checks after it still look.

// mostWalked is how many keys of one kind the walk keeps.
const mostWalked = 100_000

type walked struct {
	names map[resque.KeyKind][]string
	seen  map[resque.KeyKind]float64
}

// keys returns the names in all keys of a kind, as far as the walk has seen them.
func keys(l *look, kind resque.KeyKind) ([]string, error) {
	w, err := read(l, "walk", func() (walked, error) { return walk(l) })
	if err != nil {
		return nil, err
	}
	l.seen = min(l.seen, w.seen[kind])
	return w.names[kind], nil
}

func walk(l *look) (walked, error) {
	w := walked{make(map[resque.KeyKind][]string), make(map[resque.KeyKind]float64)}
	left := clock.Until(clock.System, l.run.until)
	until := clock.System.Now().Add(left / 2)
	all, err := l.store.ServerKeys(l.conn)
	if _, _, denied := l.cannot(err); err != nil && !denied {
		return w, err
	}
	dropped, share := make(map[resque.KeyKind]bool), 1.0
	for cursor, steps := uint64(0), 1; ; steps++ {
		page, next, err := l.store.WalkKeys(l.conn, cursor)
		if err != nil {
			return w, err
		}
		for _, key := range page {
			kind, name := l.store.KeyOf(key)
			switch {
			case kind == resque.OtherKey:
			case len(w.names[kind]) < mostWalked:
				w.names[kind] = append(w.names[kind], name)
			default:
				dropped[kind] = true
			}
		}
		if cursor = next; cursor == 0 {
			break
		}
		if l.Err() != nil || !clock.System.Now().Before(until) {
			share = 0
			if all > 0 {
				share = min(float64(steps)/float64(all), 0.99)
			}
			break
		}
	}
	for kind := resque.OtherKey; kind <= resque.WorkerKey; kind++ {
		slices.Sort(w.names[kind])
		w.names[kind] = slices.Compact(w.names[kind]) // a SCAN may return a key twice
		if w.seen[kind] = share; dropped[kind] {
			w.seen[kind] = min(share, 0.99)
		}
	}
	return w, l.Err()
}
