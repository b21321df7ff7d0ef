package resque

import (
	"fmt"
	"strconv"

	"github.com/gomodule/redigo/redis"
)

// scanPage is about how many jobs one command returns.
const scanPage = 1000

// ScanDelayed reads a page of the jobs of our schedule, in no order, and returns the cursor of the next one. Both
// cursors are "0" at the ends. A job that is there all the time is not missed, and may be returned twice.
func (s Store) ScanDelayed(c redis.Conn, cursor string) (jobs []Reserved, next string, err error) {
	return s.scanPairs(c, "ZSCAN", s.KeyOfSchedule(), cursor, func(member, _ []byte) (Reserved, bool) { return parseReserved(0, member) })
}

// ScanInFlight reads a page of a process's in-flight record, as ScanDelayed.
func (s Store) ScanInFlight(c redis.Conn, process, cursor string) (jobs []Reserved, next string, err error) {
	var apart []int64
	jobs, next, err = s.scanPairs(c, "HSCAN", s.inflight(process), cursor, func(field, value []byte) (Reserved, bool) {
		ticket, err := strconv.ParseInt(string(field), 10, 64)
		if err == nil && isApart(value) {
			apart = append(apart, ticket)
		}
		if err != nil {
			return Reserved{}, false
		}
		return parseReserved(0, value)
	})
	if len(apart) == 0 || err != nil {
		return jobs, next, err
	}
	large, _, err := s.ReadReserved(c, process, apart)
	return append(jobs, large...), next, err
}

// ScanLeased reads a page of the jobs that clients hold over HTTP, as ScanDelayed.
func (s Store) ScanLeased(c redis.Conn, cursor string) (jobs []Reserved, next string, err error) {
	return s.scanPairs(c, "HSCAN", s.KeyOfLeased(), cursor, func(place, payload []byte) (j Reserved, ok bool) {
		j.Queue, _, ok = ParsePlace(string(place))
		j.Payload = payload
		return j, ok
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
