package failures

import (
	"cmp"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"
)

// Search returns at most count failures that match, list after list, the newest of each list first.
// after is "" to begin, and then the text that Search returned, which is "" at the end. If other
// programs remove failures meanwhile, Search misses none, and may return some twice.
func (s Store) Search(c redis.Conn, lists []string, filter Filter, after string, count int) (found []Record, next string, err error) {
	from, err := parseCursor(after)
	if err != nil {
		return nil, "", err
	}
	m := filter.matcher()
	for _, list := range lists {
		if list < from.list {
			continue
		}
		end := from.index
		if list != from.list || after == "" {
			if end, err = s.Count(c, list); err != nil {
				return nil, "", err
			}
		}
		w := s.walk(c, list)
		err = w.backward(end, func(p page) (bool, error) {
			records := w.choose(p, m.fits)
			slices.Reverse(records)
			found = append(found, records...)
			return len(found) <= count, nil
		})
		if err != nil {
			return nil, "", err
		}
		if len(found) > count {
			found = found[:count]
			return found, cursorAfter(found[count-1]), nil
		}
	}
	return found, "", nil
}

// ErrCursor is in the error for a place to go on from that no page ended with.
var ErrCursor = errors.New("no page of this search ended there")

// cursor is the progress of a search: the position of the last failure it returned.
type cursor struct {
	index int64
	list  string
}

// Begin is where a walk through failures begins, as "" is.
const Begin = "0::"

func cursorAfter(r Record) string {
	return fmt.Sprintf("%d::%s", r.Index, r.List)
}

func parseCursor(text string) (cursor, error) {
	if text == "" {
		return cursor{}, nil
	}
	parts := strings.SplitN(text, ":", 3)
	if len(parts) == 3 {
		if index, err := strconv.ParseInt(parts[0], 10, 64); err == nil && index >= 0 {
			return cursor{index, parts[2]}, nil // between them older releases had the failure's id
		}
	}
	return cursor{}, fmt.Errorf("%q is not where a search of failures goes on: %w", text, ErrCursor)
}

// Groups counts the failures that match by class and exception, most first.
func (s Store) Groups(c redis.Conn, lists []string, filter Filter) ([]Group, error) {
	m, all := filter.matcher(), make(groups)
	for _, list := range lists {
		end, err := s.Count(c, list)
		if err != nil {
			return nil, err
		}
		err = s.walk(c, list).backward(end, func(p page) (bool, error) {
			for _, raw := range p.raws {
				if m.fits(raw) {
					all.add(raw, m.local)
				}
			}
			return true, nil
		})
		if err != nil {
			return nil, err
		}
	}
	list := make([]Group, 0, len(all))
	for _, g := range all {
		list = append(list, *g)
	}
	slices.SortFunc(list, func(a, b Group) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Class, b.Class), cmp.Compare(a.Exception, b.Exception))
	})
	return list, nil
}

// Walk looks at failures from the newest to the oldest, in a bounded number: at most so many, and at
// most so many that fit. It returns how many it looked at, and where to go on, or "".
func (s Store) Walk(c redis.Conn, list, after string, most, looks int, fits func(raw []byte) bool) (found []Record, looked int, next string, err error) {
	from, err := parseCursor(after)
	if err != nil {
		return nil, 0, "", err
	}
	if after == "" {
		if from.index, err = s.Count(c, list); err != nil {
			return nil, 0, "", err
		}
	}
	w := s.walk(c, list)
	err = w.backward(from.index, func(p page) (bool, error) {
		records := w.choose(p, fits)
		slices.Reverse(records)
		for _, r := range records {
			if len(found) == most {
				next = cursorAfter(found[most-1])
				looked += int(p.start) + len(p.raws) - int(found[most-1].Index)
				return false, nil
			}
			found = append(found, r)
		}
		looked += len(p.raws)
		if looked < looks || p.start == 0 {
			return true, nil
		}
		next = fmt.Sprintf("%d::%s", p.start, list)
		return false, nil
	})
	return found, looked, next, err
}

