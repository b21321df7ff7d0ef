// Package failures reads and changes the lists of failed jobs: Resque's, and those of
// its backend with a list for each queue.
package failures

import (
	"cmp"
	"embed"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/goworker/goworker/internal/payload"
	"github.com/goworker/goworker/internal/prefix"
	"github.com/goworker/goworker/internal/resque"
)

//go:embed scripts/*.lua
var scriptFiles embed.FS

// Scripts returns the scripts of this package by name.
func Scripts() map[string]string { return resque.ScriptsOf(scriptFiles) }

// Store is the failure lists of one namespace. Like resque.Store it is a value.
type Store struct {
	store  resque.Store
	onPage func() error // see OnPage; nil: there is nothing to do
}

// New returns the failure lists of a Store's namespace.
func New(s resque.Store) Store { return Store{store: s} }

// OnPage has f called after each page that is read of a list. An error of f ends the reading.
func (s Store) OnPage(f func() error) Store {
	s.onPage = f
	return s
}

var (
	retryScript  = resque.LoadScript(scriptFiles, "retry")
	removeScript = resque.LoadScript(scriptFiles, "remove")
)

// removeTogether is how many records one script removes. To remove one from the middle
// of a million costs Redis about 30 ms, and each further one 0.1 ms.
const removeTogether = 250

// readAgain is how often a page is read again after none of its records could be retried or
// removed because they had moved.
const readAgain = 5

var (
	// ErrNoFailure is returned for a failure record that is not in its list any
	// more: another program has removed, cleared or retried it.
	ErrNoFailure = prefix.New("the failure record is not there any more; another operator may have retried or removed it, list the failures again")
	// ErrRetried is returned when a failure record is to be retried by its id
	// and has been retried before.
	ErrRetried = prefix.New("the failure has been retried already; to run its job once more, get the failure and retry that")
)

// Record is one element of a failure list: its position when it was read, and its
// bytes, by which it is found again after it moved.
type Record struct {
	List  string
	Index int64
	Raw   []byte

	Failure payload.Failure
	Err     error // why Raw is not a failure record; Failure is zero then
}

// Lists returns the names of all failure lists, sorted: the common one, and those of single queues. After an error it returns the
// common one.
func (s Store) Lists(c redis.Conn) ([]string, error) {
	names, err := redis.Strings(c.Do("SMEMBERS", s.store.KeyOfFailureLists()))
	if err != nil {
		err = fmt.Errorf("reading the set of failure lists: %w", resque.Explain(err))
	}
	return resque.FailureLists(names), err
}

// Count returns how many failures are in the lists.
func (s Store) Count(c redis.Conn, lists ...string) (int64, error) {
	lengths, err := s.lengths(c, lists)
	var total int64
	for _, n := range lengths {
		total += n
	}
	return total, err
}

func (s Store) lengths(c redis.Conn, lists []string) ([]int64, error) {
	b := &resque.Batch{Conn: c}
	for _, list := range lists {
		b.Send("LLEN", s.store.KeyOfFailures(list))
	}
	replies, err := b.Receive()
	if err != nil {
		return nil, fmt.Errorf("counting failures: %w", err)
	}
	lengths := make([]int64, len(lists))
	for i, reply := range replies {
		if lengths[i], err = redis.Int64(resque.Answer(reply)); err != nil {
			return nil, fmt.Errorf("counting failures in list %s: %w", lists[i], resque.Explain(err))
		}
	}
	return lengths, nil
}

