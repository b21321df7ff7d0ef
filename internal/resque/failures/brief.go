package failures

import (
	"encoding/hex"
	"fmt"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/fingerprint"
	"github.com/goworker/goworker/internal/payload"
	"github.com/goworker/goworker/internal/resque"
)

// NoRecord is the pattern of elements that are no failure records.
const NoRecord = "‹no failure record›"

// BinaryID is an ID as bytes.
type BinaryID [idSize / 2]byte

// String is the ID.
func (id BinaryID) String() string { return hex.EncodeToString(id[:]) }

// Brief is what an index of failures needs of a record.
type Brief struct {
	ID      BinaryID  // zero for a blank element
	At      time.Time // when it failed; zero if that is not readable
	Retried bool
	Queue   string

	Class, Exception, Error string // Class is an ActiveJob's own
	Valid                   bool   // it is a failure record
}

// BriefOf reads a record.
func BriefOf(raw []byte) (b Brief) {
	if len(raw) == 0 {
		return b
	}
	var f payload.FailureFields
	id := ""
	if b.Valid = f.Scan(raw); b.Valid {
		id = timeID(f) + recordDigest(f)
		b.Queue, b.Exception, b.Error = payload.Text(f.Queue), payload.Text(f.Exception), payload.Text(f.Error)
		b.Class, b.Retried, b.At = JobClass(f.Payload), payload.Text(f.RetriedAt) != "", Time(payload.Text(f.FailedAt))
	} else {
		id = ID(raw)
	}
	hex.Decode(b.ID[:], []byte(id))
	return b
}

// Group returns the fingerprint of a record, and its pattern.
func (b Brief) Group() (fingerprint.Key, string) {
	pattern := NoRecord
	if b.Valid {
		pattern = fingerprint.Pattern(b.Error)
	}
	return fingerprint.Of(b.Class, b.Exception, pattern), pattern
}

// GroupOf is Brief.Group of fields that were scanned; nil: they are those of no failure record.
func GroupOf(f *payload.FailureFields) fingerprint.Key {
	var b Brief
	if f != nil {
		b = Brief{Class: JobClass(f.Payload), Exception: payload.Text(f.Exception), Error: payload.Text(f.Error), Valid: true}
	}
	key, _ := b.Group()
	return key
}

// Window is a stretch of a list: the positions from From up to To.
type Window struct {
	List     string
	From, To int64
}

// Windows returns the elements of stretches of lists, in one round trip. The caller bounds how long they are.
func (s Store) Windows(c redis.Conn, windows ...Window) ([][][]byte, error) {
	b := &resque.Batch{Conn: c}
	for _, w := range windows {
		b.Send("LRANGE", s.store.KeyOfFailures(w.List), w.From, w.To-1)
	}
	replies, err := b.Receive()
	if err != nil {
		return nil, fmt.Errorf("reading failures: %w", err)
	}
	all := make([][][]byte, len(windows))
	for i, reply := range replies {
		if all[i], err = redis.ByteSlices(resque.Answer(reply)); err != nil {
			return nil, fmt.Errorf("reading failure list %s: %w", windows[i].List, resque.Explain(err))
		}
	}
	return all, nil
}

// Elements returns the element at the beginning of each window, in one round trip; nil: it is there no more. It reads about a MiB, so it may
// return only the first ones of them, and one at least.
func (s Store) Elements(c redis.Conn, places ...Window) ([][]byte, error) {
	stretches := make([]resque.Stretch, len(places))
	for i, w := range places {
		stretches[i] = resque.Stretch{Key: s.store.KeyOfFailures(w.List), First: w.From, Last: w.From}
	}
	read, err := s.store.ReadStretches(c, len(places), stretches)
	if err != nil {
		return nil, fmt.Errorf("reading failures: %w", resque.Explain(err))
	}
	all := make([][]byte, len(read))
	for i, one := range read {
		if one.Err != nil {
			return nil, fmt.Errorf("reading failure list %s: %w", places[i].List, resque.Explain(one.Err))
		}
		if len(one.Elements) > 0 {
			all[i] = one.Elements[0]
		}
	}
	return all, nil
}

// Lengths returns how many elements each list has, in one round trip.
func (s Store) Lengths(c redis.Conn, lists ...string) ([]int64, error) {
	if len(lists) == 0 {
		return nil, nil
	}
	return s.lengths(c, lists)
}

// RecordOf is an element of a list as a record.
func RecordOf(list string, index int64, raw []byte) Record {
	r := Record{List: list, Index: index, Raw: raw}
	r.Failure, r.Err = payload.ParseFailure(raw)
	return r
}
