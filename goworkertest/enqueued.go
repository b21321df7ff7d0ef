package goworkertest

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/internal/outcome"
	"github.com/goworker/goworker/internal/resque"
	"github.com/goworker/goworker/internal/trial"
)

// Recorded is what has recorded enqueued jobs: a Client or a Runner.
type Recorded interface {
	// Jobs returns the jobs that were enqueued, in order.
	Jobs() []Job

	// Now returns the time by the clock of the test.
	Now() time.Time
}

// Enqueued returns the arguments of the jobs of a class, in the order in which they were enqueued. It reads them as the
// class's handler would. Arguments that do not fit end the test.
func Enqueued[A, R any](t testing.TB, from Recorded, class *goworker.Class[A, R]) []A {
	t.Helper()
	var all []A
	d := goworker.New(goworker.WorkerSettings{})
	class.Handle(d, func(_ context.Context, args A) (result R, err error) {
		all = append(all, args)
		return result, nil
	})
	x := goworker.Trial(trial.New(from.Now()))
	for _, job := range from.Jobs() {
		if job.Class != class.Name() {
			continue
		}
		bare, _ := json.Marshal(map[string]any{"class": job.Class, "args": job.Args})
		j := &outcome.Job{Reserved: resque.Reserved{Queue: job.Queue, Payload: bare}}
		if o, _, err := x.Run(t.Context(), d, j, discard); err != nil || o.Err != nil {
			t.Fatalf("goworkertest: %s cannot be read as its class says: %v", job, cmp.Or(err, o.Err))
		}
	}
	return all
}

// RequireEnqueued ends the test unless a job like this one was enqueued, and returns the first such job:
//
//	goworkertest.RequireEnqueued(t, client, SendEmail.Job(Email{To: "ann@example.com"}), goworkertest.DueIn(time.Hour))
//	goworkertest.RequireEnqueued(t, client, goworker.NewJob("mail", "SendEmail"), goworkertest.Times(2))
//
// An empty queue stands for any queue. Args that are nil, as those of goworker.NewJob without arguments, stand for
// any arguments; others must be equal as JSON.
func RequireEnqueued(t testing.TB, in Recorded, like *goworker.Job, checks ...Check) Job {
	t.Helper()
	found, message := search(in, like, checks)
	if message != "" {
		t.Fatal(message)
	}
	return found
}

// RequireNotEnqueued ends the test if a job like this one was enqueued that also passes the checks.
func RequireNotEnqueued(t testing.TB, in Recorded, like *goworker.Job, checks ...Check) {
	t.Helper()
	same, misfits := matching(in, like, checks)
	if n := len(same) - len(misfits); n > 0 {
		t.Fatalf("goworkertest: %s was enqueued %s, and should not be:%s", describe(like), times(n), list(same))
	}
}

// Check is a demand on an enqueued job.
type Check struct {
	times *int // of Times
	test  func(now time.Time, j Job) string
}

// Times demands that exactly so many such jobs were enqueued. Without it there must be at least one.
func Times(n int) Check { return Check{times: &n} }

// DueIn demands that the job is delayed until this long after the clock's present time.
func DueIn(d time.Duration) Check {
	return Check{test: func(now time.Time, j Job) string { return due(j, now.Add(d)) }}
}

// DueAt demands that the job is delayed until this time, to the millisecond.
func DueAt(at time.Time) Check {
	return Check{test: func(_ time.Time, j Job) string { return due(j, at) }}
}

// DueNow demands that the job went to its queue at once.
func DueNow() Check {
	return Check{test: func(_ time.Time, j Job) string {
		if !j.At.IsZero() {
			return "it is delayed until " + stamp(j.At)
		}
		return ""
	}}
}

func due(j Job, at time.Time) string {
	switch d := j.At.Sub(at); {
	case j.At.IsZero():
		return "it is not delayed; want it delayed until " + stamp(at)
	case d <= -time.Millisecond || d >= time.Millisecond:
		return fmt.Sprintf("it is due at %s, want %s", stamp(j.At), stamp(at))
	}
	return ""
}

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z07:00") }

// HasID demands the id of the job.
func HasID(id string) Check {
	return Check{test: func(_ time.Time, j Job) string {
		if j.ID != id {
			return fmt.Sprintf("its id is %q, want %q", j.ID, id)
		}
		return ""
	}}
}

// HasMeta demands a text of the job's metadata.
func HasMeta(key, value string) Check {
	return Check{test: func(_ time.Time, j Job) string {
		if is, ok := j.Meta[key]; !ok || is != value {
			return fmt.Sprintf("its metadata is %v, want %s=%s", j.Meta, key, value)
		}
		return ""
	}}
}

