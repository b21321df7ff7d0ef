package payload

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/goworker/goworker/internal/redistest"
)

func TestEncodePayload(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		args  []any
		style Style
		want  string
	}{
		{"plain", []any{1, "a"}, Plain, `{"class":"J","args":[1,"a"]}`},
		{"nil", nil, Plain, `{"class":"J","args":[]}`},
		{"none", []any{}, Plain, `{"class":"J","args":[]}`},
		{"one nil", []any{nil}, Plain, `{"class":"J","args":[null]}`},
		{"markup", []any{"<b>&"}, Plain, `{"class":"J","args":["<b>&"]}`},
		{"markup for Rails", []any{"<b>&"}, Rails, `{"class":"J","args":["\u003cb\u003e\u0026"]}`},
		{"separator", []any{"\u2028"}, Plain, "{\"class\":\"J\",\"args\":[\"\xe2\x80\xa8\"]}"},
		{"separator for Rails", []any{"\u2028"}, Rails, `{"class":"J","args":["\u2028"]}`},
		{"characters", []any{"é/", "\x7f\x0b\b\f"}, Plain, "{\"class\":\"J\",\"args\":[\"é/\",\"\x7f\\u000b\\b\\f\"]}"},
		{"numbers", []any{json.Number("1.0"), json.RawMessage("1.0"), json.Number("12345678901234567890")}, Plain, `{"class":"J","args":[1.0,1.0,12345678901234567890]}`},
		{"ordered", []any{ordered{{"b", 1}, {"a", 2}}}, Plain, `{"class":"J","args":[{"b":1,"a":2}]}`},
	} {
		got, err := Encode("J", c.args, c.style)
		if err != nil || string(got) != c.want {
			t.Errorf("%s: %s, %v; want %s", c.name, got, err, c.want)
		}
	}
}

func TestEncodePayloadErrors(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		class string
		args  []any
		says  string
	}{
		{"J", []any{1, math.NaN()}, "args[1] of a job of class J"},
		{"J", []any{math.Inf(-1)}, "args[0]"},
		{"J", []any{1, 2, []any{make(chan int)}}, "args[2]"},
		{"J", []any{json.RawMessage(nested(MaxDepth-1, ""))}, "nested deeper than 96"},
		{"", nil, "needs a class"},
		{"J\xff", nil, "not UTF-8"},
	} {
		got, err := Encode(c.class, c.args, Plain)
		if err == nil || got != nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%q %v: %s, %v; want an error with %q", c.class, c.args, got, err, c.says)
		}
	}
	deepest, err := Encode("J", []any{json.RawMessage(nested(MaxDepth-2, ""))}, Plain)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Parse(deepest); err != nil {
		t.Errorf("the deepest payload that may be written cannot be read: %v", err)
	}
}

// nested is JSON of the given depth.
func nested(depth int, core string) string {
	return strings.Repeat("[", depth) + core + strings.Repeat("]", depth)
}

// What Ruby pushed, encoded by us from the same values, is the same bytes.
func TestEncodeEqualsRuby(t *testing.T) {
	t.Parallel()
	type job struct {
		class string
		args  []any
	}
	jobs := []job{
		{"Echo", nil},
		{"Echo", []any{1, "two", json.Number("3.0"), nil, true, []any{1, []int{2}}, map[string]any{"a": map[string]string{"b": "c"}}}},
		{"Echo", []any{"<é&>\u2028\"\\/\n", json.Number("12345678901234567890"), json.Number("1.0e+100"), 0.1, json.Number("0.0"), json.Number("1.0e-07")}},
		{"Echo", []any{map[string]string{"sym": "val"}}},
		{"Thing", []any{"x"}},
	}
	pushed := pushes(redistest.Golden(t, "enqueue"), "resque:queue:")
	if len(pushed) != len(jobs) {
		t.Fatalf("%d pushes were recorded, %d are written here", len(pushed), len(jobs))
	}
	for i, j := range jobs {
		if got, err := Encode(j.class, j.args, Plain); err != nil || string(got) != pushed[i] {
			t.Errorf("%s, %v; Ruby: %s", got, err, pushed[i])
		}
	}
}

