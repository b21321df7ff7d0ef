package inspect

import (
	"encoding/base64"
	"encoding/json"
	"fmt"

	"github.com/goworker/goworker/internal/resque"
	"github.com/goworker/goworker/internal/resque/delayed"
	"github.com/goworker/goworker/internal/resque/failures"
)

// ErrCursor is in the error for a place to go on from that no page of the same question ended with.
var ErrCursor = failures.ErrCursor

// cursor is how far a walk has come. It is opaque to users.
type cursor struct {
	Question string `json:"q"`           // the digest of what is asked
	Shard    string `json:"s,omitempty"` // the shard's mark
	Seen     int64  `json:"j,omitempty"` // jobs that were looked at before
	Place    int    `json:"p,omitempty"` // among places
	Plain    bool   `json:"r,omitempty"` // resque-scheduler's schedule

	Delayed *delayed.Place    `json:"d,omitempty"`
	Queue   string            `json:"k,omitempty"` // the queue, or the queue of the lanes
	Shared  string            `json:"h,omitempty"` // the lanes' limits
	Scan    string            `json:"z,omitempty"` // the page of lanes
	Done    []string          `json:"o,omitempty"` // digests of its lanes that the walk has been through
	Lane    string            `json:"i,omitempty"` // the digest of the lane it is in
	List    *resque.ListPlace `json:"l,omitempty"` // in a queue or lane
	Held    string            `json:"c,omitempty"` // the page of jobs that clients hold
	Process string            `json:"u,omitempty"`
	Ticket  int64             `json:"t,omitempty"`
	Lists   string            `json:"f,omitempty"` // the failure list
	Failure string            `json:"a,omitempty"` // in it
}

// question is a digest by which a cursor is known to belong to a query.
func (q Query) question(ahead bool) string {
	text, _ := json.Marshal(struct {
		Query
		Ahead bool
	}{q, ahead})
	return refOf("", text)[:8]
}

func (c cursor) String() string {
	text, _ := json.Marshal(c)
	return base64.RawURLEncoding.EncodeToString(text)
}

func parseCursor(text, question string) (cursor, error) {
	c := cursor{Question: question}
	if text == "" {
		return c, nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err == nil {
		c = cursor{}
		err = json.Unmarshal(raw, &c)
	}
	switch {
	case err != nil || c.Place < 0 || c.Place >= len(places) || c.Seen < 0 || c.List != nil && c.List.At < -1:
		return c, fmt.Errorf("goworker: %q is not where a walk through jobs goes on: %w", text, ErrCursor)
	case c.Question != question:
		return c, fmt.Errorf("goworker: %q is where a walk of another query goes on; give the same query: %w", text, ErrCursor)
	}
	return c, nil
}
