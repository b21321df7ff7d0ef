// Package operations knows the keys and the scripts of operations: changes of many jobs in steps, each of which is one script
// that changes jobs, keeps in the bin what it takes away, and counts that in the operation's record.
package operations

import (
	"embed"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/resque"
)

//go:embed scripts
var scriptFiles embed.FS

// Scripts returns the scripts of this package by name, as they are sent to Redis.
func Scripts() map[string]string { return resque.ScriptsOf(scriptFiles) }

const (
	// Kept is how long a record stays after it was last written.
	Kept = 7 * 24 * time.Hour
	// BinKept is how long jobs stay in the bin.
	BinKept = 24 * time.Hour
	// Lease is how long an operation belongs to its runner after a step.
	Lease = 10 * time.Second
	// MostRunning is how many operations run at a time.
	MostRunning = 2
	// MostListed is how many operations are listed.
	MostListed = 1000
	// StepJobs is how many jobs one step changes at most.
	StepJobs = 250
)

var (
	beginScript   = resque.LoadScript(scriptFiles, "begin")
	acquireScript = resque.LoadScript(scriptFiles, "acquire")
	releaseScript = resque.LoadScript(scriptFiles, "release")
	emptyScript   = resque.LoadScript(scriptFiles, "empty")
)

// Store is resque's Store with the words of operations.
type Store struct{ resque.Store }

// New returns the Store of operations in a namespace.
func New(s resque.Store) Store { return Store{s} }

// OperationKey is the hash of an operation: what it is to do, how far it is, and what it did.
func (s Store) OperationKey(id string) resque.Key { return s.HashKey("operation:" + id) }

// OperationsKey is the sorted set of the operations: since when there is each, in ms.
func (s Store) OperationsKey() resque.Key { return s.ZSetKey("operations") }

// OperatingKey is the sorted set of the operations that a program runs: until when each is its, in ms.
func (s Store) OperatingKey() resque.Key { return s.ZSetKey("operating") }

// BinKey is a list of jobs that an operation took away from one place.
func (s Store) BinKey(id, name string) resque.Key { return s.ListKey("bin:" + id + ":" + name) }

// Begin records an operation. It reports false if there is one with this id.
func (s Store) Begin(c redis.Conn, id string, fields map[string]string) (bool, error) {
	var a resque.Call
	a.Key(s.OperationKey(id).String())
	a.Key(s.OperationsKey().String())
	a.Arg(id, Kept.Milliseconds(), MostListed)
	for name, value := range fields {
		a.Arg(name, value)
	}
	begun, err := redis.Bool(a.Do(c, beginScript))
	return begun, explain("recording operation", id, err)
}

// Errors of Acquire and of steps.
var (
	ErrNone    = errors.New("there is no such operation, or its record was removed")
	ErrBusy    = errors.New("another program runs it")
	ErrLost    = errors.New("another program runs it now, or its lease ran out")
	ErrStopped = errors.New("it was stopped")
	ErrFull    = errors.New("as many operations run as may")
	ErrOver    = errors.New("it has ended")
)

// Acquire makes a runner run an operation, or take back what it did.
func (s Store) Acquire(c redis.Conn, id, runner string, undo bool) error {
	var a resque.Call
	a.Key(s.OperationKey(id).String())
	a.Key(s.OperatingKey().String())
	what := "run"
	if undo {
		what = "undo"
	}
	a.Arg(id, runner, Lease.Milliseconds(), MostRunning, Kept.Milliseconds(), what)
	answer, err := redis.Strings(a.Do(c, acquireScript))
	if err != nil {
		return explain("running operation", id, err)
	}
	return refusal(answer)
}

// Release ends the running: by the runner, or by an operator for "". state is what it is from now on; "": the same.
func (s Store) Release(c redis.Conn, id, runner, state, why string) error {
	var a resque.Call
	a.Key(s.OperationKey(id).String())
	a.Key(s.OperatingKey().String())
	a.Arg(id, runner, state, why)
	answer, err := redis.Strings(a.Do(c, releaseScript))
	if err != nil {
		return explain("stopping operation", id, err)
	}
	return refusal(answer)
}

func refusal(answer []string) error {
	if len(answer) == 0 {
		return resque.ErrAnswer
	}
	switch answer[0] {
	case "ok":
		return nil
	case "none":
		return ErrNone
	case "busy":
		return ErrBusy
	case "lost":
		return ErrLost
	case "stopped":
		return ErrStopped
	case "over":
		if len(answer) > 1 && answer[1] == "undoing" {
			return fmt.Errorf("%w: it is being taken back", ErrOver)
		}
		return fmt.Errorf("%w: it is %s", ErrOver, strings.Join(answer[1:], " "))
	case "full":
		return fmt.Errorf("%w: %s", ErrFull, strings.Join(answer[1:], ", "))
	}
	return resque.ErrAnswer
}

