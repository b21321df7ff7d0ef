package inspect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/clock"
	"github.com/goworker/goworker/internal/resque"
	"github.com/goworker/goworker/internal/resque/failures"
)

// FailureFilter chooses failures. A zero field matches all; a failure is chosen
// if it matches every field that is set. A call returns an error if fields contradict each
// other.
type FailureFilter struct {
	Class     string // the job's class; of an ActiveJob its own, not that of Rails' wrapper
	Queue     string // the queue the job came from
	Exception string // the kind of error
	Text      string // a part of the error's text, in any case of its letters

	// Since and Until bound when the job failed: at Since or later, and before Until. A
	// record has whole seconds in the local time of its writer. If it has no zone, or
	// an abbreviation that this machine does not know, such as EST in Berlin, the
	// time counts as our local time. A failure without a readable time matches
	// neither.
	Since, Until time.Time

	Retried   bool // only those that were retried
	Unretried bool // only those that were not

	Query *Query // only those that match it; nil: all. Its Places do not count
}

// check returns an error if the filter contradicts itself, so that it could match nothing.
func (f FailureFilter) check() error {
	switch {
	case f.Retried && f.Unretried:
		return errors.New("goworker: the filter is for failures that are both Retried and Unretried; set one of them")
	case !f.Since.IsZero() && !f.Until.IsZero() && !f.Since.Before(f.Until):
		return fmt.Errorf("goworker: the filter's Since, %s, is not before its Until, %s", f.Since.Format(time.RFC3339), f.Until.Format(time.RFC3339))
	}
	return nil
}

// prepared is the filter as package failures takes it.
func (f FailureFilter) prepared(i *Inspector) (failures.Filter, error) {
	filter := failures.Filter{
		Class: f.Class, Queue: f.Queue, Exception: f.Exception, Text: f.Text,
		Since: f.Since, Until: f.Until, Retried: f.Retried, Unretried: f.Unretried,
	}
	if err := f.check(); err != nil {
		return filter, err
	}
	if i.mask != nil && (f.Exception != "" || f.Text != "") {
		filter.Exception, filter.Text = "", ""
		filter.Fits = func(record []byte) bool { return f.compares(i.mask, record) }
	}
	if f.Query == nil {
		return filter, nil
	}
	settings, err := i.redis.Settings()
	if err != nil {
		return filter, err
	}
	q := *f.Query
	q.Places = nil
	m, err := q.matcher(settings, i.mask)
	if err != nil {
		return filter, err
	}
	if before := filter.Fits; before != nil {
		filter.Fits = func(record []byte) bool { return before(record) && m.fitsRecord(record) }
	} else {
		filter.Fits = m.fitsRecord
	}
	return filter, nil
}

// String says what the filter chooses, for the audit: " class=Mail retried".
func (f FailureFilter) String() string {
	var b strings.Builder
	for _, part := range [][2]string{{"class", f.Class}, {"queue", f.Queue}, {"exception", f.Exception}, {"text", f.Text}} {
		if part[1] != "" {
			fmt.Fprintf(&b, " %s=%q", part[0], part[1])
		}
	}
	for name, t := range map[string]time.Time{"since": f.Since, "until": f.Until} {
		if !t.IsZero() {
			fmt.Fprintf(&b, " %s=%s", name, t.UTC().Format(time.RFC3339))
		}
	}
	if f.Retried {
		b.WriteString(" retried")
	}
	if f.Unretried {
		b.WriteString(" unretried")
	}
	if f.Query != nil {
		b.WriteString(" " + f.Query.String())
	}
	return b.String()
}

// FailureGroup counts the failures of one class that failed with one kind of error.
type FailureGroup struct {
	Class     string // of an ActiveJob its own; "" for what is no job
	Exception string
	Count     int64

	// First and Last are when the oldest and the newest of them failed; see
	// FailureFilter.Since. Zero if none has a readable time.
	First, Last time.Time
}

