package results

import (
	"context"
	"encoding/json"
	"sync"

	"github.com/goworker/goworker/internal/clock"
	"github.com/goworker/goworker/internal/outcome"
	"github.com/goworker/goworker/internal/resque"
)

// message is what the child process of an isolated job sends to its daemon.
type message struct {
	Progress *progress         `json:",omitempty"`
	Lines    []json.RawMessage `json:",omitempty"`
}

// Hear takes a message of a job's child process. A message that cannot be read is dropped.
func (r *Run) Hear(raw json.RawMessage) {
	var m message
	if json.Unmarshal(raw, &m) != nil {
		return
	}
	for _, line := range m.Lines {
		r.Line(line)
	}
	if p := m.Progress; p != nil {
		r.Progress(p.Done, p.Total, p.Note)
	}
}

// Remote returns the context for the handler of a job in its child process. send sends a message to the daemon: each
// log line at once, so that a crash does not take it along, and the progress each 100 ms. end sends the rest. The
// context of a job without a document stays as it is.
func Remote(ctx context.Context, j *outcome.Job, c clock.Clock, send func(json.RawMessage)) (of context.Context, end func()) {
	if _, _, kept := resque.ResultOf(&j.Parsed); !kept {
		return ctx, func() {}
	}
	p := &pipe{clock: c, send: send}
	r := &Run{wake: p.wake, now: c.Now, captures: captures(j), prompt: true}
	return With(ctx, r), func() { p.flush(r, true) }
}

// pipe sends what a run says.
type pipe struct {
	clock clock.Clock
	send  func(json.RawMessage)
	mu    sync.Mutex // held while a message is sent, so that they stay in their order
}

func (p *pipe) wake(r *Run) {
	r.mu.Lock()
	lines := len(r.lines)
	r.mu.Unlock()
	if lines > 0 {
		p.flush(r, false)
	} else {
		p.clock.AfterFunc(within, func() { p.flush(r, false) })
	}
}

func (p *pipe) flush(r *Run, end bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	n, version, _ := r.note()
	var m message
	for _, line := range n.Lines {
		m.Lines = append(m.Lines, line)
	}
	if n.Progress != nil {
		m.Progress = new(progress)
		_ = json.Unmarshal(n.Progress, m.Progress)
	}
	if m.Progress != nil || m.Lines != nil {
		if raw, err := json.Marshal(m); err == nil {
			p.send(raw)
		}
		r.noted(&n, version)
	}
	if end {
		r.end()
	}
}

// Local returns the context for the handler of a job whose document nothing writes. said ends the run, and returns how far
// the job said last that it is, nil if it did not, and the log lines that were captured: both as Redis would
// have them. The context of a job without a document stays as it is.
func Local(ctx context.Context, j *outcome.Job, c clock.Clock) (of context.Context, said func() (progress []byte, lines [][]byte)) {
	if _, _, kept := resque.ResultOf(&j.Parsed); !kept {
		return ctx, func() (progress []byte, lines [][]byte) { return nil, nil }
	}
	r := &Run{wake: func(*Run) {}, now: c.Now, captures: captures(j)}
	return With(ctx, r), func() (progress []byte, lines [][]byte) {
		n := r.end()
		return n.Progress, n.Lines
	}
}
