package meta_test

import (
	"maps"
	"testing"

	"github.com/goworker/goworker/internal/feature/meta"
	"github.com/goworker/goworker/internal/outcome"
	"github.com/goworker/goworker/internal/payload"
)

func set() *outcome.Set { return outcome.New(outcome.Deps{}, nil, meta.New) }

// What is enqueued is what a run finds.
func TestThereAndBack(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		ofClass, of meta.Values
		json        string // "": no field
	}{
		"none":                  {},
		"empty":                 {of: meta.Values{}},
		"of the class":          {ofClass: meta.Values{"a": "1"}, json: `{"a":"1"}`},
		"the job's goes before": {ofClass: meta.Values{"b": "1", "a": "1"}, of: meta.Values{"b": "2"}, json: `{"a":"1","b":"2"}`},
		"escaped":               {of: meta.Values{"<é>\n": "\"\\\x00 "}, json: `{"<é>\n":"\"\\\u0000 "}`},
	} {
		p := &outcome.Push{Queue: "q", Name: "C", Class: &outcome.Class{Name: "C"}, Options: new(outcome.Options)}
		if tt.ofClass != nil {
			outcome.Put(p.Class, tt.ofClass)
		}
		if tt.of != nil {
			outcome.Put(p.Options, tt.of)
		}
		if err := set().Enqueue(p); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		json := ""
		j := new(outcome.Job)
		for _, f := range p.Fields {
			json = string(f.Value)
			j.Parsed.Extra = []payload.Extra{{Name: []byte(f.Name), Value: f.Value}}
		}
		if json != tt.json {
			t.Errorf("%s: %s, want %s", name, json, tt.json)
		}
		if want := tt.ofClass.With(tt.of); len(want) != len(meta.Of(j)) || len(want) > 0 && !maps.Equal(meta.Of(j), want) {
			t.Errorf("%s: read as %q, want %q", name, meta.Of(j), want)
		}
	}
}

// A job without metadata costs nothing.
func TestPlainJobsCostNothing(t *testing.T) {
	s, p, j := set(), &outcome.Push{Class: &outcome.Class{Name: "C"}}, new(outcome.Job)
	if n := testing.AllocsPerRun(100, func() { _ = s.Enqueue(p); _ = meta.Of(j) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
