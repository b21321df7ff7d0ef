package inspect_test

import (
	"cmp"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/goworker/goworker/inspect"
)

var now = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

// What a search means, and the text that it is written back as.
func TestParseQuery(t *testing.T) {
	t.Parallel()
	where := func(c ...inspect.Condition) inspect.Query { return inspect.Query{Where: c} }
	for text, want := range map[string]struct {
		q    inspect.Query
		back string // "": the text itself
	}{
		"":                         {inspect.Query{}, ""},
		" \t ":                     {inspect.Query{}, " "},
		"class:Send*":              {where(inspect.Condition{Name: "class", Value: "Send*"}), ""},
		"class:Foo::Bar":           {where(inspect.Condition{Name: "class", Value: "Foo::Bar"}), ""},
		`class:"a b*"`:             {where(inspect.Condition{Name: "class", Value: "a b*", Literal: true}), ""},
		`class:""`:                 {where(inspect.Condition{Name: "class", Literal: true}), ""},
		"queue:mail":               {inspect.Query{Queue: "mail"}, ""},
		`queue:"a*"`:               {inspect.Query{Queue: "a*"}, ""},
		"queue:mail queue:*l":      {inspect.Query{Queue: "mail", Where: []inspect.Condition{{Name: "queue", Value: "*l"}}}, ""},
		"-queue:mail":              {where(inspect.Condition{Not: true, Name: "queue", Value: "mail"}), ""},
		"arg.0.account:7":          {where(inspect.Condition{Name: "arg.0.account", Value: "7"}), ""},
		`arg.0."a.b":"x \" \\"`:    {where(inspect.Condition{Name: `arg.0."a.b"`, Value: `x " \`, Literal: true}), ""},
		`args:[7,"ada"]`:           {where(inspect.Condition{Name: "args", Value: `[7,"ada"]`, Literal: true}), `args:"[7,\"ada\"]"`},
		"meta.tenant:acme":         {where(inspect.Condition{Name: "meta.tenant", Value: "acme"}), ""},
		"for:>5m":                  {where(inspect.Condition{Name: "until", Time: now.Add(-5 * time.Minute)}), "until:2026-11-22T11:55:00Z"},
		"for:5m":                   {where(inspect.Condition{Name: "until", Time: now.Add(-5 * time.Minute)}), "until:2026-11-22T11:55:00Z"},
		"for:<1h30m":               {where(inspect.Condition{Name: "since", Time: now.Add(-90 * time.Minute)}), "since:2026-11-22T10:30:00Z"},
		"since:2h":                 {where(inspect.Condition{Name: "since", Time: now.Add(-2 * time.Hour)}), "since:2026-11-22T10:00:00Z"},
		"since:2026-11-21":         {where(inspect.Condition{Name: "since", Time: now.Add(-36 * time.Hour)}), "since:2026-11-21T00:00:00Z"},
		"due:<1w":                  {where(inspect.Condition{Name: "due", Value: "<", Time: now.Add(7 * 24 * time.Hour)}), "due:<2026-11-29T12:00:00Z"},
		"group:1f0c62a9d3be":       {where(inspect.Condition{Name: "group", Value: "1f0c62a9d3be"}), ""},
		"-retried":                 {where(inspect.Condition{Not: true, Name: "retried"}), ""},
		`"retried"`:                {where(inspect.Condition{Name: "text", Value: "retried", Literal: true}), ""},
		"Timeout":                  {where(inspect.Condition{Name: "text", Value: "Timeout"}), ""},
		`-"exact text"`:            {where(inspect.Condition{Not: true, Name: "text", Value: "exact text", Literal: true}), ""},
		"state:failed":             {inspect.Query{Places: []inspect.Place{inspect.Failed}}, ""},
		"state:failed,delayed":     {inspect.Query{Places: []inspect.Place{inspect.Delayed, inspect.Failed}}, "state:delayed,failed"},
		"state:waiting":            {inspect.Query{Places: []inspect.Place{inspect.Queued, inspect.InLane}}, "state:queued,lane"},
		"state:running":            {inspect.Query{Places: []inspect.Place{inspect.Leased, inspect.Running}}, "state:leased,running"},
		"state:waiting state:lane": {inspect.Query{Places: []inspect.Place{inspect.InLane}}, "state:lane"},
		"state:retrying": {inspect.Query{Places: []inspect.Place{inspect.Delayed},
			Where: []inspect.Condition{{Name: "state", Value: "retrying"}}}, "state:delayed state:retrying"},
		"class:Send* queue:mail error:timeout id:K3W1 worker:media-1 version:4f2 -class:X": {inspect.Query{Queue: "mail", Where: []inspect.Condition{
			{Name: "class", Value: "Send*"}, {Name: "error", Value: "timeout"}, {Name: "id", Value: "K3W1"},
			{Name: "worker", Value: "media-1"}, {Name: "version", Value: "4f2"}, {Not: true, Name: "class", Value: "X"},
		}}, "queue:mail class:Send* error:timeout id:K3W1 worker:media-1 version:4f2 -class:X"},
	} {
		q, err := inspect.ParseQuery(text, now)
		if err != nil || !reflect.DeepEqual(q, want.q) {
			t.Errorf("%s: %+v, %v\nwant %+v", text, q, err, want.q)
			continue
		}
		if back := strings.TrimSpace(cmp.Or(want.back, text)); q.String() != back {
			t.Errorf("%s is written back as %s", text, q)
		}
	}
}

// Each mistake is named with its place and what to write.
func TestParseQueryMistakes(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]struct {
		at   int
		says string
	}{
		"stae:failed":               {0, `"stae" is no condition; did you mean state?`},
		"class:A Foo::Bar":          {8, "put quotes around a text with a colon"},
		"group:1F0c62a9d3be":        {6, "a group has 12 hexadecimal digits"},
		"group:x*":                  {6, "a group has 12 hexadecimal digits"},
		"class:":                    {0, "class: has no value"},
		"class: Send":               {0, "without a blank"},
		"- class:A":                 {0, "a minus stands before"},
		"--x":                       {1, "a minus too many"},
		`class:A "open`:             {8, "the quote is not closed"},
		`"a\n"`:                     {2, `write \\ for one backslash`},
		`"a"b`:                      {3, "behind the closing quote stands a blank"},
		`""`:                        {0, "nothing between the quotes"},
		`class:a"b`:                 {7, "a quote inside a value"},
		`wo"rd`:                     {2, "a quote inside a word"},
		"arg:7":                     {0, "arg needs the number"},
		"arg.x:7":                   {0, "counted from 0, not"},
		"arg.0..b:7":                {0, "between two dots stands a key"},
		"meta:1":                    {0, "meta needs one key"},
		"class.x:1":                 {0, "class has nothing behind a dot"},
		"args:7":                    {5, "as JSON"},
		"ref:K3W1":                  {4, "28 hexadecimal digits"},
		"state:failled":             {6, "did you mean failed?"},
		"state:x":                   {6, "there are delayed, failed, lane"},
		"state:failed state:queued": {19, "put a comma between states"},
		"for:5":                     {4, `"5" has no unit; write 5s`},
		"for:>>5m":                  {4, "one > or <"},
		"since:yesterday":           {6, "is neither a time nor a duration"},
		"since:2026-13-01":          {6, "is no time"},
		"due:10m":                   {4, "due needs < for earlier"},
		"since:999999w":             {6, "at most 100 years"},
		"a\xff":                     {1, "not UTF-8"},
		strings.Repeat("x", 5000):   {4096, "at most 4096 bytes"},
	} {
		_, err := inspect.ParseQuery(text, now)
		var wrong *inspect.QueryError
		if !errors.As(err, &wrong) || wrong.At != want.at || !strings.Contains(wrong.What, want.says) {
			t.Errorf("%.40s: %v\nwant %d, %s", text, err, want.at, want.says)
		}
	}
}

// No text breaks the parser. What it accepts is written back as a text that means the same.
func FuzzParseQuery(f *testing.F) {
	for _, seed := range []string{
		`class:Send* queue:mail error:timeout id:K3W1 worker:media-1 version:4f2 state:failed arg.0.account:7 meta.tenant:acme for:>5m since:2h -retried "exact text"`,
		`arg.1."a.b".c:"x" -state:retrying,failed due:>1d`, `queue:"a*" queue:b`, "--x", `a."b`, "state:running state:leased", "\u00a0class:a", `args:[1,"a"]`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		q, err := inspect.ParseQuery(text, now)
		if err != nil {
			var wrong *inspect.QueryError
			if !errors.As(err, &wrong) || wrong.At < 0 || wrong.At > len(text) || wrong.What == "" {
				t.Fatalf("%q: %v", text, err)
			}
			return
		}
		back := q.String()
		again, err := inspect.ParseQuery(back, now)
		if err != nil && len(back) > inspect.MaxQuery {
			return
		}
		if err != nil || !reflect.DeepEqual(q, again) {
			t.Fatalf("%q is %+v, and written back as %q it is %+v, %v", text, q, back, again, err)
		}
	})
}
