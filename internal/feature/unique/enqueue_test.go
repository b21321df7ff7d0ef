package unique_test

import (
	"strings"
	"testing"
	"time"

	"github.com/goworker/goworker/internal/clock"
	"github.com/goworker/goworker/internal/feature/expiry"
	"github.com/goworker/goworker/internal/feature/unique"
	"github.com/goworker/goworker/internal/outcome"
	"github.com/goworker/goworker/internal/part"
	"github.com/goworker/goworker/internal/payload"
	"github.com/goworker/goworker/internal/resque"
)

func set() *outcome.Set {
	return outcome.New(outcome.Deps{Base: part.Base{Store: resque.New(""), Clock: clock.System}, Time: clock.System}, nil, expiry.New, unique.New)
}

// push is a job as the producer has encoded it.
func push(t *testing.T, style payload.Style, args ...any) *outcome.Push {
	t.Helper()
	raw, err := payload.Encode("C", args, style)
	if err != nil {
		t.Fatal(err)
	}
	return &outcome.Push{Queue: "q", Name: "C", Args: args, Payload: raw, Style: style}
}

// lockOf is what the payload says of the lock.
func lockOf(p *outcome.Push) string {
	for _, f := range p.Fields {
		if f.Name == "unique" {
			return strings.Trim(string(f.Value), `"`)
		}
	}
	return ""
}

func TestEnqueue(t *testing.T) {
	t.Parallel()
	s := set()
	done := unique.Options{Hold: resque.HoldDone, Most: unique.AtMost}
	key := func(*outcome.Push) string { return "k" }
	named := resque.LockName([]byte(`{"class":"C","args":["<é>"]}`), "")
	for name, tt := range map[string]struct {
		of, ofClass *unique.Options
		style       payload.Style
		field, says string
		free        bool // it has no lock
	}{
		"none":                  {free: true},
		"of the job":            {of: &done, field: "done:" + named},
		"of the class":          {ofClass: &done, field: "done:" + named},
		"encoded as Rails does": {of: &done, style: payload.Rails, field: "done:" + named},
		"the job's goes before": {of: &unique.Options{Hold: resque.HoldStart, Most: time.Hour}, ofClass: &done, field: "start:" + named},
		"a key":                 {of: &unique.Options{Hold: resque.HoldDone, Most: time.Hour, Key: key}, field: "done:" + resque.LockName(nil, "k") + ":3600000"},
		"for a time":            {of: &unique.Options{Hold: resque.HoldTime, Elapsed: time.Hour}},
		"an empty key":          {of: &unique.Options{Hold: resque.HoldDone, Most: 1e9, Key: func(*outcome.Push) string { return "" }}, says: "a job of class C is to be unique is empty"},
		"too short":             {of: &unique.Options{Hold: resque.HoldTime}, says: "a millisecond or more"},
	} {
		p := push(t, tt.style, "<é>")
		if tt.of != nil {
			p.Options = new(outcome.Options)
			outcome.Put(p.Options, *tt.of)
		}
		if p.Class = (&outcome.Class{Name: "C"}); tt.ofClass != nil {
			outcome.Put(p.Class, *tt.ofClass)
		}
		err := s.Enqueue(p)
		switch {
		case tt.says != "":
			if err == nil || !strings.Contains(err.Error(), tt.says) || len(p.Guarded) > 0 {
				t.Errorf("%s: %v", name, err)
			}
			continue
		case err != nil:
			t.Errorf("%s: %v", name, err)
		}
		if tt.free != p.Plain() || tt.free != (len(p.Guarded) == 0) || tt.free != (p.ID == "") || lockOf(p) != tt.field {
			t.Errorf("%s: lock %q, want %q; %+v", name, lockOf(p), tt.field, p)
		}
	}
}

// Set.Enqueue of a plain job allocates nothing, whatever the options of its class are for.
func TestPlainJobsCostNothing(t *testing.T) {
	s, p := set(), push(t, payload.Plain, 1)
	p.Class = &outcome.Class{Name: "C"}
	outcome.Put(p.Class, "an option of another feature")
	if n := testing.AllocsPerRun(100, func() { _ = s.Enqueue(p) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
	if !p.Plain() {
		t.Errorf("%+v", p)
	}
}