// Every job in any recording, read and written again, is the same bytes.
func TestRubyPayloadsRoundTrip(t *testing.T) {
	t.Parallel()
	for _, scenario := range []string{"dequeue", "enqueue", "failed_retry", "pause", "work_failure", "work_running", "work_success"} {
		for _, text := range pushes(redistest.Golden(t, scenario), "resque:queue:") {
			p, err := Parse([]byte(text))
			if err != nil {
				t.Fatalf("%s: %s: %v", scenario, text, err)
			}
			decoded := make([]any, 0, len(p.Args))
			raw := make([]any, 0, len(p.Args))
			for _, a := range p.Args {
				dec := json.NewDecoder(bytes.NewReader(a))
				dec.UseNumber()
				var v any
				if err := dec.Decode(&v); err != nil {
					t.Fatal(err)
				}
				decoded, raw = append(decoded, v), append(raw, a)
			}
			for _, args := range [][]any{decoded, raw} {
				if got, err := Encode(p.Class, args, Plain); err != nil || string(got) != text {
					t.Errorf("%s: %s, %v; Ruby: %s", scenario, got, err, text)
				}
			}
		}
	}
}

// pushes returns what a recording pushed to lists whose key starts with prefix.
func pushes(r redistest.Recording, prefix string) (texts []string) {
	for _, c := range r.Commands {
		if c[0] == "RPUSH" && strings.HasPrefix(c[1], prefix) {
			texts = append(texts, c[2:]...)
		}
	}
	return texts
}

func TestParsePayload(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, raw string
		class     string
		args      []string
		id        string
		attempt   int
	}{
		{"plain", `{"class":"J","args":[1,"a"]}`, "J", []string{"1", `"a"`}, "", 1},
		{"args missing", `{"class":"J"}`, "J", nil, "", 1},
		{"args null", `{"class":"J","args":null}`, "J", nil, "", 1},
		{"args empty", `{"class":"J","args":[ ]}`, "J", nil, "", 1},
		{"args object", `{"class":"J","args":{"a":[1]}}`, "J", []string{`{"a":[1]}`}, "", 1},
		{"args scalar", `{"class":"J","args":false}`, "J", []string{"false"}, "", 1},
		{"white space", " \t{ \"args\" : [ 1 , { \"a\" : 2 } ]\r\n, \"class\" : \"J\" } \n", "J", []string{"1", `{ "a" : 2 }`}, "", 1},
		{"keys count by case", `{"Class":"X","class":"J","ARGS":[1],"Args":[2]}`, "J", nil, "", 1},
		{"the last of equal keys", `{"class":"X","args":[1,2],"class":"J","args":[3]}`, "J", []string{"3"}, "", 1},
		{"the last args is null", `{"class":"J","args":[1],"args":null}`, "J", nil, "", 1},
		{"the last args is a list", `{"class":"J","args":{"a":1},"args":[2]}`, "J", []string{"2"}, "", 1},
		{"escapes in names", `{"cl\u0061ss":"A\u003a:\"B\"","arg\u0073":[1]}`, `A::"B"`, []string{"1"}, "", 1},
		{"class only inside", `{"x":{"class":"X"},"class":"J"}`, "J", nil, "", 1},
		{"class like Ruby's", `{"class":"Billing::SendInvoice"}`, "Billing::SendInvoice", nil, "", 1},
		{"node", `{"class":"J","queue":"q","args":[1]}`, "J", []string{"1"}, "", 1},
		{"php", `{"class":"My_Job","args":[{"name":"x"}],"id":"0f\u0061","prefix":"","queue_time":1.5}`, "My_Job", []string{`{"name":"x"}`}, "0fa", 1},
		{"id number", `{"class":"J","id":12345678901234567890}`, "J", nil, "12345678901234567890", 1},
		{"id of another kind", `{"class":"J","id":[1],"attempt":"2"}`, "J", nil, "", 1},
		{"attempt", `{"class":"J","attempt":3}`, "J", nil, "", 3},
		{"attempt out of range", `{"class":"J","attempt":99999999999999999999}`, "J", nil, "", 1},
		{"attempt that cannot be counted on", `{"class":"J","attempt":9223372036854775807}`, "J", nil, "", 1},
		{"attempt not positive", `{"class":"J","attempt":0}`, "J", nil, "", 1},
		{"attempt negative", `{"class":"J","attempt":-3}`, "J", nil, "", 1},
		{"attempt not whole", `{"class":"J","attempt":2.0}`, "J", nil, "", 1},
		{"more arguments than most", `{"class":"J","args":[1,2,3,4,5,6,7,8,9,10]}`, "J", strings.Split("1,2,3,4,5,6,7,8,9,10", ","), "", 1},
		{"as deep as may be", `{"class":"J","args":` + nested(MaxDepth-1, "1") + `}`, "J", []string{nested(MaxDepth-2, "1")}, "", 1},
		{"many side by side", `{"class":"J","args":[` + strings.Repeat("[],", 200) + `{}]}`, "J", append(slices.Repeat([]string{"[]"}, 200), "{}"), "", 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p, err := Parse([]byte(c.raw))
			if err != nil {
				t.Fatal(err)
			}
			var args []string
			for _, a := range p.Args {
				args = append(args, string(a))
			}
			if p.Class != c.class || !slices.Equal(args, c.args) || p.ID != c.id || p.Attempt != c.attempt {
				t.Errorf("class %q, args %q, id %q, attempt %d", p.Class, args, p.ID, p.Attempt)
			}
		})
	}
}

