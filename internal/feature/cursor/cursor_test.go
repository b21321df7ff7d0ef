package cursor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/args"
	"github.com/goworker/goworker/internal/clock"
	"github.com/goworker/goworker/internal/failure"
	"github.com/goworker/goworker/internal/logging"
	"github.com/goworker/goworker/internal/outcome"
	"github.com/goworker/goworker/internal/part"
	"github.com/goworker/goworker/internal/redistest"
	"github.com/goworker/goworker/internal/resque"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// recorder is a Redis that records the calls of cursor.lua, and may refuse them.
type recorder struct {
	redis.Conn
	mu      sync.Mutex
	calls   []string
	at      []time.Time
	refuses error
	lost    bool
}

func (r *recorder) Do(_ string, args ...any) (any, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls, r.at = append(r.calls, fmt.Sprintf("%s", args)), append(r.at, time.Now())
	answers := make([]any, args[1].(int)-1)
	for i := range answers {
		if answers[i] = int64(1); r.lost {
			answers[i] = int64(0)
		}
	}
	return answers, r.refuses
}

func (r *recorder) Err() error { return nil }

func (r *recorder) all() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.calls)
}

type fleetTime struct{}

func (fleetTime) Now() time.Time { return time.Now() }

type classes struct{ class *outcome.Class }

func (c classes) Class(string) *outcome.Class            { return c.class }
func (classes) Unknown(class string) error               { return errors.New(class) }
func (classes) Misfit(class string, _ *args.Error) error { return errors.New(class) }

// set returns a set with the feature alone.
func set(r *recorder) *outcome.Set {
	log := slog.New(slog.DiscardHandler)
	return outcome.New(outcome.Deps{
		Base: part.Base{Log: log, Outages: logging.NewOutages(log, clock.System), Store: resque.New(""), Clock: clock.System},
		Time: fleetTime{}, Do: func(_ context.Context, f func(redis.Conn) error) error { return f(r) },
		Settings: outcome.Settings{MaxPayload: 1 << 20},
	}, classes{&outcome.Class{Name: "C"}}, New)
}

// job returns a job as a worker has it.
func job(process string, ticket int64, fields string) *outcome.Job {
	return &outcome.Job{Reserved: resque.Reserved{Ticket: ticket, Queue: "q", Payload: []byte(`{"class":"C","args":[]` + fields + `}`)}, Process: process}
}

// asText prints bytes as text; no tool takes it for a mistake that numbers are not.
var asText = "%s"

var wrongVerb = regexp.MustCompile(`%!s\(\w+=([^)]*)\)`)

// text returns the effects of an end.
func text(o *outcome.Outcome) string {
	return wrongVerb.ReplaceAllString(fmt.Sprintf(asText, o.Effects), "$1")
}

// perform runs a job.
func perform(t *testing.T, s *outcome.Set, j *outcome.Job, f func(ctx context.Context, r *Run) error) (o outcome.Outcome) {
	t.Helper()
	s.Run(t.Context(), j, func(ctx context.Context, _ *outcome.Job) error {
		r, err := Of(ctx, ctx)
		if err != nil {
			return err
		}
		return f(ctx, r)
	}, &o)
	return o
}

