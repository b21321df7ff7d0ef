package inspect

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/clock"
	"github.com/goworker/goworker/internal/payload"
	"github.com/goworker/goworker/internal/resque"
	"github.com/goworker/goworker/internal/resque/failures"
)

var (
	// ErrNoFailure is returned for a failure that is not in its list any more: it was
	// retried, removed or cleared since it was listed.
	ErrNoFailure = failures.ErrNoFailure
	// ErrRetried is returned by RetryID for a failure that has been retried before. So two
	// operators who press the button make one job. To run the job once more, Get the
	// failure and Retry that.
	ErrRetried = failures.ErrRetried
)

// Failure is a job that failed, as its record describes it. A field that the record does not
// have is zero: records come from every program that speaks Resque.
type Failure struct {
	// ID names the failure as long as it is in its list, whatever else is added or
	// removed, and whichever program retries it: 28 hexadecimal digits, computed from
	// the record's content. Failures with the same content have one ID.
	ID string

	FailedAt  string // as its writer wrote it: a Resque worker's local time with an abbreviated zone
	RetriedAt string // empty if it was never retried

	Class   string          // as in the payload: for an ActiveJob that of Rails' wrapper
	Payload json.RawMessage // as it was in the queue

	Exception string // the kind of error
	Error     string // its text
	Backtrace []string

	Worker string
	Queue  string

	// Raw is the record in Redis. If it is not a failure record, Invalid says why, and only
	// Raw is set.
	Raw     []byte
	Invalid error

	Shard string // of several Redises, the one where it is

	record failures.Record
	shard  int
}

// At is when the job failed, in whole seconds; zero if FailedAt is not readable. See FailureFilter.Since.
func (f Failure) At() time.Time { return failures.Time(f.FailedAt) }

// FailedJobs returns listed failures as jobs, as Find does, so that Remove, Edit, Move and Operations can change them.
func (i *Inspector) FailedJobs(all ...Failure) []Entry {
	jobs := make([]Entry, len(all))
	for n, f := range all {
		jobs[n] = i.at(f.shard).failed(f)
		jobs[n].Shard, jobs[n].listed = f.Shard, f.record.List != ""
	}
	return jobs
}

// failed is a failure as a job that was found.
func (i *Inspector) failed(f Failure) Entry {
	raw := []byte(f.Payload)
	if f.Invalid != nil {
		raw = f.Raw
	}
	e := i.entry(Failed, f.Queue, raw)
	if e.Failure = &f; f.Invalid != nil {
		e.Payload, e.Invalid = nil, f.Invalid
	}
	return e
}

// FailureList is a view of the failures that Resque's tools show and retry. It
// holds nothing: each call asks Redis. It is safe for concurrent use.
//
// There is one list for all queues, and each queue may have its own: with WorkerSettings.FailureBackend, and for the dead
// letters of HTTP. The view is of all lists, each as if it continued the one before, and In narrows it to one.
type FailureList struct {
	in    *Inspector
	queue string // whose list, if one
	one   bool   // else all there are
	plain bool   // Retry and RetryAll push class and args only
}

// Failures returns the failures.
func (i *Inspector) Failures() *FailureList { return &FailureList{in: i} }

// In returns the view of one queue's own failure list, whichever backend the
// daemon uses. If the queue has no name, the methods of the view return
// an error.
func (l *FailureList) In(queue string) *FailureList {
	return &FailureList{in: l.in, queue: queue, one: true, plain: l.plain}
}

// KeepPayload returns the view itself.
//
// Deprecated: all retries keep the payload; see Retry. PlainPayload is Ruby's way.
func (l *FailureList) KeepPayload() *FailureList {
	return &FailureList{in: l.in, queue: l.queue, one: l.one}
}

// PlainPayload returns a view whose Retry and RetryAll push class and args only, as Ruby's own retry does.
// The job loses its id, its lock, its metadata and every other field.
func (l *FailureList) PlainPayload() *FailureList {
	return &FailureList{in: l.in, queue: l.queue, one: l.one, plain: true}
}

// of is the view of the failures of one shard.
func (l *FailureList) of(one *Inspector) *FailureList {
	return &FailureList{in: one, queue: l.queue, one: l.one, plain: l.plain}
}

// Count returns how many failures there are, retried ones included.
func (l *FailureList) Count(ctx context.Context) (int64, error) {
	if l.in.several() {
		return over(l.in, sum[int64], func(one *Inspector) (int64, error) { return l.of(one).Count(ctx) })
	}
	return overLists(ctx, l, func(s resque.Store, c redis.Conn, lists []string) (int64, error) {
		return failures.New(s).Count(c, lists...)
	})
}

// Counts returns how many failures each list has, by the queue whose list it is, where each queue has its own. "" is the list of all
// queues. Over shards they are sums.
func (l *FailureList) Counts(ctx context.Context) (map[string]int64, error) {
	counts := make(map[string]int64)
	err := l.in.each(func(one *Inspector) error {
		_, err := overLists(ctx, l.of(one), func(s resque.Store, c redis.Conn, lists []string) (int, error) {
			lengths, err := failures.New(s).Lengths(c, lists...)
			for n, length := range lengths {
				queue := strings.TrimSuffix(lists[n], resque.FailureListOf(""))
				if lists[n] == resque.FailedList {
					queue = ""
				}
				counts[queue] += length
			}
			return len(lists), err
		})
		return err
	})
	return counts, err
}

