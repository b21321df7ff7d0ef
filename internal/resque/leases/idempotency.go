package leases

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/resque"
)

// OnceTTL is how long an idempotency key is kept.
const OnceTTL = 24 * time.Hour

// ErrKeyReused is why nothing was published: the idempotency key was given before with another request.
var ErrKeyReused = errors.New("the idempotency key was used with another request")

// Once is an idempotency key. Of several publishes with the same Key only the first makes jobs.
type Once struct {
	Key         string // a digest of the producer, the path and the key that the producer chose
	Fingerprint string // a digest of the request; it has no blank
}

// OnceKey is the text of an idempotency key: the fingerprint of its request, a blank, and the ids of its jobs with blanks
// between them.
func (s Store) OnceKey(digest string) resque.Key { return s.TextKey("idem:" + digest) }

// Once returns what guards the push of the jobs with these ids, an element for each job. All must be pushed in one call,
// in this order.
//
// A job is pushed if the key is not there, and the last one writes it: until then the guards of all jobs hold, so that Redis
// proves all of them before it writes the first. So all are pushed or none is: the error of each is then resque.ErrGuard,
// and Made says what the key has.
func (s Store) Once(o Once, ids []string) []resque.Guarded {
	key := s.OnceKey(o.Key)
	all := make([]resque.Guarded, len(ids))
	for i := range all {
		all[i].Effects = []resque.Effect{resque.Guard("GET", key, "")}
	}
	if n := len(all); n > 0 {
		text := o.Fingerprint + " " + strings.Join(ids, " ")
		all[n-1].Effects = append(all[n-1].Effects, resque.Command("SET", key, text, "PX", OnceTTL.Milliseconds()))
	}
	return all
}

// Made returns the ids of the jobs that were made with an idempotency key; none: the key is unknown. The error matches
// ErrKeyReused if they were made by another request. With a *resque.ReplicasError the ids are returned too.
func (s Store) Made(c redis.Conn, o Once) (ids []string, err error) {
	text, err := redis.String(c.Do("GET", s.OnceKey(o.Key)))
	if errors.Is(err, redis.ErrNil) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading an idempotency key: %w", resque.Explain(err))
	}
	fingerprint, made, _ := strings.Cut(text, " ")
	if fingerprint != o.Fingerprint {
		return nil, ErrKeyReused
	}
	ids = strings.Fields(made)
	// WAIT waits for all that was written before the last command of its connection, and so for the jobs.
	return ids, s.AwaitReplicas(c, &resque.ReplicasError{To: "an idempotency key", Jobs: len(ids)})
}