// Each value is written a second at most after it was said, in one call for many jobs of a process, and no job
// causes more than one write a second. After Close nothing is written.
func TestWritesOnceASecond(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		rec := new(recorder)
		s := set(rec)
		var wg sync.WaitGroup
		for n := range 12 {
			wg.Go(func() {
				id := fmt.Sprint("id", n)
				o := perform(t, s, job([]string{"p", "other"}[n/11], int64(n+1), `,"id":"`+id+`"`), func(ctx context.Context, r *Run) error {
					for tick := range 1000 {
						value := fmt.Sprintf(`"%s at %d"`, id, tick)
						if err := r.Set(ctx, []byte(value)); err != nil {
							t.Error(err)
						}
						time.Sleep(10 * time.Millisecond)
					}
					time.Sleep(time.Second)
					return nil
				})
				if len(o.Effects) != 1 || strings.Contains(fmt.Sprint(o.Effects), " at ") {
					t.Errorf("the end of a job that is done has %v", o.Effects)
				}
			})
		}
		began := time.Now()
		wg.Wait()
		s.Close()
		for _, id := range []string{"id0", "id2", "id11"} {
			written, last := 0, began
			for i, call := range rec.calls {
				_, said, there := strings.Cut(call, `"`+id+` at `)
				if !there {
					continue
				}
				var tick int
				_, _ = fmt.Sscan(said, &tick)
				if old := rec.at[i].Sub(began) - time.Duration(tick)*10*time.Millisecond; old < 0 || old > 10*time.Millisecond {
					t.Errorf("%s: a value that is written is %s old", id, old)
				}
				if gap := rec.at[i].Sub(last); written > 0 && gap < every || gap > every+10*time.Millisecond {
					t.Errorf("%s: between two writes there are %s", id, gap)
				}
				written, last = written+1, rec.at[i]
			}
			if written < 10 || written > 12 || !strings.Contains(strings.Join(rec.calls, " "), `"`+id+` at 999"`) {
				t.Errorf("%s was written %d times", id, written)
			}
		}
		if len(rec.calls) > 3*12 {
			t.Errorf("there were %d calls", len(rec.calls))
		}
	})
}

// What Redis refuses is tried again with what came meanwhile, and is in the end of the run.
func TestWritesAreRepeated(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		rec := &recorder{refuses: redis.Error("OOM command not allowed")}
		s := set(rec)
		defer s.Close()
		o := perform(t, s, job("p", 1, `,"id":"a"`), func(ctx context.Context, r *Run) error {
			for n := range 200 {
				if err := r.Set(ctx, []byte(fmt.Sprint(n))); err != nil {
					t.Error(err)
				}
				time.Sleep(100 * time.Millisecond)
			}
			if calls := rec.all(); len(calls) < 10 || strings.Count(calls[len(calls)-1], "go:cursor:a") != 1 {
				t.Errorf("the calls are %s", calls)
			}
			rec.mu.Lock()
			rec.refuses, rec.calls = nil, nil
			rec.mu.Unlock()
			time.Sleep(3 * time.Second)
			if calls := rec.all(); len(calls) != 1 || !strings.Contains(calls[0], " cursor 199 %!s(int64=200) ") {
				t.Errorf("the calls are %s", calls)
			}
			rec.mu.Lock()
			rec.refuses = redis.Error("OOM command not allowed")
			rec.mu.Unlock()
			if err := r.Set(ctx, []byte("last")); err != nil {
				t.Error(err)
			}
			return errors.New("no luck")
		})
		if text := text(&o); len(o.Effects) != 1 || !strings.Contains(text, "cursor last") {
			t.Errorf("the end has %s", text)
		}
	})
}

// The first write that finds that the job is gone ends the run's calls, and the writer leaves it alone.
func TestLost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		rec := &recorder{lost: true}
		s := set(rec)
		defer s.Close()
		perform(t, s, job("p", 1, `,"id":"a"`), func(ctx context.Context, r *Run) error {
			if err := r.Set(ctx, []byte("1")); err != nil {
				t.Error(err)
			}
			time.Sleep(3 * time.Second)
			_, get := r.Get(ctx)
			_, once := r.Once(ctx, "x", func(context.Context) ([]byte, error) { t.Error("the block ran"); return nil, nil })
			for _, err := range []error{get, once, r.Set(ctx, []byte("2"))} {
				if !errors.Is(err, failure.ErrNotHeld) {
					t.Errorf("%v", err)
				}
			}
			time.Sleep(3 * time.Second)
			return nil
		})
		if calls := rec.all(); len(calls) != 1 {
			t.Errorf("the calls are %s", calls)
		}
	})
}

