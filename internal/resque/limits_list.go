package resque

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"
)

// This file reads and changes the numbers of limits for an operator.

// LimitNumbers returns the numbers of all limits, as Redis keeps them, by Limit.Spec.
func (s Store) LimitNumbers(c redis.Conn) (map[string]string, error) {
	all, err := redis.StringMap(c.Do("HGETALL", s.limits()))
	if err != nil {
		return nil, fmt.Errorf("reading the limits: %w", Explain(err))
	}
	return all, nil
}

// ParseSpec reads what Limit.Spec wrote.
func ParseSpec(spec string) (l Limit, ok bool) {
	l = ParseLimit(spec)
	switch l.Kind {
	case LimitRunning, LimitRunningHere, LimitStarts, LimitStartsHere:
		return l, l.Name != "" && l.Spec() == spec
	}
	return l, false
}

// ParseNumbers reads the numbers of a limit as take.lua does: how many, or µs between two starts, and how many at once.
func ParseNumbers(text string) (n float64, burst int, ok bool) {
	first, rest, spaced := strings.Cut(text, " ")
	if strings.Trim(first, "0123456789.") != "" || strings.Trim(rest, "0123456789") != "" {
		return 0, 0, false
	}
	n, err := strconv.ParseFloat(first, 64)
	if burst = 1; spaced && rest != "" {
		if burst, err = strconv.Atoi(rest); err != nil {
			return 0, 0, false
		}
	}
	return n, burst, err == nil
}

// NumbersOf reads the numbers of a limit as people write them, "3" or, of a rate, "5/s", "100/m:10" with how many at once, and returns
// them as Redis keeps them.
func NumbersOf(rate bool, text string) (numbers string, ok bool) {
	if !rate {
		n, err := strconv.Atoi(text)
		return strconv.Itoa(n), err == nil && n >= 1
	}
	number, burst, bursts := strings.Cut(text, ":")
	count, unit, _ := strings.Cut(number, "/")
	per, known := map[string]time.Duration{"s": time.Second, "m": time.Minute, "h": time.Hour}[unit]
	n, err := strconv.Atoi(count)
	if err != nil || !known || n < 1 {
		return "", false
	}
	each := float64(per.Microseconds()) / float64(n)
	at := DefaultBurst(each)
	if bursts {
		if at, err = strconv.Atoi(burst); err != nil || at < 1 {
			return "", false
		}
	}
	return RateText(each, at), each >= 1
}

// LimitCounts is how much of a limit is in use.
type LimitCounts struct {
	Running int64 // holders of its slots
	Waiting int64 // jobs in lanes that it holds back, those that wait for another limit too included
	Lanes   int64 // of these jobs
}

// CountLimits counts the slots and the waiting jobs of all limits, by Limit.Spec. It reads the turns of at most so many lanes, and
// reports whether these were all. A job that counts in two processes, or for two keys, counts twice where it holds two slots.
func (s Store) CountLimits(c redis.Conn, mostLanes int) (counts map[string]*LimitCounts, all bool, err error) {
	counts = make(map[string]*LimitCounts)
	of := func(spec string) *LimitCounts {
		if counts[spec] == nil {
			counts[spec] = new(LimitCounts)
		}
		return counts[spec]
	}
	sets, err := s.SortedQueues(c, "")
	if err != nil {
		return counts, false, err
	}
	processes, err := s.ProcessIDs(c)
	if err != nil {
		return counts, false, err
	}
	all = true
	slots := make(map[string]string) // key of slots: spec
	for _, set := range sets {
		for text := range strings.SplitSeq(set.Shared, ",") { // slots stay behind where a lane has run empty
			s.addSlots(slots, ParseLimit(text), processes)
		}
		for cursor := ""; cursor != "0" && all; {
			if cursor == "" {
				cursor = "0"
			}
			var lanes []Lane
			if lanes, cursor, err = s.ScanLanes(c, set, cursor); err != nil {
				return counts, false, err
			}
			if mostLanes -= len(lanes); mostLanes < 0 {
				all = false
			}
			keys := make([]string, len(lanes))
			for n, l := range lanes {
				keys[n] = s.lane(l)
			}
			sizes, err := lengths(c, keys)
			if err != nil {
				return counts, false, fmt.Errorf("counting the jobs in lanes: %w", err)
			}
			for n, l := range lanes {
				size := sizes[n]
				for _, limit := range l.Limits() {
					if n := of(limit.Spec()); size > 0 {
						n.Waiting, n.Lanes = n.Waiting+size, n.Lanes+1
					}
					s.addSlots(slots, limit, processes)
				}
			}
		}
	}
	return counts, all, s.countSlots(c, slots, func(spec string, n int64) { of(spec).Running += n })
}

// addSlots adds the keys of a limit's slots.
func (s Store) addSlots(slots map[string]string, l Limit, processes []string) {
	if !l.running() {
		return
	}
	if !l.here() {
		slots[s.limitKey(l, "")] = l.Spec()
		return
	}
	for _, p := range processes {
		slots[s.limitKey(l, p)] = l.Spec()
	}
}

// countSlots counts the members of the slots' keys.
func (s Store) countSlots(c redis.Conn, slots map[string]string, add func(spec string, n int64)) error {
	for keys := range slices.Chunk(slices.Sorted(maps.Keys(slots)), 1000) {
		b := Batch{Conn: c}
		for _, key := range keys {
			b.Send("SCARD", key)
		}
		sizes, err := b.Receive()
		if err != nil {
			return fmt.Errorf("counting what limits let run: %w", err)
		}
		for n, key := range keys {
			if size, err := redis.Int64(Answer(sizes[n])); err == nil && size > 0 {
				add(slots[key], size)
			}
		}
	}
	return nil
}

// DefaultBurst is how many starts a rate allows at once where its program does not say. A process looks again some time after there is a
// token. The tokens of about 10 ms may be used together, or fast rates would fall short.
func DefaultBurst(each float64) int { return max(1, int(10_000/max(1, each))) }

// RateText writes the numbers of a rate: the µs from one start to the next, and how many may start at once.
func RateText(each float64, burst int) string {
	return fmt.Sprintf("%s %d", strconv.FormatFloat(each, 'f', 3, 64), burst)
}
