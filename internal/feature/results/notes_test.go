package results

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/clock"
	"github.com/goworker/goworker/internal/logging"
	"github.com/goworker/goworker/internal/outcome"
	"github.com/goworker/goworker/internal/part"
	"github.com/goworker/goworker/internal/payload"
	"github.com/goworker/goworker/internal/resque"
)

// pass lets time pass, and waits until all that was due then is done.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// recorder is a Redis that records the calls of note.lua, and may refuse them.
type recorder struct {
	redis.Conn
	mu      sync.Mutex
	calls   [][]any
	at      []time.Time
	refuses bool
}

func (r *recorder) Do(_ string, args ...any) (any, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls, r.at = append(r.calls, args), append(r.at, time.Now())
	if r.refuses {
		return nil, errors.New("OOM command not allowed")
	}
	return int64(1), nil
}

func (r *recorder) text(call int) string { return fmt.Sprintf("%s", r.calls[call]) }

type fleetTime struct{}

func (fleetTime) Now() time.Time { return time.Now() }

func deps(r *recorder) outcome.Deps {
	log := slog.New(slog.DiscardHandler)
	return outcome.Deps{
		Base: part.Base{Log: log, Outages: logging.NewOutages(log, clock.System), Store: resque.New(""), Clock: clock.System},
		Time: fleetTime{}, Do: func(_ context.Context, f func(redis.Conn) error) error { return f(r) },
	}
}

// jobOf returns a job as a worker has it.
func jobOf(t *testing.T, process string, ticket int64, fields string) *outcome.Job {
	t.Helper()
	raw := []byte(`{"class":"C","args":[]` + fields + `}`)
	parsed, err := payload.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	return &outcome.Job{Reserved: resque.Reserved{Ticket: ticket, Queue: "q", Payload: raw}, Process: process, Parsed: parsed, Attempt: 1, StartedAt: time.Now()}
}

// begin returns the run of a job.
func begin(t *testing.T, f outcome.Feature, j *outcome.Job) *Run {
	t.Helper()
	var run *Run
	handler := f.Open(j).Wrap(func(ctx context.Context, _ *outcome.Job) error { run = Of(ctx); return nil })
	if err := handler(t.Context(), j); err != nil || run == nil {
		t.Fatal("the handler did not find its run", err)
	}
	return run
}

// Only a positive number and an id switch the feature on; other fields are another program's.
func TestOpen(t *testing.T) {
	t.Parallel()
	f := New(deps(new(recorder)))
	for fields, on := range map[string]bool{
		`,"result":5,"id":"i"`: true, `,"result":3153600000000,"id":"i"`: true, `,"result":5`: false, `,"result":0,"id":"i"`: false, `,"result":-5,"id":"i"`: false,
		`,"result":"5","id":"i"`: false, `,"result":5.5,"id":"i"`: false, `,"result":null,"id":"i"`: false, `,"result":{"a":1},"id":"i"`: false, `,"result":99999999999999999999,"id":"i"`: false,
		`,"result":5,"id":""`: false,
	} {
		j := jobOf(t, "p", 1, fields)
		if got := f.Open(j) != nil; got != on || j.Keep != on {
			t.Errorf("%s: the feature is on: %v, and the value is kept: %v", fields, got, j.Keep)
		}
	}
}

// What many jobs say within 100 ms is one call, of each process of theirs; the latest progress of each counts. Close
// ends the goroutine, and what comes later is dropped.
func TestNotesAreBatched(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := new(recorder)
		f := New(deps(r))
		a, b, c := begin(t, f, jobOf(t, "p", 1, `,"result":5,"id":"a"`)), begin(t, f, jobOf(t, "p", 2, `,"result":5,"logs":true,"id":"b"`)), begin(t, f, jobOf(t, "other", 1, `,"result":5,"id":"c"`))
		for n := range int64(1000) {
			a.Progress(n, 999, "")
		}
		b.Line([]byte(`{"line":1}`))
		a.Line([]byte(`{"line":"not captured"}`))
		c.Progress(3, 4, "")
		synctest.Wait()
		r.mu.Lock()
		if len(r.calls) != 0 {
			t.Errorf("written at once: %s", r.calls)
		}
		r.mu.Unlock()
		pass(time.Second)
		if len(r.calls) != 2 || !strings.Contains(r.text(0), `{"done":999,"total":999,`) || !strings.Contains(r.text(0), `{"line":1}`) || !strings.Contains(r.text(1), "go:progress:c") {
			t.Errorf("the calls are %s", r.calls)
		}
		if !strings.Contains(r.text(0), "attempt") {
			t.Errorf("a job that said something is not written as running: %s", r.calls)
		}
		for range 100 {
			pass(7 * time.Millisecond)
			a.Progress(1, 1, "")
		}
		if last := r.text(len(r.calls) - 1); strings.Contains(last, "attempt") {
			t.Errorf("it is written more than once that a job runs: %s", last)
		}
		if n := len(r.calls) - 2; n < 5 || n > 7 {
			t.Errorf("in 700 ms there were %d calls", n)
		}
		for i := 3; i < len(r.at); i++ {
			if gap := r.at[i].Sub(r.at[i-1]); gap < within {
				t.Errorf("between two calls there are %s", gap)
			}
		}
		f.Close()
		n := len(r.calls)
		a.Progress(2, 2, "")
		pass(time.Second)
		if len(r.calls) != n {
			t.Error("it writes after Close")
		}
	})
}