// Expires demands that the job may be started until this long after the clock's present time, and no longer.
func Expires(in time.Duration) Check {
	return Check{test: func(now time.Time, j Job) string {
		switch d := j.ExpiresAt.Sub(now.Add(in)); {
		case j.ExpiresAt.IsZero():
			return "it never expires"
		case d <= -time.Millisecond || d >= time.Millisecond:
			return fmt.Sprintf("it expires at %s, want %s", stamp(j.ExpiresAt), stamp(now.Add(in)))
		}
		return ""
	}}
}

// HasField demands that a field of the payload has this value, as JSON.
func HasField(name string, value any) Check {
	return Check{test: func(_ time.Time, j Job) string {
		raw, ok := j.Field(name)
		switch want := compact(value); {
		case !ok:
			return fmt.Sprintf("its payload has no field %q, want %s", name, want)
		case !bytes.Equal(compact(raw), want):
			return fmt.Sprintf("the field %q of its payload is %s, want %s", name, raw, want)
		}
		return ""
	}}
}

// Where demands what f says. f returns what is wrong with a job; "" is nothing.
func Where(f func(Job) string) Check {
	return Check{test: func(_ time.Time, j Job) string { return f(j) }}
}

// search returns the first job that is as wanted, or why there is none.
func search(in Recorded, like *goworker.Job, checks []Check) (found Job, message string) {
	same, misfits := matching(in, like, checks)
	fit := len(same) - len(misfits)
	for _, check := range checks {
		if check.times != nil && fit != *check.times {
			return found, fmt.Sprintf("goworkertest: %s was enqueued %s, want %s%s", describe(like), times(fit), times(*check.times), nearest(in, same, misfits))
		}
	}
	if fit == 0 && !slices.ContainsFunc(checks, func(c Check) bool { return c.times != nil }) {
		return found, fmt.Sprintf("goworkertest: %s was not enqueued%s", describe(like), nearest(in, same, misfits))
	}
	for i, j := range same {
		if _, bad := misfits[i]; !bad {
			return j, ""
		}
	}
	return found, ""
}

// matching returns the jobs that are like one, and for those that fail a check, by their places, why.
func matching(in Recorded, like *goworker.Job, checks []Check) (same []Job, misfits map[int]string) {
	misfits = make(map[int]string)
	now := in.Now()
	for _, j := range in.Jobs() {
		if !alike(j, like) {
			continue
		}
		for _, check := range checks {
			if check.test == nil {
				continue
			}
			if wrong := check.test(now, j); wrong != "" {
				misfits[len(same)] = wrong
				break
			}
		}
		same = append(same, j)
	}
	return same, misfits
}

func alike(j Job, like *goworker.Job) bool {
	if like.Queue != "" && like.Queue != j.Queue || like.Payload.Class != j.Class {
		return false
	}
	if like.Payload.Args == nil {
		return true
	}
	return slices.EqualFunc(j.Args, like.Payload.Args, func(is json.RawMessage, want any) bool {
		return bytes.Equal(compact(is), compact(want))
	})
}

// compact is a value as JSON, in one form for equal values.
func compact(v any) []byte {
	raw, err := json.Marshal(v)
	if err != nil {
		return []byte(err.Error())
	}
	var plain any
	decode := json.NewDecoder(bytes.NewReader(raw))
	decode.UseNumber()
	if decode.Decode(&plain) != nil {
		return raw
	}
	raw, _ = json.Marshal(plain)
	return raw
}

// nearest names the jobs that were enqueued in place of the one that is missed.
func nearest(in Recorded, same []Job, misfits map[int]string) string {
	switch all := in.Jobs(); {
	case len(misfits) > 0:
		var s strings.Builder
		for i, j := range same {
			if misfits[i] != "" {
				fmt.Fprintf(&s, "\n\t%s: %s", j, misfits[i])
			}
		}
		return " so:" + s.String()
	case len(all) == 0:
		return "; nothing was"
	default:
		return "; these were:" + list(all)
	}
}

// shown is how many jobs a message lists.
const shown = 10

func list(jobs []Job) string {
	var s strings.Builder
	for i, j := range jobs {
		if i == shown {
			fmt.Fprintf(&s, "\n\tand %d more", len(jobs)-shown)
			break
		}
		fmt.Fprintf(&s, "\n\t%s", j)
	}
	return s.String()
}

func describe(j *goworker.Job) string {
	s := "a job of class " + j.Payload.Class
	if j.Queue != "" {
		s += " in queue " + j.Queue
	}
	if j.Payload.Args != nil {
		s += " with " + string(compact(j.Payload.Args))
	}
	return s
}

func times(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}