// List returns at most count failures from position start on; 0 is the oldest.
// A negative start counts from the end: List(-20, 20) are the latest twenty. A
// negative count means all that follow. Over shards it is as if each continued the one before.
//
// An element that Ruby left blank while removing it takes a position but is not
// returned, so fewer than count does not mean the end.
func (l *FailureList) List(ctx context.Context, start, count int) ([]Failure, error) {
	if l.in.several() {
		return l.listShards(ctx, start, count)
	}
	records, err := overLists(ctx, l, func(s resque.Store, c redis.Conn, lists []string) ([]failures.Record, error) {
		return failures.New(s).Page(c, lists, int64(start), int64(count))
	})
	if err != nil {
		return nil, err
	}
	return l.in.failures(records), nil
}

// failures are those that were read here.
func (i *Inspector) failures(records []failures.Record) []Failure {
	all := failuresOf(records)
	for n := range all {
		all[n].Shard, all[n].shard = i.shard(), i.number
	}
	return all
}

func failuresOf(records []failures.Record) []Failure {
	all := make([]Failure, len(records))
	for i, r := range records {
		f := r.Failure
		all[i] = Failure{
			ID:       failures.ID(r.Raw),
			FailedAt: f.FailedAt, RetriedAt: f.RetriedAt,
			Payload:   f.Payload,
			Exception: f.Exception, Error: f.Error, Backtrace: f.Backtrace,
			Worker: f.Worker, Queue: f.Queue,
			Raw: r.Raw, Invalid: r.Err,
			record: r,
		}
		if p, err := payload.Parse(f.Payload); err == nil {
			all[i].Class = p.Class
		}
	}
	return all
}

// Retry pushes the job of a listed failure to the tail of its queue again and
// marks the record as retried, in one step. The record stays in the list.
//
// The payload is whole: the id, the lock of a unique job, and every other field that its producer wrote. Only
// the number of its attempt goes, so that it has all its attempts again, and its expiry, because a
// job that is retried by hand is to run. Ruby's own retry, resque-web's button included, drops all
// fields beside class and args. What is known of a job with a result says pending again; after Ruby's retry it goes
// on to say failed.
//
// It acts on exactly this record, even if it has moved. If two programs retry it
// at once, they make one job: the later one gets ErrNoFailure, and lists the failure again
// if the job is to run once more.
func (l *FailureList) Retry(ctx context.Context, f Failure) error {
	return l.act(ctx, "Failures.Retry", f, func(s failures.Store, c redis.Conn) error {
		return s.Retry(c, f.record, clock.System.Now(), !l.plain)
	})
}

// act changes a listed failure where it is.
func (l *FailureList) act(ctx context.Context, name string, f Failure, do func(s failures.Store, c redis.Conn) error) error {
	if err := l.in.usable(); err != nil {
		return err
	}
	if f.record.List == "" {
		return errUnlisted
	}
	one := l.in.at(f.shard)
	err := one.do(ctx, func(s resque.Store, c redis.Conn) error { return do(failures.New(s), c) })
	return one.record(ctx, name, "failure "+f.ID+" of "+f.Class, once(err == nil), err)
}

// RetryAll retries, oldest first, all failures that have not been retried before,
// and returns how many these were. A job that fails again meanwhile is not retried
// again. Records that cannot be retried, because they hold no job or name no queue,
// are skipped; the error says how many, and why the first. It works in pieces of at most 500. If
// its context ends, the failures that it has retried are marked: called again, it goes on.
func (l *FailureList) RetryAll(ctx context.Context) (retried int, err error) {
	return l.retryAll(ctx, "Failures.RetryAll", FailureFilter{}, !l.plain)
}

// Remove removes a listed failure: exactly this record, even if it has
// moved. It returns ErrNoFailure if the record is not there any more.
func (l *FailureList) Remove(ctx context.Context, f Failure) error {
	return l.act(ctx, "Failures.Remove", f, func(s failures.Store, c redis.Conn) error { return s.Remove(c, f.record) })
}

// Clear removes all failures. Their jobs are gone for good.
func (l *FailureList) Clear(ctx context.Context) error {
	return l.in.each(func(one *Inspector) error {
		n, err := overLists(ctx, l.of(one), func(s resque.Store, c redis.Conn, lists []string) (n int64, err error) {
			if one.who != "" { // for the record only
				if n, err = failures.New(s).Count(c, lists...); err != nil {
					return 0, err
				}
			}
			return n, failures.New(s).Clear(c, lists...)
		})
		return one.record(ctx, "Failures.Clear", l.what(), n, err)
	})
}

// what names the lists in view.
func (l *FailureList) what() string {
	if l.one {
		return "the failures of queue " + l.queue
	}
	return "all failures"
}

// ClearRetried removes the failures that have been retried and returns how many
// these were.
func (l *FailureList) ClearRetried(ctx context.Context) (removed int, err error) {
	return l.RemoveWhere(ctx, FailureFilter{Retried: true})
}

var errUnlisted = errors.New("goworker: this failure does not come from List; only a listed one can be found again")

var errNoQueueOfFailures = errors.New("goworker: the queue whose failures are meant has no name; give it one, or leave In out for all there are")

// overLists reads the lists in view.
func overLists[T any](ctx context.Context, l *FailureList, ask func(s resque.Store, c redis.Conn, lists []string) (T, error)) (answer T, err error) {
	settings, err := l.in.redis.Settings()
	if err != nil {
		return answer, err
	}
	if l.one && l.queue == "" {
		return answer, errNoQueueOfFailures
	}
	return query(ctx, l.in, func(s resque.Store, c redis.Conn) (answer T, err error) {
		lists := []string{resque.FailureListOf(l.queue)}
		if !l.one {
			lists, err = failures.New(s).Lists(c)
			if err != nil && (settings.MultiQueue || !resque.IsWrongType(err)) {
				return answer, err
			}
		}
		return ask(s, c, lists)
	})
}
