package results

import (
	"context"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/outcome"
	"github.com/goworker/goworker/internal/part"
	"github.com/goworker/goworker/internal/resque"
)

// within is how long what a running job says waits at most until it is written.
const within = 100 * time.Millisecond

// Limits of one call with notes.
const (
	mostNotes = 500
	mostBytes = 1 << 20
)

// notes writes what the running jobs of this process say, in one goroutine: at most one call each 100 ms, unless
// it is too large for one. So a job causes at most ten writes a second, however often it says something. The goroutine
// starts with the first note: a set that only enqueues has none.
type notes struct {
	*part.Gather[*Run]
	deps outcome.Deps
	wake func(*Run)       // Add
	now  func() time.Time // these two are values here, so that a run has none of its own
}

func newNotes(d outcome.Deps) *notes {
	n := &notes{deps: d}
	n.Gather = part.NewGather(d.Base, "results", within, true, n.write)
	n.wake, n.now = n.Add, d.Time.Now
	return n
}

// write writes the notes of some runs. After an error the notes are written later: of the runs that it leaves nothing was
// sent, and of the others perhaps nothing was written.
func (n *notes) write(ctx context.Context, runs []*Run) (left []*Run, err error) {
	for len(runs) > 0 {
		var b batch
		runs = b.fill(runs)
		if len(b.notes) == 0 {
			continue
		}
		if err := n.deps.Do(ctx, func(c redis.Conn) error { return n.deps.Store.WriteNotes(c, b.process, b.notes) }); err != nil {
			for _, r := range b.runs {
				r.say(func() bool { return true })
			}
			return runs, err
		}
		for i, r := range b.runs {
			r.noted(&b.notes[i], b.versions[i])
		}
	}
	return nil, nil
}

// batch is the notes of one call. They are of one process: it has another name after it lost its lease.
type batch struct {
	process  string
	size     int
	runs     []*Run
	notes    []resque.Note
	versions []int
}

// fill takes the notes of some runs, and returns the runs that are for another call.
func (b *batch) fill(runs []*Run) (left []*Run) {
	for i, r := range runs {
		switch process := r.job.Process; {
		case len(b.notes) == 0:
			b.process = process
		case b.process != process || len(b.notes) == mostNotes || b.size > mostBytes:
			return runs[i:]
		}
		note, version, ok := r.note()
		if !ok {
			continue
		}
		note.ID, note.Ticket, note.TTL = r.doc.name, r.job.Ticket, r.doc.pendingTTL()
		b.runs, b.notes, b.versions = append(b.runs, r), append(b.notes, note), append(b.versions, version)
		b.size += note.Size()
	}
	return nil
}
