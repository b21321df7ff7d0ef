package resque

import (
	"fmt"
	"strings"

	"github.com/gomodule/redigo/redis"
)

// RemoveNamespace removes all keys of a namespace whose name begins with a prefix, in braces or not: that of a benchmark. Any other
// namespace is refused.
func (s Store) RemoveNamespace(c redis.Conn, prefix string) error {
	if prefix == "" || !strings.HasPrefix(strings.TrimPrefix(s.ns, "{"), prefix) {
		return fmt.Errorf("the namespace %s is not one that begins with %q; nothing was removed", s.ns, prefix)
	}
	for cursor := "0"; ; {
		r, err := redis.Values(c.Do("SCAN", cursor, "MATCH", EscapeGlob(s.ns)+"*", "COUNT", 1000))
		if err == nil && len(r) != 2 {
			err = ErrAnswer
		}
		var keys []string
		if err == nil {
			if cursor, err = redis.String(r[0], nil); err == nil {
				keys, err = redis.Strings(r[1], nil)
			}
		}
		if err == nil && len(keys) > 0 {
			_, err = c.Do("UNLINK", redis.Args{}.AddFlat(keys)...)
		}
		if err != nil {
			return fmt.Errorf("removing the keys of %s: %w", s.ns, Explain(err))
		}
		if cursor == "0" {
			return nil
		}
	}
}