func TestParsePayloadErrors(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ raw, says string }{
		{"", "is empty"},
		{"  ", "ends in the middle"},
		{"not json", `'n' at byte 0`},
		{"{", "ends in the middle"},
		{`{"class":"J"`, "ends in the middle"},
		{`{"class":"J`, "ends in the middle"},
		{`{"class":"J"} x`, `'x' at byte 14`},
		{`{"class":"J",}`, "not JSON"},
		{`{"class":"J","args":[1,]}`, "not JSON"},
		{`{"class":"J","args":[,1]}`, "not JSON"},
		{`{"class":"J","args":[01]}`, "not JSON"},
		{`{"class":"J","args":["` + "\n" + `"]}`, "not JSON"},
		{`{"class":"J","args":["\x"]}`, "not JSON"},
		{`{"class":"J","args":[1}`, "not JSON"},
		{`{'class':'J'}`, "not JSON"},
		{"\uFEFF{}", "not JSON"},
		{"null", "not an object"},
		{"5", "not an object"},
		{`"text"`, "not an object"},
		{`[{"class":"J"}]`, "not an object"},
		{`{}`, "has no class"},
		{`{"Class":"J"}`, "has no class"},
		{`{"class":""}`, "class is not a name"},
		{`{"class":null}`, "class is not a name"},
		{`{"class":5}`, "class is not a name"},
		{`{"class":"J","class":["J"]}`, "class is not a name"},
		{"{\"class\":\"J\xff\"}", "not UTF-8"},
		{`{"class":"J","args":` + nested(MaxDepth, "") + `}`, "deeper than 98"},
		{strings.Repeat("[", 1<<20), "deeper than 98"},
	} {
		p, err := Parse([]byte(c.raw))
		var bad *Error
		if !errors.As(err, &bad) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%.60q: %v, %v; want a PayloadError with %q", c.raw, p, err, c.says)
		}
	}
}

func TestInvalidPayload(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]string{
		"":               `{"class":"InvalidPayload","args":[""]}`,
		`not "json" <é>`: `{"class":"InvalidPayload","args":["not \"json\" <é>"]}`,
		"a\xff":          `{"class":"InvalidPayload","args":["base64:Yf8="]}`,
		"null":           `{"class":"InvalidPayload","args":["null"]}`,
	} {
		if got := string(Invalid([]byte(raw))); got != want {
			t.Errorf("%q: %s, want %s", raw, got, want)
		}
	}
}

func FuzzParsePayload(f *testing.F) {
	for _, seed := range []string{
		`{"class":"J","args":[1,"a"]}`, `{"class":"J","queue":"q","args":{"a":[]},"id":"x","attempt":2}`, ` { "args" : [ ] , "class" : "\u004a" } `,
		`{"class":"J","args":[-0.1e+5,1E5,"\ud83d\ude00\/",true,false,null]}`, `{"class":5}`, `{"class":"a","class":"b"}`, `null`, `[]`, ``, `{`, "\xff",
		nested(98, ""), nested(99, ""), `{"a":` + nested(97, "") + `}`, `{"a":` + nested(98, "") + `}`, `{"cl\u0061ss":"x","args":[1,]}`, `{"class":"x"}}`, `01`, `-`, `1.`, `"\u12g4"`, "\"\x01\"",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		p, err := Parse(raw)
		if valid := json.Valid(raw) && depth(raw) <= MaxDepth; valid != WellFormed(raw, MaxDepth) {
			t.Fatalf("%q: encoding/json finds it valid: %v", raw, valid)
		}
		want, ok := parseSlowly(raw)
		if ok != (err == nil) {
			t.Fatalf("%q: %v, %v; by encoding/json %v", raw, p, err, ok)
		}
		if ok && (p.Class != want.Class || p.ID != want.ID || p.Attempt != want.Attempt || !slices.EqualFunc(p.Args, want.Args, sameBytes)) {
			t.Fatalf("%q: %q, by encoding/json %q", raw, p, want)
		}
		wrapped := Invalid(raw)
		if w, err := Parse(wrapped); err != nil || w.Class != "InvalidPayload" || len(w.Args) != 1 || !json.Valid(wrapped) {
			t.Fatalf("%q wrapped: %q, %v", raw, wrapped, err)
		}
	})
}

