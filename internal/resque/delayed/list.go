// Package delayed reads, changes and removes the jobs that wait for their time, and
// moves those that are due to their queues. They wait in two schedules: resque-scheduler's
// and goworker's own. Store.Delay and Store.Schedule of package resque put them there.
package delayed

import (
	"bytes"
	"cmp"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/goworker/goworker/internal/resque"

	"github.com/gomodule/redigo/redis"
	"github.com/goworker/goworker/internal/payload"
)

//go:embed scripts/*.lua
var scriptFiles embed.FS

// Scripts returns the scripts of this package by name.
func Scripts() map[string]string { return resque.ScriptsOf(scriptFiles) }

// Store is the schedules of one namespace. Like resque.Store it is a value.
type Store struct {
	store resque.Store
}

// New returns the schedules of a Store's namespace.
func New(s resque.Store) Store { return Store{s} }

// Job is a job that waits in one of the schedules.
type Job struct {
	At      time.Time
	Queue   string
	Payload []byte // as it will be in the queue
	Raw     []byte // as it is in the schedule
	Err     error  // why it is no job; Payload is nil then

	second string // of resque-scheduler; "": it waits in our own schedule
}

// Plain reports whether the job is in resque-scheduler's schedule.
func (d Job) Plain() bool { return d.second != "" }

// Is reports whether t is the time to which the job is delayed.
func (d Job) Is(t time.Time) bool {
	at := resque.StampOf(t)
	if d.Plain() {
		return d.second == at.Second()
	}
	return d.At.UnixMilli() == at.MS
}

const pageSize = 1000

// Page returns jobs of both schedules that are due at a time or later, in the
// order of their times: at most count, without the first skip. A negative
// count means all that follow.
func (s Store) Page(c redis.Conn, from time.Time, skip, count int) ([]Job, error) {
	if count == 0 {
		return nil, nil
	}
	first, most := resque.StampOf(from), math.MaxInt
	if count > 0 {
		most = skip + min(count, math.MaxInt-skip)
	}
	own, err := redis.ByteSlices(c.Do("ZRANGEBYSCORE", s.store.KeyOfSchedule(), first.MS, "+inf", "WITHSCORES", "LIMIT", 0, most))
	if err != nil {
		return nil, fmt.Errorf("reading our schedule of delayed jobs: %w", resque.Explain(err))
	}
	jobs := make([]Job, 0, len(own)/2)
	for pair := range slices.Chunk(own, 2) {
		jobs = append(jobs, ownJob(pair[0], pair[len(pair)-1]))
	}
	plain, err := s.plainFrom(c, first, most)
	if err != nil {
		return nil, err
	}
	jobs = append(jobs, plain...)
	slices.SortStableFunc(jobs, func(a, b Job) int { return a.At.Compare(b.At) })
	return jobs[min(skip, len(jobs)):min(most, len(jobs))], nil
}

// plainFrom returns the first jobs of resque-scheduler's that are due at a time or later:
// most of them, or more if some were added meanwhile.
func (s Store) plainFrom(c redis.Conn, first resque.Stamp, most int) ([]Job, error) {
	var jobs []Job
	for offset := 0; len(jobs) < most; {
		room := most - len(jobs)
		seconds, err := redis.Strings(c.Do("ZRANGEBYSCORE", s.store.KeyOfSeconds(), first.Second(), "+inf", "LIMIT", offset, min(room, pageSize)))
		if err != nil {
			return nil, fmt.Errorf("reading when jobs are delayed to: %w", resque.Explain(err))
		}
		if len(seconds) == 0 {
			break
		}
		sizes, lists := &resque.Batch{Conn: c}, &resque.Batch{Conn: c}
		for _, second := range seconds {
			sizes.Send("LLEN", s.store.KeyOfSecond(second))
		}
		replies, err := sizes.Receive()
		if err != nil {
			return nil, err
		}
		for i, second := range seconds {
			lists.Send("LRANGE", s.store.KeyOfSecond(second), 0, room-1)
			size, _ := redis.Int(resque.Answer(replies[i])) // of another type: LRANGE reports it
			if room -= size; room <= 0 {
				seconds = seconds[:i+1]
				break
			}
		}
		if replies, err = lists.Receive(); err != nil {
			return nil, err
		}
		for i, second := range seconds {
			items, err := redis.ByteSlices(resque.Answer(replies[i]))
			if err != nil {
				return nil, fmt.Errorf("reading the jobs delayed to %s: %w", second, resque.Explain(err))
			}
			for _, item := range items {
				jobs = append(jobs, plainJob(second, item))
			}
		}
		offset += len(seconds)
	}
	return jobs, nil
}

