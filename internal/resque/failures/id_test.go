package failures

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/goworker/goworker/internal/payload"
)

// Whatever happens to a record during its life, it keeps its id, and no other has it.
func TestFailureID(t *testing.T) {
	t.Parallel()
	const written = `{"failed_at":"2026/11/21 02:41:26 UTC","payload":{"class":"J","args":[1.0,100000.0,12345678901234567890,{"b":1,"a":"<\/"}],"id":"x"},` +
		`"exception":"E","error":"it \"broke\": é","backtrace":["a"],"worker":"h:1:q","queue":"q"}`
	id := ID([]byte(written))
	if len(id) != idSize || strings.Trim(id, "0123456789abcdef") != "" {
		t.Fatalf("the id is %q", id)
	}
	for name, same := range map[string]string{
		"retried":                   strings.Replace(written, `,"queue":"q"}`, `,"queue":"q","retried_at":"2026/11/21 02:41:26 UTC"}`, 1),
		"other order and blanks":    ` {"queue" : "q", "worker":"h:1:q","error":"it \"broke\": é","exception":"E","payload":{"id":"x","args":[1.0,100000.0,12345678901234567890,{"a":"<\/","b":1}],"class":"J"},"failed_at":"2026/11/21 02:41:26 UTC"}` + "\n",
		"encoded again by Ruby":     strings.NewReplacer(`100000.0`, `1.0e+5`, `<\/`, `</`).Replace(written),
		"encoded again by Node":     strings.NewReplacer(`1.0,`, `1,`, `100000.0`, `100000`, `<\/`, `</`).Replace(written),
		"encoded again by Rails":    strings.NewReplacer(`<\/`, `\u003c/`).Replace(written),
		"encoded again by PHP":      strings.NewReplacer(`é`, `\u00e9`, `2026/11/21`, `2026\/11\/21`).Replace(written),
		"failed_at a second time":   strings.Replace(written, `{"failed_at":"`, `{"failed_at":"before","failed_at":"`, 1),
		"without its backtrace":     strings.Replace(written, `["a"]`, `null`, 1),
		"with something of its own": strings.Replace(written, `"queue"`, `"more":{},"queue"`, 1),
	} {
		if got := ID([]byte(same)); got != id {
			t.Errorf("%s: %s; want %s", name, got, id)
		}
		if !mayBe([]byte(same), map[string]bool{id[:idTimeDigits]: true}) {
			t.Errorf("%s: passed over", name)
		}
	}
	for _, change := range []string{"02:41:26", "[1.0", "12345678901234567890", `"x"`, `"E"`, "broke", "h:1:q", `"queue":"q"`, `"J"`} {
		other := strings.Replace(written, change, strings.NewReplacer("6", "7", "1", "2", "x", "y", "E", "F", "r", "s", "h", "g", "q\"", "p\"", "J", "K").Replace(change), 1)
		if other == written || ID([]byte(other)) == id {
			t.Errorf("another %s: the same id", change)
		}
	}
	for _, odd := range []string{`null`, `5`, `not JSON`, `{"failed_at":"x"`, `{}`, `{"payload":[[`, "\xff"} {
		if got := ID([]byte(odd)); len(got) != idSize || !mayBe([]byte(odd), map[string]bool{got[:idTimeDigits]: true}) {
			t.Errorf("%q: %q", odd, got)
		}
	}
	if ID(nil) != "" {
		t.Error("a blank element has an id")
	}
}

func TestFailureTime(t *testing.T) {
	t.Parallel()
	berlin := time.FixedZone("CET", 3600)
	at := time.Date(2026, 11, 21, 2, 41, 26, 0, time.UTC)
	for text, want := range map[string]struct {
		at   time.Time
		sure bool
	}{
		"2026/11/21 02:41:26 UTC":                         {at, true},
		"2026/11/21 02:41:26 GMT":                         {at, true},
		"2026/11/21 05:41:26 +03":                         {at, true},
		"2026/11/21 08:26:26 +0545":                       {at, true},
		"2026/11/21 11:41:26 JST":                         {at.Add(8 * time.Hour), false},
		"2026/11/21 03:41:26":                             {at, false},
		"2026-11-21 03:41:26":                             {at, false},
		"2026-11-21T02:41:26Z":                            {at, true},
		"2026-11-21T03:41:26.123+01:00":                   {at.Add(123 * time.Millisecond), true},
		"Sat Nov 21 02:41:26 UTC 2026":                    {at, true},
		"Sat Nov 21 2026 03:41:26 GMT+0100 (Berlin time)": {at, true},
		"2026-11-21 03:41:26.5 +0100 CET m=+0.01":         {at.Add(500 * time.Millisecond), true},
		"yesterday": {time.Time{}, true},
		"":          {time.Time{}, true},
	} {
		if got, sure := failureTime(text, berlin); !got.Equal(want.at) || sure != want.sure {
			t.Errorf("%q: %v, %v; want %v, %v", text, got, sure, want.at, want.sure)
		}
	}
}

