package goworkertest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	"github.com/goworker/goworker/internal/payload"
	"github.com/goworker/goworker/internal/producer"
)

// Job is a job as it was enqueued.
type Job struct {
	Queue string
	Class string
	Args  []json.RawMessage
	ID    string // "": it has none, as a job without any option

	// Payload is what the queue gets, byte for byte. A job with goworker.ResqueScheduler has the queue beside it in
	// its schedule.
	Payload json.RawMessage

	Meta map[string]string // see goworker.WithMeta

	At        time.Time // when it is due; zero: it went to its queue at once
	Plain     bool      // At is for resque-scheduler's schedule; see goworker.ResqueScheduler
	ExpiresAt time.Time // zero: never
	Replaced  string    // the id of the waiting job that made room for it; see goworker.ReplaceWaiting
}

func jobOf(s producer.Sent) Job {
	j := Job{Queue: s.Queue, Class: s.Name, ID: s.ID, Payload: s.Payload, At: s.At, Plain: s.Ruby, Replaced: s.Replaced}
	if p, err := payload.Parse(s.Payload); err == nil {
		j.Args = p.Args
	}
	if meta, ok := j.Field("meta"); ok {
		_ = json.Unmarshal(meta, &j.Meta) // a "meta" that is no such map is another program's field
	}
	if s.ExpiresAt != 0 {
		j.ExpiresAt = time.UnixMilli(s.ExpiresAt)
	}
	return j
}

// Field returns a field of the payload, and whether it is there: what options and other programs write beside class
// and args, such as "unique" or "meta".
func (j Job) Field(name string) (json.RawMessage, bool) {
	var fields map[string]json.RawMessage
	if json.Unmarshal(j.Payload, &fields) != nil {
		return nil, false
	}
	value, ok := fields[name]
	return value, ok
}

// String is the job as messages of tests show it.
func (j Job) String() string {
	var s bytes.Buffer
	fmt.Fprintf(&s, "%s in queue %s: %s", j.Class, j.Queue, j.Payload)
	if !j.At.IsZero() {
		fmt.Fprintf(&s, ", due %s", j.At.Format(time.RFC3339Nano))
	}
	return s.String()
}