func ownJob(member, score []byte) Job {
	ms, _ := strconv.ParseFloat(string(score), 64)
	d := Job{At: time.UnixMilli(int64(ms)), Raw: member}
	var ok bool
	if d.Queue, d.Payload, ok = resque.CutPrefix(member); !ok || d.Queue == "" {
		d.Err, d.Payload = errors.New("it names no queue"), nil
	}
	return d
}

func plainJob(second string, item []byte) Job {
	seconds, _ := strconv.ParseInt(second, 10, 64)
	d := Job{At: time.Unix(seconds, 0), Raw: item, second: second}
	d.Queue, d.Payload, d.Err = payload.ReadItem(item)
	return d
}

// Count returns how many jobs wait in our own schedule and in resque-scheduler's.
func (s Store) Count(c redis.Conn) (own, plain int64, err error) {
	if own, err = redis.Int64(c.Do("ZCARD", s.store.KeyOfSchedule())); err != nil {
		return 0, 0, fmt.Errorf("counting delayed jobs: %w", resque.Explain(err))
	}
	for start := 0; ; start += pageSize {
		seconds, err := redis.Strings(c.Do("ZRANGE", s.store.KeyOfSeconds(), start, start+pageSize-1))
		if err != nil {
			return 0, 0, fmt.Errorf("counting delayed jobs: %w", resque.Explain(err))
		}
		b := &resque.Batch{Conn: c}
		for _, second := range seconds {
			b.Send("LLEN", s.store.KeyOfSecond(second))
		}
		replies, err := b.Receive()
		if err != nil {
			return 0, 0, err
		}
		for _, reply := range replies {
			n, err := redis.Int64(resque.Answer(reply))
			if err != nil {
				return 0, 0, fmt.Errorf("counting delayed jobs: %w", resque.Explain(err))
			}
			plain += n
		}
		if len(seconds) < pageSize {
			return own, plain, nil
		}
	}
}

// Like returns the jobs of both schedules that are the same as those of the bulk: the same queue, class
// and texts of arguments, in the order of their times. In resque-scheduler's schedule it finds those
// that Ruby and node-resque wrote; our own it reads as a whole, a page at a time.
func (s Store) Like(c redis.Conn, b *resque.Bulk) ([]Job, error) {
	var jobs []Job
	for queue, raw := range b.All() {
		for _, item := range [][]byte{payload.Item(raw, queue, b.Style), payload.NodeItem(raw, queue, b.Style)} {
			found, err := s.plainLike(c, item)
			if err != nil {
				return nil, err
			}
			jobs = append(jobs, found...)
		}
		like, err := payload.Parse(raw)
		if err != nil {
			return nil, err
		}
		var longest []byte // Redis compares one text; the longest is mostly the rarest
		for _, text := range like.Args {
			if len(text) > len(longest) {
				longest = text
			}
		}
		pattern := resque.EscapeGlob(resque.JobPrefix(queue)) + "*" + resque.EscapeGlob(string(longest)) + "*"
		own, err := s.scanOwn(c, pattern, func(member []byte) bool {
			of, job, ok := resque.CutPrefix(member)
			p, err := payload.Parse(job)
			return ok && of == queue && err == nil && p.Same(like.Class, like.Args)
		})
		if err != nil {
			return nil, err
		}
		jobs = append(jobs, own...)
	}
	slices.SortStableFunc(jobs, func(a, b Job) int { return a.At.Compare(b.At) })
	return jobs, nil
}

