package leases

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/resque"
)

// EndPage is a page of the jobs of all queues that clients hold, by the ends of their leases.
type EndPage struct {
	Now   time.Time // by Redis's clock
	Total int64     // leases that there are
	Jobs  []Job
	Next  string // where the next page begins; "" at the end
}

// byEndBytes is about how many bytes of payloads a page has. One may be larger.
const byEndBytes = 1 << 20

// ByEnd returns a page of the jobs that clients hold, the one whose lease ends first first. A job whose lease is extended meanwhile may
// be on two pages. What another program has written among the leases is left out.
func (s Store) ByEnd(c redis.Conn, from string, most int) (page EndPage, err error) {
	after, seen := "-inf", 0
	if from != "" {
		score, nth, _ := strings.Cut(from, "+")
		seen, err = strconv.Atoi(nth)
		if _, bad := strconv.ParseFloat(score, 64); bad != nil || err != nil || seen < 0 {
			return page, notAPlace(from)
		}
		after = score
	}
	b := resque.Batch{Conn: c}
	b.Send("TIME")
	b.Send("ZCARD", s.KeyOfLeases())
	b.Send("ZRANGEBYSCORE", s.KeyOfLeases(), after, "+inf", "WITHSCORES", "LIMIT", seen, most)
	replies, err := b.Receive()
	var clock []int64
	var pairs []string
	if err == nil {
		clock, err = redis.Int64s(resque.Answer(replies[0]))
	}
	if err == nil {
		page.Total, err = redis.Int64(resque.Answer(replies[1]))
	}
	if err == nil {
		pairs, err = redis.Strings(resque.Answer(replies[2]))
	}
	if err == nil && (len(clock) != 2 || len(pairs)%2 != 0) {
		err = resque.ErrAnswer
	}
	if err != nil {
		return page, s.explain(c, err, "", "reading which jobs clients hold")
	}
	page.Now = time.Unix(clock[0], clock[1]*1000)
	var places []string
	var jobs []Job
	for pair := range slices.Chunk(pairs, 2) {
		queue, id, _ := ParsePlace(pair[0])
		places, jobs = append(places, pair[0]), append(jobs, Job{Queue: queue, ID: id, Lease: pair[1], Effects: HasEffects(pair[1])})
	}
	read, bytes := 0, 0
	for step := 1; read < len(jobs) && bytes < byEndBytes; step = min(4*step, 25) {
		end := min(read+step, len(jobs))
		payloads, err := redis.ByteSlices(c.Do("HMGET", redis.Args{s.KeyOfLeased()}.AddFlat(places[read:end])...))
		if err == nil && len(payloads) != end-read {
			err = resque.ErrAnswer
		}
		if err != nil {
			return page, s.explain(c, err, "", "reading which jobs clients hold")
		}
		for n, raw := range payloads {
			j := jobs[read+n]
			if j.Lease != after {
				after, seen = j.Lease, 0
			}
			seen++
			bytes += len(raw)
			if j.Payload = raw; raw != nil && j.Queue != "" {
				page.Jobs = append(page.Jobs, j)
			}
		}
		read = end
	}
	if read < len(jobs) || read == most {
		page.Next = fmt.Sprint(after, "+", seen)
	}
	return page, nil
}

// overdue is how long ago the lease of a released job ended: by then every process that looks for such leases ends it.
const overdue = 2 * time.Second

// Release ends the lease of a job: the next process that looks treats the job as one whose lease has run out. It returns false if the
// job has not this lease; "" is whichever it has.
func (s Store) Release(c redis.Conn, queue, id, lease string) (released bool, err error) {
	text, err := orNone(redis.String(c.Do("GET", s.JumpKey().String())))
	if err != nil && !resque.IsWrongType(err) {
		return false, s.explain(c, err, "", "ending the lease of a job of queue %s", queue)
	}
	ms, _, _ := strings.Cut(text, " ")
	ahead, _ := strconv.ParseInt(ms, 10, 64) // leases end so much later for a while
	ended, err := s.Touch(c, queue, id, lease, -overdue-time.Duration(ahead)*time.Millisecond)
	return ended != "", err
}
