package resque

import (
	"fmt"

	"github.com/gomodule/redigo/redis"
)

// This file has the keys of what becomes of a job, by its id, and how a running job writes there. The feature
// results says what is written.

var noteScript = script("note")

const (
	resultSpace   = "go:result:"
	progressSpace = "go:progress:"
)

// KeyOfResult is the document of a job: the hash that says what becomes of it.
func (s Store) KeyOfResult(id string) string { return s.ns + resultSpace + id }

// KeyOfProgress is how far a job says that it is, as JSON.
func (s Store) KeyOfProgress(id string) string { return s.ns + progressSpace + id }

// KeyOfJobLogs is the list of the log lines of a job that were captured.
func (s Store) KeyOfJobLogs(id string) string { return s.ns + "go:logs:" + id }

// DocumentKeys returns the keys of a job's document, its progress and, if asked, its log lines. What uses them proves
// the type of the document itself. The type of the other two is worth no refusal.
func (s Store) DocumentKeys(id string, logs bool) []Key {
	both := s.ns + resultSpace + id + s.ns + progressSpace + id // one text, since each job with a result has these
	first := len(s.ns) + len(resultSpace) + len(id)
	keys := []Key{anyKey(both[:first]), anyKey(both[first:])}
	if logs {
		keys = append(keys, anyKey(s.KeyOfJobLogs(id)))
	}
	return keys
}

// StartDocument returns a document with these fields, which takes the place of an earlier one of the id. It lives for
// ttl milliseconds. Where used is false no job had the id before, so there is nothing to remove.
func (s Store) StartDocument(id string, used bool, ttl int64, fields ...any) NewHash {
	h := NewHash{TTL: ttl, Fields: fields}
	if used {
		for _, k := range s.DocumentKeys(id, true) {
			h.Keys = append(h.Keys, k.name)
		}
	} else {
		h.Keys = []string{s.KeyOfResult(id)}
	}
	return h
}

// Note is what a running job says of itself.
type Note struct {
	ID       string
	Ticket   int64
	TTL      int64    // ms
	Begun    []any    // fields and values, of a job whose document does not say yet that it runs
	Progress []byte   // nil: nothing new
	Before   int      // how many log lines of this run came earlier
	Lines    [][]byte // captured log lines behind those
}

// Size is about how many bytes the note brings to Redis.
func (n *Note) Size() int {
	size := 512 + len(n.Progress)
	for _, line := range n.Lines {
		size += len(line)
	}
	return size
}

// WriteNotes writes notes of jobs of a process. A note of a job that the process no longer holds changes
// nothing, and neither does one whose document is gone.
func (s Store) WriteNotes(c redis.Conn, process string, notes []Note) error {
	var a Call
	a.Key(s.inflight(process))
	for i := range notes {
		n := &notes[i]
		for _, k := range s.DocumentKeys(n.ID, true) {
			a.Key(k.name)
		}
		a.Arg(n.Ticket, n.TTL, n.Progress, RunName(process, n.Ticket), n.Before, len(n.Lines), len(n.Begun))
		for _, line := range n.Lines {
			a.Arg(line)
		}
		a.Arg(n.Begun...)
	}
	_, err := a.Do(c, noteScript)
	if err != nil {
		err = fmt.Errorf("writing what %s say of themselves: %w", Plural(len(notes), "running job"), Explain(err))
	}
	return err
}

// RunName distinguishes the runs of a job.
func RunName(process string, ticket int64) string { return fmt.Sprintf("%s:%d", process, ticket) }

// EndHead is how many arguments of the verb stand before the fields of an end without log lines.
const EndHead = 6

// EndOfDocument is how a run ended, for the verb that writes it: see the feature results.
type EndOfDocument struct {
	Note           // Begun are the fields to write
	Headed  bool   // EndHead places stand before those in Begun, which Args fills
	Process string // whose run it is
	State   any    // a text
	Over    bool
	Try     string // "": the run is not recorded as a try
}

// Args are the arguments of the verb.
func (e *EndOfDocument) Args() []any {
	log := 0
	var over, progress any = "", "" // constants are no allocations, and a nil slice would be one
	if e.Progress != nil {
		progress = e.Progress
	}
	if e.Over {
		over = "1"
	}
	if len(e.Lines) > 0 {
		log = 2 + len(e.Lines)
	}
	if e.Headed {
		args := e.Begun
		if args[0], args[1], args[2], args[3], args[4], args[5] = e.State, over, e.TTL, e.Try, progress, log; log == 0 {
			return args
		}
		e.Begun = args[EndHead:]
	}
	args := make([]any, 0, EndHead+log+len(e.Begun))
	args = append(args, e.State, over, e.TTL, e.Try, progress, log)
	if log > 0 {
		args = append(args, RunName(e.Process, e.Ticket), e.Before)
		for _, line := range e.Lines {
			args = append(args, line)
		}
	}
	return append(args, e.Begun...)
}
