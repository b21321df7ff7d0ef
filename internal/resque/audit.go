package resque

import (
	"fmt"

	"github.com/gomodule/redigo/redis"
)

// MostAudited is how many changes the audit keeps.
const MostAudited = 1000

func (s Store) audit() string { return s.ns + "go:audit" }

// Audit notes a change that an operator made, as JSON. The last 1,000 are kept, the newest first.
func (s Store) Audit(c redis.Conn, entry []byte) error {
	b := Batch{Conn: c}
	b.Send("LPUSH", s.audit(), entry)
	b.Send("LTRIM", s.audit(), 0, MostAudited-1)
	if err := b.check(); err != nil {
		return fmt.Errorf("writing the change into the audit: %w", Explain(err))
	}
	return nil
}

// Audited returns the newest changes.
func (s Store) Audited(c redis.Conn, most int) ([][]byte, error) {
	entries, err := redis.ByteSlices(c.Do("LRANGE", s.audit(), 0, min(most, MostAudited)-1))
	if err != nil {
		return nil, fmt.Errorf("reading the audit: %w", Explain(err))
	}
	return entries, nil
}
