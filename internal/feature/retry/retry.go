// Package retry decides whether a job whose run failed runs again, and when. The policy of its
// class decides, or its handler asks for a retry.
package retry

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/goworker/goworker/internal/failure"
	"github.com/goworker/goworker/internal/outcome"
	"github.com/goworker/goworker/internal/payload"
)

// Policy is the option of a class whose jobs are retried. It does not change.
type Policy struct {
	Limit  int                  // of retries; -1: none
	Delay  Wait                 // 0 or less: the job does not wait
	Allows func(err error) bool // whether such an error is retried; nil: only if the handler asks
}

// AskedLimit is how often a job is retried at most when its handler asks for it and its class has no
// policy.
const AskedLimit = 25

// Longest is far away, and safe to be added to a time.
const Longest = 100 * 365 * 24 * time.Hour

// asked is the policy of a class without one whose handler asks for a retry.
var asked = &Policy{Limit: AskedLimit}

// Left is how many retries a job has left in its attempt-th run; -1 if there is no limit. Without a
// policy it has none.
func (p *Policy) Left(attempt int) int {
	switch {
	case p == nil:
		return 0
	case p.Limit < 0:
		return -1
	}
	return max(0, p.Limit-(attempt-1))
}

// Field is the field of a payload with how often that job is retried; -1: as often as needed.
const Field = "retries"

// Own is the option of one job: how often it is retried, in place of the Limit of its class.
type Own int

// ownLimit returns how many retries a payload says that its job has. Of a job with tries it is one less than those.
func ownLimit(p *payload.Payload) (n int, ok bool) {
	if tries := p.Tries(); tries > 1 {
		return tries - 1, true
	}
	text := p.Field(Field)
	if text == nil { // an error of strconv costs memory, and most jobs have no such field
		return 0, false
	}
	n, err := strconv.Atoi(string(text))
	return n, err == nil && n >= -1 && n <= payload.MaxRuns
}

// byDefault is the policy of a job that has a number of retries and a class without a policy.
var byDefault = Policy{Delay: Default(), Allows: func(error) bool { return true }}

// Of returns the policy of a job whose class has one, or nil. Of a number of retries in the payload only the
// Limit is the job's. Anything but such a number is another program's field.
func Of(j *outcome.Job, class *Policy) *Policy {
	n, ok := ownLimit(&j.Parsed)
	if !ok {
		return class
	}
	own := byDefault
	if class != nil {
		own = *class
	}
	own.Limit = n
	return &own
}

// New makes the feature.
func New(d outcome.Deps) outcome.Feature {
	return outcome.Feature{
		Name:  "retry",
		Field: Field, Also: []string{payload.TriesField}, Quiet: true,
		Enqueue: func(p *outcome.Push) error {
			if n, ok := outcome.Get[Own](p.Options); ok {
				p.Fields = append(p.Fields, payload.NumberField(Field, int64(n)))
			}
			return nil
		},
		Open: func(j *outcome.Job) outcome.Policy {
			class, _ := outcome.Get[*Policy](j.Class)
			if p := Of(j, class); p != class {
				return policy{deps: d, policy: p}
			}
			return nil
		},
		Bind: func(c *outcome.Class) outcome.Policy {
			if c == nil {
				return policy{deps: d, policy: asked}
			}
			if p, ok := outcome.Get[*Policy](c); ok {
				return policy{deps: d, policy: p}
			}
			return nil
		},
	}
}

type policy struct {
	outcome.None
	deps   outcome.Deps
	policy *Policy
}

// Decide retries, discards or fails a job as its handler or its class says. A run that never began is
// not retried.
func (p policy) Decide(_ context.Context, j *outcome.Job, err error) (o outcome.Outcome, decided bool) {
	if !j.Started {
		return o, false
	}
	switch wish, _ := failure.Wished(err); wish.Kind {
	case failure.WishDiscard:
		return outcome.Outcome{State: outcome.Discarded, Err: err}, true
	case failure.WishSnooze:
		return p.again(j, outcome.Snoozed, wish.Wait, err), true
	}
	wait, again, err := p.policy.Again(j.Attempt, err)
	if !again {
		return outcome.Outcome{State: outcome.Failed, Err: err}, true
	}
	o = p.again(j, outcome.Retried, wait, err)
	o.Fields = p.errorField(j, err)
	return o, true
}

// MaxError is how many bytes the error in the payload of a retried job has at most.
const MaxError = 200

// errorField is the field with the error of a run, for the payload of the next one. A job whose count resque-retry has gets none:
// its payload stays as it is. Neither does one that the error would make too long to run.
func (p policy) errorField(j *outcome.Job, err error) []payload.Field {
	last, foreign := j.Parsed.LastError()
	if foreign || j.Reroute != nil {
		return nil
	}
	text := ""
	if s := p.deps.Settings; !s.NoErrorInPayload {
		if text = short(failure.Exception(err, p.deps.Exceptions) + ": " + failure.Text(err)); max(len(j.Payload), len(j.Parsed.Text))+len(text)+besides > s.MaxPayload {
			text = ""
		}
	}
	if text == "" && last == "" {
		return nil
	}
	return []payload.Field{payload.TextField(payload.ErrorField, text)} // an empty text replaces the error of an earlier run
}

// besides is how many bytes the escapes of an error, its name, a count and an id have at most.
const besides = MaxError + 100

// short is a text on one line, of at most MaxError bytes of UTF-8.
func short(text string) string {
	const dots = "…"
	if len(text) <= MaxError && tidy(text) {
		return text
	}
	whole := len(text) <= 4*MaxError
	text = strings.Join(strings.FieldsFunc(strings.ToValidUTF8(text[:min(len(text), 4*MaxError)], "\uFFFD"), func(c rune) bool {
		return unicode.IsSpace(c) || unicode.IsControl(c)
	}), " ")
	if whole && len(text) <= MaxError {
		return text
	}
	end := MaxError - len(dots)
	for end < len(text) && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:min(end, len(text))] + dots
}

// tidy reports whether a text is words of ASCII with a blank between each two.
func tidy(text string) bool {
	blank := true
	for i := range len(text) {
		c := text[i]
		if c < ' ' || c >= 0x7f || c == ' ' && blank {
			return false
		}
		blank = c == ' '
	}
	return !blank
}

// again is the outcome of a job that runs again after a wait.
func (p policy) again(j *outcome.Job, state outcome.State, wait time.Duration, err error) outcome.Outcome {
	o := outcome.Outcome{State: state, Err: err, At: p.deps.Time.Now().Add(min(max(wait, 0), Longest))}
	o.Log.Attrs = []slog.Attr{slog.Int("attempt", j.Attempt), slog.Time("at", o.At)}
	return o
}

// Again says whether a job whose attempt-th run failed is retried, and after which wait. It calls the
// program's functions: one that panics makes the job fail for good, with an error that says so.
func (p *Policy) Again(attempt int, failed error) (wait time.Duration, again bool, err error) {
	err = failed
	defer func() {
		if v := recover(); v != nil {
			wait, again, err = 0, false, fmt.Errorf("%w (deciding about a retry panicked: %v)", failed, v)
		}
	}()
	wish, after := failure.Wished(err)
	asks := wish.Kind == failure.WishRetry
	if wish.Kind == failure.WishFail || p.Left(attempt) == 0 || !asks && (p.Allows == nil || !p.Allows(err)) {
		return 0, false, err
	}
	switch {
	case asks:
		wait = wish.Wait
	case after > 0:
		wait = after
	default:
		wait = p.Delay(attempt, err)
	}
	return wait, true, err
}
