package leases

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/resque"
)

var (
	destroyScript = resque.LoadScript(scriptFiles, "destroy")
	seizeScript   = resque.LoadScript(scriptFiles, "seize")
)

// destroyBytes is about how many bytes of payloads one step of Destroy looks at.
const destroyBytes = 4 << 20

// Destroyed is what a step of Destroy did.
type Destroyed struct {
	Removed int    // jobs that are not in the queue any more; those of Jobs that clients do not hold are among them
	Jobs    []Job  // jobs whose end has effects, or that clients hold: they are to be committed as cancelled
	Next    string // where to go on; "": that was the last step
}

// Destroy removes a page of a queue's jobs: of those that are ready, then of the delayed ones, then of those that clients
// hold. from is "" at first and then Next. texts and seed are as in Turn, with another seed for each step. Failures of the
// queue stay. The jobs of a step are to be committed before the next step, which else returns them once more.
func (s Store) Destroy(c redis.Conn, queue, from string, texts []string, seed string) (out Destroyed, err error) {
	stage, cursor, _ := strings.Cut(from, " ")
	switch stage {
	case "", "ready":
		var more bool
		out, more, err = s.destroyReady(c, queue, texts, seed)
		if out.Next = "delayed 0"; more {
			out.Next = "ready"
		}
	case "delayed":
		out, err = s.destroyDelayed(c, queue, cursor, texts, seed)
		if err == nil && out.Next == "0" {
			out.Next = "held 0"
		} else if err == nil {
			out.Next = "delayed " + out.Next
		}
	case "held":
		if out, err = s.held(c, queue, cursor); err == nil && out.Next == "0" {
			out.Next = ""
		} else if err == nil {
			out.Next = "held " + out.Next
		}
	default:
		return out, fmt.Errorf("%q is not where the removal of a queue goes on", from)
	}
	if err != nil {
		return Destroyed{}, s.explain(c, err, "", "removing the jobs of queue %s", queue)
	}
	return out, nil
}

func (s Store) destroyReady(c redis.Conn, queue string, texts []string, seed string) (out Destroyed, more bool, err error) {
	var a resque.Call
	a.Key(s.KeyOfLeases())
	a.Key(s.KeyOfLeased())
	a.Key(s.KeyOfQueue(queue))
	a.Key(s.KeyOfNames(queue))
	a.Arg(MostJobs, destroyBytes, settling.Milliseconds(), seed, queue)
	for _, text := range texts {
		a.Arg(text)
	}
	r, err := redis.Values(a.Do(c, destroyScript))
	if err == nil && len(r) < 2 {
		err = resque.ErrAnswer
	}
	if err != nil {
		return out, false, err
	}
	if more, err = redis.Bool(r[1], nil); err != nil {
		return out, false, resque.ErrAnswer
	}
	out.Removed, out.Jobs, err = seized(queue, append(r[:1:1], r[2:]...))
	return out, more, err
}

// seized reads how many jobs a script found, and those it reserved.
func seized(queue string, r []any) (n int, jobs []Job, err error) {
	if len(r)%3 != 1 {
		return 0, nil, resque.ErrAnswer
	}
	if n, err = redis.Int(r[0], nil); err != nil {
		return 0, nil, resque.ErrAnswer
	}
	for row := range slices.Chunk(r[1:], 3) {
		id, err1 := redis.String(row[0], nil)
		lease, err2 := redis.String(row[1], nil)
		payload, err3 := redis.Bytes(row[2], nil)
		if err1 != nil || err2 != nil || err3 != nil {
			return 0, nil, resque.ErrAnswer
		}
		jobs = append(jobs, Job{Queue: queue, ID: id, Lease: lease, Effects: true, Payload: payload})
	}
	return n, jobs, nil
}