func explain(doing, id string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s %s: %w", doing, id, resque.Explain(err))
}

// Record is an operation as Redis has it.
type Record struct {
	ID     string
	Fields map[string]string
	Leased bool // a program runs it
	Now    time.Time
}

// Number returns a field as a number; 0 if it is none.
func (r Record) Number(field string) int64 {
	n, _ := strconv.ParseInt(r.Fields[field], 10, 64)
	return n
}

// Time returns a field as a time; the zero time if it is none.
func (r Record) Time(field string) time.Time {
	if ms := r.Number(field); ms != 0 {
		return time.UnixMilli(ms)
	}
	return time.Time{}
}

// Bins returns the lists of the operation in the bin by their names, and how many jobs each has.
func (r Record) Bins() map[string]int64 {
	bins := make(map[string]int64)
	for field := range r.Fields {
		if name, ok := strings.CutPrefix(field, "bin:"); ok && r.Number(field) > 0 {
			bins[name] = r.Number(field)
		}
	}
	return bins
}

// Read returns the records of operations that are there.
func (s Store) Read(c redis.Conn, ids ...string) ([]Record, error) {
	now, err := s.Now(c)
	if err != nil {
		return nil, err
	}
	b := resque.Batch{Conn: c}
	for _, id := range ids {
		b.Send("HGETALL", s.OperationKey(id).String())
		b.Send("ZSCORE", s.OperatingKey().String(), id)
	}
	replies, err := b.Receive()
	if err != nil {
		return nil, explain("reading operation", strings.Join(ids, ", "), err)
	}
	var all []Record
	for n, id := range ids {
		fields, err := redis.StringMap(resque.Answer(replies[2*n]))
		if err != nil && len(ids) == 1 {
			return nil, explain("reading operation", id, err)
		}
		if len(fields) == 0 { // it is over, or its key has another type, which must not hide the others
			continue
		}
		lease, _ := redis.Float64(resque.Answer(replies[2*n+1]))
		all = append(all, Record{id, fields, int64(lease) >= now.UnixMilli(), now})
	}
	return all, nil
}

// IDs returns the ids of the operations, the newest first.
func (s Store) IDs(c redis.Conn) ([]string, error) {
	ids, err := redis.Strings(c.Do("ZRANGE", s.OperationsKey().String(), 0, -1))
	if err != nil {
		return nil, fmt.Errorf("reading which operations there are: %w", resque.Explain(err))
	}
	for i, j := 0, len(ids)-1; i < j; i, j = i+1, j-1 {
		ids[i], ids[j] = ids[j], ids[i]
	}
	return ids, nil
}

// Empty removes lists of an operation from the bin, and returns how many jobs were in them.
func (s Store) Empty(c redis.Conn, id string, names []string) (jobs int64, err error) {
	for start := 0; start < len(names); start += StepJobs {
		var a resque.Call
		a.Key(s.OperationKey(id).String())
		for _, name := range names[start:min(start+StepJobs, len(names))] {
			a.Key(s.BinKey(id, name).String())
			a.Arg(name)
		}
		n, err := redis.Int64(a.Do(c, emptyScript))
		if jobs += n; err != nil {
			return jobs, explain("emptying the bin of operation", id, err)
		}
	}
	return jobs, nil
}

// Page returns elements of a list in the bin.
func (s Store) Page(c redis.Conn, id, name string, start, count int) ([][]byte, error) {
	page, err := redis.ByteSlices(c.Do("LRANGE", s.BinKey(id, name).String(), start, start+count-1))
	return page, explain("reading the bin of operation", id, err)
}

// Took removes elements of the list of jobs that have ended, after these were written down as cancelled.
func (s Store) Took(c redis.Conn, id string, elements [][]byte) error {
	b := resque.Batch{Conn: c}
	for _, element := range elements {
		b.Send("LREM", s.BinKey(id, EndedName).String(), 1, element)
	}
	replies, err := b.Receive()
	for _, reply := range replies {
		if err == nil {
			_, err = resque.Answer(reply)
		}
	}
	return explain("ending removed jobs of operation", id, err)
}

// Add adds to a field of a record.
func (s Store) Add(c redis.Conn, id, field string, n int64) error {
	_, err := c.Do("HINCRBY", s.OperationKey(id).String(), field, n)
	return explain("writing operation", id, err)
}
