package resque

import (
	"fmt"

	"github.com/gomodule/redigo/redis"
)

// scanPage is about how many jobs one command returns.
const scanPage = 1000

// ScanDelayed reads a page of the jobs of our schedule, in no order, and returns the cursor of the next one. Both
// cursors are "0" at the ends. A job that is there all the time is not missed, and may be returned twice.
func (s Store) ScanDelayed(c redis.Conn, cursor string) (jobs []Reserved, next string, err error) {
	return s.scanJobs(c, "ZSCAN", s.KeyOfSchedule(), cursor, 0)
}

// ScanInFlight reads a page of a process's in-flight record, as ScanDelayed.
func (s Store) ScanInFlight(c redis.Conn, process, cursor string) (jobs []Reserved, next string, err error) {
	return s.scanJobs(c, "HSCAN", s.inflight(process), cursor, 1)
}

// ScanLeased reads a page of the jobs that clients hold over HTTP, as ScanDelayed.
func (s Store) ScanLeased(c redis.Conn, cursor string) (jobs []Reserved, next string, err error) {
	return s.scanPairs(c, "HSCAN", s.KeyOfLeased(), cursor, func(place, payload []byte) (j Reserved, ok bool) {
		j.Queue, _, ok = ParsePlace(string(place))
		j.Payload = payload
		return j, ok
	})
}

// scanJobs reads a page of jobs with their queues in front: job is 0 where they are members, and 1 where they are values.
func (s Store) scanJobs(c redis.Conn, command, key, cursor string, job int) (jobs []Reserved, next string, err error) {
	return s.scanPairs(c, command, key, cursor, func(member, value []byte) (Reserved, bool) {
		return parseReserved(0, [][]byte{member, value}[job])
	})
}

func (s Store) scanPairs(c redis.Conn, command, key, cursor string, parse func(a, b []byte) (Reserved, bool)) (jobs []Reserved, next string, err error) {
	r, err := redis.Values(c.Do(command, key, cursor, "COUNT", scanPage))
	if err == nil && len(r) != 2 {
		err = ErrAnswer
	}
	var pairs [][]byte
	if err == nil {
		if next, err = redis.String(r[0], nil); err == nil {
			pairs, err = redis.ByteSlices(r[1], nil)
		}
	}
	if err != nil {
		return nil, "", fmt.Errorf("reading the jobs of %s: %w", key, Explain(err))
	}
	for i := 0; i+1 < len(pairs); i += 2 {
		if j, ok := parse(pairs[i], pairs[i+1]); ok {
			jobs = append(jobs, j)
		}
	}
	return jobs, next, nil
}
