package payload

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/goworker/goworker/internal/redistest"
)

func TestFailureEqualsRuby(t *testing.T) {
	t.Parallel()
	f := Failure{
		FailedAt:  FailedAt(time.Date(2026, 11, 21, 2, 41, 24, 0, time.UTC)),
		Payload:   json.RawMessage(`{"class":"Boom","args":[1,{"k":"<é&>"}]}`),
		Exception: "Boom::Oops",
		Error:     `it broke: <é&> "quoted"`,
		Backtrace: []string{"golden.rb:9:in `perform'"},
		Worker:    "vm:1428:low",
		Queue:     "low",
	}
	pushed := pushes(redistest.Golden(t, "work_failure"), "resque:failed")
	if diff := cmp.Diff(pushed, []string{string(f.Encode())}); diff != "" {
		t.Error(diff)
	}
}

// Every record Ruby wrote, read and written again, is the same bytes.
func TestRubyFailuresRoundTrip(t *testing.T) {
	t.Parallel()
	seen := 0
	for _, scenario := range []string{"failed_retry", "prune_expired", "prune_same_host", "unknown_class", "work_failure"} {
		for _, c := range redistest.Golden(t, scenario).Commands {
			text := c[len(c)-1]
			if len(c) < 3 || c[1] != "resque:failed" || !strings.HasPrefix(text, "{") {
				continue
			}
			seen++
			f, err := ParseFailure([]byte(text))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(text, string(f.Encode())); diff != "" {
				t.Errorf("%s: %s", scenario, diff)
			}
		}
	}
	if seen < 5 {
		t.Errorf("only %d records in the recordings", seen)
	}
}

func TestFailureEncode(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		f    Failure
		want string
	}{
		{"order of the fields", Failure{"t", json.RawMessage(`{}`), "E", "m", []string{"a", "b"}, "h:1:q", "q", "r"},
			`{"failed_at":"t","payload":{},"exception":"E","error":"m","backtrace":["a","b"],"worker":"h:1:q","queue":"q","retried_at":"r"}`},
		{"no backtrace is an empty list", Failure{Payload: json.RawMessage(`{}`)},
			`{"failed_at":"","payload":{},"exception":"","error":"","backtrace":[],"worker":"","queue":""}`},
		{"the payload keeps its bytes", Failure{Payload: json.RawMessage("{ \"args\":[1.0,\"\\u003c\"] ,\"class\" :\"J\",\"x\":1}")},
			"{\"failed_at\":\"\",\"payload\":{ \"args\":[1.0,\"\\u003c\"] ,\"class\" :\"J\",\"x\":1},\"exception\":\"\",\"error\":\"\",\"backtrace\":[],\"worker\":\"\",\"queue\":\"\"}"},
		{"markup only in the message", Failure{Payload: json.RawMessage(`{}`), Exception: `main.E[<-chan "&'int']`, Error: "<b>"},
			`{"failed_at":"","payload":{},"exception":"main.E[_-chan ___int_]","error":"<b>","backtrace":[],"worker":"","queue":""}`},
		{"not UTF-8", Failure{Payload: json.RawMessage(`{}`), Error: "a\xff\xfeé", Backtrace: []string{"\xc3"}, Queue: "q\x80"},
			`{"failed_at":"","payload":{},"exception":"","error":"a??é","backtrace":["?"],"worker":"","queue":"q?"}`},
		{"no payload", Failure{},
			`{"failed_at":"","payload":{"class":"InvalidPayload","args":[""]},"exception":"","error":"","backtrace":[],"worker":"","queue":""}`},
		{"a payload that is not JSON", Failure{Payload: json.RawMessage(`{"class`)},
			`{"failed_at":"","payload":{"class":"InvalidPayload","args":["{\"class"]},"exception":"","error":"","backtrace":[],"worker":"","queue":""}`},
		{"a payload that is not UTF-8", Failure{Payload: json.RawMessage("\"\xff\"")},
			`{"failed_at":"","payload":{"class":"InvalidPayload","args":["base64:Iv8i"]},"exception":"","error":"","backtrace":[],"worker":"","queue":""}`},
	} {
		if diff := cmp.Diff(c.want, string(c.f.Encode())); diff != "" {
			t.Errorf("%s: %s", c.name, diff)
		}
	}
	deep := Failure{Payload: json.RawMessage(nested(MaxDepth+1, ""))}
	if got := string(deep.Encode()); !strings.Contains(got, "InvalidPayload") {
		t.Errorf("too deep a payload went into the record: %s", got)
	}
}