// parseSlowly reads a payload by encoding/json alone.
func parseSlowly(raw []byte) (Payload, bool) {
	var fields map[string]json.RawMessage
	if !utf8.Valid(raw) || depth(raw) > MaxDepth || json.Unmarshal(raw, &fields) != nil {
		return Payload{}, false
	}
	p := Payload{Attempt: 1}
	if c := fields["class"]; len(c) == 0 || c[0] != '"' || json.Unmarshal(c, &p.Class) != nil || p.Class == "" {
		return Payload{}, false
	}
	if a := fields["args"]; len(a) > 0 && a[0] != '[' && string(a) != "null" {
		p.Args = []json.RawMessage{a}
	} else if len(a) > 0 && json.Unmarshal(a, &p.Args) != nil {
		return Payload{}, false
	}
	var id any
	dec := json.NewDecoder(bytes.NewReader(fields["id"]))
	dec.UseNumber()
	_ = dec.Decode(&id)
	switch id := id.(type) {
	case string:
		p.ID = id
	case json.Number:
		p.ID = id.String()
	}
	if n, err := strconv.Atoi(string(fields["attempt"])); err == nil && n > 0 {
		p.Attempt = n
	}
	return p, true
}

// depth is the deepest nesting of brackets outside strings.
func depth(raw []byte) (deepest int) {
	level, quoted := 0, false
	for i := 0; i < len(raw); i++ {
		switch c := raw[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '[' || c == '{':
			level++
			deepest = max(deepest, level)
		case c == ']' || c == '}':
			level--
		}
	}
	return deepest
}

func BenchmarkParsePayload(b *testing.B) {
	short := []byte(`{"class":"Hello","args":["world",12,true]}  `)
	long := slices.Concat([]byte(`{"class":"Hello","args":["`), bytes.Repeat([]byte("x"), 400), []byte(`",{"list":[`),
		bytes.Repeat([]byte(`12345,`), 90), []byte(`0],"ok":true}],"id":"0123456789abcdef"}`))
	for name, raw := range map[string][]byte{"44B": short, "1KiB": long} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(raw)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Parse(raw); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkEncodePayload(b *testing.B) {
	args := []any{"world", 12, true}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Encode("Hello", args, Plain); err != nil {
			b.Fatal(err)
		}
	}
}

func sameBytes(a, b json.RawMessage) bool { return bytes.Equal(a, b) }

// A failure record is never much longer than the payload, and never longer than
// Redis takes.
func TestRecordsDoNotGrow(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 2*MaxInvalid)
	for _, test := range []struct {
		name, payload string
		recordable    bool
		most          int // bytes of the record's payload
	}{
		{"a job", `{"class":"C","args":["` + long + `"]}`, true, len(long) + 100},
		{"junk", long, false, 7 * excerptSize},
		{"control characters", strings.Repeat("\x00", MaxInvalid+1), false, 7 * excerptSize},
		{"no UTF-8", strings.Repeat("\xff", MaxInvalid+1), false, 7 * excerptSize},
		{"short junk", strings.Repeat("\x00", MaxInvalid), true, 6*MaxInvalid + 100},
		{"two-byte characters", "x" + strings.Repeat("é", MaxInvalid), false, 7 * excerptSize},
	} {
		raw := []byte(test.payload)
		if got := Recordable(raw); got != test.recordable {
			t.Errorf("%s is recordable: %v", test.name, got)
		}
		if n := len(Safe(raw)); n > test.most {
			t.Errorf("%s of %d bytes has %d in a record", test.name, len(raw), n)
		}
		if p, err := Parse(Excerpt(raw)); err != nil || p.Class != "InvalidPayload" {
			t.Errorf("the excerpt of %s: %+v, %v", test.name, p, err)
		}
	}
}
