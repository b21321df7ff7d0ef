package httpapi

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/inspect"
	"github.com/goworker/goworker/internal/conn"
	"github.com/goworker/goworker/internal/gateway"
	"github.com/goworker/goworker/internal/pattern"
	"github.com/goworker/goworker/internal/prefix"
	"github.com/goworker/goworker/internal/producer"
	"github.com/goworker/goworker/internal/resque"
	"github.com/goworker/goworker/internal/resque/leases"
)

// problemOfJobs returns the problem that an error of the gateway or of Redis is. Texts of Redis may quote what was sent, so
// no answer has them.
func problemOfJobs(err error) *problem {
	var full *gateway.FullError
	var few *resque.ReplicasError
	var duplicate *producer.Duplicate
	switch {
	case errors.As(err, &full):
		return newProblem("queue-full", full.Error(), "length", full.Length, "most", full.Most)
	case errors.As(err, &duplicate):
		return newProblem("exists", fmt.Sprintf("job %s has the lock that the job wants; publish again when that job has ended", quoted(duplicate.ID)), "id", duplicate.ID)
	case errors.As(err, &few):
		return newProblem("too-few-replicas", fmt.Sprintf("the job is there, and %d of %d replicas have it; a fail-over now may lose it, and publishing it again doubles it", few.Have, few.Wanted),
			"have", few.Have, "wanted", few.Wanted)
	case errors.Is(err, leases.ErrKeyReused):
		return newProblem("key-reused", "the idempotency key was given with another request before; give each request a key of its own")
	case errors.Is(err, gateway.ErrReserved):
		return newProblem("is-reserved", "a consumer has the job; wait until it has ended, or cancel it with force=true")
	case errors.Is(err, gateway.ErrNotFoundInTime):
		return newProblem("not-found-in-time", "the job was not found among those that a search may read, or the queue rests from the last search; try again later, or cancel it with force=true")
	case errors.Is(err, gateway.ErrExists):
		return newProblem("exists", "a consumer has a job of this id; give the new job another id")
	case errors.Is(err, gateway.ErrNoJob):
		return newProblem("no-job", "the queue has no such job: it has ended, or its id is another")
	case errors.Is(err, inspect.ErrNoFailure):
		return newProblem("no-job", "the queue has no such dead letter: it was retried or removed since it was listed")
	case errors.Is(err, inspect.ErrRetried):
		return newProblem("exists", "the dead letter was retried before; its job is in the queue, or has ended again")
	case errors.Is(err, gateway.ErrStopping):
		return newProblem("stopping", "this server stops and takes no requests; ask again, and another one answers")
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return newProblem("redis-away", "Redis did not answer in time; what was asked may have been done; try again")
	}
	return problemOfRedis(err)
}

var wrongKey = pattern.New(`key (.+?): `)

// problemOfRedis returns the problem of an error that Redis answered, or that it did not answer.
func problemOfRedis(err error) *problem {
	var key resque.KeyError
	var typed *resque.KeyTypeError
	var refused redis.Error
	switch {
	case errors.As(err, &typed):
		return wrongType(typed.Key)
	case errors.As(err, &key) && strings.HasPrefix(key.Reason, "WRONGTYPE "):
		return wrongType(key.Key)
	case resque.IsWrongType(err):
		if at := wrongKey.FindStringSubmatch(err.Error()); at != nil {
			return wrongType(at[1])
		}
		return newProblem("wrong-type", "a key of Redis has another type than Resque gives it; rename or remove that key, which the server's log names")
	case errors.As(err, &refused) && (strings.HasPrefix(string(refused), "OOM ") || strings.HasPrefix(string(refused), "MISCONF ")):
		return newProblem("redis-full", "Redis has no memory left, or cannot write now; free some or raise its maxmemory; consumers go on")
	}
	if ofServer(err) {
		return newProblem("internal", "the server could not do this; its log says why, by the id of the request")
	}
	return newProblem("redis-away", "Redis does not answer or refuses the server; what was asked may have been done; the server's log says more; try again")
}

// ofServer reports whether an error comes neither from Redis nor from the way to it.
func ofServer(err error) bool {
	var refused redis.Error
	return conn.Classify(err) == conn.KindOther && !errors.As(err, &refused)
}

// ofPage returns the problem of an error of a list that goes on behind a page: what the client gave may be no such place.
func ofPage(err error, after string) error {
	if p := problemOf(err); p.of.name != "internal" || after == "" {
		return err
	}
	return invalid("after", "after is not where a page begins; give next of the page before, or leave it out")
}

// ofJob returns the problem of an error of a publish: what is neither Redis's nor known is what the client asked for.
func ofJob(err error) *problem {
	var of *gateway.PublicationError
	p := problemOf(err)
	if p.of.name == "internal" && !errors.Is(err, resque.ErrAnswer) {
		p = invalid("job", prefix.Bare(err))
	}
	if errors.As(err, &of) {
		p.with("job", of.N+1)
	}
	return p
}

func wrongType(key string) *problem {
	return newProblem("wrong-type", fmt.Sprintf("the key %s has another type than Resque gives it; rename or remove that key", key), "key", key)
}
