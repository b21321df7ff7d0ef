package brief

import (
	"strings"
	"testing"

	"github.com/goworker/goworker/dashboard/internal/mask"
)

func TestOf(t *testing.T) {
	t.Parallel()
	m := mask.New(mask.Rules{})
	columns := []string{"meta.tenant", "arg.0.account", "arg.1", "meta.none", "arg.x", "arg.9"}
	for name, c := range map[string]struct {
		raw  string
		want Job
	}{
		"plain": {`{"class":"Mail","args":[{"account":9007199254740993,"password":"hunter2"},"a\"b"],"meta":{"tenant":"acme"}}`,
			Job{Class: "Mail", Line: `{"account":9007199254740993,"password":"` + mask.Mark + `"}, "a\"b"`, Attempt: 1, Columns: []string{"acme", "9007199254740993", `a"b`, "", "", ""}}},
		"priority": {`{"priority":3,"class":"Mail","args":[],"id":"x1","attempt":2}`,
			Job{Class: "Mail", ID: "x1", Priority: 3, Attempt: 2, Columns: make([]string, 6)}},
		"rails": {`{"class":"ActiveJob::QueueAdapters::ResqueAdapter::JobWrapper","args":[{"job_class":"Welcome","job_id":"j1","arguments":[{"account":7}]}]}`,
			Job{Class: "Welcome", Via: "ActiveJob", ID: "j1", Line: `{"account":7}`, Attempt: 1, Columns: []string{"", "7", "", "", "", ""}}},
		"no job": {"\xff{", Job{Line: "?{", Invalid: "the payload is not UTF-8", Columns: make([]string, 6)}},
		"a text": {`"password=hunter2"`, Job{Line: `"password=` + mask.Mark + `"`, Invalid: "the payload is JSON but not an object", Columns: make([]string, 6)}},
	} {
		got := Of(m, []byte(c.raw), columns)
		if got.Size != int64(len(c.raw)) {
			t.Errorf("%s has %d bytes", name, got.Size)
		}
		if got.Class != c.want.Class || got.Via != c.want.Via || got.ID != c.want.ID || got.Line != c.want.Line || got.Priority != c.want.Priority || got.Attempt != c.want.Attempt ||
			!strings.Contains(got.Invalid, c.want.Invalid) || strings.Join(got.Columns, "|") != strings.Join(c.want.Columns, "|") {
			t.Errorf("%s is %+v, want %+v", name, got, c.want)
		}
	}
	large := Of(m, []byte(`{"class":"Mail","args":["`+strings.Repeat("ü", 1<<20)+`"]}`), nil)
	if large.Args != nil || len(large.Line) > lineBytes+len("…") || !strings.HasSuffix(large.Line, "ü…") {
		t.Errorf("the arguments of a large job are %q", large.Line)
	}
}
