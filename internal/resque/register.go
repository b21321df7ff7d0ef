package resque

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/goworker/goworker/internal/payload"
)

// Ruby's forms of a time. Heartbeats are ISO 8601 with a numeric offset, the
// start of a worker is Time#to_s, run_at is UTC.
const (
	heartbeatLayout = "2006-01-02T15:04:05-07:00"
	startedLayout   = "2006-01-02 15:04:05 -0700"
	utcLayout       = "2006-01-02 15:04:05 UTC" // Time#to_s of a UTC time
	runAtLayout     = "2006-01-02T15:04:05Z"
)

// GoHost is the end of the host in the worker ids of goworker.
const GoHost = ".go"

// HeartbeatAt is a heartbeat's value.
func HeartbeatAt(t time.Time) string { return t.Format(heartbeatLayout) }

// StartedAt is the value of worker:<id>:started.
func StartedAt(t time.Time) string { return t.Format(startedLayout) }

var beatScript = script("beat")

// idChunk is how many worker ids one command takes.
const idChunk = 1000

// Register makes workers of a process known to Ruby's tools and sends their first heartbeats. It returns
// ErrReaped or ErrGone, and registers none, where the process was found dead or has no record: no reaper
// would unregister them.
func (s Store) Register(c redis.Conn, process string, ids []string, started, now time.Time) error {
	for chunk := range slices.Chunk(ids, idChunk) {
		a := s.beat(process, StartedAt(started), chunk, now)
		if _, err := beaten(a.Do(c, beatScript)); err != nil {
			return fmt.Errorf("registering %d workers: %w", len(ids), err)
		}
	}
	return nil
}

// Heartbeat sends the heartbeats of a process's workers to Ruby's tools. It returns how many workers another
// program had unregistered: call Register for them again. ErrReaped and ErrGone are as for Register.
func (s Store) Heartbeat(c redis.Conn, process string, ids []string, now time.Time) (unregistered int, err error) {
	for chunk := range slices.Chunk(ids, idChunk) {
		n, err := beaten(s.beat(process, "", chunk, now).Do(c, beatScript))
		if err != nil {
			return unregistered, fmt.Errorf("sending the heartbeats of %d workers: %w", len(ids), err)
		}
		unregistered += n
	}
	return unregistered, nil
}

// WriteHeartbeats has a renewal send heartbeats of the process whose lease it renews, to idChunk workers at most. heard gets what
// Heartbeat returns.
func (s Store) WriteHeartbeats(c *Cargo, ids []string, now time.Time, heard func(unregistered int, err error)) {
	var refused error
	at, beats, members := HeartbeatAt(now), make([]any, 0, 2*len(ids)), make([]any, 0, len(ids))
	for _, id := range ids {
		beats, members = append(beats, id, at), append(members, id)
	}
	keys := s.HeartbeatKeys()
	c.Write(func(err error) { refused = err }, "HSET", keys[0], beats...) // first: to Ruby a worker without one counts as old
	c.WriteAsking(func(reply any, err error) {
		n, err := redis.Int(reply, err)
		heard(n, errors.Join(refused, err))
	}, "SADD", keys[1], members...)
}

// HeartbeatKeys are the keys that WriteHeartbeats writes.
func (s Store) HeartbeatKeys() [2]Key { return [2]Key{hashKey(s.heartbeats()), setKey(s.workers())} }

// beat is a call of the script. With a start it names the keys for it too.
func (s Store) beat(process, started string, ids []string, now time.Time) *Call {
	a := new(Call)
	a.Key(s.heartbeats())
	a.Key(s.workers())
	a.Key(s.process(process))
	a.Key(s.reaped(process))
	a.Arg(started)
	at := HeartbeatAt(now)
	for _, id := range ids {
		if started != "" {
			a.Key(s.started(id))
		}
		a.Arg(id, at)
	}
	return a
}

// beaten reads the answer of the script.
func beaten(reply any, err error) (unregistered int, _ error) {
	unregistered, err = redis.Int(reply, err)
	switch {
	case err != nil:
		return 0, err
	case unregistered == -1:
		return 0, ErrReaped
	case unregistered < 0:
		return 0, ErrGone
	}
	return unregistered, nil
}

// Unregister removes workers and all that Ruby's tools know about them.
func (s Store) Unregister(c redis.Conn, ids []string) error {
	b := Batch{Conn: c}
	for chunk := range slices.Chunk(ids, idChunk) {
		b.Send("SREM", redis.Args{}.Add(s.workers()).AddFlat(chunk)...)
		keys := redis.Args{}
		for _, id := range chunk {
			keys = keys.Add(s.worker(id), s.started(id), s.workerStat("processed", id), s.workerStat("failed", id))
		}
		b.Send("DEL", keys...)
		b.Send("HDEL", redis.Args{}.Add(s.heartbeats()).AddFlat(chunk)...)
	}
	if err := b.check(); err != nil {
		return fmt.Errorf("unregistering %d workers: %w", len(ids), err)
	}
	return nil
}

// WorkerUpdate is what changed about one worker since its last update.
type WorkerUpdate struct {
	ID   string
	Work *Work // the job in hand
	Idle bool  // it has none any more

	Counts            bool // Processed and Failed have changed
	Processed, Failed int64
}

// Work is the job a worker has in hand.
type Work struct {
	Worker  string // the id without its queues, which node-resque looks for
	Queue   string
	RunAt   time.Time
	Payload []byte

	// The status of a job that php-resque tracks needs these as well.
	Process string // in whose in-flight record the job is
	Ticket  int64
	Now     time.Time // by Redis's clock
}

// Encode returns the value of worker:<id>. Ruby's three fields come first and in
// its order. Ruby ignores the fourth, without which node-resque throws.
func (w Work) Encode() []byte {
	out := payload.AppendText([]byte(`{"queue":`), w.Queue)
	out = append(out, `,"run_at":"`...)
	out = w.RunAt.UTC().AppendFormat(out, runAtLayout)
	out = append(out, `","payload":`...)
	out = append(out, payload.Safe(w.Payload)...)
	out = payload.AppendText(append(out, `,"worker":`...), w.Worker)
	return append(out, '}')
}

// UpdateWorkers writes what changed in one round trip. For a job in hand that php-resque tracks it
// writes the status too.
func (s Store) UpdateWorkers(c redis.Conn, updates []WorkerUpdate) error {
	b := Batch{Conn: c}
	for _, u := range updates {
		switch {
		case u.Work != nil:
			b.Send("SET", s.worker(u.ID), u.Work.Encode())
			if p, err := payload.Parse(u.Work.Payload); err == nil && p.PHP != nil {
				b.Eval(phpRunningScript, s.phpBegun(*u.Work, p.PHP))
			}
		case u.Idle:
			b.Send("DEL", s.worker(u.ID))
		}
		if u.Counts {
			b.Send("MSET", s.workerStat("processed", u.ID), u.Processed, s.workerStat("failed", u.ID), u.Failed)
		}
	}
	if err := b.check(); err != nil {
		return fmt.Errorf("telling what %d workers do: %w", len(updates), err)
	}
	return nil
}
