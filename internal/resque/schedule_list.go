package resque

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/goworker/goworker/internal/payload"
)

// Delayed is a job that waits in one of the schedules.
type Delayed struct {
	At      time.Time
	Queue   string
	Payload []byte // as it will stand in the queue
	Raw     []byte // as it stands in the schedule
	Err     error  // why it is no job; Payload is nil then

	second string // of resque-scheduler; "": it waits in our own schedule
}

// Plain reports whether it waits where resque-scheduler has its jobs.
func (d Delayed) Plain() bool { return d.second != "" }

// Is reports whether it is the time that a job delayed to t has.
func (d Delayed) Is(t time.Time) bool {
	at := stampOf(t)
	if d.Plain() {
		return d.second == at.second()
	}
	return d.At.UnixMilli() == at.ms
}

const delayedPage = 1000

// DelayedPage returns jobs that are due at a time or later, of both schedules, in the
// order of their times: at most count, after leaving out the first skip. A negative
// count means all that follow.
func (s Store) DelayedPage(c redis.Conn, from time.Time, skip, count int) ([]Delayed, error) {
	if count == 0 {
		return nil, nil
	}
	first, most := stampOf(from), math.MaxInt
	if count > 0 {
		most = skip + min(count, math.MaxInt-skip)
	}
	own, err := redis.ByteSlices(c.Do("ZRANGEBYSCORE", s.schedule(), first.ms, "+inf", "WITHSCORES", "LIMIT", 0, most))
	if err != nil {
		return nil, fmt.Errorf("reading our schedule of delayed jobs: %w", explain(err))
	}
	jobs := make([]Delayed, 0, len(own)/2)
	for pair := range slices.Chunk(own, 2) {
		jobs = append(jobs, ownDelayed(pair[0], pair[len(pair)-1]))
	}
	plain, err := s.plainFrom(c, first, most)
	if err != nil {
		return nil, err
	}
	jobs = append(jobs, plain...)
	slices.SortStableFunc(jobs, func(a, b Delayed) int { return a.At.Compare(b.At) })
	return jobs[min(skip, len(jobs)):min(most, len(jobs))], nil
}

// plainFrom returns the first jobs of resque-scheduler's that are due at a time or later:
// as many, or more where some have come meanwhile.
func (s Store) plainFrom(c redis.Conn, first stamp, most int) ([]Delayed, error) {
	var jobs []Delayed
	for offset := 0; len(jobs) < most; {
		room := most - len(jobs)
		seconds, err := redis.Strings(c.Do("ZRANGEBYSCORE", s.delayed(), first.second(), "+inf", "LIMIT", offset, min(room, delayedPage)))
		if err != nil {
			return nil, fmt.Errorf("reading when jobs are delayed to: %w", explain(err))
		}
		if len(seconds) == 0 {
			break
		}
		sizes, lists := batch{c: c}, batch{c: c}
		for _, second := range seconds {
			sizes.send("LLEN", s.bucket(second))
		}
		replies, err := sizes.receive()
		if err != nil {
			return nil, err
		}
		for i, second := range seconds {
			lists.send("LRANGE", s.bucket(second), 0, room-1)
			size, _ := redis.Int(answer(replies[i])) // of another type: LRANGE says so
			if room -= size; room <= 0 {
				seconds = seconds[:i+1]
				break
			}
		}
		if replies, err = lists.receive(); err != nil {
			return nil, err
		}
		for i, second := range seconds {
			items, err := redis.ByteSlices(answer(replies[i]))
			if err != nil {
				return nil, fmt.Errorf("reading the jobs delayed to %s: %w", second, explain(err))
			}
			for _, item := range items {
				jobs = append(jobs, plainDelayed(second, item))
			}
		}
		offset += len(seconds)
	}
	return jobs, nil
}

func ownDelayed(member, score []byte) Delayed {
	ms, _ := strconv.ParseFloat(string(score), 64)
	d := Delayed{At: time.UnixMilli(int64(ms)), Raw: member}
	var ok bool
	if d.Queue, d.Payload, ok = parseRecord(member); !ok || d.Queue == "" {
		d.Err, d.Payload = errors.New("it names no queue"), nil
	}
	return d
}

func plainDelayed(second string, item []byte) Delayed {
	seconds, _ := strconv.ParseInt(second, 10, 64)
	d := Delayed{At: time.Unix(seconds, 0), Raw: item, second: second}
	d.Queue, d.Payload, d.Err = payload.ReadItem(item)
	return d
}

// DelayedCount returns how many jobs wait in our own schedule and in resque-scheduler's.
func (s Store) DelayedCount(c redis.Conn) (own, plain int64, err error) {
	if own, err = redis.Int64(c.Do("ZCARD", s.schedule())); err != nil {
		return 0, 0, fmt.Errorf("counting delayed jobs: %w", explain(err))
	}
	for start := 0; ; start += delayedPage {
		seconds, err := redis.Strings(c.Do("ZRANGE", s.delayed(), start, start+delayedPage-1))
		if err != nil {
			return 0, 0, fmt.Errorf("counting delayed jobs: %w", explain(err))
		}
		b := batch{c: c}
		for _, second := range seconds {
			b.send("LLEN", s.bucket(second))
		}
		replies, err := b.receive()
		if err != nil {
			return 0, 0, err
		}
		for _, reply := range replies {
			n, err := redis.Int64(answer(reply))
			if err != nil {
				return 0, 0, fmt.Errorf("counting delayed jobs: %w", explain(err))
			}
			plain += n
		}
		if len(seconds) < delayedPage {
			return own, plain, nil
		}
	}
}

