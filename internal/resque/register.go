package resque

import (
	"fmt"
	"slices"
	"time"

	"github.com/gomodule/redigo/redis"
)

// Ruby's forms of a time. Heartbeats are ISO 8601 with a numeric offset, the
// start of a worker is Time#to_s, run_at is UTC.
const (
	heartbeatLayout = "2006-01-02T15:04:05-07:00"
	startedLayout   = "2006-01-02 15:04:05 -0700"
	runAtLayout     = "2006-01-02T15:04:05Z"
)

// HeartbeatAt is a heartbeat's value.
func HeartbeatAt(t time.Time) string { return t.Format(heartbeatLayout) }

// StartedAt is the value of worker:<id>:started.
func StartedAt(t time.Time) string { return t.Format(startedLayout) }

// idChunk is how many worker ids one command takes.
const idChunk = 500

// pipeline sends commands and returns the first error among their replies.
// MULTI is not asked for: each command stands by itself.
type pipeline struct {
	c       redis.Conn
	pending int
	err     error
}

func (p *pipeline) send(command string, args ...any) {
	if p.err != nil {
		return
	}
	if p.err = p.c.Send(command, args...); p.err == nil {
		p.pending++
	}
	if p.pending >= 1000 {
		p.flush()
	}
}

func (p *pipeline) flush() error {
	if p.pending == 0 {
		return p.err
	}
	if err := p.c.Flush(); err != nil && p.err == nil {
		p.err = err
	}
	for ; p.pending > 0; p.pending-- {
		if _, err := p.c.Receive(); err != nil && p.err == nil {
			p.err = err
		}
		if p.c.Err() != nil {
			p.pending = 0
			break
		}
	}
	return p.err
}

// Heartbeat tells Ruby's tools that the workers live, and registers those that
// are not registered, be it at the start or because somebody removed them. The
// heartbeats go first: a worker without one, seen by Ruby, would count as old.
func (s Store) Heartbeat(c redis.Conn, ids []string, started, now time.Time) error {
	p := pipeline{c: c}
	at := HeartbeatAt(now)
	for chunk := range slices.Chunk(ids, idChunk) {
		beats := redis.Args{}.Add(s.heartbeats())
		for _, id := range chunk {
			beats = beats.Add(id, at)
		}
		p.send("HSET", beats...)
	}
	for chunk := range slices.Chunk(ids, idChunk) {
		p.send("SADD", redis.Args{}.Add(s.workers()).AddFlat(chunk)...)
		since := redis.Args{}
		for _, id := range chunk {
			since = since.Add(s.started(id), StartedAt(started))
		}
		p.send("MSET", since...)
	}
	if err := p.flush(); err != nil {
		return fmt.Errorf("registering %d workers: %w", len(ids), err)
	}
	return nil
}

// Unregister removes workers and all that Ruby's tools know about them.
func (s Store) Unregister(c redis.Conn, ids []string) error {
	p := pipeline{c: c}
	for chunk := range slices.Chunk(ids, idChunk) {
		p.send("SREM", redis.Args{}.Add(s.workers()).AddFlat(chunk)...)
		keys := redis.Args{}
		for _, id := range chunk {
			keys = keys.Add(s.worker(id), s.started(id), s.workerStat("processed", id), s.workerStat("failed", id))
		}
		p.send("DEL", keys...)
		p.send("HDEL", redis.Args{}.Add(s.heartbeats()).AddFlat(chunk)...)
	}
	if err := p.flush(); err != nil {
		return fmt.Errorf("unregistering %d workers: %w", len(ids), err)
	}
	return nil
}

// WorkerUpdate is what changed about one worker since it was last told.
type WorkerUpdate struct {
	ID   string
	Work *Work // the job in hand
	Idle bool  // there is none any more

	Counts            bool // Processed and Failed have changed
	Processed, Failed int64
}

// Work is the job a worker has in hand.
type Work struct {
	Worker  string // the id without its queues, which node-resque looks for
	Queue   string
	RunAt   time.Time
	Payload []byte
}

// Encode returns the value of worker:<id>. Ruby's three fields come first and in
// its order; it ignores the fourth, without which node-resque throws.
func (w Work) Encode() []byte {
	out := appendText([]byte(`{"queue":`), w.Queue)
	out = append(out, `,"run_at":"`...)
	out = w.RunAt.UTC().AppendFormat(out, runAtLayout)
	out = append(out, `","payload":`...)
	out = append(out, safePayload(w.Payload)...)
	out = appendText(append(out, `,"worker":`...), w.Worker)
	return append(out, '}')
}

// UpdateWorkers writes what changed, in one round trip.
func (s Store) UpdateWorkers(c redis.Conn, updates []WorkerUpdate) error {
	p := pipeline{c: c}
	for _, u := range updates {
		switch {
		case u.Work != nil:
			p.send("SET", s.worker(u.ID), u.Work.Encode())
		case u.Idle:
			p.send("DEL", s.worker(u.ID))
		}
		if u.Counts {
			p.send("MSET", s.workerStat("processed", u.ID), u.Processed, s.workerStat("failed", u.ID), u.Failed)
		}
	}
	if err := p.flush(); err != nil {
		return fmt.Errorf("telling what %d workers do: %w", len(updates), err)
	}
	return nil
}