// Get returns the failure with this ID, the newest if there are several. The error is
// ErrNoFailure if there is none.
//
// Get and the methods below read the lists in pages of at most 1 MiB or a thousand
// failures, from the newest to the oldest. A million failures take seconds, but block Redis
// for no more than a few milliseconds at a time, unless a method says otherwise.
func (l *FailureList) Get(ctx context.Context, id string) (Failure, error) {
	if l.in.several() {
		var errs []error
		for _, one := range l.in.shards {
			f, err := l.of(one).Get(ctx, id)
			if err == nil {
				return f, nil
			}
			if !errors.Is(err, ErrNoFailure) {
				err = one.about(err)
			}
			errs = append(errs, err)
		}
		return Failure{}, firstFound(errs)
	}
	return overLists(ctx, l, func(s resque.Store, c redis.Conn, lists []string) (found Failure, err error) {
		left, err := failures.New(s).Find(c, lists, []string{id}, func(r failures.Record) (bool, error) {
			found = l.in.failures([]failures.Record{r})[0]
			return true, nil
		})
		if err == nil && len(left) > 0 {
			if err = failures.CheckID(id); err == nil {
				err = ErrNoFailure
			}
		}
		return found, err
	})
}

// ByID returns the failures with these IDs that are there, in the order of the IDs, and reads the lists once for all of them. An ID that is
// given twice means two failures. Of several with one ID those that were not retried come first.
func (l *FailureList) ByID(ctx context.Context, ids ...string) ([]Failure, error) {
	if l.in.several() {
		all, err := over(l.in, joinFailures, func(one *Inspector) ([]Failure, error) { return l.of(one).ByID(ctx, ids...) })
		return chosenByID(all, ids), err
	}
	return overLists(ctx, l, func(s resque.Store, c redis.Conn, lists []string) (found []Failure, err error) {
		var records []failures.Record
		fresh, wanted := make(map[string]int), make(map[string]int)
		for _, id := range ids {
			wanted[id]++
		}
		_, err = failures.New(s).Find(c, lists, ids, func(r failures.Record) (bool, error) {
			id := failures.ID(r.Raw)
			records = append(records, r)
			if r.Failure.RetriedAt == "" {
				fresh[id]++
			}
			return fresh[id] >= wanted[id], nil
		})
		return chosenByID(l.in.failures(records), ids), err
	})
}

func joinFailures(a, b []Failure) []Failure { return append(a, b...) }

// chosenByID gives each ID a failure that has it, those that were not retried first.
func chosenByID(all []Failure, ids []string) (chosen []Failure) {
	slices.SortStableFunc(all, func(a, b Failure) int { return cmp.Compare(min(1, len(a.RetriedAt)), min(1, len(b.RetriedAt))) })
	used := make([]bool, len(all))
	for _, id := range ids {
		n := slices.IndexFunc(all, func(f Failure) bool { return f.ID == id })
		for n >= 0 && n < len(all) && (used[n] || all[n].ID != id) {
			n++
		}
		if n >= 0 && n < len(all) {
			used[n] = true
			chosen = append(chosen, all[n])
		}
	}
	return chosen
}

// Search returns at most count of the matching failures, the newest first; if each
// queue has its own list, list after list. after is "" to begin with, and then the next that
// the page before returned; next is "" when there are no more.
//
// Failures that are added, removed or retried meanwhile make it miss no other. Where some
// are removed between two pages it may return one twice.
func (l *FailureList) Search(ctx context.Context, filter FailureFilter, after string, count int) (found []Failure, next string, err error) {
	if err := l.in.usable(); err != nil {
		return nil, "", err
	}
	if err := filter.check(); err != nil {
		return nil, "", err
	}
	if count < 1 {
		return nil, "", errors.New("goworker: a search of failures needs a count of at least 1")
	}
	if l.in.several() {
		return l.searchShards(ctx, filter, after, count)
	}
	found, err = overLists(ctx, l, func(s resque.Store, c redis.Conn, lists []string) ([]Failure, error) {
		chosen, err := filter.prepared(l.in)
		if err != nil {
			return nil, err
		}
		records, after, err := failures.New(s).Search(c, lists, chosen, after, count)
		next = after
		return l.in.failures(records), err
	})
	return found, next, err
}

