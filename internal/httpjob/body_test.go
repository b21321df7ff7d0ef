package httpjob_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/goworker/goworker/internal/httpjob"
	"github.com/goworker/goworker/internal/payload"
)

func TestBytesAsArgument(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		"":                     `""`,
		"ada":                  `"ada"`,
		"<é&>\n\x00":           `"<é&>\n\u0000"`,
		`{"a":1}`:              `"{\"a\":1}"`,
		"\xff\x00\x01":         `{"base64":"/wAB"}`,
		`{"base64":"/wAB"}`:    `"{\"base64\":\"/wAB\"}"`,
		"half a rune \xe2\x82": `{"base64":"aGFsZiBhIHJ1bmUg4oI="}`,
	} {
		argument := httpjob.AppendBytes(nil, []byte(body))
		if string(argument) != want {
			t.Errorf("%q became %s, want %s", body, argument, want)
		}
		if back := httpjob.Body([]json.RawMessage{argument}); string(back) != body {
			t.Errorf("%q came back as %q", body, back)
		}
	}
}

func TestJSONAsArgument(t *testing.T) {
	t.Parallel()
	deepest := strings.Repeat("[", 96) + strings.Repeat("]", 96)
	for body, want := range map[string]string{
		`{"to" : "ada", "n":1.0}`:      `{"to" : "ada", "n":1.0}`,
		" [1,\n2]\t":                   "[1,\n2]",
		"3e2":                          "3e2",
		"null":                         "null",
		`"ada"`:                        `"\"ada\""`,
		`""`:                           `"\"\""`,
		`{"base64":"/wAB"}`:            `"{\"base64\":\"/wAB\"}"`,
		`{ "base64" : "" }`:            `"{ \"base64\" : \"\" }"`,
		`{"base64":"no base64"}`:       `{"base64":"no base64"}`,
		`{"base64":"/wAB","name":"x"}`: `{"base64":"/wAB","name":"x"}`,
		`{"base64":5}`:                 `{"base64":5}`,
		deepest:                        deepest,
		"[" + deepest + "]":            `"[` + deepest + `]"`,
		"[\"\xff\"]":                   `{"base64":"WyL/Il0="}`,
		"{":                            "",
		"":                             "",
		"1 2":                          "",
	} {
		argument, ok := httpjob.AppendJSON(nil, []byte(body))
		if string(argument) != want || ok != (want != "") {
			t.Errorf("%q became %s, %v; want %s", body, argument, ok, want)
			continue
		}
		if back := httpjob.Body([]json.RawMessage{argument}); ok && string(back) != strings.Trim(body, " \t\n") {
			t.Errorf("%q came back as %q", body, back)
		}
	}
}

// A job that another program has pushed has a body too.
func TestBodyOfOtherArguments(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		`["ada"]`:               "ada",
		`["ada",3]`:             `["ada",3]`,
		`[]`:                    `[]`,
		`[{"to":"ada"}]`:        `{"to":"ada"}`,
		`["a\/b\u00e9"]`:        "a/bé",
		`[{"base64":"\/wAB"}]`:  "\xff\x00\x01",
		`[{"base64": "/wAB" }]`: "\xff\x00\x01",
		`[null]`:                "null",
		`["\ud800"]`:            "\uFFFD",
	} {
		p, err := payload.Parse([]byte(`{"class":"Mail","args":` + args + `}`))
		if err != nil {
			t.Fatal(err)
		}
		if body := httpjob.Body(p.Args); string(body) != want {
			t.Errorf("%s has the body %q, want %q", args, body, want)
		}
	}
}

func FuzzBody(f *testing.F) {
	for _, seed := range []string{"", "ada", "\xff", `"ada"`, `{"base64":"/wAB"}`, ` {"base64":"\/wAB"}`, "{\"base64\":\"/w\nAB\"}", `[[1]]`, "null", "\u2028", `"\ud800"`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		check := func(argument, want []byte) {
			raw := append(append([]byte(`{"class":"C","args":[`), argument...), "]}"...)
			p, err := payload.Parse(raw)
			if err != nil || len(p.Args) != 1 || !json.Valid(argument) || !utf8.Valid(argument) {
				t.Fatalf("%q became %s: %v", body, raw, err)
			}
			if back := httpjob.Body(p.Args); !bytes.Equal(back, want) {
				t.Fatalf("%q came back as %q", body, back)
			}
		}
		check(httpjob.AppendBytes(nil, body), body)
		argument, ok := httpjob.AppendJSON(nil, body)
		if ok != json.Valid(body) {
			t.Fatalf("%q is JSON: %v", body, ok)
		}
		if ok {
			check(argument, bytes.Trim(body, " \t\r\n"))
		}
	})
}
