package delayed

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/resque"
)

// Place is how far a walk through a schedule has come.
type Place struct {
	Scan   string            `json:"z,omitempty"` // of our own: Redis's cursor
	After  string            `json:"d,omitempty"` // the digest of the last job that was returned of that page
	Second string            `json:"t,omitempty"` // of resque-scheduler's: the second
	List   *resque.ListPlace `json:"l,omitempty"` // in its list
	Size   int64             `json:"n,omitempty"` // of the next page
}

// Step is what a step of a walk found.
type Step struct {
	Found  []Job
	Looked int    // jobs that were looked at
	Next   *Place // nil: that was the last one

	Refused []error // lists that Redis refused, because they have another type
}

// WalkOwn reads a page of our own schedule, in no order, and returns at most so many of the jobs that
// contain all texts and fit. A job that waits all the time is not missed, and may be returned twice.
func (s Store) WalkOwn(c redis.Conn, from *Place, most int, texts [][]byte, fits func(Job) bool) (Step, error) {
	place := Place{Scan: "0"}
	if from != nil {
		place = *from
	}
	size := resque.PageSize(place.Size, 0, 0)
	pattern := "*"
	if len(texts) > 0 { // Redis compares one
		longest := slices.MaxFunc(texts, func(a, b []byte) int { return cmp.Compare(len(a), len(b)) })
		pattern = "*" + resque.EscapeGlob(string(longest)) + "*"
	}
	pairs, next, err := resque.ScanSorted(c, s.store.KeyOfSchedule(), place.Scan, pattern, size)
	if err != nil {
		return Step{}, fmt.Errorf("looking through goworker's schedule of delayed jobs: %w", resque.Explain(err))
	}
	type member struct {
		job    Job
		digest string
	}
	var members []member
	var bytes int64
	for pair := range slices.Chunk(pairs, 2) {
		bytes += int64(len(pair[0]))
		job := ownJob(pair[0], pair[1])
		if digest := resque.ElementDigest(pair[0]); digest > place.After && fits(job) {
			members = append(members, member{job, digest})
		}
	}
	slices.SortFunc(members, func(a, b member) int { return cmp.Compare(a.digest, b.digest) })
	step := Step{Looked: max(len(pairs)/2, int(size))}
	if len(members) > most {
		members = members[:most]
		step.Next = &Place{Scan: place.Scan, Size: size}
		if most > 0 {
			step.Next.After = members[most-1].digest
		}
	} else if next != "0" {
		step.Next = &Place{Scan: next, Size: resque.PageSize(size, len(pairs)/2, bytes)}
	}
	for _, m := range members {
		step.Found = append(step.Found, m.job)
	}
	return step, nil
}

// WalkPlain is WalkOwn for resque-scheduler's schedule, in the order of the times.
func (s Store) WalkPlain(c redis.Conn, from *Place, most int, texts [][]byte, fits func(Job) bool) (Step, error) {
	var place Place
	if from != nil {
		place = *from
	}
	if place.List != nil {
		return s.walkSecond(c, place, most, texts, fits)
	}
	first := "-inf"
	if place.Second != "" {
		if _, err := strconv.ParseInt(place.Second, 10, 64); err != nil {
			return Step{}, fmt.Errorf("%q is no second of resque-scheduler's schedule", place.Second)
		}
		first = "(" + place.Second
	}
	size := int(resque.PageSize(place.Size, 0, 0))
	seconds, err := redis.Strings(c.Do("ZRANGEBYSCORE", s.store.KeyOfSeconds(), first, "+inf", "LIMIT", 0, size))
	if err != nil {
		return Step{}, fmt.Errorf("reading when jobs are delayed to: %w", resque.Explain(err))
	}
	if len(seconds) == 0 {
		return Step{}, nil
	}
	sizes := &resque.Batch{Conn: c}
	for _, second := range seconds {
		sizes.Send("LLEN", s.store.KeyOfSecond(second))
	}
	lengths, err := sizes.Receive()
	if err != nil {
		return Step{}, err
	}
	var step Step
	var read []string // the seconds whose lists fit into this page
	lists, room, last := &resque.Batch{Conn: c}, size, ""
	for i, second := range seconds {
		n, err := redis.Int(resque.Answer(lengths[i]))
		switch {
		case err != nil:
			step.Refused = append(step.Refused, fmt.Errorf("reading the jobs delayed to %s: %w", second, resque.Explain(err)))
		case n <= room:
			lists.Send("LRANGE", s.store.KeyOfSecond(second), 0, n-1)
			read, room = append(read, second), room-n
		case len(read) == 0: // more than a page
			long, err := s.walkSecond(c, Place{Second: second, Size: place.Size}, most, texts, fits)
			long.Refused = append(long.Refused, step.Refused...)
			return long, err
		default:
			seconds = seconds[:i]
		}
		if len(seconds) == i {
			break
		}
		last = second
	}
	replies, err := lists.Receive()
	if err != nil {
		return Step{}, err
	}
	var bytes int64
	for i, second := range read {
		items, err := redis.ByteSlices(resque.Answer(replies[i]))
		if err != nil { // it changed its type since its length was read
			step.Refused = append(step.Refused, fmt.Errorf("reading the jobs delayed to %s: %w", second, resque.Explain(err)))
			continue
		}
		for at, item := range items {
			job := plainJob(second, item)
			if !fits(job) {
				step.Looked, bytes = step.Looked+1, bytes+int64(len(item))
				continue
			}
			if len(step.Found) == most {
				step.Next = &Place{Second: second, List: &resque.ListPlace{At: int64(at)}, Size: place.Size}
				if at > 0 {
					step.Next.List.Seen = []string{resque.ElementDigest(items[at-1])}
				}
				return step, nil
			}
			step.Found = append(step.Found, job)
			step.Looked, bytes = step.Looked+1, bytes+int64(len(item))
		}
	}
	if last != "" {
		step.Next = &Place{Second: last, Size: resque.PageSize(int64(size), step.Looked, bytes)}
	}
	return step, nil
}

// walkSecond reads a page of the list of one second.
func (s Store) walkSecond(c redis.Conn, place Place, most int, texts [][]byte, fits func(Job) bool) (Step, error) {
	page, err := s.store.WalkList(c, s.store.KeyOfSecond(place.Second), true, place.List, most, texts, func(item []byte) bool {
		return fits(plainJob(place.Second, item))
	})
	step := Step{Looked: page.Looked, Next: &Place{Second: place.Second, List: page.Next, Size: place.Size}}
	if resque.IsWrongType(err) {
		step.Refused = append(step.Refused, fmt.Errorf("reading the jobs delayed to %s: %w", place.Second, resque.Explain(err)))
		return step, nil
	}
	if err != nil {
		return Step{}, fmt.Errorf("reading the jobs delayed to %s: %w", place.Second, resque.Explain(err))
	}
	for _, e := range page.Found {
		step.Found = append(step.Found, plainJob(place.Second, e.Raw))
	}
	return step, nil
}