// A job that does not ask for a cursor has none, unless an earlier run has: then its end says how long that stays. A field of
// another form is another program's.
func TestJoin(t *testing.T) {
	t.Parallel()
	s := set(new(recorder))
	defer s.Close()
	silent := func(j *outcome.Job, err error) (o outcome.Outcome) {
		s.Run(t.Context(), j, func(context.Context, *outcome.Job) error { return err }, &o)
		return o
	}
	for fields, want := range map[string]int{``: 0, `,"id":"a"`: 0, `,"cursor":true`: 0, `,"cursor":true,"id":"a"`: 1, `,"cursor":"x","id":"a"`: 0, `,"cursor":1,"id":"a"`: 0} {
		for _, err := range []error{nil, errors.New("no luck")} {
			if o := silent(job("p", 1, fields), err); len(o.Effects) != want {
				t.Errorf("%s: %v after %v", fields, o.Effects, err)
			}
		}
	}
	if o := perform(t, s, job("p", 1, ``), func(context.Context, *Run) error { return nil }); !errors.Is(o.Err, ErrNoID) {
		t.Errorf("without an id: %v", o.Err)
	}
	j := job("p", 1, `,"id":"a"`)
	var late context.Context
	perform(t, s, j, func(ctx context.Context, r *Run) error {
		if again, err := Of(ctx, ctx); again != r || err != nil {
			t.Errorf("asked again: %p, %v, want %p", again, err, r)
		}
		late = ctx
		return nil
	})
	if len(j.Fields) != 1 || string(j.Fields[0].Value) != "true" {
		t.Errorf("the next run gets %v", j.Fields)
	}
	if _, err := Of(late, late); !errors.Is(err, failure.ErrNotHeld) {
		t.Errorf("after the run: %v", err)
	}
	j = job("p", 1, `,"id":"b"`)
	perform(t, s, j, func(ctx context.Context, r *Run) error { late = ctx; return nil })
	dead := job("p", 1, `,"cursor":true,"id":"a"`)
	dead.Dead, dead.Started = true, true
	if o := s.End(dead, outcome.Returned, nil); !strings.Contains(fmt.Sprint(o.Effects), "604800000") {
		t.Errorf("a job of a dead process has %v", o.Effects)
	}
	if o := s.End(job("p", 1, `,"cursor":true,"id":"a"`), outcome.Returned, nil); strings.Contains(fmt.Sprint(o.Effects), "go:cursor") {
		t.Errorf("a job that goes back without a run has %v", o.Effects)
	}
}

// What the child process of a job has not written reaches the commit, in any form. Other messages are left alone.
func TestHear(t *testing.T) {
	t.Parallel()
	s := set(new(recorder))
	defer s.Close()
	for message, want := range map[string]string{
		`{"Cursor":{"Values":{"cursor":"NQ==","once:x":"IXdoeQ=="}}}`: "[604800000 cursor 5 once:x !why]",
		`{"Cursor":{"Values":null}}`:                                  "[604800000]", `{"Cursor":{}}`: "[604800000]", `{"Progress":{"Done":1}}`: "", `[1]`: "", `{"Cursor":5}`: "", `{`: "",
	} {
		var o outcome.Outcome
		s.Run(t.Context(), job("p", 1, `,"id":"a"`), func(ctx context.Context, _ *outcome.Job) error {
			Hear(ctx, json.RawMessage(message))
			return errors.New("no luck")
		}, &o)
		if text := text(&o); !strings.Contains(text, want) || len(o.Effects) != min(len(want), 1) {
			t.Errorf("%s: %s", message, text)
		}
	}
	Hear(t.Context(), json.RawMessage(`{"Cursor":{}}`)) // no job is there
}

// A job of a test keeps nothing and reads nothing. It is where the test says.
func TestLocal(t *testing.T) {
	t.Parallel()
	j := job("p", 1, ``)
	j.ID = "a"
	ctx, said := Local(Start(t.Context(), []byte("5")), j)
	r, err := Of(ctx, ctx)
	if err != nil {
		t.Fatal(err)
	}
	if at, err := r.Get(ctx); string(at) != "5" || err != nil {
		t.Errorf("it is at %s, %v", at, err)
	}
	for range 2 {
		if v, err := r.Once(ctx, "x", func(context.Context) ([]byte, error) { return []byte("1"), nil }); string(v) != "1" || err != nil {
			t.Errorf("%s, %v", v, err)
		}
	}
	ended, cancel := context.WithCancelCause(ctx)
	cancel(failure.ErrShutdown)
	if err := r.Set(ended, []byte("6")); err != nil || string(said()) != "6" {
		t.Errorf("it says %s, %v", said(), err)
	}
	ctx, said = Local(t.Context(), &outcome.Job{})
	if _, err := Of(ctx, ctx); !errors.Is(err, ErrNoID) || said() != nil {
		t.Errorf("without an id: %v", err)
	}
}