// plainLike finds an item by the set of seconds it is delayed to.
func (s Store) plainLike(c redis.Conn, item []byte) ([]Job, error) {
	seconds, err := redis.Strings(c.Do("SMEMBERS", s.store.KeyOfJobSeconds(string(item))))
	if err != nil {
		return nil, fmt.Errorf("reading what times a job is delayed to: %w", resque.Explain(err))
	}
	var jobs []Job
	for _, key := range seconds {
		second := key[min(len("delayed:"), len(key)):]
		places, err := redis.Ints(c.Do("LPOS", s.store.KeyOfSecond(second), item, "COUNT", 0))
		if err != nil {
			return nil, fmt.Errorf("reading the jobs delayed to %s: %w", second, resque.Explain(err))
		}
		for range places {
			jobs = append(jobs, plainJob(second, item))
		}
	}
	return jobs, nil
}

// ByID finds the jobs of our own schedule with an id. It reads all of
// it or, if the time is known, the jobs of that time.
func (s Store) ByID(c redis.Conn, id string, at time.Time) ([]Job, error) {
	has := func(member []byte) bool {
		_, raw, ok := resque.CutPrefix(member)
		p, err := payload.Parse(raw)
		return ok && err == nil && p.ID == id
	}
	if at.IsZero() {
		text, err := json.Marshal(id)
		if err != nil {
			return nil, err
		}
		// The producer may have escaped the id in another way, so match plain characters only.
		pattern := "*"
		if !bytes.ContainsAny(text, `\<>&`) {
			pattern = "*" + resque.EscapeGlob(string(text)) + "*"
		}
		return s.scanOwn(c, pattern, has)
	}
	ms := resque.StampOf(at).MS
	members, err := redis.ByteSlices(c.Do("ZRANGEBYSCORE", s.store.KeyOfSchedule(), ms, ms))
	if err != nil {
		return nil, fmt.Errorf("reading our schedule of delayed jobs: %w", resque.Explain(err))
	}
	var jobs []Job
	for _, m := range members {
		if has(m) {
			jobs = append(jobs, ownJob(m, strconv.AppendInt(nil, ms, 10)))
		}
	}
	return jobs, nil
}

// scanOwn reads our own schedule, a page a call, so that Redis serves other clients
// in between. It may miss a job that is moved meanwhile.
func (s Store) scanOwn(c redis.Conn, pattern string, want func(member []byte) bool) ([]Job, error) {
	found := make(map[string]Job) // a scan may return a member twice
	for cursor := "0"; ; {
		r, err := redis.Values(c.Do("ZSCAN", s.store.KeyOfSchedule(), cursor, "MATCH", pattern, "COUNT", pageSize))
		if err == nil && len(r) != 2 {
			err = resque.ErrAnswer
		}
		if err != nil {
			return nil, fmt.Errorf("looking through our schedule of delayed jobs: %w", resque.Explain(err))
		}
		pairs, _ := redis.ByteSlices(r[1], nil)
		for pair := range slices.Chunk(pairs, 2) {
			if want(pair[0]) {
				found[string(pair[0])] = ownJob(pair[0], pair[len(pair)-1])
			}
		}
		if cursor, _ = redis.String(r[0], nil); cursor == "0" || cursor == "" {
			break
		}
	}
	jobs := make([]Job, 0, len(found))
	for _, d := range found {
		jobs = append(jobs, d)
	}
	slices.SortFunc(jobs, func(a, b Job) int {
		return cmp.Or(a.At.Compare(b.At), bytes.Compare(a.Raw, b.Raw))
	})
	return jobs, nil
}
