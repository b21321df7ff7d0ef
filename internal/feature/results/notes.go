package results

import (
	"context"
	"sync"
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
	deps outcome.Deps
	wake func(*Run)       // add
	now  func() time.Time // these two are values here, so that a run has none of its own

	mu     sync.Mutex
	loop   *part.Loop // nil before the first note
	closed bool
	busy   bool   // the loop is about to write, or to look whether there is more
	fresh  bool   // the loop first waits for what else comes
	runs   []*Run // that have something to say
}

func newNotes(d outcome.Deps) *notes {
	n := &notes{deps: d}
	n.wake, n.now = n.add, d.Time.Now
	return n
}

// add has the notes of a run written.
func (n *notes) add(r *Run) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return
	}
	n.runs = append(n.runs, r)
	if n.busy {
		return
	}
	n.busy, n.fresh = true, true
	if n.loop != nil {
		n.loop.Wake()
		return
	}
	n.loop = part.NewLoop(n.deps.Base, "results", n.turn)
	n.loop.Patient = true
	n.loop.Start(context.Background()) // which takes a turn at once
}

// close ends the goroutine. What is not written is in the ends of the jobs.
func (n *notes) close() {
	n.mu.Lock()
	n.closed = true
	loop := n.loop
	n.mu.Unlock()
	if loop != nil {
		loop.Stop(context.Background())
	}
}

// take returns the runs that have something to say, and how long to wait if it is not time to write.
func (n *notes) take() (runs []*Run, wait time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case n.fresh:
		n.fresh = false
		return nil, within
	case len(n.runs) == 0:
		n.busy = false
		return nil, part.Never
	}
	runs, n.runs = n.runs, nil
	return runs, within
}

func (n *notes) turn(ctx context.Context) (wait time.Duration, err error) {
	runs, wait := n.take()
	for len(runs) > 0 {
		var b batch
		runs = b.fill(runs)
		if len(b.notes) == 0 {
			continue
		}
		if err := n.deps.Do(ctx, func(c redis.Conn) error { return n.deps.Store.WriteNotes(c, b.process, b.notes) }); err != nil {
			n.again(runs, b.runs)
			return 0, err
		}
		for i, r := range b.runs {
			r.noted(&b.notes[i], b.versions[i])
		}
	}
	return wait, nil
}

// again has the notes of runs written later: of those that nothing was sent of, and of those whose notes were
// perhaps not written.
func (n *notes) again(unsent, sent []*Run) {
	n.mu.Lock()
	n.runs = append(unsent, n.runs...)
	n.mu.Unlock()
	for _, r := range sent {
		r.say(func() bool { return true })
	}
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
		note.ID, note.Ticket, note.TTL = r.job.Parsed.ID, r.job.Ticket, r.doc.pendingTTL()
		b.runs, b.notes, b.versions = append(b.runs, r), append(b.notes, note), append(b.versions, version)
		b.size += note.Size()
	}
	return nil
}
