package trace

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/goworker/goworker/internal/httpjob"
	"github.com/goworker/goworker/internal/outcome"
	"github.com/goworker/goworker/internal/payload"
)

const span = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

func parsed(t *testing.T, raw string) *outcome.Job {
	t.Helper()
	j := new(outcome.Job)
	j.Payload = []byte(raw)
	var err error
	if j.Parsed, err = payload.Parse(j.Payload); err != nil {
		t.Fatal(err)
	}
	return j
}

// The next run of a job gets the traceparent of its first run and of the last, and all else of its metadata stays as it was.
func TestNext(t *testing.T) {
	t.Parallel()
	full := make([]string, payload.MaxMetaKeys)
	for i := range full {
		full[i] = fmt.Sprintf(`"k%d":""`, i)
	}
	for name, tt := range map[string]struct {
		meta, want string // "": none
		rerouted   bool
		most       int
	}{
		"none":                         {want: `{"traceparent.first":"` + span + `"}`},
		"of the program":               {meta: `{"a": 1,"b":"<é>"}`, want: `{"a": 1,"b":"<é>","traceparent.first":"` + span + `"}`},
		"a second run":                 {meta: `{"traceparent.first":"x"}`, want: `{"traceparent.first":"x","traceparent.last":"` + span + `"}`},
		"a third run":                  {meta: `{"traceparent.first":"x","traceparent.last":"y"}`, want: `{"traceparent.first":"x","traceparent.last":"` + span + `"}`},
		"another program's":            {meta: `[1]`},
		"full":                         {meta: "{" + strings.Join(full, ",") + "}"},
		"long":                         {meta: `{"a":"` + strings.Repeat("x", payload.MaxMetaBytes-20) + `"}`},
		"a payload without room":       {most: room},
		"resque-scheduler's":           {rerouted: true},
		"rerouted, and with a payload": {rerouted: true, meta: `{"a":"1"}`, want: `{"a":"1","traceparent.first":"` + span + `"}`},
	} {
		raw := `{"class":"C","args":[]}`
		if tt.meta != "" {
			raw = `{"class":"C","args":[],"meta":` + tt.meta + `}`
		}
		j := parsed(t, raw)
		if tt.rerouted {
			j.Reroute = func(*outcome.Job, *outcome.Outcome) {}
		}
		if tt.most == 0 {
			tt.most = 1 << 20
		}
		if f, ok := next(j, span, tt.most); ok != (tt.want != "") || string(f.Value) != tt.want {
			t.Errorf("%s: %s, want %s", name, f.Value, tt.want)
		}
	}
}

// A run hears of its end once, the context of its handler is that of the end's log line, and a job that does not ask has nothing of it.
func TestFollow(t *testing.T) {
	t.Parallel()
	type key struct{}
	s := outcome.New(outcome.Deps{Settings: outcome.Settings{MaxPayload: 1 << 20}, Exceptions: func(error) string { return "" }}, classes{}, New)
	for _, asks := range []bool{false, true} {
		var ends []End
		j, o := new(outcome.Job), new(outcome.Outcome)
		j.Payload = []byte(`{"class":"C","args":[],"after":"` + span + `"}`)
		s.Run(t.Context(), j, func(ctx context.Context, j *outcome.Job) error {
			if asks {
				r := Begin(ctx)
				if r != Begin(ctx) || After(&j.Parsed) != span {
					t.Errorf("the run follows %q", After(&j.Parsed))
				}
				r.Follow(context.WithValue(ctx, key{}, "here"), &book{&ends})
			}
			return errors.New("no luck")
		}, o)
		if !asks {
			if j.Trace != "" || len(j.Fields) > 0 || j.Shown(t.Context()) != t.Context() || len(ends) > 0 {
				t.Errorf("a job that did not ask has %q, %v, %v", j.Trace, j.Fields, ends)
			}
			continue
		}
		ctx := j.Shown(t.Context())
		if len(ends) != 1 || ends[0].State != "failed" || ends[0].Err.Error() != "no luck" || ctx.Value(key{}) != "here" || ctx.Err() != nil || j.Trace != span {
			t.Errorf("the ends are %v, the trace is %q", ends, j.Trace)
		}
	}
	if Begin(t.Context()) != nil {
		t.Error("there is a run without a job")
	}
}

type book struct{ ends *[]End }

func (*book) Traceparent() string { return span }
func (b *book) End(e End)         { *b.ends = append(*b.ends, e) }

type classes struct{ outcome.Classes }

func (classes) Class(name string) *outcome.Class { return &outcome.Class{Name: name} }

// A job carries its trace in its metadata, at the top of its payload, or in ActiveJob's hash, in this order.
func TestCarried(t *testing.T) {
	t.Parallel()
	const wrapper = `"class":"ActiveJob::QueueAdapters::ResqueAdapter::JobWrapper"`
	for raw, want := range map[string]string{
		`{"class":"C","args":[]}`:                                                                                   "",
		`{"class":"C","args":[],"traceparent":"top","tracestate":"s"}`:                                              "top s",
		`{"class":"C","args":[],"meta":{"traceparent":"meta"},"traceparent":"top"}`:                                 "meta ",
		`{"class":"C","args":[],"meta":{"traceparent.first":"x"},"traceparent":"top"}`:                              "top ",
		`{"class":"C","args":[],"traceparent":7}`:                                                                   "",
		`{"class":"C","args":[{"__otel_headers":{"traceparent":"no wrapper"}}]}`:                                    "",
		`{` + wrapper + `,"args":[{"job_class":"J","__otel_headers":[["traceparent","pair"],["tracestate","s"]]}]}`: "pair s",
		`{` + wrapper + `,"args":[{"job_class":"J","__otel_headers":{"traceparent":"hash"}}]}`:                      "hash ",
		`{` + wrapper + `,"args":[{"job_class":"J","__otel_headers":[1,["a"],"b"]}]}`:                               "",
		`{` + wrapper + `,"args":[{"job_class":"J","__otel_headers":[]}],"traceparent":"top"}`:                      "top ",
	} {
		j := parsed(t, raw)
		all := Carried(httpjob.Meta(&j.Parsed), &j.Parsed)
		got := ""
		if all[Traceparent] != "" {
			got = all[Traceparent] + " " + all[Tracestate]
		}
		if got != want {
			t.Errorf("%s carries %q, want %q", raw, got, want)
		}
	}
}
