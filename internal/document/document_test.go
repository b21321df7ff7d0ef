package document

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

type section struct {
	Rate     int
	MaxAge   time.Duration
	URL      string
	On       bool
	Share    float64
	Small    uint8
	Names    []string
	ByName   map[string]inner
	Inner    *inner
	Tagged   string `config:"other_name"`
	Anything any
	Hidden   string `config:"-"`
	embedded
	private int
}

type embedded struct{ Extra string }

type inner struct{ Number int }

func (i inner) Check() error {
	if i.Number > 9 {
		return fmt.Errorf("%d is more than 9", i.Number)
	}
	return nil
}

func TestDecode(t *testing.T) {
	t.Parallel()
	d := Parse("f.yaml", []byte(`
shared: &shared {number: 3}
section:
  rate: 7
  max-age: 30d
  url: "https://x"
  on: true
  share: .5
  small: 255
  names: [a, "1", yes]
  by-name: {x: *shared, y: {number: 4}}
  inner: {number: 5}
  other_name: tagged
  anything: {a: [1, b]}
`))
	s := section{Hidden: "kept", private: 1, embedded: embedded{"kept"}}
	for _, p := range d.Top("the file") {
		if p.Name() == "section" {
			p.Value.Decode(&s, "section")
		}
	}
	if err := d.Err(); err != nil {
		t.Fatal(err)
	}
	want := section{
		Rate: 7, MaxAge: 30 * 24 * time.Hour, URL: "https://x", On: true, Share: .5, Small: 255, Names: []string{"a", "1", "yes"},
		ByName: map[string]inner{"x": {3}, "y": {4}}, Inner: &inner{5}, Tagged: "tagged", Anything: map[string]any{"a": []any{1, "b"}}, Hidden: "kept", private: 1,
	}
	want.Extra = "kept"
	if diff := cmp.Diff(want, s, cmp.AllowUnexported(section{}, embedded{})); diff != "" {
		t.Error(diff)
	}
}

// All mistakes are said at once, each with its place.
func TestMistakes(t *testing.T) {
	t.Parallel()
	d := Parse("f.yaml", []byte(`section:
  rate: many
  rate: 3
  max_age: 1m
  on: perhaps
  small: 256
  names: a
  by-name: [1]
  inner: {number: 10}
  url:
  share: [1]
`))
	var s section
	for _, p := range d.Top("the file") {
		p.Value.Decode(&s, "section")
	}
	want := `f.yaml:2:9: rate is "many": it must be a whole number
f.yaml:3:3: rate is set in line 2 already; leave one of them out
f.yaml:4:3: unknown key max_age; did you mean max-age?
f.yaml:5:7: on is "perhaps": it must be true or false
f.yaml:6:10: small is "256": it must be a whole number of at most 255
f.yaml:7:10: names is one value; it takes a list, as in [a, b]
f.yaml:8:12: by-name is a list; write names with values below it, each as name: value
f.yaml:9:10: inner: 10 is more than 9
f.yaml:10:7: url has no value; give it one, or leave it out
f.yaml:11:10: share is a list; it takes one value`
	err := d.Err()
	if diff := cmp.Diff(want, fmt.Sprint(err)); diff != "" {
		t.Error(diff)
	}
	var all *Error
	if !errors.As(err, &all) || len(all.Mistakes) != 10 {
		t.Errorf("%d mistakes", len(all.Mistakes))
	}
	for _, m := range all.Mistakes {
		if got := ParseMistake("f.yaml", m.String()); got != m {
			t.Errorf("%v is read as %v", m, got)
		}
	}
}

func TestNoYAML(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"a: [1":                          "f.yaml:1:1: this is no YAML: did not find expected",
		"a: 1\n\tb: 2":                   "f.yaml:2:1: this is no YAML: found a tab character",
		"a: 1\n---\nb: 2":                "f.yaml:2:1: a second document begins here",
		"- a":                            "f.yaml:1:1: the file is a list",
		"a: &a {b: 1}\nc: {<<: *a}":      "f.yaml:2:5: << is not supported",
		"a: &a [*a, *a]":                 "f.yaml:1:", // a value inside of itself
		"? [x]\n: 1":                     "f.yaml:1:3: a name in the file is no text",
		strings.Repeat("x", MostBytes+1): "f.yaml: the file has",
	} {
		d := Parse("f.yaml", []byte(text))
		for _, p := range d.Top("the file") {
			if p.Value.IsMap() {
				p.Value.Pairs(p.Name())
			}
			var v [][]string
			p.Value.Decode(&v, p.Name())
		}
		if err := d.Err(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: %v, want %s", text, err, want)
		}
	}
	if d := Parse("f.yaml", []byte("# nothing\n")); d.Err() != nil || len(d.Top("the file")) != 0 {
		t.Errorf("an empty file: %v", d.Err())
	}
}

// A few lines of aliases stand for no more values than the reader takes.
func TestAliasesAreBounded(t *testing.T) {
	t.Parallel()
	text := "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
	for i := 1; i < 9; i++ {
		text += fmt.Sprintf("a%d: &a%d [%s]\n", i, i, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d, ", i-1), 10), ", "))
	}
	d := Parse("f.yaml", []byte(text))
	for _, p := range d.Top("the file") {
		var v []([]([]([]([]([]([]([]([]string))))))))
		if p.Name() == "a8" {
			p.Value.Decode(&v, p.Name())
		}
	}
	if err := d.Err(); err == nil || !strings.Contains(err.Error(), "stands for more than 200000 values") {
		t.Errorf("%.200v", err)
	}
}

func TestNearest(t *testing.T) {
	t.Parallel()
	for word, want := range map[string]string{"quues": "queues", "Log_Level": "log-level", "concurency": "concurrency", "billing": "", "x": "", "uir": "uri"} {
		if got := Nearest(word, []string{"queues", "log-level", "concurrency", "uri"}); got != want {
			t.Errorf("%s is like %q, want %q", word, got, want)
		}
	}
	for name, want := range map[string]string{"MaxAge": "max-age", "APIKey": "api-key", "URL": "url", "Rate2": "rate2", "aB": "a-b"} {
		if got := Hyphened(name); got != want {
			t.Errorf("%s is %s, want %s", name, got, want)
		}
	}
}

// FuzzDecode holds that no text breaks the reader, and that each mistake is a line with its place.
func FuzzDecode(f *testing.F) {
	for _, seed := range []string{"section: {rate: 1}", "a: &a [*a]", "section:\n  by-name: {x: {number: 11}}", "? {a: b}\n: c", "section: !!binary aGk=", "\xff\xfe"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		d := Parse("f.yaml", []byte(text))
		for _, p := range d.Top("the file") {
			var s section
			p.Value.Decode(&s, p.Name())
			p.Value.Items()
			_ = p.Value.Place()
		}
		if err := d.Err(); err != nil {
			for _, m := range err.(*Error).Mistakes {
				if m.Text == "" || m.Line > 0 && m.Column < 1 || m.File != "f.yaml" {
					t.Errorf("%q: %+v", text, m)
				}
			}
		}
	})
}
