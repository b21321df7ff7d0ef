package leases

import (
	"bytes"
	"fmt"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/payload"
	"github.com/goworker/goworker/internal/resque"
)

var respawnScript = resque.LoadScript(scriptFiles, "respawn")

// deadPage bounds how many failure records one step reads.
const deadPage = 100

func (s Store) deadList(queue string) string {
	return s.KeyOfFailures(resque.FailureListOf(queue))
}

// DeadHead returns the oldest failure records of a queue, at most so many and at most 100.
func (s Store) DeadHead(c redis.Conn, queue string, most int) (records [][]byte, err error) {
	if most <= 0 {
		return nil, nil
	}
	records, err = redis.ByteSlices(c.Do("LRANGE", s.deadList(queue), 0, min(most, deadPage)-1))
	if err != nil {
		return nil, fmt.Errorf("reading the failures of queue %s: %w", queue, resque.Explain(err))
	}
	return records, nil
}

// DeadSize returns how many failures a queue has.
func (s Store) DeadSize(c redis.Conn, queue string) (int64, error) {
	n, err := redis.Int64(c.Do("LLEN", s.deadList(queue)))
	if err != nil {
		return 0, fmt.Errorf("counting the failures of queue %s: %w", queue, resque.Explain(err))
	}
	return n, nil
}

// Respawn puts the jobs of the oldest failures of a queue to its tail, as these payloads, and removes the records. It
// returns 0 if the list does not begin with these records any more: read them again.
func (s Store) Respawn(c redis.Conn, queue string, records, payloads [][]byte) (moved int, err error) {
	n := len(records)
	if n == 0 || n != len(payloads) || n > MostJobs {
		return 0, nil
	}
	var a resque.Call
	a.Key(s.deadList(queue))
	a.Key(s.KeyOfQueue(queue))
	a.Key(s.KeyOfNames(queue))
	a.Key(s.ReturnedKey().String())
	a.Arg(queue, n)
	for _, record := range records {
		a.Arg(digest(record))
	}
	for _, raw := range payloads {
		if id := payload.Tail(raw).ID; id != "" {
			a.Arg(Place(queue, id))
		} else {
			a.Arg("")
		}
	}
	for _, raw := range payloads {
		a.Arg(raw)
	}
	moved, err = redis.Int(a.Do(c, respawnScript))
	if err != nil {
		return 0, s.explain(c, err, "", "running %s of queue %s again", resque.Plural(n, "failure"), queue)
	}
	return moved, nil
}

// RemoveDead removes the oldest failures of a queue, at most so many, and returns how many there were.
func (s Store) RemoveDead(c redis.Conn, queue string, most int) (removed int, err error) {
	if most <= 0 {
		return 0, nil
	}
	b := resque.Batch{Conn: c}
	b.Send("MULTI")
	b.Send("LLEN", s.deadList(queue))
	b.Send("LTRIM", s.deadList(queue), most, -1)
	b.Send("EXEC")
	replies, err := b.Receive()
	var results []any
	if err == nil {
		results, err = redis.Values(resque.Answer(replies[3]))
	}
	for _, result := range results {
		if err == nil {
			_, err = resque.Answer(result)
		}
	}
	if err == nil && len(results) != 2 {
		err = resque.ErrAnswer
	}
	if err == nil {
		removed, err = redis.Int(results[0], nil)
	}
	if err != nil {
		return 0, fmt.Errorf("removing failures of queue %s: %w", queue, resque.Explain(err))
	}
	return min(removed, most), nil
}

// lateDead is how many of the newest failures of a queue TakeBack and FindDead look at, in pages of which one may be large.
const lateDead = 1000

// TakeBack removes the failure of a job that was acknowledged late, if it is among the newest 1,000 of its queue.
func (s Store) TakeBack(c redis.Conn, queue, id string) (bool, error) {
	record, _, _, err := s.findDead(c, queue, id)
	removed := 0
	if err == nil && record != nil {
		removed, err = redis.Int(c.Do("LREM", s.deadList(queue), -1, record))
	}
	if err != nil {
		return false, fmt.Errorf("taking back a failure of queue %s: %w", queue, resque.Explain(err))
	}
	return removed > 0, nil
}

// FindDead looks for the failure of a job with an id among the newest 1,000 of its queue, and returns how many of them it
// looked at. record is nil if there is none.
func (s Store) FindDead(c redis.Conn, queue, id string) (record []byte, f payload.Failure, looked int, err error) {
	if record, f, looked, err = s.findDead(c, queue, id); err != nil {
		return nil, f, looked, fmt.Errorf("looking for a failure of queue %s: %w", queue, resque.Explain(err))
	}
	return record, f, looked, nil
}

func (s Store) findDead(c redis.Conn, queue, id string) (record []byte, f payload.Failure, looked int, err error) {
	text, err := payload.EncodeValue(id, payload.Plain)
	if err != nil || id == "" {
		return nil, f, 0, nil
	}
	for from := (*resque.ListPlace)(nil); looked < lateDead; {
		page, err := s.WalkList(c, s.deadList(queue), false, from, 1, [][]byte{text}, func(raw []byte) bool {
			var err error
			if f, err = payload.ParseFailure(raw); err != nil || !bytes.Contains(f.Payload, text) {
				return false
			}
			return hasID(f.Payload, id)
		})
		looked += page.Looked
		switch {
		case err != nil:
			return nil, payload.Failure{}, looked, err
		case len(page.Found) > 0:
			return page.Found[0].Raw, f, looked, nil
		}
		if from = page.Next; from == nil {
			break
		}
	}
	return nil, payload.Failure{}, looked, nil
}
