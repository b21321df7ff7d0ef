package inspect

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/clock"
	"github.com/goworker/goworker/internal/prefix"
	"github.com/goworker/goworker/internal/resque"
	"github.com/goworker/goworker/internal/resque/delayed"
)

// FindDelayed returns a page of the delayed jobs that match and are due at from or later and before to, in the order of their times:
// those of goworker's schedule and of resque-scheduler's together, and those of all shards. A zero from or to is no bound.
// after, count and the options are as in Find; Seen and Of of the page are 0. The Places of the query are not looked at.
//
// It begins at from, so jobs before it cost nothing. One call looks at about 10,000 jobs of each schedule at most.
func (i *Inspector) FindDelayed(ctx context.Context, q Query, from, to time.Time, after string, count int, options ...FindOption) (Page, error) {
	if err := i.usable(); err != nil {
		return Page{}, err
	}
	if count < 1 || count > MaxPage {
		return Page{}, fmt.Errorf("goworker: a page has 1 to %d jobs, not %d", MaxPage, count)
	}
	q.Places = []Place{Delayed}
	places, err := parseDue(after, q, from, to)
	if err != nil {
		return Page{}, err
	}
	began, o := clock.System.Now(), findOptionsOf(options)
	m := &merger{q: q, from: from, to: to, count: count}
	if o.budget > 0 {
		m.over = func() bool { return clock.Since(clock.System, began) >= o.budget }
	}
	all, err := answers(i, func(one *Inspector) (*dueJobs, error) { return m.read(ctx, one, places[one.mark()]) })
	if len(all) == 0 {
		return Page{}, err
	}
	return m.merge(all), err
}

// answers asks the Redis, or each shard, and returns the answers that came.
func answers[T any](i *Inspector, ask func(one *Inspector) (T, error)) (all []T, err error) {
	err = i.each(func(one *Inspector) error {
		got, err := ask(one)
		if err == nil {
			all = append(all, got)
		}
		return err
	})
	return all, err
}

// due is how far a walk through the schedules of one Redis has come.
type due struct {
	Own   *delayed.Place `json:"o,omitempty"` // nil: it begins
	Plain *delayed.Place `json:"r,omitempty"`
	Done  [2]bool        `json:"e"` // the end of each was reached
}

// ended reports whether there are no more jobs.
func (d due) ended() bool { return d.Done[0] && d.Done[1] }

// dueCursor is how far a page has come. It is opaque to users.
type dueCursor struct {
	Question string         `json:"q"`
	Shards   map[string]due `json:"s"`
}

func questionOfDue(q Query, from, to time.Time) string {
	q.Where = append(slices.Clone(q.Where), Condition{Name: onDue, Value: "<", Time: to}, Condition{Name: onDue, Value: ">", Time: from})
	return q.question(true)
}

func parseDue(after string, q Query, from, to time.Time) (map[string]due, error) {
	if after == "" {
		return nil, nil
	}
	var c dueCursor
	raw, err := base64.RawURLEncoding.DecodeString(after)
	if err == nil {
		err = json.Unmarshal(raw, &c)
	}
	switch {
	case err != nil:
		return nil, fmt.Errorf("goworker: %q is not where a walk through delayed jobs goes on: %w", after, ErrCursor)
	case c.Question != questionOfDue(q, from, to):
		return nil, fmt.Errorf("goworker: %q is where a walk of another query goes on; give the same query: %w", after, ErrCursor)
	}
	for _, d := range c.Shards {
		for _, at := range []*delayed.Place{d.Own, d.Plain} {
			if at != nil && at.List != nil && at.List.At < 0 {
				return nil, fmt.Errorf("goworker: %q is not where a walk through delayed jobs goes on: %w", after, ErrCursor)
			}
		}
	}
	return c.Shards, nil
}

// dueJobs are the first jobs of one Redis, with the place behind each of them.
type dueJobs struct {
	mark    string
	jobs    []Entry
	begin   due
	after   []due
	end     due
	looked  int
	unsure  int
	refused []error
}

// behind is the place behind so many jobs.
func (d *dueJobs) behind(n int) due {
	switch {
	case n == len(d.jobs):
		return d.end
	case n == 0:
		return d.begin
	}
	return d.after[n-1]
}

// merger reads the jobs of several sources in the order of their times.
type merger struct {
	q        Query
	from, to time.Time
	count    int
	over     func() bool // the time of the call is up; nil: it has no bound
}

// stream is one schedule of a walk.
type stream struct {
	walk   func(c redis.Conn, from *delayed.Place, most int, texts [][]byte, fits func(delayed.Job) bool) (delayed.Step, error)
	place  *delayed.Place // behind the last job that was taken, or looked at
	found  []delayed.Job
	behind []delayed.Place
	next   *delayed.Place // behind all of found; nil: there are no more
	looked int
	done   bool
}

