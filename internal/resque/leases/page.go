package leases

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/resque"
)

// Listed is a job of a page.
type Listed struct {
	Payload []byte
	ID      string // of a reserved job; else the payload has it
	Lease   string // of a reserved job
	Due     int64  // of a delayed job, in ms
}

// mostListed is how many jobs a page has.
const mostListed = 1000

// ErrPage is in the error for a text that no page returned.
var ErrPage = errors.New("give what the page before returned")

func notAPlace(from string) error {
	return fmt.Errorf("%q is not where a page of jobs begins; %w", from, ErrPage)
}

// Ready returns a page of the jobs that wait in a queue, from the head, and where the next one begins, "" at the end. A
// page has about 1 MiB.
func (s Store) Ready(c redis.Conn, queue, from string, most int) (jobs []Listed, next string, err error) {
	var place *resque.ListPlace
	if from != "" {
		place = new(resque.ListPlace)
		if json.Unmarshal([]byte(from), place) != nil || place.At < 0 {
			return nil, "", fmt.Errorf("reading queue %s: %w", queue, notAPlace(from))
		}
	}
	page, err := s.WalkList(c, s.KeyOfQueue(queue), true, place, min(most, mostListed), nil, func([]byte) bool { return true })
	if err != nil {
		return nil, "", fmt.Errorf("reading queue %s: %w", queue, resque.Explain(err))
	}
	for _, e := range page.Found {
		jobs = append(jobs, Listed{Payload: e.Raw})
	}
	if page.Next != nil {
		text, _ := json.Marshal(page.Next)
		next = string(text)
	}
	return jobs, next, nil
}

// delayedLooks is how many delayed jobs of all queues a page looks at: about 10 ms of Redis.
const delayedLooks = 10_000

// Delayed returns a page of the delayed jobs of a queue, in the order of their times. It looks at a bounded number of
// jobs of all queues, so a page that is not the last may have none. A job that waits all the while is not missed unless
// ones of its own millisecond go.
func (s Store) Delayed(c redis.Conn, queue, from string, most int) (jobs []Listed, next string, err error) {
	after, seen := "-inf", 0
	if from != "" {
		score, nth, ok := strings.Cut(from, "+")
		if seen, err = strconv.Atoi(nth); err != nil || !ok || seen < 0 {
			return nil, "", notAPlace(from)
		}
		if _, err = strconv.ParseFloat(score, 64); err != nil {
			return nil, "", notAPlace(from)
		}
		after = score
	}
	most = min(most, mostListed)
	size := resque.PageSize(0, 0, 0)
	for looked := 0; looked < delayedLooks; {
		pairs, err := redis.ByteSlices(c.Do("ZRANGEBYSCORE", s.KeyOfSchedule(), after, "+inf", "WITHSCORES", "LIMIT", seen, size))
		if err != nil {
			return nil, "", s.explain(c, err, "", "reading the delayed jobs of queue %s", queue)
		}
		var bytes int64
		for pair := range slices.Chunk(pairs, 2) {
			bytes += int64(len(pair[0]))
			if len(jobs) == most {
				return jobs, fmt.Sprint(after, "+", seen), nil
			}
			score := string(pair[len(pair)-1])
			if score != after {
				after, seen = score, 0
			}
			seen++
			if of, raw, ok := resque.CutPrefix(pair[0]); ok && of == queue {
				due, _ := strconv.ParseFloat(score, 64)
				jobs = append(jobs, Listed{Payload: raw, Due: int64(due)})
			}
		}
		read := len(pairs) / 2
		if looked += read; int64(read) < size {
			return jobs, "", nil
		}
		size = resque.PageSize(size, read, bytes)
	}
	return jobs, fmt.Sprint(after, "+", seen), nil
}

// Reserved returns a page of the jobs of a queue that clients hold, in no order. A page that is not the last may have none,
// and one may have more than most.
func (s Store) Reserved(c redis.Conn, queue, from string, most int) (jobs []Listed, next string, err error) {
	cursor := "0"
	if from != "" {
		if _, err := strconv.ParseUint(from, 10, 64); err != nil {
			return nil, "", notAPlace(from)
		}
		cursor = from
	}
	page, err := s.held(c, queue, cursor)
	if err != nil {
		return nil, "", s.explain(c, err, "", "reading the jobs of queue %s that clients hold", queue)
	}
	for _, j := range page.Jobs {
		jobs = append(jobs, Listed{ID: j.ID, Lease: j.Lease, Payload: j.Payload})
	}
	if page.Next != "0" {
		next = page.Next
	}
	return jobs, next, nil
}
