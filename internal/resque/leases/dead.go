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

// lateDead is how many of the newest failures of a queue TakeBack looks at, in pages of which one may be large.
const lateDead = 1000

// TakeBack removes the failure of a job that was acknowledged late, if it is among the newest 1,000 of its queue.
func (s Store) TakeBack(c redis.Conn, queue, id string) (bool, error) {
	if id == "" {
		return false, nil
	}
	text, err := payload.EncodeValue(id, payload.Plain)
	if err != nil {
		return false, nil
	}
	key, looked := s.deadList(queue), 0
	var from *resque.ListPlace
	for looked < lateDead {
		page, err := s.WalkList(c, key, false, from, 1, [][]byte{text}, func(raw []byte) bool {
			f, err := payload.ParseFailure(raw)
			if err != nil || !bytes.Contains(f.Payload, text) {
				return false
			}
			p, err := payload.Parse(f.Payload)
			return err == nil && p.ID == id
		})
		if err == nil && len(page.Found) > 0 {
			var removed int
			removed, err = redis.Int(c.Do("LREM", key, -1, page.Found[0].Raw))
			if err == nil {
				return removed > 0, nil
			}
		}
		if err != nil {
			return false, fmt.Errorf("taking back a failure of queue %s: %w", queue, resque.Explain(err))
		}
		looked += page.Looked
		if from = page.Next; from == nil {
			break
		}
	}
	return false, nil
}
