package failures

import (
	"fmt"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/resque"
)

// Prepend adds records to the head of a list, the first one last, and a queue's own list to the set of these.
func (s Store) Prepend(c redis.Conn, list string, records [][]byte) error {
	b := &resque.Batch{Conn: c}
	if list != resque.FailedList {
		b.Send("SADD", s.store.KeyOfFailureLists(), list)
	}
	b.Send("LPUSH", redis.Args{}.Add(s.store.KeyOfFailures(list)).AddFlat(records)...)
	replies, err := b.Receive()
	for _, reply := range replies {
		if err == nil {
			_, err = resque.Answer(reply)
		}
	}
	if err != nil {
		return fmt.Errorf("adding %s to list %s: %w", resque.Plural(len(records), "failure"), list, resque.Explain(err))
	}
	return nil
}
