package delayed

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/resque"
)

var walkScript = resque.LoadScript(scriptFiles, "walk")

// Place is how far a walk through a schedule has come.
type Place struct {
	Time   string            `json:"z,omitempty"` // of our own: the time of the last job that was seen
	Nth    int64             `json:"m,omitempty"` // which one it is of that time
	Digest string            `json:"d,omitempty"` // of it
	Second string            `json:"t,omitempty"` // of resque-scheduler's: the second
	List   *resque.ListPlace `json:"l,omitempty"` // in its list
	Size   int64             `json:"n,omitempty"` // of the next page
}

// Step is what a step of a walk found.
type Step struct {
	Found  []Job
	After  []Place // where the walk goes on behind each of them
	Looked int     // jobs that were looked at
	Next   *Place  // nil: that was the last one

	Refused []error // lists that Redis refused, because they have another type
}

// WalkOwn reads a page of our own schedule, in the order of the times, and returns at most so many of the
// jobs that contain all texts and fit. A job that waits for its time all the while is not missed, and may
// be returned twice.
func (s Store) WalkOwn(c redis.Conn, from *Place, most int, texts [][]byte, fits func(Job) bool) (Step, error) {
	place := Place{Time: "-inf"}
	if from != nil {
		place = *from
	}
	if _, err := strconv.ParseFloat(place.Time, 64); err != nil || place.Nth < 0 {
		return Step{}, fmt.Errorf("%q is no time of goworker's schedule", place.Time)
	}
	size := resque.PageSize(place.Size, 0, 0)
	var a resque.Call
	a.Key(s.store.KeyOfSchedule())
	a.Arg(place.Time, place.Nth, place.Digest, size)
	for _, text := range texts {
		a.Arg(text)
	}
	r, err := redis.ByteSlices(walked(a.Do(c, walkScript)))
	if err == nil && (len(r) < 5 || len(r)%3 != 2) {
		err = resque.ErrAnswer
	}
	if err != nil {
		return Step{}, fmt.Errorf("looking through goworker's schedule of delayed jobs: %w", err)
	}
	number := func(text []byte) int64 { n, _ := strconv.ParseInt(string(text), 10, 64); return n }
	read, bytes := number(r[0]), number(r[1])
	step, next := Step{Looked: int(read)}, Place{Size: resque.PageSize(size, int(read), bytes)}
	for job := range slices.Chunk(r[5:], 3) {
		d := ownJob(job[0], job[1])
		if !fits(d) {
			continue
		}
		if len(step.Found) == most { // the rest is for the next page
			step.Next = &next
			return step, nil
		}
		next.Time, next.Nth, next.Digest = string(job[1]), number(job[2]), resque.ElementDigest(job[0])
		step.Found, step.After = append(step.Found, d), append(step.After, next)
	}
	if read >= size {
		next.Time, next.Nth, next.Digest = string(r[2]), number(r[3]), string(r[4])
		step.Next = &next
	}
	return step, nil
}

// walked makes texts of the numbers of an answer.
func walked(reply any, err error) (any, error) {
	values, err := redis.Values(reply, err)
	for i, v := range values {
		if n, ok := v.(int64); ok {
			values[i] = strconv.AppendInt(nil, n, 10)
		}
	}
	return values, err
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
	ended := len(seconds) < size
	stretches := make([]resque.Stretch, len(seconds))
	for i, second := range seconds {
		stretches[i] = resque.Stretch{Key: s.store.KeyOfSecond(second), Last: int64(size)}
	}
	lists, err := s.store.ReadStretches(c, size, stretches)
	if err != nil {
		return Step{}, fmt.Errorf("reading delayed jobs: %w", resque.Explain(err))
	}
	ended = ended && len(lists) == len(seconds)
	var step Step
	var bytes int64
	last := ""
	for i, list := range lists {
		second := seconds[i]
		if list.Err != nil {
			step.Refused = append(step.Refused, fmt.Errorf("reading the jobs delayed to %s: %w", second, resque.Explain(list.Err)))
		}
		if len(list.Elements) == 0 && list.Length > 0 { // more than is left of the page
			if i == 0 {
				return s.walkSecond(c, Place{Second: second, Size: place.Size}, most, texts, fits)
			}
			ended = false
			break
		}
		for at, item := range list.Elements {
			job := plainJob(second, item)
			if !fits(job) {
				step.Looked, bytes = step.Looked+1, bytes+int64(len(item))
				continue
			}
			if len(step.Found) == most {
				step.Next = &Place{Second: second, List: &resque.ListPlace{At: int64(at)}, Size: place.Size}
				if at > 0 {
					step.Next.List.Seen = []string{resque.ElementDigest(list.Elements[at-1])}
				}
				return step, nil
			}
			step.Found = append(step.Found, job)
			step.After = append(step.After, inSecond(second, int64(at), item, place.Size))
			step.Looked, bytes = step.Looked+1, bytes+int64(len(item))
		}
		if n := len(list.Elements); int64(n) < list.Length && list.Err == nil { // the bytes were too many
			next := inSecond(second, int64(n-1), list.Elements[n-1], place.Size)
			step.Next = &next
			return step, nil
		}
		last = second
	}
	if last != "" && !ended {
		step.Next = &Place{Second: last, Size: resque.PageSize(int64(size), step.Looked, bytes)}
	}
	return step, nil
}

// inSecond is the place behind an element of the list of a second.
func inSecond(second string, at int64, item []byte, size int64) Place {
	return Place{Second: second, List: &resque.ListPlace{At: at + 1, Seen: []string{resque.ElementDigest(item)}}, Size: size}
}

// OwnFrom is the place of WalkOwn in front of the jobs that are due at a time or later.
func OwnFrom(at time.Time) *Place { return &Place{Time: strconv.FormatInt(resque.StampOf(at).MS, 10)} }

// PlainFrom is the place of WalkPlain in front of the jobs that are due at a time or later.
func PlainFrom(at time.Time) *Place {
	second := at.Unix()
	if at.Nanosecond() == 0 {
		second--
	}
	return &Place{Second: strconv.FormatInt(second, 10)}
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
		step.After = append(step.After, inSecond(place.Second, e.Index, e.Raw, place.Size))
	}
	return step, nil
}