// destroyDelayed removes the delayed jobs of a queue in a page of the schedule.
func (s Store) destroyDelayed(c redis.Conn, queue, cursor string, texts []string, seed string) (out Destroyed, err error) {
	pattern := resque.EscapeGlob(resque.JobPrefix(queue)) + "*"
	next, pairs, err := s.scan(c, "ZSCAN", s.KeyOfSchedule(), cursor, pattern, 5000)
	if err != nil {
		return out, err
	}
	out.Next = next
	var payloads [][]byte
	for pair := range slices.Chunk(pairs, 2) {
		if payload, ok := bytes.CutPrefix(pair[0], []byte(resque.JobPrefix(queue))); ok {
			payloads = append(payloads, payload)
		}
	}
	for chunk := range slices.Chunk(payloads, MostJobs) {
		n, jobs, err := s.seize(c, queue, chunk, true, &texts, seed)
		if err != nil {
			return out, err
		}
		out.Removed, out.Jobs = out.Removed+n, append(out.Jobs, jobs...)
	}
	return out, nil
}

// held returns a page of the jobs of a queue that clients hold.
func (s Store) held(c redis.Conn, queue, cursor string) (out Destroyed, err error) {
	next, pairs, err := s.scan(c, "ZSCAN", s.KeyOfLeases(), cursor, resque.EscapeGlob(resque.JobPrefix(queue))+"*", 1000)
	if err != nil {
		return out, err
	}
	out.Next = next
	args := redis.Args{s.KeyOfLeased()}
	for pair := range slices.Chunk(pairs, 2) {
		lease := string(pair[1])
		j := Job{Lease: lease, Effects: HasEffects(lease)}
		j.Queue, j.ID, _ = ParsePlace(string(pair[0]))
		out.Jobs, args = append(out.Jobs, j), args.Add(pair[0])
	}
	if len(out.Jobs) == 0 {
		return out, nil
	}
	payloads, err := redis.ByteSlices(c.Do("HMGET", args...))
	if err == nil && len(payloads) != len(out.Jobs) {
		err = resque.ErrAnswer
	}
	for i := range payloads {
		out.Jobs[i].Payload = payloads[i]
	}
	out.Jobs = slices.DeleteFunc(out.Jobs, func(j Job) bool { return j.Payload == nil })
	return out, err
}

// scan reads a page of pairs that match a pattern.
func (s Store) scan(c redis.Conn, command, key, cursor, pattern string, count int) (next string, pairs [][]byte, err error) {
	r, err := redis.Values(c.Do(command, key, cursor, "MATCH", pattern, "COUNT", count))
	if err == nil && len(r) != 2 {
		err = resque.ErrAnswer
	}
	if err != nil {
		return "", nil, err
	}
	next, err = redis.String(r[0], nil)
	if err == nil {
		pairs, err = redis.ByteSlices(r[1], nil)
	}
	if err == nil && len(pairs)%2 != 0 {
		err = resque.ErrAnswer
	}
	return next, pairs, err
}

// Seize reserves a job that waits in its queue or, with delayed, in the schedule, so that its end can be committed. there
// is false if it is not there any more. seed is as in Turn: a job without an id gets one.
func (s Store) Seize(c redis.Conn, queue string, payload []byte, delayed bool, seed string) (job Job, there bool, err error) {
	_, jobs, err := s.seize(c, queue, [][]byte{payload}, delayed, nil, seed)
	if err != nil || len(jobs) == 0 {
		return Job{}, false, s.explain(c, err, "", "reserving a job of queue %s for its end", queue)
	}
	return jobs[0], true, nil
}

// seize removes jobs, and reserves those that have one of the texts; without texts it reserves all.
func (s Store) seize(c redis.Conn, queue string, payloads [][]byte, delayed bool, texts *[]string, seed string) (n int, jobs []Job, err error) {
	var a resque.Call
	a.Key(s.KeyOfLeases())
	a.Key(s.KeyOfLeased())
	where, key := "list", s.KeyOfQueue(queue)
	if delayed {
		where, key = "schedule", s.KeyOfSchedule()
	}
	a.Key(key)
	a.Arg(where, queue, settling.Milliseconds(), seed)
	if texts == nil {
		a.Arg("")
	} else {
		a.Arg(len(*texts))
		for _, text := range *texts {
			a.Arg(text)
		}
	}
	for _, payload := range payloads {
		a.Arg(payload)
	}
	r, err := redis.Values(a.Do(c, seizeScript))
	if err != nil {
		return 0, nil, err
	}
	return seized(queue, r)
}
