package payload

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

func TestRetryPayload(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ payload, want string }{
		{`{"class":"J","args":[1,"a"]}`, `{"class":"J","args":[1,"a"]}`},
		{`{"args":[1.0,1e5,12345678901234567890,"\u003c<\/"],"queue":"q","class":"J","id":"x"}`,
			`{"class":"J","args":[1.0,1e5,12345678901234567890,"\u003c<\/"]}`},
		{` { "class" : "\u004a" , "args" : [ 1 , 2 ] } `, `{"class":"\u004a","args":[ 1 , 2 ]}`},
		{`{"class":"J"}`, `{"class":"J","args":[]}`},
		{`{"class":"J","args":null}`, `{"class":"J","args":[]}`},
		{`{"class":"J","args":{"a":1}}`, `{"class":"J","args":{"a":1}}`},
		{`{"class":"J","args":5}`, `{"class":"J","args":5}`},
		{`{"class":"A","class":"J","args":[1],"args":[2]}`, `{"class":"J","args":[2]}`},
		{`{"class":"J","Class":"A","ARGS":[3]}`, `{"class":"J","args":[]}`},
		{`{"class":"InvalidPayload","args":["base64:/w=="]}`, `{"class":"InvalidPayload","args":["base64:/w=="]}`},
	} {
		got, err := ForRetry([]byte(test.payload), false)
		if err != nil || string(got) != test.want {
			t.Errorf("%s: %s, %v; want %s", test.payload, got, err, test.want)
		}
		if whole, err := ForRetry([]byte(test.payload), true); err != nil || string(whole) != test.payload {
			t.Errorf("%s, whole: %s, %v", test.payload, whole, err)
		}
	}
	for _, test := range []struct{ payload, want string }{
		{`{"class":"J","args":[1],"id":"x","attempt":3}`, `{"class":"J","args":[1],"id":"x"}`},
		{`{ "attempt" : 3 , "class":"J"}`, `{ "class":"J"}`},
		{`{"class":"J", "attempt":3 ,"args":[{"attempt":1}]}`, `{"class":"J" ,"args":[{"attempt":1}]}`},
		{`{"attempt":1,"class":"J","attempt":2}`, `{"class":"J"}`},
		{`{"class":"J","args":[{"expires_at":5}],"expires_at":1795262400000,"id":"x","attempt":2}`, `{"class":"J","args":[{"expires_at":5}],"id":"x"}`},
		{`{"attempt":1,"expires_at":5,"class":"J"}`, `{"class":"J"}`},
		{`{"expires_at":5,"class":"J","expires_at":6,"attempt":1}`, `{"class":"J"}`},
		{`{"class":"J","attempt":2,"error":"E: x","id":"x"}`, `{"class":"J","id":"x"}`},
		{`{"class":"J","error":"mine","attempt":2,"id":"x"}`, `{"class":"J","error":"mine","id":"x"}`},
		{`{"class":"J","error":"mine"}`, `{"class":"J","error":"mine"}`},
	} {
		whole, err := ForRetry([]byte(test.payload), true)
		if err != nil || string(whole) != test.want {
			t.Errorf("%s, whole: %s, %v; want %s", test.payload, whole, err, test.want)
		}
	}
	for _, test := range []struct{ payload, says string }{
		{``, "payload is missing"},
		{`null`, "payload is null"},
		{`5`, "payload is 5"},
		{`"text"`, "not a JSON object"},
		{`[{"class":"J"}]`, "not a JSON object"},
		{`{"class":"J"`, "not JSON"},
		{`{"class":"J"}}`, "something follows"},
		{`{}`, "names no class"},
		{`{"class":""}`, "names no class"},
		{`{"class":5}`, "names no class"},
		{`{"class":null}`, "names no class"},
	} {
		for _, whole := range []bool{false, true} {
			_, err := ForRetry([]byte(test.payload), whole)
			wantText(t, err, test.says)
		}
	}
}

func TestMarkRetried(t *testing.T) {
	t.Parallel()
	const at = "2026/11/21 02:41:26 UTC"
	for _, test := range []struct{ record, want string }{
		{`{"a":1.0}`, `{"a":1.0,"retried_at":"` + at + `"}`},
		{`{ "a" : "}" } ` + "\n", `{ "a" : "}" ,"retried_at":"` + at + `"} ` + "\n"},
		{`{}`, `{"retried_at":"` + at + `"}`},
		{`{"retried_at":"old","a":1}`, `{"retried_at":"` + at + `","a":1}`},
		{`{"retried_at": null }`, `{"retried_at": "` + at + `" }`},
		{`{"retried_at":1,"retried_at":2}`, `{"retried_at":1,"retried_at":"` + at + `"}`},
		{`{"a":{"retried_at":"x"}}`, `{"a":{"retried_at":"x"},"retried_at":"` + at + `"}`},
	} {
		got, err := MarkRetried([]byte(test.record), at)
		if err != nil || string(got) != test.want {
			t.Errorf("%s: %s, %v; want %s", test.record, got, err, test.want)
		}
	}
	for _, record := range []string{``, `null`, `[]`, `{`, `{}x`, `{"a"}`, `}`} {
		_, err := MarkRetried([]byte(record), at)
		wantText(t, err, "failure record cannot be changed")
	}
}

func FuzzRetry(f *testing.F) {
	for _, seed := range []string{
		`{"failed_at":"x","payload":{"class":"J","args":[1.0,"<"]},"queue":"q"}`,
		`{"payload":null}`, `{"retried_at":1}`, `{`, `[]`, "{\"\xff\":1}", `{"class":"J","args":null}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		before := bytes.Clone(text)
		marked, err := MarkRetried(text, "now")
		if err == nil {
			var fields map[string]any
			if json.Unmarshal(marked, &fields) != nil || fields["retried_at"] != "now" {
				t.Errorf("%q marked is %q", text, marked)
			}
		}
		job, err := ForRetry(text, false)
		if err == nil && !json.Valid(job) {
			t.Errorf("%q retried is %q", text, job)
		}
		if !bytes.Equal(text, before) {
			t.Error("the record in hand was changed")
		}
		// Whatever a list holds, reading it must not harm.
		if record, err := ParseFailure(text); err == nil {
			_, _ = ForRetry(record.Payload, true)
		}
	})
}

func wantText(t *testing.T, err error, text string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), text) {
		t.Errorf("error %v, want one with %q", err, text)
	}
}

func TestLastError(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]string{
		`{"class":"C","args":[]}`:                                     " false",
		`{"class":"C","attempt":2,"error":"E: \"x\" é"}`:              `E: "x" é false`,
		`{"class":"C","attempt":2,"error":7}`:                         " false",
		`{"class":"C","attempt":1,"tries":2,"error":"E: x","id":"a"}`: "E: x false",
		`{"class":"C","error":"E: x","attempt":2}`:                    " true",
		`{"class":"C","error":{"a":1}}`:                               " true",
		`{"class":"C","error":"mine","attempt":2,"error":"E: x"}`:     " true",
	} {
		p, err := Parse([]byte(raw))
		text, foreign := p.LastError()
		if got := fmt.Sprint(text, " ", foreign); err != nil || got != want {
			t.Errorf("%s: %q, %v; want %q", raw, got, err, want)
		}
	}
}
