package checks

import (
	"time"

	"github.com/goworker/goworker/internal/clock"
	"github.com/goworker/goworker/internal/resque"
)

// A long list is looked at from both ends first, because what is there is next, or new. Then the walk goes on from the head as
// long as its check has time.

// edge is how many elements at each end of a list are always looked at.
const edge = 100

// shareOf is when a check's part of the time that is left is over.
func (l *look) shareOf(part int) time.Time {
	left := clock.Until(clock.System, l.run.until)
	return clock.System.Now().Add(left / time.Duration(part))
}

// walkList calls each for elements of a list until the time is over. It returns how many it has seen, and how many there are.
func walkList(l *look, key string, until time.Time, each func(raw []byte)) (seen, all int64, err error) {
	if all, err = l.store.ListLength(l.conn, key); err != nil {
		return 0, 0, err
	}
	window := func(from, n int64) (bytes int64, err error) {
		raws, err := l.store.ListWindow(l.conn, key, from, n)
		for _, raw := range raws {
			bytes += int64(len(raw))
			each(raw)
		}
		seen += int64(len(raws))
		return bytes, err
	}
	size := min(all, edge)
	bytes, err := window(0, size)
	if last := min(all-size, edge); err == nil && last > 0 {
		_, err = window(-last, last)
	}
	for at := size; err == nil && at < all-edge; at += size {
		if l.Err() != nil || !clock.System.Now().Before(until) {
			break
		}
		size = min(resque.PageSize(size, int(size), bytes), all-edge-at)
		bytes, err = window(at, size)
	}
	return min(seen, all), all, err
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
