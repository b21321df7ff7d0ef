package resque

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/goworker/goworker/internal/payload"
)

var (
	retryScript  = script("retry")
	removeScript = script("remove")
)

// FailedList is the name of the list all failures go to, unless each queue has
// its own.
const FailedList = "failed"

// removeTogether is how many records one script removes. To take any out of the middle
// of a million costs Redis about 30 ms, and each of them 0.1 ms more.
const removeTogether = 250

// readAgain is how often a page is read again of whose records none could be retried or
// removed, since they moved.
const readAgain = 5

var (
	// ErrNoFailure is returned for a failure record that is not in its list any
	// more: somebody else has removed, cleared or retried it.
	ErrNoFailure = errors.New("the failure record is not there any more; somebody may have retried or removed it, list the failures again")
	// ErrRetried is returned for a failure record that was to be retried by its id
	// and has been retried before.
	ErrRetried = errors.New("the failure has been retried already; to run its job once more, get the failure and retry that")
)

// FailureListOf is the name of the list that failures of a queue go to where
// each queue has its own.
func FailureListOf(queue string) string { return queue + "_failed" }

// FailureRecord is one element of a failure list: where it was read, and its
// bytes, by which it is found again when others have moved it.
type FailureRecord struct {
	List  string
	Index int64
	Raw   []byte

	Failure payload.Failure
	Err     error // why Raw is not a failure record; Failure is zero then
}

// FailureLists returns the names of all failure lists of the backend with a list
// for each queue, sorted. The common list is among them: what failed before the
// backend was chosen is there.
func (s Store) FailureLists(c redis.Conn) ([]string, error) {
	names, err := redis.Strings(c.Do("SMEMBERS", s.failedQueues()))
	if err != nil {
		return nil, fmt.Errorf("reading the set of failure lists: %w", explain(err))
	}
	return failureLists(names), nil
}

func failureLists(names []string) []string {
	names = append(names, FailedList)
	slices.Sort(names)
	return slices.Compact(names)
}

// FailureCount returns how many failures are in the lists.
func (s Store) FailureCount(c redis.Conn, lists ...string) (int64, error) {
	lengths, err := s.failureLengths(c, lists)
	var total int64
	for _, n := range lengths {
		total += n
	}
	return total, err
}

func (s Store) failureLengths(c redis.Conn, lists []string) ([]int64, error) {
	b := batch{c: c}
	for _, list := range lists {
		b.send("LLEN", s.list(list))
	}
	replies, err := b.receive()
	if err != nil {
		return nil, fmt.Errorf("counting failures: %w", err)
	}
	lengths := make([]int64, len(lists))
	for i, reply := range replies {
		if lengths[i], err = redis.Int64(answer(reply)); err != nil {
			return nil, fmt.Errorf("counting failures in list %s: %w", lists[i], explain(err))
		}
	}
	return lengths, nil
}

// Failures returns at most count failures from position start on, the oldest
// being 0. Several lists are read as if each continued the one before. A
// negative start counts from the end, a negative count means all that follow.
//
// The blank element that a Ruby process leaves where it died removing a record
// is not returned, though it takes a position.
func (s Store) Failures(c redis.Conn, lists []string, start, count int64) ([]FailureRecord, error) {
	lengths, err := s.failureLengths(c, lists)
	if err != nil {
		return nil, err
	}
	var total int64
	for _, n := range lengths {
		total += n
	}
	if start < 0 {
		start = max(0, total+start)
	}
	if count < 0 || count > total-start {
		count = total - start
	}
	var records []FailureRecord
	for i, length := range lengths {
		if n := min(length-start, count); n > 0 {
			page, err := s.failurePage(c, lists[i], start, n)
			if err != nil {
				return nil, err
			}
			records = append(records, page...)
			count -= n
		}
		start = max(0, start-length)
	}
	return records, nil
}

func (s Store) failurePage(c redis.Conn, list string, start, count int64) (records []FailureRecord, err error) {
	w := s.walk(c, list)
	for end := start + count; start < end; {
		raws, err := w.read(start, min(start+w.size, end))
		if err != nil {
			return nil, err
		}
		if len(raws) == 0 {
			break
		}
		records = append(records, w.choose(page{start, raws}, func([]byte) bool { return true })...)
		start += int64(len(raws))
	}
	return records, nil
}

// Retry puts the job of a failure back at the tail of its queue and marks the
// record with retried_at. The record stays, as Resque has it. The queue gets
// class and args only, as from Ruby, or, to keep an id or whatever else the
// payload holds, the whole payload.
//
// Whoever retries the same record twice has read it anew in between: the second
// of two at a time gets ErrNoFailure.
func (s Store) Retry(c redis.Conn, r FailureRecord, at time.Time, whole bool) error {
	a, err := s.retry(r, at, whole)
	if err != nil {
		return fmt.Errorf("retrying a failure of list %s: %w", r.List, err)
	}
	a.arg("seek")
	found, err := redis.Bool(a.do(c, retryScript))
	if err == nil && !found {
		err = ErrNoFailure
	}
	if err != nil {
		return fmt.Errorf("retrying a failure of list %s: %w", r.List, explain(err))
	}
	return nil
}

