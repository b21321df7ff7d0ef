package resque

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/goworker/goworker/internal/payload"
)

// Worker is an entry of the set of workers, by any program. A field that is missing or
// has no form we know is zero: the entries of other programs take many forms.
type Worker struct {
	ID     string
	Host   string
	PID    string   // as in the id: programs with several workers append to it
	Queues []string // names and patterns

	Started   time.Time
	Heartbeat time.Time

	Processed, Failed int64

	Working *Working // nil while idle
}

// Working is the job a worker has in hand.
type Working struct {
	Queue   string
	RunAt   time.Time
	Payload json.RawMessage
	Class   string
}

// Workers returns all registered workers, sorted by id, in two round trips.
func (s Store) Workers(c redis.Conn) ([]Worker, error) {
	b := Batch{Conn: c}
	b.Send("SMEMBERS", s.workers())
	b.Send("HGETALL", s.heartbeats())
	replies, err := b.Receive()
	if err != nil {
		return nil, fmt.Errorf("reading the workers: %w", err)
	}
	ids, err := redis.Strings(Answer(replies[0]))
	if err != nil {
		return nil, fmt.Errorf("reading the set of workers: %w", Explain(err))
	}
	beats, err := redis.StringMap(Answer(replies[1]))
	if err != nil {
		return nil, fmt.Errorf("reading the heartbeats: %w", Explain(err))
	}
	slices.Sort(ids)
	b = Batch{Conn: c}
	b.askWorkers(ids, func(id string) []any {
		return []any{s.worker(id), s.started(id), s.workerStat("processed", id), s.workerStat("failed", id)}
	})
	if replies, err = b.Receive(); err != nil {
		return nil, fmt.Errorf("reading what the workers do: %w", err)
	}
	values, err := workerValues(replies)
	if err == nil && len(values) != 4*len(ids) {
		err = fmt.Errorf("reading what the workers do: %w", ErrAnswer)
	}
	if err != nil {
		return nil, err
	}
	workers := make([]Worker, len(ids))
	for i, id := range ids {
		v := values[4*i : 4*i+4]
		w := parseWorkerID(id)
		w.Working = parseWorking(v[0])
		w.Started = ParseTime(string(v[1]))
		w.Heartbeat = ParseTime(beats[id])
		w.Processed, w.Failed = number(v[2]), number(v[3])
		workers[i] = w
	}
	return workers, nil
}

// askWorkers reads the same number of keys for each worker. To MGET a key of another type
// is a missing one, so one such key does not hide the others.
func (b *Batch) askWorkers(ids []string, keys func(id string) []any) {
	for chunk := range slices.Chunk(ids, idChunk) {
		args := redis.Args{}
		for _, id := range chunk {
			args = append(args, keys(id)...)
		}
		b.Send("MGET", args...)
	}
}

// workerValues returns the values that askWorkers read, in order.
func workerValues(replies []any) ([][]byte, error) {
	var values [][]byte
	for _, reply := range replies {
		page, err := redis.ByteSlices(Answer(reply))
		if err != nil {
			return nil, fmt.Errorf("reading what the workers do: %w", Explain(err))
		}
		values = append(values, page...)
	}
	return values, nil
}

// parseWorkerID takes host:pid:queues apart. Queue names may hold colons.
func parseWorkerID(id string) Worker {
	w := Worker{ID: id}
	parts := strings.SplitN(id, ":", 3)
	w.Host = parts[0]
	if len(parts) > 1 {
		w.PID = parts[1]
	}
	if len(parts) > 2 && parts[2] != "" {
		w.Queues = strings.Split(parts[2], ",")
	}
	return w
}

// parseWorking reads worker:<id>. Any text there means that the worker is busy,
// as it does to Ruby, even if the text has no form we know.
func parseWorking(value []byte) *Working {
	if len(value) == 0 {
		return nil
	}
	var fields map[string]json.RawMessage
	_ = json.Unmarshal(value, &fields)
	w := &Working{Payload: fields["payload"]}
	var at string
	_ = json.Unmarshal(fields["queue"], &w.Queue)
	_ = json.Unmarshal(fields["run_at"], &at)
	w.RunAt = ParseTime(at)
	if p, err := payload.Parse(w.Payload); err == nil {
		w.Class = p.Class
	}
	return w
}

// timeLayouts are the forms in which programs write a time. A fraction of a
// second may occur in any of them.
var timeLayouts = []string{
	time.RFC3339,                       // Ruby's heartbeats and run_at, php-resque, goworker
	startedLayout,                      // Ruby's starts
	"2006-01-02 15:04:05 MST",          // the same in UTC
	"2006-01-02 15:04:05 -0700 MST",    // goworker's starts
	"Mon Jan 2 2006 15:04:05 GMT-0700", // node-resque
	time.UnixDate,                      // php-resque before 1.3
	"2006/01/02 15:04:05 MST",          // Ruby's run_at before 1.24
}

// ParseTime reads a time in any form that Resque's programs write, or returns zero.
func ParseTime(text string) time.Time {
	text, _, _ = strings.Cut(text, " (")  // JavaScript's name of the zone
	text, _, _ = strings.Cut(text, " m=") // Go's monotonic clock
	for _, layout := range timeLayouts {
		if t, err := time.Parse(layout, text); err == nil {
			return t
		}
	}
	if s, err := strconv.ParseInt(text, 10, 64); err == nil { // node-resque's starts
		return time.Unix(s, 0)
	}
	return time.Time{}
}

// number reads a counter. Text that is no number counts as zero, as it does to Ruby.
func number(text []byte) int64 {
	n, _ := strconv.ParseInt(string(text), 10, 64)
	return n
}
