package failures

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/gomodule/redigo/redis"
)

// Step looks at a bounded number of failures that match, list after list, the newest of each first. It
// returns at most so many, how many it looked at, and where to go on, or "".
func (s Store) Step(c redis.Conn, lists []string, filter Filter, after string, most, looks int) (found []Record, looked int, next string, err error) {
	from, err := parseCursor(after)
	if err != nil {
		return nil, 0, "", err
	}
	m := filter.matcher()
	for at, list := range lists {
		if list < from.list {
			continue
		}
		if list != from.list {
			after = ""
		}
		records, n, rest, err := s.Walk(c, list, after, most-len(found), looks-looked, m.fits)
		found, looked = append(found, records...), looked+n
		if err != nil || rest != "" {
			return found, looked, rest, err
		}
		if at+1 < len(lists) && (len(found) == most || looked >= looks) {
			return found, looked, fmt.Sprintf("%d::%s", int64(math.MaxInt64), lists[at+1]), nil
		}
	}
	return found, looked, "", nil
}

// RetryRecords retries records, each for itself, the last first. It returns how many it retried, and why
// others cannot be.
func (s Store) RetryRecords(c redis.Conn, records []Record, at time.Time, whole bool) (done int, refused []error, err error) {
	records = slices.Clone(records)
	slices.Reverse(records)
	return s.retryPage(c, records, at, whole)
}

// RemoveRecords removes records that were read last first, and returns how many of them were there.
func (s Store) RemoveRecords(c redis.Conn, records []Record) (removed int, err error) {
	for len(records) > 0 {
		n := 0
		for n < min(len(records), removeTogether) && records[n].List == records[0].List {
			n++
		}
		piece := slices.Clone(records[:n])
		slices.Reverse(piece)
		done, err := s.remove(c, piece[0].List, piece, "")
		if removed += done; err != nil {
			return removed, err
		}
		records = records[n:]
	}
	return removed, nil
}