func (s Store) retry(r FailureRecord, at time.Time, whole bool) (a call, err error) {
	if r.Err != nil {
		return a, fmt.Errorf("the record cannot be read: %w", r.Err)
	}
	if r.Failure.Queue == "" {
		return a, errors.New("the record names no queue; push its job yourself")
	}
	raw, err := payload.ForRetry(r.Failure.Payload, whole)
	if err != nil {
		return a, err
	}
	marked, err := payload.MarkRetried(r.Raw, payload.FailedAt(at))
	if err != nil {
		return a, err
	}
	a.key(s.list(r.List))
	a.key(s.queues())
	a.key(s.queue(r.Failure.Queue))
	a.arg(r.Index, r.Raw, marked, r.Failure.Queue, raw)
	return a, nil
}

// RetryAll retries, oldest first, the failures that are in the list now, fit, and have
// not been retried yet, or those retried before if the filter asks for them, and returns
// how many it did. Records that cannot be retried do not keep it from the others; the
// error tells how many and why.
func (s Store) RetryAll(c redis.Conn, list string, filter FailureFilter, at time.Time, whole bool) (int, error) {
	total, err := s.FailureCount(c, list)
	if err != nil {
		return 0, err
	}
	m, now := filter.matcher(), payload.FailedAt(at)
	retried, refused, attempts := 0, 0, 0
	var first error
	w := s.walk(c, list)
	err = w.forward(total, func(p page) (bool, error) {
		records := slices.DeleteFunc(w.choose(p, m.fits), func(r FailureRecord) bool {
			return r.Failure.RetriedAt == now || r.Failure.RetriedAt != "" && !filter.Retried
		})
		done, errs, err := s.retryPage(c, records, at, whole)
		retried += done
		if err != nil {
			return false, err
		}
		if i := slices.IndexFunc(errs, hopeless); i >= 0 {
			return false, explain(errs[i])
		}
		if attempts++; done+len(errs) < len(records) && (done > 0 || attempts < readAgain) {
			return false, nil // some have moved
		}
		attempts = 0
		if refused += len(errs); first == nil && len(errs) > 0 {
			first = errs[0]
		}
		return true, nil
	})
	if err != nil {
		return retried, fmt.Errorf("retrying the failures of list %s: %w", list, err)
	}
	if first != nil {
		return retried, fmt.Errorf("%s of list %s could not be retried, the first because: %w",
			plural(refused, "failure"), list, explain(first))
	}
	return retried, nil
}

// retryPage retries the records of a page in one round trip, each by itself.
func (s Store) retryPage(c redis.Conn, records []FailureRecord, at time.Time, whole bool) (done int, errs []error, err error) {
	b := batch{c: c}
	for _, r := range records {
		a, err := s.retry(r, at, whole)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		b.eval(retryScript, a)
	}
	replies, err := b.receive()
	for _, reply := range replies {
		if found, refused := redis.Bool(answer(reply)); refused != nil {
			errs = append(errs, refused)
		} else if found {
			done++
		}
	}
	return done, errs, err
}

// hopeless tells whether the next record would be refused as this one was: the
// reason is Redis, not the record or its queue.
func hopeless(err error) bool {
	_, refused := err.(redis.Error)
	return refused && !isWrongType(err)
}

// RemoveFailure removes exactly this record.
func (s Store) RemoveFailure(c redis.Conn, r FailureRecord) error {
	n, err := s.removeFailures(c, r.List, []FailureRecord{r}, "seek")
	if err == nil && n == 0 {
		err = fmt.Errorf("removing a failure of list %s: %w", r.List, ErrNoFailure)
	}
	return err
}

// removeFailures removes records of one page; seek is "seek" or "".
func (s Store) removeFailures(c redis.Conn, list string, records []FailureRecord, seek string) (int, error) {
	var a call
	a.key(s.list(list))
	a.arg(seek)
	for _, r := range records {
		a.arg(r.Index, r.Raw)
	}
	n, err := redis.Int(a.do(c, removeScript))
	if err != nil {
		return 0, fmt.Errorf("removing %s of list %s: %w", plural(len(records), "failure"), list, explain(err))
	}
	return n, nil
}

// ClearFailures removes all failures of the lists.
func (s Store) ClearFailures(c redis.Conn, lists ...string) error {
	keys := redis.Args{}
	for _, list := range lists {
		keys = keys.Add(s.list(list))
	}
	if len(keys) == 0 {
		return nil
	}
	if _, err := c.Do("DEL", keys...); err != nil {
		return fmt.Errorf("clearing the failures: %w", explain(err))
	}
	return nil
}

// RemoveAll removes the failures of a list that fit and returns how many there were. It
// goes from the end to the front, so that what it removes does not move what it has yet
// to read.
func (s Store) RemoveAll(c redis.Conn, list string, filter FailureFilter) (int, error) {
	end, err := s.FailureCount(c, list)
	var found []FailureRecord // and not removed yet, the last first; all before end is yet to be read
	removed, attempts, m, w := 0, 0, filter.matcher(), s.walk(c, list)
	for err == nil && (end > 0 || len(found) > 0) {
		if end > 0 && len(found) < removeTogether {
			from := end
			end = 0
			err = w.backward(from, "", func(p page) (bool, error) {
				records := w.choose(p, m.fits)
				slices.Reverse(records)
				found = append(found, records...)
				if len(found) < removeTogether {
					return true, nil
				}
				end = p.start
				return false, nil
			})
		}
		piece := found[:min(len(found), removeTogether)]
		if err != nil || len(piece) == 0 {
			break
		}
		last := piece[0].Index
		slices.Reverse(piece)
		var n int
		n, err = s.removeFailures(c, list, piece, "")
		removed += n
		found = found[len(piece):]
		if attempts++; n < len(piece) && (n > 0 || attempts < readAgain) { // some have moved
			end, found = last+1, nil
		} else {
			attempts = 0
		}
	}
	return removed, err
}
