package resque

import (
	"fmt"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/failure"
)

// This file has the key of what a long job leaves for its next run, and how a running job reaches it. The feature
// cursor says what is written.

var (
	cursorScript = script("cursor")
	recallScript = script("recall")
)

// CursorTTL is how long the cursor of a job stays after it was used last, or from when the job's next run is due.
const CursorTTL = 7 * 24 * time.Hour

// CursorField is the field of a job's cursor that says how far the job is.
const CursorField = "cursor"

// cursorOwn is how many fields a cursor has beside those of OnceField: the CursorField, and which run wrote it.
const cursorOwn = 3

// MostOnce is how many blocks of a job are kept at most.
const MostOnce = 1000

// OnceField is the field of a job's cursor with what a block has returned.
func OnceField(name string) string { return "once:" + name }

// KeyOfCursor is the hash that a long job leaves for its next run.
func (s Store) KeyOfCursor(id string) string { return s.ns + "go:cursor:" + id }

// CursorKey is KeyOfCursor as a key of effects.
func (s Store) CursorKey(id string) Key { return hashKey(s.KeyOfCursor(id)) }

// ErrCursorFull is returned for a block of a job that has run too many of them.
var ErrCursorFull = fmt.Errorf("the job has run %d blocks by Once, and no more are kept; give a loop a cursor instead", MostOnce)

// CursorValue is a value that a running job leaves.
type CursorValue struct {
	ID      string
	Ticket  int64
	Field   string
	Value   []byte
	Version int64 // of the CursorField, from 1 on in each run; 0: of a block
}

// WriteCursors writes values of running jobs of a process. refused says for each why it was not written, nil if it was:
// failure.ErrNotHeld if the process no longer holds the job.
func (s Store) WriteCursors(c redis.Conn, process string, values []CursorValue) (refused []error, err error) {
	var a Call
	a.Key(s.inflight(process))
	a.Arg(process, cursorOwn+MostOnce)
	for i := range values {
		v := &values[i]
		a.Key(s.KeyOfCursor(v.ID))
		a.Arg(v.Ticket, v.Field, v.Value, v.Version, CursorTTL.Milliseconds())
	}
	answers, err := redis.Values(a.Do(c, cursorScript))
	if err == nil && len(answers) != len(values) {
		err = fmt.Errorf("%d answers to %d values", len(answers), len(values))
	}
	if err != nil {
		return nil, fmt.Errorf("writing how far %s are: %w", Plural(len(values), "running job"), Explain(err))
	}
	refused = make([]error, len(values))
	for i, answer := range answers {
		switch answer := answer.(type) {
		case int64:
			refused[i] = map[int64]error{0: failure.ErrNotHeld, -1: ErrCursorFull}[answer]
		case []byte:
			refused[i] = s.cursorRefused(values[i].ID, redis.Error(answer))
		}
	}
	return refused, nil
}

// ReadCursor reads a value that a running job may have, nil if there is none, and begins the TTL again. full says that it has
// room for no more blocks. The error is failure.ErrNotHeld if the process no longer holds the job.
func (s Store) ReadCursor(c redis.Conn, process string, ticket int64, id, field string) (value []byte, full bool, err error) {
	var a Call
	a.Key(s.inflight(process))
	a.Key(s.KeyOfCursor(id))
	a.Arg(ticket, field, CursorTTL.Milliseconds())
	reply, err := a.Do(c, recallScript)
	if reply == int64(0) {
		return nil, false, failure.ErrNotHeld
	}
	var fields int
	if values, err := redis.Values(reply, err); err != nil {
		return nil, false, s.cursorRefused(id, err)
	} else if _, err := redis.Scan(values, &value, &fields); err != nil {
		return nil, false, s.cursorRefused(id, err)
	}
	return value, fields >= cursorOwn+MostOnce, nil
}

// cursorRefused explains why a cursor was not read or written.
func (s Store) cursorRefused(id string, err error) error {
	if IsWrongType(err) {
		return &KeyTypeError{Key: s.KeyOfCursor(id), Want: "hash", Err: err}
	}
	return fmt.Errorf("reading or writing the cursor of job %s: %w", id, Explain(err))
}

// JobCursor is what a job has left for its next run.
type JobCursor struct {
	Value string            // JSON, "": it has said nothing
	Once  map[string]string // what its blocks have returned, as JSON, by their names
}

// CursorOf returns what a job has left for its next run. There says whether there is anything.
func (s Store) CursorOf(c redis.Conn, id string) (cursor JobCursor, there bool, err error) {
	fields, err := redis.StringMap(c.Do("HGETALL", s.KeyOfCursor(id)))
	if err != nil {
		return cursor, false, s.cursorRefused(id, err)
	}
	cursor = JobCursor{Value: fields[CursorField], Once: make(map[string]string)}
	for field, value := range fields {
		if name, ok := strings.CutPrefix(field, OnceField("")); ok {
			cursor.Once[name] = value
		}
	}
	return cursor, len(fields) > 0, nil
}
