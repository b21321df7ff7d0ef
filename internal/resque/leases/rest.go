package leases

import (
	"errors"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/resque"
)

// RestKey is there while a queue is searched for a job, and then while it rests from that.
func (s Store) RestKey(queue string) resque.Key { return s.TextKey("http:rest:" + queue) }

// BeginSearch reports whether a queue may be searched now: no server searches it, and it does not rest. Without an EndSearch it
// may be searched again after so long. A Redis that has no memory left lets it be searched.
func (s Store) BeginSearch(c redis.Conn, queue string, most time.Duration) (bool, error) {
	_, err := redis.String(c.Do("SET", s.RestKey(queue).String(), "1", "NX", "PX", most.Milliseconds()))
	if errors.Is(err, redis.ErrNil) {
		return false, nil
	}
	if outOfMemory(err) {
		err = nil
	}
	return true, s.explain(c, err, "", "asking whether queue %s rests from a search", queue)
}

// EndSearch has a queue rest for so long.
func (s Store) EndSearch(c redis.Conn, queue string, rest time.Duration) error {
	_, err := c.Do("SET", s.RestKey(queue).String(), "1", "PX", max(rest.Milliseconds(), 1))
	if outOfMemory(err) {
		return nil
	}
	return s.explain(c, err, "", "having queue %s rest from a search", queue)
}

func outOfMemory(err error) bool {
	var refused redis.Error
	return errors.As(err, &refused) && strings.HasPrefix(string(refused), "OOM ")
}
