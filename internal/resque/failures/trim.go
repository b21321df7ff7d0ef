package failures

import (
	"fmt"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/goworker/goworker/internal/payload"
	"github.com/goworker/goworker/internal/resque"
)

var trimScript = resque.LoadScript(scriptFiles, "trim")

// trimTogether is how many failures are cut off the front of a list in one step.
const trimTogether = 1000

// Trim removes some of the oldest failures of a list that has more than most,
// and returns how many. Call it again until it returns 0.
func (s Store) Trim(c redis.Conn, list string, most int64) (int, error) {
	var a resque.Call
	a.Key(s.store.KeyOfFailures(list))
	a.Arg(most, trimTogether)
	n, err := redis.Int(a.Do(c, trimScript))
	if err != nil {
		return 0, fmt.Errorf("removing the oldest failures of list %s: %w", list, resque.Explain(err))
	}
	return n, nil
}

// Expire removes some of the failures that are older than a time, from position start on.
// It returns how many, and where to continue; -1 is the end.
//
// Failures are in the order in which they were filed, so Expire ends at the first that is
// young enough. A failure without a readable time stays. One whose time is in a zone we do not
// know stays longer: see zoneDoubt.
func (s Store) Expire(c redis.Conn, list string, before time.Time, start int64) (removed int, next int64, err error) {
	raws, err := s.walk(c, list).read(start, start+removeTogether)
	if err != nil {
		return 0, -1, err
	}
	var old []Record
	next = start
	for i, raw := range raws {
		latest := latestFailure(raw)
		if !latest.IsZero() && !latest.Before(before) {
			next = -1
			break
		}
		if latest.IsZero() {
			next++
		} else {
			old = append(old, Record{List: list, Index: start + int64(i), Raw: raw})
		}
	}
	if len(raws) < removeTogether {
		next = -1
	}
	if len(old) > 0 {
		removed, err = s.remove(c, list, old, "")
	}
	return removed, next, err
}

// latestFailure is the latest time at which a job can have failed by its record; zero if
// the record has no readable time.
func latestFailure(raw []byte) time.Time {
	var f payload.FailureFields
	f.Scan(raw)
	at, sure := failureTime(payload.Text(f.FailedAt), time.Local)
	if !sure {
		at = at.Add(zoneDoubt)
	}
	return at
}
