package retry_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/goworker/goworker/internal/args"
	"github.com/goworker/goworker/internal/clock"
	"github.com/goworker/goworker/internal/failure"
	"github.com/goworker/goworker/internal/feature/retry"
	"github.com/goworker/goworker/internal/outcome"
	"github.com/goworker/goworker/internal/part"
	"github.com/goworker/goworker/internal/payload"
	"github.com/goworker/goworker/internal/resque"
)

// classes has one class.
type classes struct{ one *outcome.Class }

func (c classes) Class(name string) *outcome.Class {
	if name == c.one.Name {
		return c.one
	}
	return nil
}
func (classes) Unknown(class string) error { return errors.New("unknown " + class) }
func (classes) Misfit(class string, e *args.Error) error {
	return fmt.Errorf("misfit %s %v", class, *e)
}

var errNoLuck = errors.New("no luck")

// The number of retries in the payload goes before that of the class. Snooze needs neither.
func TestRun(t *testing.T) {
	t.Parallel()
	class := &outcome.Class{Name: "C"}
	outcome.Put(class, &retry.Policy{Limit: 1, Delay: func(int, error) time.Duration { return time.Hour }, Allows: func(error) bool { return true }})
	now := time.UnixMilli(1_800_000_000_000)
	s := outcome.New(outcome.Deps{
		Base: part.Base{Store: resque.New(""), Clock: clock.System}, Time: stopped{now}, Settings: outcome.Settings{MaxPayload: 1 << 20},
	}, classes{class}, retry.New)
	asks := func(kind failure.WishKind, wait time.Duration) error {
		return fmt.Errorf("x: %w", &failure.Wish{Kind: kind, Wait: wait})
	}
	for _, tt := range []struct {
		payload string
		err     error
		state   outcome.State
		wait    time.Duration // -1: any
		has     string        // of the next payload
	}{
		{`{"class":"C","args":[]}`, nil, outcome.Done, 0, ""},
		{`{"class":"C","args":[]}`, errNoLuck, outcome.Retried, time.Hour, `"attempt":2,"error":"Error: no luck","id":`},
		{`{"class":"C","args":[],"attempt":2}`, errNoLuck, outcome.Failed, 0, ""},
		{`{"class":"C","args":[],"attempt":2,"retries":2}`, errNoLuck, outcome.Retried, time.Hour, `"attempt":3,"retries":2,"error":"Error: no luck","id":`},
		{`{"class":"C","args":[],"retries":0,"id":"a"}`, errNoLuck, outcome.Failed, 0, ""},
		{`{"class":"C","args":[],"retries":0}`, asks(failure.WishRetry, time.Minute), outcome.Failed, 0, ""},
		{`{"class":"C","args":[],"retries":-1,"attempt":900}`, errNoLuck, outcome.Retried, time.Hour, `"retries":-1,"attempt":901`},
		{`{"class":"C","args":[],"retries":0}`, asks(failure.WishSnooze, time.Minute), outcome.Snoozed, time.Minute, `"args":[],"retries":0,"id":`},
		{`{"class":"C","args":[],"attempt":2,"id":"a"}`, asks(failure.WishSnooze, -1), outcome.Snoozed, 0, `"attempt":2,"retry_id":`},
		{`{"class":"C","args":[]}`, asks(failure.WishSnooze, 1<<62), outcome.Snoozed, retry.Longest, `"id":`},
		{`{"class":"Other","args":[],"retries":5}`, nil, outcome.Failed, 0, ""},
	} {
		var o outcome.Outcome
		s.Run(t.Context(), &outcome.Job{Reserved: resque.Reserved{Ticket: 1, Queue: "q", Payload: []byte(tt.payload)}},
			func(context.Context, *outcome.Job) error { return tt.err }, &o)
		wait := time.Duration(0)
		if !o.At.IsZero() {
			wait = o.At.Sub(now)
		}
		if o.State != tt.state || wait != tt.wait || !strings.Contains(string(o.Next.Payload), tt.has) {
			t.Errorf("%s after %v: %v in %s as %s", tt.payload, tt.err, o.State, wait, o.Next.Payload)
		}
	}
}

