package resque

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/gomodule/redigo/redis"
)

// HistogramSeconds is of how many of resque-scheduler's seconds a Histogram counts the jobs.
const HistogramSeconds = 2000

// Histogram is how many delayed jobs are due in each of some stretches of time.
type Histogram struct {
	Own   []int64 // in goworker's schedule
	Plain []int64 // in resque-scheduler's, in the seconds that were looked at
	Rest  []int64 // seconds of resque-scheduler's that were not looked at; each has a job at least
}

// Histogram counts the delayed jobs between each two neighbors of rising edges. The edge in front belongs to a stretch, and the other one does
// not. It sends at most five commands in two round trips.
func (s Store) Histogram(c redis.Conn, edges []time.Time) (h Histogram, err error) {
	columns := len(edges) - 1
	h = Histogram{make([]int64, columns), make([]int64, columns), make([]int64, columns)}
	var a together
	var first error
	failed := func(what string, e error) bool {
		if e != nil && first == nil {
			first = fmt.Errorf("counting the delayed jobs of %s: %w", what, Explain(e))
		}
		return e != nil
	}
	score := func(at time.Time, unit int64) string { // rounded up: the first whole unit at that time or behind it
		ms := at.UnixMilli()
		if at.After(time.UnixMilli(ms)) {
			ms++
		}
		whole := ms / unit
		if ms%unit > 0 {
			whole++
		}
		return strconv.FormatInt(whole, 10)
	}
	for n := range columns {
		a.ask(func(reply any, err error) {
			h.Own[n], err = redis.Int64(reply, err)
			failed("goworker's schedule", err)
		}, "ZCOUNT", s.KeyOfSchedule(), score(edges[n], 1), "("+score(edges[n+1], 1))
	}
	for n := range columns {
		a.ask(func(reply any, err error) {
			h.Rest[n], err = redis.Int64(reply, err)
			failed("resque-scheduler's schedule", err)
		}, "ZCOUNT", s.KeyOfSeconds(), score(edges[n], 1000), "("+score(edges[n+1], 1000))
	}
	var seconds []string
	a.ask(func(reply any, err error) {
		seconds, err = redis.Strings(reply, err)
		failed("resque-scheduler's schedule", err)
	}, "ZRANGEBYSCORE", s.KeyOfSeconds(), score(edges[0], 1000), "("+score(edges[columns], 1000), "LIMIT", 0, HistogramSeconds)
	t := &trip{c: c}
	a.on(t)
	if err = t.run(); err != nil || first != nil {
		return h, firstError(err, first)
	}
	t = &trip{c: c}
	for part := range slices.Chunk(seconds, lengthsTogether) {
		keys := make([]string, len(part))
		for i, second := range part {
			keys[i] = s.KeyOfSecond(second)
		}
		var lists together
		lists.each(func(i int, reply any, err error) {
			length, err := redis.Int64(reply, err)
			at, e := strconv.ParseInt(part[i], 10, 64)
			column := columnOf(edges, time.Unix(at, 0))
			if IsWrongType(err) || e != nil || column < 0 { // it stays a second of which nothing more is known
				return
			}
			if !failed("resque-scheduler's schedule", err) {
				h.Plain[column] += length
				h.Rest[column]--
			}
		}, keys, "LLEN")
		lists.on(t)
	}
	if len(t.takes) > 0 {
		err = t.run()
	}
	return h, firstError(err, first)
}

// firstError is why all was refused, or else a part.
func firstError(all, part error) error {
	if all != nil {
		return fmt.Errorf("counting the delayed jobs: %w", Explain(all))
	}
	return part
}

// columnOf is the stretch that a time is in; -1: none.
func columnOf(edges []time.Time, at time.Time) int {
	n, there := slices.BinarySearchFunc(edges, at, time.Time.Compare)
	if !there {
		n--
	}
	if n < 0 || n >= len(edges)-1 {
		return -1
	}
	return n
}
