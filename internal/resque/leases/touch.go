package leases

import (
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/resque"
)

var touchScript = resque.LoadScript(scriptFiles, "touch")

// Touch gives a lease another end. newLease is "" if the job has not this lease; "" as lease means whichever it has.
func (s Store) Touch(c redis.Conn, queue, id, lease string, ttr time.Duration) (newLease string, err error) {
	var a resque.Call
	a.Key(s.KeyOfLeases())
	a.Arg(Place(queue, id), lease, ttr.Milliseconds())
	newLease, err = redis.String(a.Do(c, touchScript))
	if err == redis.ErrNil {
		return "", nil
	}
	return newLease, s.explain(c, err, "", "giving a job of queue %s more time", queue)
}

// Leases returns the leases of places, "" for a place that has none.
func (s Store) Leases(c redis.Conn, places []string) ([]string, error) {
	if len(places) == 0 {
		return nil, nil
	}
	r, err := redis.Strings(c.Do("ZMSCORE", redis.Args{s.KeyOfLeases()}.AddFlat(places)...))
	if err == nil && len(r) != len(places) {
		err = resque.ErrAnswer
	}
	return r, s.explain(c, err, "", "reading the leases of %s", resque.Plural(len(places), "job"))
}

// Leased returns the payload and the lease of a job that a client holds; no payload if there is none.
func (s Store) Leased(c redis.Conn, place string) (payload []byte, lease string, err error) {
	b := resque.Batch{Conn: c}
	b.Send("HGET", s.KeyOfLeased(), place)
	b.Send("ZSCORE", s.KeyOfLeases(), place)
	replies, err := b.Receive()
	if err == nil {
		payload, err = orNone(redis.Bytes(resque.Answer(replies[0])))
	}
	if err == nil {
		lease, err = orNone(redis.String(resque.Answer(replies[1])))
	}
	if err != nil || payload == nil || lease == "" {
		return nil, "", s.explain(c, err, "", "reading a job that a client holds")
	}
	return payload, lease, nil
}

// Held returns those of some jobs that still have their leases, with their payloads. It reads all of them at once.
func (s Store) Held(c redis.Conn, jobs []Job) ([]Job, error) {
	b := resque.Batch{Conn: c}
	for _, j := range jobs {
		b.Send("HGET", s.KeyOfLeased(), j.Place())
		b.Send("ZSCORE", s.KeyOfLeases(), j.Place())
	}
	replies, err := b.Receive()
	var held []Job
	for i := 0; i < len(jobs) && err == nil; i++ {
		var payload []byte
		var lease string
		if payload, err = orNone(redis.Bytes(resque.Answer(replies[2*i]))); err == nil {
			lease, err = orNone(redis.String(resque.Answer(replies[2*i+1])))
		}
		if payload != nil && lease == jobs[i].Lease {
			j := jobs[i]
			j.Payload = payload
			held = append(held, j)
		}
	}
	if err != nil {
		return nil, s.explain(c, err, "", "reading jobs that clients hold")
	}
	return held, nil
}

// orNone takes the answer that Redis has nothing for an empty value.
func orNone[T any](v T, err error) (T, error) {
	if err == redis.ErrNil {
		var none T
		return none, nil
	}
	return v, err
}
