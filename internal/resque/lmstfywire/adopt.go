package lmstfywire

import (
	"errors"
	"strconv"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/resque"
)

// Adopted is a job of a page as a Store has it. Of Record and At at most one is set.
type Adopted struct {
	Queue   string
	Payload []byte
	At      time.Time // when a delayed job is due
	Record  []byte    // the failure record of a dead one, which goes into the queue's own list
}

// Store is a namespace that jobs are imported into.
type Store struct{ resque.Store }

// ImportedKey is the hash that has the number of the last page that was adopted, of each Redis of lmstfy.
func (s Store) ImportedKey() resque.Key { return s.HashKey("imported") }

// Adopt writes the jobs of a page, and that they are there, in one step. Jobs of a page that is there already are not written; then
// it reports false.
func (s Store) Adopt(c redis.Conn, p Claimed, jobs []Adopted) (bool, error) {
	imported := s.ImportedKey()
	last, err := redis.String(c.Do("HGET", imported.String(), p.Source))
	if err != nil && !errors.Is(err, redis.ErrNil) {
		return false, explain("reading "+imported.String(), err)
	}
	// A later number means that this page was read long ago: since then another import has adopted and dropped it.
	if n, _ := strconv.ParseInt(last, 10, 64); n >= p.Number || len(jobs) == 0 {
		return false, nil
	}
	effects := []resque.Effect{
		resque.Guard("HGET", imported, last, p.Source),
		resque.Command("HSET", imported, p.Source, p.Number),
	}
	for _, j := range jobs {
		switch {
		case j.Record != nil:
			effects = append(effects, s.FileFailure(j.Queue, j.Record, true)...)
		case !j.At.IsZero():
			effects = append(effects, s.ScheduleAt(resque.StampOf(j.At).MS, j.Queue, j.Payload))
		default:
			effects = append(effects, s.PushTail(j.Queue, j.Payload)...)
		}
	}
	var b resque.Bulk
	if err := b.PutRaw(jobs[0].Payload, resque.Place{Queue: jobs[0].Queue}, resque.Guarded{Effects: effects, Placed: true}); err != nil {
		return false, err
	}
	if err := s.PushBulk(c, &b); err != nil {
		return false, err
	}
	_, err = b.Result(0)
	if errors.Is(err, resque.ErrGuard) { // another import was quicker
		return false, nil
	}
	return err == nil, err
}
