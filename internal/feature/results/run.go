package results

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/goworker/goworker/internal/outcome"
	"github.com/goworker/goworker/internal/resque"
)

// Limits of what a job says while it runs. The scripts enforce those of log lines over all its runs.
const (
	MaxNote     = 1 << 10 // bytes of the note of a progress
	MaxLines    = 100
	MaxLogBytes = 64 << 10
)

// Run is one run of a job with a document, as its handler reaches it: it takes progress and log lines, and does not
// wait for Redis. It is safe for concurrent use. What comes after the run's end is dropped.
type Run struct {
	wake     func(*Run) // called when there is something to write, without the lock
	now      func() time.Time
	captures bool
	prompt   bool         // wake is called for each line
	doc      *document    // these two are nil in the child process of an isolated job
	job      *outcome.Job // only what is set before the handler is called may be read

	mu       sync.Mutex
	ended    bool
	waits    bool     // wake was called, and nothing was written since
	begun    []any    // that it runs; nil: it has not run for long, or that is written
	shown    bool     // it is written that it runs
	progress progress // the latest
	version  int      // of the progress
	written  int      // the version that is written
	before   int      // how many lines were written
	lines    [][]byte // those that may not be
	count    int      // of all lines
	bytes    int      // of all lines
}

// progress is how far a job is, as it is written.
type progress struct {
	Done  int64  `json:"done"`
	Total int64  `json:"total"`
	Note  string `json:"note,omitempty"`
	At    int64  `json:"at"`
}

func (p progress) encode() []byte {
	said := p
	if said.Note = strings.ToValidUTF8(said.Note, "\uFFFD"); len(said.Note) > MaxNote {
		n := MaxNote
		for !utf8.RuneStart(said.Note[n]) {
			n--
		}
		said.Note = said.Note[:n]
	}
	text, _ := json.Marshal(said)
	return text
}

type runKey struct{}

// With returns a context whose Of is a run.
func With(ctx context.Context, r *Run) context.Context { return context.WithValue(ctx, runKey{}, r) }

// runContext is what With returns, as a part of a document.
type runContext struct {
	context.Context
	run *Run
}

func (c *runContext) Value(key any) any {
	if key == (runKey{}) {
		return c.run
	}
	return c.Context.Value(key)
}

// Of returns the run that a context belongs to, nil if there is none that keeps what it says.
func Of(ctx context.Context) *Run {
	r, _ := ctx.Value(runKey{}).(*Run)
	return r
}

// Progress takes how far the job is. The latest one counts.
func (r *Run) Progress(done, total int64, note string) {
	if len(note) > 2*MaxNote {
		note = strings.Clone(note[:2*MaxNote]) // so that a large text is not kept for its beginning
	}
	r.say(func() bool {
		r.progress = progress{done, total, note, r.now().UnixMilli()}
		r.version++
		return true
	})
}

// Captures reports whether the run takes log lines. A nil Run takes none.
func (r *Run) Captures() bool { return r != nil && r.captures }

// takes reports whether the run takes one more log line, if it is not too long.
func (r *Run) takes() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return !r.ended && r.count < MaxLines
}

// Line takes a log line as JSON. Lines beyond the limits are dropped.
func (r *Run) Line(line []byte) {
	r.say(func() bool {
		if !r.captures || r.count == MaxLines || r.bytes+len(line) > MaxLogBytes {
			return false
		}
		r.count, r.bytes = r.count+1, r.bytes+len(line)
		r.lines = append(r.lines, slices.Clone(line))
		return true
	})
}

// running takes the fields of a run that takes a while.
func (r *Run) running(fields []any) {
	r.say(func() bool {
		if r.shown {
			return false
		}
		r.begun = fields
		return true
	})
}

// say calls f unless the run has ended, and sees to it that what f adds is written.
func (r *Run) say(f func() bool) {
	r.mu.Lock()
	wakes := !r.ended && f() && (!r.waits || r.prompt && len(r.lines) > 0)
	if wakes {
		r.waits = true
	}
	r.mu.Unlock()
	if wakes {
		r.wake(r)
	}
}

// note returns what is not written yet, and which version of the progress that has. ok is false if there is nothing.
// A job that says something runs, and the first note says so too.
func (r *Run) note() (n resque.Note, version int, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.waits = false
	if r.ended {
		return n, 0, false
	}
	n = r.unwritten()
	if n.Begun == nil && n.Progress == nil && len(n.Lines) == 0 {
		return n, r.version, false
	}
	if n.Begun == nil && !r.shown && r.doc != nil {
		n.Begun = r.doc.began(r.job, nil)
	}
	return n, r.version, true
}

// unwritten returns what may not be written. The caller holds the lock.
func (r *Run) unwritten() resque.Note {
	n := resque.Note{Begun: r.begun, Before: r.before, Lines: r.lines[:len(r.lines):len(r.lines)]}
	if r.version != r.written {
		n.Progress = r.progress.encode()
	}
	return n
}

// noted is called when a note was written, with its version. A note without an answer is taken for unwritten: what
// it says is written a second time, and the scripts drop the lines that came twice.
func (r *Run) noted(n *resque.Note, version int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n.Begun != nil {
		r.begun, r.shown = nil, true
	}
	r.written = version
	r.before += len(n.Lines)
	r.lines = r.lines[len(n.Lines):]
}

// end ends the run and returns what may not be written. Called again it returns the same.
func (r *Run) end() resque.Note {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended = true
	n := r.unwritten()
	n.Begun = nil // the end says it
	return n
}