// Groups counts the matching failures by class and exception, the most frequent first.
// A failure that moves meanwhile may be counted twice.
func (l *FailureList) Groups(ctx context.Context, filter FailureFilter) ([]FailureGroup, error) {
	if l.in.several() {
		return over(l.in, mergeGroups, func(one *Inspector) ([]FailureGroup, error) { return l.of(one).Groups(ctx, filter) })
	}
	return overLists(ctx, l, func(s resque.Store, c redis.Conn, lists []string) ([]FailureGroup, error) {
		chosen, err := filter.prepared(l.in)
		if err != nil {
			return nil, err
		}
		groups, err := failures.New(s).Groups(c, lists, chosen)
		all := make([]FailureGroup, len(groups))
		for i, g := range groups {
			all[i] = FailureGroup(g)
		}
		return all, err
	})
}

// RetryID retries failures by their IDs and returns how many it retried. In one step it pushes
// each to the tail of its queue and marks its record as retried. The payload is whole, except
// for the number of its attempt. If an ID stands for several failures, one of
// them is retried.
//
// The error joins one for each ID that was not retried: ErrNoFailure or ErrRetried
// among them, or that the record cannot be retried. The others are retried all the same.
func (l *FailureList) RetryID(ctx context.Context, ids ...string) (retried int, err error) {
	return l.byID(ctx, "Failures.RetryID", ids, func(s failures.Store, c redis.Conn, lists, ids []string) (int, error) {
		return s.RetryByID(c, lists, ids, clock.System.Now(), true)
	})
}

// byID changes failures by their IDs. Over shards each is sought on one after the other.
func (l *FailureList) byID(ctx context.Context, name string, ids []string, change func(s failures.Store, c redis.Conn, lists, ids []string) (int, error)) (int, error) {
	if !l.in.several() {
		n, err := overLists(ctx, l, func(s resque.Store, c redis.Conn, lists []string) (int, error) {
			return change(failures.New(s), c, lists, ids)
		})
		return n, l.in.record(ctx, name, strings.Join(ids, " "), int64(n), err)
	}
	if err := l.in.usable(); err != nil {
		return 0, err
	}
	total, errs := 0, []error(nil)
	for _, id := range ids {
		var here []error
		for _, one := range l.in.shards {
			n, err := l.of(one).byID(ctx, name, []string{id}, change)
			total += n
			here = append(here, err)
			if err == nil || !errors.Is(err, ErrNoFailure) {
				break
			}
		}
		errs = append(errs, firstFound(here))
	}
	return total, errors.Join(errs...)
}

// firstFound returns the answer about a failure that was sought on shards: of the first where it was, or
// an error that it is on none.
func firstFound(errs []error) error {
	for _, err := range errs {
		if !errors.Is(err, ErrNoFailure) {
			return err
		}
	}
	return errs[0]
}

// RetryWhere is RetryID for all matching failures that have not been retried before, or,
// with filter.Retried, for those that have: the oldest first. Records that cannot be
// retried are skipped; the error says how many, and why the first. It works in pieces of at most 500. If
// its context ends, called again it goes on with those that are left; for a step at a time there is RetryStep.
func (l *FailureList) RetryWhere(ctx context.Context, filter FailureFilter) (retried int, err error) {
	return l.retryAll(ctx, "Failures.RetryWhere", filter, true)
}

func (l *FailureList) retryAll(ctx context.Context, name string, filter FailureFilter, whole bool) (retried int, err error) {
	if l.in.several() {
		return over(l.in, sum[int], func(one *Inspector) (int, error) { return l.of(one).retryAll(ctx, name, filter, whole) })
	}
	total, err := overLists(ctx, l, func(s resque.Store, c redis.Conn, lists []string) (int, error) {
		chosen, err := filter.prepared(l.in)
		if err != nil {
			return 0, err
		}
		var errs []error
		total := 0
		for _, list := range lists {
			n, err := failures.New(s).RetryAll(c, list, chosen, clock.System.Now(), whole)
			total += n
			errs = append(errs, err)
			if c.Err() != nil {
				break
			}
		}
		return total, errors.Join(errs...)
	})
	return total, l.in.record(ctx, name, l.what()+filter.String(), int64(total), err)
}