func (m *merger) read(ctx context.Context, i *Inspector, begin due) (*dueJobs, error) {
	settings, err := i.redis.Settings()
	if err != nil {
		return nil, err
	}
	match, err := m.q.matcher(settings, i.mask)
	if err != nil {
		return nil, err
	}
	if begin.Own == nil && !m.from.IsZero() {
		begin.Own = delayed.OwnFrom(m.from)
	}
	if begin.Plain == nil && !m.from.IsZero() {
		begin.Plain = delayed.PlainFrom(m.from)
	}
	if begin.Plain == nil && len(m.q.Where) == 0 { // each second of resque-scheduler's costs two commands: read no more of them than the page has jobs
		begin.Plain = new(delayed.Place)
	}
	if begin.Plain != nil && begin.Plain.Size == 0 && len(m.q.Where) == 0 {
		begin.Plain.Size = int64(m.count)
	}
	out := &dueJobs{mark: i.mark(), begin: begin, end: begin}
	err = i.do(ctx, func(s resque.Store, c redis.Conn) error {
		store := delayed.New(s)
		own := &stream{walk: store.WalkOwn, place: begin.Own, done: begin.Done[0]}
		plain := &stream{walk: store.WalkPlain, place: begin.Plain, done: begin.Done[1]}
		for len(out.jobs) < m.count {
			whole := true
			for _, one := range []*stream{own, plain} {
				full, err := m.fill(c, one, match, out)
				if err != nil {
					return err
				}
				whole = whole && full
			}
			first := own
			if len(own.found) == 0 || len(plain.found) > 0 && plain.found[0].At.Before(own.found[0].At) {
				first = plain
			}
			if !whole || len(first.found) == 0 {
				break
			}
			out.jobs = append(out.jobs, i.delayedEntry(first.take()))
			out.end = due{own.place, plain.place, [2]bool{own.done, plain.done}}
			out.after = append(out.after, out.end)
		}
		out.end = due{own.place, plain.place, [2]bool{own.done, plain.done}}
		return nil
	})
	out.unsure = match.unsure
	return out, prefix.Of(err)
}

// fill reads on until the next job of a schedule is known. It reports false if it has looked at too many.
func (m *merger) fill(c redis.Conn, s *stream, match *matcher, out *dueJobs) (bool, error) {
	for len(s.found) == 0 && !s.done {
		if s.looked >= maxLooked || s.looked > 0 && m.over != nil && m.over() {
			return false, nil
		}
		behind := false // of to
		step, err := s.walk(c, s.place, m.count-len(out.jobs), match.texts, func(d delayed.Job) bool {
			behind = behind || !m.to.IsZero() && !d.At.Before(m.to)
			return !behind && match.fits(subject{place: Delayed, queue: d.Queue, raw: bytesOf(d), due: d.At})
		})
		if err != nil && !resque.IsWrongType(err) {
			return false, err
		}
		if err != nil {
			out.refused = append(out.refused, prefix.Errorf("reading the schedule of delayed jobs: %w", resque.Explain(err)))
		}
		out.refused = append(out.refused, step.Refused...)
		s.looked += max(step.Looked, least)
		out.looked += step.Looked
		s.found, s.behind, s.next = step.Found, step.After, step.Next
		if behind {
			s.next = nil
		}
		if len(s.found) == 0 {
			s.pass()
		}
	}
	return true, nil
}

// take returns the next job.
func (s *stream) take() delayed.Job {
	d := s.found[0]
	s.place = &s.behind[0]
	if s.found, s.behind = s.found[1:], s.behind[1:]; len(s.found) == 0 {
		s.pass()
	}
	return d
}

// pass goes behind what was read.
func (s *stream) pass() {
	if s.done = s.next == nil; !s.done {
		s.place = s.next
	}
}

func (i *Inspector) delayedEntry(d delayed.Job) Entry {
	e := i.entry(Delayed, d.Queue, bytesOf(d))
	e.At, e.Plain, e.delay, e.Shard = d.At, d.Plain(), d, i.shard()
	if d.Err != nil {
		e.Payload, e.Invalid = nil, d.Err
	}
	return e
}

// merge makes a page of what the shards have.
func (m *merger) merge(all []*dueJobs) (page Page) {
	used := make([]int, len(all))
	for len(page.Jobs) < m.count {
		n := soonest(all, used)
		if n < 0 {
			break
		}
		page.Jobs = append(page.Jobs, all[n].jobs[used[n]])
		used[n]++
	}
	next := dueCursor{Question: questionOfDue(m.q, m.from, m.to), Shards: make(map[string]due, len(all))}
	more := false
	for n, one := range all {
		at := one.behind(used[n])
		more = more || !at.ended()
		next.Shards[one.mark] = at
		page.Looked += one.looked
		page.Unsure += one.unsure
		page.Refused = append(page.Refused, one.refused...)
	}
	if more {
		text, _ := json.Marshal(next)
		page.Next = base64.RawURLEncoding.EncodeToString(text)
	}
	return page
}

// soonest is the shard whose next job is due first; -1: there is none, or that of a shard is not known.
func soonest(all []*dueJobs, used []int) int {
	first := -1
	for n, one := range all {
		switch {
		case used[n] == len(one.jobs) && !one.end.ended():
			return -1
		case used[n] < len(one.jobs) && (first < 0 || one.jobs[used[n]].At.Before(all[first].jobs[used[first]].At)):
			first = n
		}
	}
	return first
}
