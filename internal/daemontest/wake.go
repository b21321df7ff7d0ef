package daemontest

import (
	"strings"

	"github.com/gomodule/redigo/redis"
)

// Subscribers are the ids of the connections on which Redis tells.
func (b *Bundle) Subscribers() (ids []string) {
	b.T.Helper()
	for line := range strings.Lines(b.Redis.Text(b.T, "CLIENT", "LIST", "TYPE", "pubsub")) {
		id, _, _ := strings.Cut(strings.TrimPrefix(line, "id="), " ")
		ids = append(ids, id)
	}
	return ids
}

// Tracked are the ids of the connections that ask to be told.
func (b *Bundle) Tracked() (ids []string) {
	b.T.Helper()
	for line := range strings.Lines(b.Redis.Text(b.T, "CLIENT", "LIST", "TYPE", "normal")) {
		id, rest, _ := strings.Cut(strings.TrimPrefix(line, "id="), " ")
		_, flags, _ := strings.Cut(rest, " flags=")
		flags, _, _ = strings.Cut(flags, " ")
		if strings.Contains(flags, "t") {
			ids = append(ids, id)
		}
	}
	return ids
}

// Commands is how many scripts the server has run.
func (b *Bundle) Commands() int {
	b.T.Helper()
	stats := b.Redis.Text(b.T, "INFO", "commandstats")
	total := 0
	for line := range strings.Lines(stats) {
		name, rest, _ := strings.Cut(line, ":calls=")
		if calls, _, ok := strings.Cut(rest, ","); ok && strings.HasPrefix(name, "cmdstat_evalsha") {
			n, _ := redis.Int([]byte(calls), nil)
			total += n
		}
	}
	return total
}
