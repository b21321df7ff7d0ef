package workflows

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/resque"
)

// Opened says how the open join of a workflow stands.
type Opened struct {
	State string // of the workflow; "": there is none
	Into  string // the place of a member; "": it is no batch
	Left  int    // members that have not ended
	Meta  map[string]string
}

// ReadOpen reads how the open join of a workflow stands. Without a workflow the error matches ErrNoWorkflow.
func (s Store) ReadOpen(c redis.Conn, id string) (o Opened, err error) {
	key := s.WorkflowKey(id).String()
	words, err := redis.Strings(c.Do("HMGET", key, "state", "into", "open", "meta"))
	if err != nil {
		return o, fmt.Errorf("reading workflow %s: %w", id, resque.Explain(err))
	}
	if o = (Opened{State: words[0], Into: words[1]}); o.State == "" {
		return o, fmt.Errorf("workflow %s: %w", id, ErrNoWorkflow)
	}
	if words[3] != "" && json.Unmarshal([]byte(words[3]), &o.Meta) != nil {
		o.Meta = nil // another program has written it
	}
	place, ok := ParsePlace(o.Into)
	if !ok {
		return o, nil
	}
	join, err := redis.String(c.Do("HGET", key, "j"+place.Joins))
	if err != nil && err != redis.ErrNil {
		return o, fmt.Errorf("reading workflow %s: %w", id, resque.Explain(err))
	}
	left, _, _ := strings.Cut(join, " ")
	if o.Left, _ = strconv.Atoi(left); words[2] != "" {
		o.Left-- // the opening itself
	}
	o.Left = max(0, o.Left)
	return o, nil
}