// Notes that Redis refuses are written later, with what came meanwhile. What is not written goes with the end.
func TestNotesAreRepeated(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := &recorder{refuses: true}
		f := New(deps(r))
		defer f.Close()
		a := begin(t, f, jobOf(t, "p", 1, `,"result":5,"logs":true,"id":"a"`))
		a.running([]any{"attempt", 1})
		a.Line([]byte("one"))
		pass(10 * time.Second)
		if len(r.calls) < 2 {
			t.Errorf("it was tried %d times", len(r.calls))
		}
		a.Line([]byte("two"))
		a.Progress(1, 2, "x")
		r.mu.Lock()
		r.refuses, r.calls = false, nil
		r.mu.Unlock()
		pass(10 * time.Second)
		if len(r.calls) != 1 || !strings.Contains(r.text(0), "one two attempt") || !strings.Contains(r.text(0), `"note":"x"`) {
			t.Errorf("the calls are %s", r.calls)
		}
		a.Line([]byte("three"))
		for range 2 {
			n := a.end()
			if n.Before != 2 || len(n.Lines) != 1 || string(n.Lines[0]) != "three" || n.Progress != nil || n.Begun != nil {
				t.Errorf("the end has %+v", n)
			}
		}
		a.Line([]byte("late"))
		a.Progress(9, 9, "late")
		pass(time.Second)
		if n := a.end(); len(r.calls) != 1 || len(n.Lines) != 1 || n.Progress != nil {
			t.Errorf("after the end: %s, %+v", r.calls, n)
		}
	})
}

// A job of a dead process has no line of its own, and nothing that is started.
func TestDead(t *testing.T) {
	t.Parallel()
	f := New(deps(new(recorder)))
	j := jobOf(t, "p", 1, `,"result":5,"id":"a"`)
	j.Dead, j.Started, j.StartedAt = true, true, time.Time{}
	o := outcome.Outcome{State: outcome.Returned, Started: true}
	f.Open(j).Settle(j, &o)
	if text := fmt.Sprintf("%+v", o.Effects); len(o.Effects) != 1 || !strings.Contains(text, `"state":"lost"`) || strings.Contains(text, "began") {
		t.Errorf("the effects are %s", text)
	}
	o = outcome.Outcome{State: outcome.Returned}
	if f.Open(j).Settle(j, &o); len(o.Effects) != 0 {
		t.Errorf("a job that goes back without a run leaves %+v", o.Effects)
	}
}

// What a child says arrives at its daemon: lines at once, the progress within 100 ms, the rest at the end.
func TestRemote(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := new(recorder)
		f := New(deps(r))
		defer f.Close()
		j := jobOf(t, "p", 1, `,"result":5,"logs":true,"id":"a"`)
		parent := begin(t, f, j)
		var messages []string
		ctx, end := Remote(t.Context(), j, clock.System, func(m json.RawMessage) {
			r.mu.Lock()
			messages = append(messages, string(m))
			r.mu.Unlock()
			parent.Hear(m)
		})
		child := Of(ctx)
		for n := range int64(1000) {
			child.Progress(n, 1000, "")
		}
		synctest.Wait()
		r.mu.Lock()
		if len(messages) != 0 {
			t.Errorf("sent at once: %q", messages)
		}
		r.mu.Unlock()
		pass(within)
		synctest.Wait()
		child.Line([]byte(`{"a":1}`))
		child.Line([]byte(`{"a":2}`))
		child.Progress(1000, 1000, "end")
		end()
		child.Progress(1, 1, "late")
		pass(time.Second)
		if len(messages) != 4 || !strings.Contains(messages[0], `"done":999`) || !strings.Contains(messages[1], `{"a":1}`) || !strings.Contains(messages[3], `"note":"end"`) {
			t.Errorf("the messages are %q", messages)
		}
		parent.Hear(json.RawMessage(`"rubbish"`))
		if text := r.text(len(r.calls) - 1); !strings.Contains(text, `{"a":1} {"a":2}`) && !slices.ContainsFunc(r.calls, func(c []any) bool { return strings.Contains(fmt.Sprintf("%s", c), `{"a":1}`) }) {
			t.Errorf("the last call is %s", text)
		}
		if plain, _ := Remote(t.Context(), jobOf(t, "p", 1, ""), clock.System, nil); Of(plain) != nil {
			t.Error("a job without a document has a run")
		}
	})
}