func TestFailedAt(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 21, 11, 38, 58, 999, time.FixedZone("JST", 9*3600))
	if got := FailedAt(at); got != "2026/11/21 11:38:58 JST" {
		t.Error(got)
	}
}

func TestParseFailure(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, raw string
		want      Failure
	}{
		{"node", `{"worker":"vm:1","queue":"q","payload":{"class":"J","queue":"q","args":[]},"exception":"Error","error":"x","backtrace":["a","b"],"failed_at":"Sat Nov 21 2026 02:45:02 GMT+0000 (Coordinated Universal Time)"}`,
			Failure{"Sat Nov 21 2026 02:45:02 GMT+0000 (Coordinated Universal Time)", json.RawMessage(`{"class":"J","queue":"q","args":[]}`), "Error", "x", []string{"a", "b"}, "vm:1", "q", ""}},
		{"php", `{"failed_at":"Sat Nov 21 02:35:16 UTC 2026","payload":{"class":"J","args":[null],"id":"a"},"exception":"E","error":"x\/y","backtrace":["#0 f.php(1)"],"worker":"vm:1:q","queue":"q"}`,
			Failure{"Sat Nov 21 02:35:16 UTC 2026", json.RawMessage(`{"class":"J","args":[null],"id":"a"}`), "E", "x/y", []string{"#0 f.php(1)"}, "vm:1:q", "q", ""}},
		{"older goworker", `{"failed_at":"2026-11-21T02:35:16.123456789Z","payload":{"class":"J","args":[]},"exception":"Error","error":"x","backtrace":null,"worker":"vm:1-0:q","queue":"q"}`,
			Failure{"2026-11-21T02:35:16.123456789Z", json.RawMessage(`{"class":"J","args":[]}`), "Error", "x", nil, "vm:1-0:q", "q", ""}},
		{"retried", `{"retried_at":"2026/11/21 02:41:26","payload":{}}`, Failure{Payload: json.RawMessage(`{}`), RetriedAt: "2026/11/21 02:41:26"}},
		{"nothing", `{}`, Failure{}},
		{"nulls", `{"failed_at":null,"payload":null,"exception":null,"error":null,"backtrace":null,"worker":null,"queue":null}`, Failure{Payload: json.RawMessage(`null`)}},
		{"other kinds", `{"failed_at":1795228516,"error":{"message":"m"},"backtrace":"a\nb\n","worker":true,"queue":["q"]}`,
			Failure{FailedAt: "1795228516", Error: `{"message":"m"}`, Backtrace: []string{"a", "b"}, Worker: "true", Queue: `["q"]`}},
		{"frames of other kinds", `{"backtrace":[1,null,"a",{}]}`, Failure{Backtrace: []string{"1", "", "a", "{}"}}},
	} {
		got, err := ParseFailure([]byte(c.raw))
		if diff := cmp.Diff(c.want, got); err != nil || diff != "" {
			t.Errorf("%s: %v %s", c.name, err, diff)
		}
	}
	for _, raw := range []string{"", "null", "[]", "5", `"x"`, "{", "not json"} {
		if f, err := ParseFailure([]byte(raw)); err == nil {
			t.Errorf("%q was read as %+v", raw, f)
		}
	}
}

func FuzzParseFailure(f *testing.F) {
	for _, seed := range []string{
		`{"failed_at":"2026/11/21 02:41:24 UTC","payload":{"class":"Boom","args":[1]},"exception":"E","error":"<é&>","backtrace":["a"],"worker":"vm:1:q","queue":"q","retried_at":"x"}`,
		`{"backtrace":"a\nb","failed_at":5,"payload":null}`, `{"payload": {"a" : 1.0} ,"error":"\ud800"}`, `{}`, ``, `null`, `[]`, "{\"error\":\"\xff\",\"payload\":\"\xff\"}",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		first, err := ParseFailure(raw)
		if err != nil {
			return
		}
		text := first.Encode()
		if !json.Valid(text) || !utf8.Valid(text) {
			t.Fatalf("%q became %q", raw, text)
		}
		second, err := ParseFailure(text)
		if err != nil {
			t.Fatalf("%q became %q: %v", raw, text, err)
		}
		if again := second.Encode(); string(again) != string(text) {
			t.Fatalf("%q became %q and then %q", raw, text, again)
		}
	})
}