// Page returns at most count failures from position start on, the oldest
// being 0. Several lists are read as if each continued the one before. A
// negative start counts from the end, a negative count means all that follow.
//
// A Ruby process that dies while it removes a record leaves a blank element. Page does not
// return it, though it takes a position.
func (s Store) Page(c redis.Conn, lists []string, start, count int64) ([]Record, error) {
	lengths, err := s.lengths(c, lists)
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
	var records []Record
	for i, length := range lengths {
		if n := min(length-start, count); n > 0 {
			page, err := s.readPage(c, lists[i], start, n)
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

func (s Store) readPage(c redis.Conn, list string, start, count int64) (records []Record, err error) {
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

// Retry adds the job of a failure to the tail of its queue and marks the
// record with retried_at. The record stays, as in Resque. The queue gets
// class and args only, as from Ruby, or with whole the whole payload, which keeps an id and
// other fields.
//
// To retry a record twice, read it again in between. If two processes retry the same record,
// the second gets ErrNoFailure.
func (s Store) Retry(c redis.Conn, r Record, at time.Time, whole bool) error {
	return s.retry(c, r, at, whole, Again{})
}

// Again says where and as what a failed job runs again.
type Again struct {
	Queue   string // "": the record's
	Payload []byte // nil: as Retry makes it
	Head    bool   // of the queue
}

// RetryAs is Retry with the whole payload, for another end of the queue, or another queue or payload.
func (s Store) RetryAs(c redis.Conn, r Record, at time.Time, as Again) error {
	return s.retry(c, r, at, true, as)
}

func (s Store) retry(c redis.Conn, r Record, at time.Time, whole bool, as Again) error {
	a, err := s.retryCall(r, at, whole, as)
	if err != nil {
		return fmt.Errorf("retrying a failure of list %s: %w", r.List, err)
	}
	end := "tail"
	if as.Head {
		end = "head"
	}
	a.Arg("seek", end)
	found, err := redis.Bool(a.Do(c, retryScript))
	if err == nil && !found {
		err = ErrNoFailure
	}
	if err != nil {
		return fmt.Errorf("retrying a failure of list %s: %w", r.List, resque.Explain(err))
	}
	return nil
}

func (s Store) retryCall(r Record, at time.Time, whole bool, as Again) (a resque.Call, err error) {
	if r.Err != nil {
		return a, fmt.Errorf("the record cannot be read: %w", r.Err)
	}
	queue, raw := cmp.Or(as.Queue, r.Failure.Queue), as.Payload
	if queue == "" {
		return a, errors.New("the record names no queue; push its job yourself")
	}
	if raw == nil {
		if raw, err = payload.ForRetry(r.Failure.Payload, whole); err != nil {
			return a, err
		}
	}
	marked, err := payload.MarkRetried(r.Raw, payload.FailedAt(at))
	if err != nil {
		return a, err
	}
	a.Key(s.store.KeyOfFailures(r.List))
	a.Key(s.store.KeyOfNames(queue))
	a.Key(s.store.KeyOfQueue(queue))
	document := s.store.RetriedDocument(&a, raw)
	a.Arg(r.Index, r.Raw, marked, queue, raw, document.Class, document.Stays)
	return a, nil
}

// RetryAll retries, oldest first, the failures in the list that match and have not been retried
// yet, or those retried before if the filter asks for them. It returns how many it retried.
// Records that cannot be retried do not stop it; the error says how many they are and why.
func (s Store) RetryAll(c redis.Conn, list string, filter Filter, at time.Time, whole bool) (int, error) {
	total, err := s.Count(c, list)
	if err != nil {
		return 0, err
	}
	m, now := filter.matcher(), payload.FailedAt(at)
	retried, refused, attempts := 0, 0, 0
	var first error
	w := s.walk(c, list)
	err = w.forward(total, func(p page) (bool, error) {
		records := slices.DeleteFunc(w.choose(p, m.fits), func(r Record) bool {
			return r.Failure.RetriedAt == now || r.Failure.RetriedAt != "" && !filter.Retried
		})
		done, errs, err := s.retryPage(c, records, at, whole)
		retried += done
		if err != nil {
			return false, err
		}
		if i := slices.IndexFunc(errs, hopeless); i >= 0 {
			return false, resque.Explain(errs[i])
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
			resque.Plural(refused, "failure"), list, resque.Explain(first))
	}
	return retried, nil
}

// retryPage retries the records of a page in one round trip, each for itself.
func (s Store) retryPage(c redis.Conn, records []Record, at time.Time, whole bool) (done int, errs []error, err error) {
	b := &resque.Batch{Conn: c}
	for _, r := range records {
		a, err := s.retryCall(r, at, whole, Again{})
		if err != nil {
			errs = append(errs, err)
			continue
		}
		b.Eval(retryScript, a)
	}
	replies, err := b.Receive()
	for _, reply := range replies {
		if found, refused := redis.Bool(resque.Answer(reply)); refused != nil {
			errs = append(errs, refused)
		} else if found {
			done++
		}
	}
	return done, errs, err
}

// hopeless reports whether Redis would refuse the next record too: the
// reason is Redis, not the record or its queue.
func hopeless(err error) bool {
	_, refused := err.(redis.Error)
	return refused && !resque.IsWrongType(err)
}

// Remove removes exactly this record.
func (s Store) Remove(c redis.Conn, r Record) error {
	n, err := s.remove(c, r.List, []Record{r}, "seek")
	if err == nil && n == 0 {
		err = fmt.Errorf("removing a failure of list %s: %w", r.List, ErrNoFailure)
	}
	return err
}

// remove removes records of one page; seek is "seek" or "".
func (s Store) remove(c redis.Conn, list string, records []Record, seek string) (int, error) {
	a := s.removeCall(list, records, seek)
	removed, err := redis.Ints(a.Do(c, removeScript))
	if err != nil {
		return 0, fmt.Errorf("removing %s of list %s: %w", resque.Plural(len(records), "failure"), list, resque.Explain(err))
	}
	return len(removed), nil
}

// RetryCall is the call of retry.lua, or of the same in a step of an operation. It does not search the whole list.
func (s Store) RetryCall(r Record, at time.Time, as Again) (resque.Call, error) {
	a, err := s.retryCall(r, at, true, as)
	if err == nil {
		end := "tail"
		if as.Head {
			end = "head"
		}
		a.Arg("", end)
	}
	return a, err
}

// RemoveCall is the call of remove.lua, or of the same in a step of an operation, for records of one list, the foremost first.
// It does not search the whole list.
func (s Store) RemoveCall(records []Record) resque.Call {
	return s.removeCall(records[0].List, records, "")
}

func (s Store) removeCall(list string, records []Record, seek string) (a resque.Call) {
	a.Key(s.store.KeyOfFailures(list))
	a.Arg(seek)
	for _, r := range records {
		a.Arg(r.Index, r.Raw)
	}
	return a
}

// Clear removes all failures of the lists.
func (s Store) Clear(c redis.Conn, lists ...string) error {
	keys := redis.Args{}
	for _, list := range lists {
		keys = keys.Add(s.store.KeyOfFailures(list))
	}
	if len(keys) == 0 {
		return nil
	}
	if _, err := c.Do("DEL", keys...); err != nil {
		return fmt.Errorf("clearing the failures: %w", resque.Explain(err))
	}
	return nil
}

// RemoveAll removes the failures of a list that match and returns how many there were. It
// goes from the end to the front, so that a removal does not move the elements it has yet
// to read.
func (s Store) RemoveAll(c redis.Conn, list string, filter Filter) (int, error) {
	end, err := s.Count(c, list)
	var found []Record // found and not removed yet, the last first; all before end is yet to be read
	removed, attempts, m, w := 0, 0, filter.matcher(), s.walk(c, list)
	for err == nil && (end > 0 || len(found) > 0) {
		if end > 0 && len(found) < removeTogether {
			from := end
			end = 0
			err = w.backward(from, func(p page) (bool, error) {
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
		n, err = s.remove(c, list, piece, "")
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