// RemoveID removes failures by their IDs, one for each, and returns how many it removed.
// Their jobs are gone for good. The error joins ErrNoFailure for each ID that is not
// there; the others are removed all the same.
func (l *FailureList) RemoveID(ctx context.Context, ids ...string) (removed int, err error) {
	return l.byID(ctx, "Failures.RemoveID", ids, failures.Store.RemoveByID)
}

// RemoveWhere removes all matching failures and returns how many these were. Their jobs
// are gone for good. From the middle of a list of a million it removes at most 250 at a
// time, which each time costs Redis some 30 ms. If its context ends, called again it goes on with those
// that are left; for a step at a time there is RemoveStep.
func (l *FailureList) RemoveWhere(ctx context.Context, filter FailureFilter) (removed int, err error) {
	if l.in.several() {
		return over(l.in, sum[int], func(one *Inspector) (int, error) { return l.of(one).RemoveWhere(ctx, filter) })
	}
	total, err := overLists(ctx, l, func(s resque.Store, c redis.Conn, lists []string) (int, error) {
		chosen, err := filter.prepared(l.in)
		if err != nil {
			return 0, err
		}
		total := 0
		for _, list := range lists {
			n, err := failures.New(s).RemoveAll(c, list, chosen)
			total += n
			if err != nil {
				return total, err
			}
		}
		return total, nil
	})
	return total, l.in.record(ctx, "Failures.RemoveWhere", l.what()+filter.String(), int64(total), err)
}

// RetryStep retries matching failures that have not been retried before, at most 500 of them, the newest
// first. Call it again with the Next that it returned, until that is "". It looks at about 10,000 failures
// at most.
func (l *FailureList) RetryStep(ctx context.Context, filter FailureFilter, after string) (Done, error) {
	filter.Unretried = filter.Unretried || !filter.Retried
	return l.step(ctx, "Failures.RetryStep", filter, after, func(s failures.Store, c redis.Conn, records []failures.Record) (int, []error, error) {
		return s.RetryRecords(c, records, clock.System.Now(), !l.plain)
	})
}

// RemoveStep is RetryStep for RemoveWhere: it removes matching failures for good.
func (l *FailureList) RemoveStep(ctx context.Context, filter FailureFilter, after string) (Done, error) {
	return l.step(ctx, "Failures.RemoveStep", filter, after, func(s failures.Store, c redis.Conn, records []failures.Record) (int, []error, error) {
		n, err := s.RemoveRecords(c, records)
		return n, nil, err
	})
}

func (l *FailureList) step(ctx context.Context, name string, filter FailureFilter, after string,
	change func(s failures.Store, c redis.Conn, records []failures.Record) (int, []error, error)) (Done, error) {
	if err := l.in.usable(); err != nil {
		return Done{}, err
	}
	if err := filter.check(); err != nil {
		return Done{}, err
	}
	if l.in.several() {
		at, rest, err := l.in.shardOf(after)
		if err != nil {
			return Done{}, err
		}
		done, err := l.of(l.in.shards[at]).step(ctx, name, filter, rest, change)
		if (done.Next == "" || err != nil && done.Looked == 0) && at+1 < len(l.in.shards) { // a shard that is away hides no other
			done.Next = l.in.onShard(at+1, "")
		} else if done.Next != "" {
			done.Next = l.in.onShard(at, done.Next)
		}
		return done, l.in.shards[at].about(err)
	}
	done, err := overLists(ctx, l, func(s resque.Store, c redis.Conn, lists []string) (done Done, err error) {
		chosen, err := filter.prepared(l.in)
		if err != nil {
			return done, err
		}
		slices.Sort(lists)
		records, looked, next, err := failures.New(s).Step(c, lists, chosen, after, MaxPage, maxLooked)
		done.Looked, done.Next = looked, next
		if err != nil {
			return done, err
		}
		done.Changed, done.Refused, err = change(failures.New(s), c, records)
		return done, err
	})
	if err != nil { // failures of this step may be unchanged, so the next one is this one again
		done.Next = cmp.Or(after, failures.Begin)
	}
	return done, l.in.record(ctx, name, l.what()+filter.String(), int64(done.Changed), err)
}