type stopped struct{ time.Time }

func (s stopped) Now() time.Time { return s.Time }

// The waits by default are those of Exponential's defaults, each up to a fifth less.
func TestWaitsByDefault(t *testing.T) {
	t.Parallel()
	j := &outcome.Job{}
	if p := retry.Of(j, nil); p != nil {
		t.Errorf("a plain job has %v", p)
	}
	wait := retry.Default()
	for attempt, want := range map[int]time.Duration{1: 10 * time.Second, 3: 40 * time.Second, 100: time.Hour} {
		if got := wait(attempt, nil); got > want || got < want*8/10 {
			t.Errorf("after run %d: %s", attempt, got)
		}
	}
}

// The payload of a retried job says why its last run failed, in few bytes, and keeps what another program wrote there.
func TestErrorInPayload(t *testing.T) {
	t.Parallel()
	class := &outcome.Class{Name: "C"}
	outcome.Put(class, &retry.Policy{Limit: -1, Delay: func(int, error) time.Duration { return time.Hour }, Allows: func(error) bool { return true }})
	text := func(text string) error { return errors.New(text) }
	const few = 500
	long := strings.Repeat("x", few)
	for _, tt := range []struct {
		payload string
		err     error
		off     bool
		want    string // of the field; "-": there is none
	}{
		{`{"class":"C","args":[]}`, text("a\n\tb \x00\x1b[1m \"c\" \\"), false, `Error: a b [1m "c" \`},
		{`{"class":"C","args":[]}`, text("\xff"), false, "Error: \uFFFD"},
		{`{"class":"C","args":[]}`, text(strings.Repeat("é", 1000)), false, "Error: " + strings.Repeat("é", 95) + "…"},
		{`{"class":"C","args":[]}`, text(strings.Repeat(" ", 5000) + "z"), false, "Error:…"},
		{`{"class":"C","args":[],"attempt":2,"error":"E: a"}`, text("b"), false, "Error: b"},
		{`{"class":"C","args":[],"attempt":2,"error":"E: a"}`, text("b"), true, ""},
		{`{"class":"C","args":[]}`, text("b"), true, "-"},
		{`{"class":"C","args":[],"error":"mine"}`, text("b"), false, "mine"},
		{`{"class":"C","args":[],"error":"mine","attempt":2}`, text("b"), false, "mine"},
		{`{"class":"C","args":["` + long + `"]}`, text("b"), false, "-"},
		{`{"class":"C","args":["` + long + `"],"attempt":2,"error":"E: a"}`, text("b"), false, ""},
		{`{"class":"C","args":[],"attempt":2,"error":"E: a"}`, &failure.Wish{Kind: failure.WishSnooze}, false, "E: a"},
	} {
		s := outcome.New(outcome.Deps{
			Base: part.Base{Store: resque.New(""), Clock: clock.System}, Time: stopped{time.Now()}, Settings: outcome.Settings{MaxPayload: few + 100, NoErrorInPayload: tt.off},
		}, classes{class}, retry.New)
		var o outcome.Outcome
		s.Run(t.Context(), &outcome.Job{Reserved: resque.Reserved{Ticket: 1, Queue: "q", Payload: []byte(tt.payload)}},
			func(context.Context, *outcome.Job) error { return tt.err }, &o)
		p, err := payload.Parse(o.Next.Payload)
		got := "-"
		if raw := p.Field(payload.ErrorField); raw != nil {
			got = payload.StringValue(raw)
		}
		if err != nil || got != tt.want || len(got) > retry.MaxError {
			t.Errorf("%s after %q: %q in %s, %v", tt.payload, tt.err, got, o.Next.Payload, err)
		}
	}
}