func FuzzFailureID(f *testing.F) {
	for _, seed := range []string{record(1, "q"), `{"failed_at":"x","payload":{"a":1e400,"b":-0.0},"failed_at":2}`, `{"failed_at":"`, `[]`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		id := ID(text)
		if len(text) > 0 && len(id) != idSize {
			t.Errorf("%q: id %q", text, id)
		}
		if marked, err := payload.MarkRetried(text, "now"); err == nil && ID(marked) != id {
			t.Errorf("%q: another id when it was retried", text)
		}
		_ = Filter{Class: "J", Text: "x", Since: time.Unix(1, 0)}.matcher().fits(text)
		groups{}.add(text, time.UTC)
	})
}

// What is canonical without decoding is what decoding makes of it.
func FuzzPlain(f *testing.F) {
	for _, text := range []string{
		`{"class":"SendEmail","args":[1,"a b",true,null,[],{"b":0,"a":{}}],"id":"x"}`, `{"a":1,"a":2}`, `{"a":01}`, `[1,]`, `[1 ]`,
		`{"ab":1,"a":2,"a b":3}`, `["<"]`, `[-1,1.0,1e3]`, `["\u0041"]`, `["é"]`, `5`, `"x"`, `{"a":1}{"b":2}`, `[nulll]`, `[tru`, `{"a"`, "[\"\x7f\"]", `[`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		got, rest, ok := plain(nil, text, 0)
		if !ok || len(rest) > 0 {
			return
		}
		if want := decoded(text); !json.Valid(text) || string(got) != string(want) {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	})
}

// A payload as Ruby writes it is not decoded.
func TestPlainTakesUsualPayloads(t *testing.T) {
	t.Parallel()
	const payload = `{"class":"SendEmail","args":[12,"ada@example.com",{"locale":"en","again":false}]}`
	if _, rest, ok := plain(nil, []byte(payload), 0); !ok || len(rest) > 0 {
		t.Errorf("%s is decoded", payload)
	}
}

// The process that writes a record names it as those that read it.
func TestNamerNamesWhatItWrites(t *testing.T) {
	t.Parallel()
	var names Namer
	long := strings.Repeat("no customer 12; ", 20)
	for name, f := range map[string]payload.Failure{
		"plain":              {Error: "no customer", Exception: "*errors.errorString"},
		"a long text":        {Error: long},
		"quotes and escapes": {Error: "parsing \"<&>\": é\u2028\x00\n\t\\", Worker: `a"b`, Queue: "é"},
		"not UTF-8":          {Error: "\xff", Queue: "q\xc3"},
		"markup":             {Exception: "Map<K, V>"},
		"a quote in a name":  {Exception: `it's "x"`},
		"nothing":            {},
		"no payload":         {Payload: json.RawMessage("")},
		"not JSON":           {Payload: json.RawMessage(`{"class":`)},
		"not UTF-8 JSON":     {Payload: json.RawMessage("[\"\xff\"]")},
		"decoded":            {Payload: json.RawMessage(`{"class":"J","args":[1.0,"é",{"b":-1,"a":2}]}`)},
		"blanks":             {Payload: json.RawMessage(" {\"class\":\"J\",\"args\":[]}\n ")},
		"more than a value":  {Payload: json.RawMessage(`{"class":"J"}{}`)},
		"deep":               {Payload: json.RawMessage(strings.Repeat("[", 200) + strings.Repeat("]", 200))},
	} {
		if f.Payload == nil {
			f.Payload = json.RawMessage(`{"class":"J","args":[12,"ada",{"b":[true],"a":null}],"id":"x"}`)
		}
		for _, at := range []string{"2026/11/21 02:41:26 UTC", "2026/11/21 02:41:27 UTC", "2026/11/21 02:41:27 UTC"} {
			f.FailedAt = at
			raw := f.Encode()
			if got, want := names.ID(f, raw), ID(raw); got != want {
				t.Errorf("%s: %s, want %s", name, got, want)
			}
		}
	}
}

// A record of a usual job is not read to name it: that would cost more than its digest.
func TestNamerReadsNoUsualRecord(t *testing.T) {
	t.Parallel()
	f := payload.Failure{FailedAt: "2026/11/21 02:41:26 UTC", Error: `no customer "12"`, Payload: json.RawMessage(`{"class":"J","args":[12]}  `)}
	if got, want := new(Namer).ID(f, nil), ID(f.Encode()); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
