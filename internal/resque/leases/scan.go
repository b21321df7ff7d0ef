package leases

import (
	"fmt"
	"slices"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/resque"
)

// scanned is about how many jobs a page of Scan has, if there are many.
const scanned = 100

// Scan returns a page of the jobs of all queues that clients hold, in no order, and the cursor of the next page. The cursor is
// "0" at the beginning and at the end. A job that is held all the time is not missed, and may be returned twice. A job whose
// lease was removed has "" as Lease. What another program has written has no Queue.
func (s Store) Scan(c redis.Conn, cursor string) (jobs []Job, next string, err error) {
	r, err := redis.Values(c.Do("HSCAN", s.KeyOfLeased(), cursor, "COUNT", scanned))
	if err == nil && len(r) != 2 {
		err = resque.ErrAnswer
	}
	var pairs [][]byte
	if err == nil {
		if next, err = redis.String(r[0], nil); err == nil {
			pairs, err = redis.ByteSlices(r[1], nil)
		}
	}
	if err != nil {
		return nil, "", s.explain(c, err, "", "reading which jobs clients hold")
	}
	places := make([]string, 0, len(pairs)/2)
	for pair := range slices.Chunk(pairs, 2) {
		j := Job{Payload: pair[len(pair)-1]}
		var ok bool
		if j.Queue, j.ID, ok = ParsePlace(string(pair[0])); !ok {
			j.Queue, j.ID = "", string(pair[0])
		}
		jobs, places = append(jobs, j), append(places, string(pair[0]))
	}
	for at := 0; at < len(places); at += MostJobs {
		some := places[at:min(at+MostJobs, len(places))]
		texts, err := s.Leases(c, some)
		if err == nil && len(texts) != len(some) {
			err = fmt.Errorf("reading leases: %w", resque.ErrAnswer)
		}
		if err != nil {
			return nil, "", err
		}
		for i, text := range texts {
			jobs[at+i].Lease, jobs[at+i].Effects = text, HasEffects(text)
		}
	}
	return jobs, next, nil
}