// notAnID is the error for a text that cannot be the id of a failure. It is ErrNoFailure too.
type notAnID string

func (t notAnID) Error() string {
	return fmt.Sprintf("%s is no failure id (28 hex digits)", string(t))
}

func (t notAnID) Is(target error) bool { return target == ErrNoFailure }

// CheckID returns an error if a text cannot be the id of a failure.
func CheckID(text string) error {
	if _, err := hex.DecodeString(text); err != nil || len(text) != idSize || strings.ToLower(text) != text {
		return notAnID(text)
	}
	return nil
}

// missing is the error for an id that Find has left.
func missing(doing, id string, reason error) error {
	if err := CheckID(id); err != nil {
		return err
	}
	return fmt.Errorf("%s failure %s: %w", doing, id, reason)
}

// Find visits the newest failure with each of the given ids. visit returns false to get the next
// older failure of this id, if there is one. Find returns the ids that are left.
func (s Store) Find(c redis.Conn, lists []string, ids []string, visit func(Record) (bool, error)) ([]string, error) {
	wanted, times := make(map[string]bool), make(map[string]bool)
	for _, id := range ids {
		if len(id) == idSize {
			wanted[id], times[id[:idTimeDigits]] = true, true
		}
	}
	for _, list := range lists {
		if len(wanted) == 0 {
			break
		}
		end, err := s.Count(c, list)
		if err != nil {
			return nil, err
		}
		w := s.walk(c, list)
		err = w.backward(end, func(p page) (bool, error) {
			records := w.choose(p, func(raw []byte) bool { return mayBe(raw, times) && wanted[ID(raw)] })
			for _, r := range slices.Backward(records) {
				id := ID(r.Raw)
				if !wanted[id] {
					continue // a twin
				}
				enough, err := visit(r)
				if err != nil {
					return false, err
				}
				if enough {
					delete(wanted, id)
				}
			}
			return len(wanted) > 0, nil
		})
		if err != nil {
			return nil, err
		}
	}
	return slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return len(id) == idSize && !wanted[id] }), nil
}

// RetryByID retries one failure for each of the given ids, one that has not been
// retried before, and returns how many it retried. For the other ids the error is ErrNoFailure or
// ErrRetried.
func (s Store) RetryByID(c redis.Conn, lists, ids []string, at time.Time, whole bool) (int, error) {
	retried := 0
	before := make(map[string]bool)
	var errs []error
	left, err := s.Find(c, lists, ids, func(r Record) (bool, error) {
		if r.Failure.RetriedAt != "" {
			before[ID(r.Raw)] = true
			return false, nil
		}
		switch err := s.Retry(c, r, at, whole); {
		case err == nil:
			retried++
		case c.Err() != nil:
			return false, err
		case errors.Is(err, ErrNoFailure): // another program was faster
			return false, nil
		default:
			errs = append(errs, err)
		}
		return true, nil
	})
	for _, id := range left {
		reason := ErrNoFailure
		if before[id] {
			reason = ErrRetried
		}
		errs = append(errs, missing("retrying", id, reason))
	}
	return retried, errors.Join(append(errs, err)...)
}

// RemoveByID removes one failure for each of the given ids and returns how many it removed.
// For the other ids the error is ErrNoFailure.
func (s Store) RemoveByID(c redis.Conn, lists, ids []string) (int, error) {
	removed := 0
	left, err := s.Find(c, lists, ids, func(r Record) (bool, error) {
		switch err := s.Remove(c, r); {
		case err == nil:
			removed++
			return true, nil
		case errors.Is(err, ErrNoFailure):
			return false, nil
		default:
			return false, err
		}
	})
	errs := []error{err}
	for _, id := range left {
		errs = append(errs, missing("removing", id, ErrNoFailure))
	}
	return removed, errors.Join(errs...)
}