// DelayedLike returns the jobs of both schedules that have this queue and, byte for
// byte, the class and args of this payload, in the order of their times. In
// resque-scheduler's it finds those that Ruby and node-resque wrote; our own it looks
// through, all of it.
func (s Store) DelayedLike(c redis.Conn, b *Bulk) ([]Delayed, error) {
	var jobs []Delayed
	for queue, raw := range b.all() {
		for _, item := range [][]byte{payload.Item(raw, queue, b.Style), payload.NodeItem(raw, queue, b.Style)} {
			found, err := s.plainLike(c, item)
			if err != nil {
				return nil, err
			}
			jobs = append(jobs, found...)
		}
		start := []byte(recordPrefix(queue) + string(raw[:len(raw)-1]))
		own, err := s.scanOwn(c, escapeGlob(string(start))+"*", func(member []byte) bool {
			rest, ok := bytes.CutPrefix(member, start)
			return ok && (rest[0] == ',' || rest[0] == '}')
		})
		if err != nil {
			return nil, err
		}
		jobs = append(jobs, own...)
	}
	slices.SortStableFunc(jobs, func(a, b Delayed) int { return a.At.Compare(b.At) })
	return jobs, nil
}

// plainLike finds an item by the set of seconds it is delayed to.
func (s Store) plainLike(c redis.Conn, item []byte) ([]Delayed, error) {
	seconds, err := redis.Strings(c.Do("SMEMBERS", s.timestamps(string(item))))
	if err != nil {
		return nil, fmt.Errorf("reading what times a job is delayed to: %w", explain(err))
	}
	var jobs []Delayed
	for _, key := range seconds {
		second := key[min(len("delayed:"), len(key)):]
		places, err := redis.Ints(c.Do("LPOS", s.bucket(second), item, "COUNT", 0))
		if err != nil {
			return nil, fmt.Errorf("reading the jobs delayed to %s: %w", second, explain(err))
		}
		for range places {
			jobs = append(jobs, plainDelayed(second, item))
		}
	}
	return jobs, nil
}

// DelayedByID finds the jobs of our own schedule with an id. It looks through all of
// it, or, if their time is known, at those of that time.
func (s Store) DelayedByID(c redis.Conn, id string, at time.Time) ([]Delayed, error) {
	has := func(member []byte) bool {
		_, raw, ok := parseRecord(member)
		p, err := payload.Parse(raw)
		return ok && err == nil && p.ID == id
	}
	if at.IsZero() {
		text, err := json.Marshal(id)
		if err != nil {
			return nil, err
		}
		// Whoever wrote it may have escaped it in another way, so just its plain ones.
		pattern := "*"
		if !bytes.ContainsAny(text, `\<>&`) {
			pattern = "*" + escapeGlob(string(text)) + "*"
		}
		return s.scanOwn(c, pattern, has)
	}
	ms := stampOf(at).ms
	members, err := redis.ByteSlices(c.Do("ZRANGEBYSCORE", s.schedule(), ms, ms))
	if err != nil {
		return nil, fmt.Errorf("reading our schedule of delayed jobs: %w", explain(err))
	}
	var jobs []Delayed
	for _, m := range members {
		if has(m) {
			jobs = append(jobs, ownDelayed(m, strconv.AppendInt(nil, ms, 10)))
		}
	}
	return jobs, nil
}

// scanOwn looks through our own schedule, a page a call, so that Redis serves others
// in between. A job that is moved meanwhile may be missed.
func (s Store) scanOwn(c redis.Conn, pattern string, want func(member []byte) bool) ([]Delayed, error) {
	found := make(map[string]Delayed) // a scan may show a member twice
	for cursor := "0"; ; {
		r, err := redis.Values(c.Do("ZSCAN", s.schedule(), cursor, "MATCH", pattern, "COUNT", delayedPage))
		if err == nil && len(r) != 2 {
			err = errAnswer
		}
		if err != nil {
			return nil, fmt.Errorf("looking through our schedule of delayed jobs: %w", explain(err))
		}
		pairs, _ := redis.ByteSlices(r[1], nil)
		for pair := range slices.Chunk(pairs, 2) {
			if want(pair[0]) {
				found[string(pair[0])] = ownDelayed(pair[0], pair[len(pair)-1])
			}
		}
		if cursor, _ = redis.String(r[0], nil); cursor == "0" || cursor == "" {
			break
		}
	}
	jobs := make([]Delayed, 0, len(found))
	for _, d := range found {
		jobs = append(jobs, d)
	}
	slices.SortFunc(jobs, func(a, b Delayed) int {
		return cmp.Or(a.At.Compare(b.At), bytes.Compare(a.Raw, b.Raw))
	})
	return jobs, nil
}
