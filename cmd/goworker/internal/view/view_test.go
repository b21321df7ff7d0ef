package view

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"
	"time"
	"unicode"
)

func TestText(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ in, want string }{
		{"mail", "mail"}, {"日本語 größe", "日本語 größe"}, {"a\nb\tc", `a\nb\tc`}, {"\x1b[2J", `\u001b[2J`}, {"\u202e", `\u202e`}, {"\xff\xfea", `\xff\xfea`},
		{"\U000e0001", `\udb40\udc01`}, {"\ufffd", "\ufffd"}, {"\x7f\u0085", `\u007f\u0085`},
	} {
		if got := Text(tt.in); got != tt.want {
			t.Errorf("%q: %q, and not %q", tt.in, got, tt.want)
		}
	}
	if got := Lines("a\r\nb\x1b\n\t\tc\td\n\t"); got != "a\nb\\u001b\n        c\\td\n    " {
		t.Errorf("lines: %q", got)
	}
}

// What is cut has so many cells at most, keeps both of its ends, and stays as it is where it fits.
func FuzzCut(f *testing.F) {
	f.Add("a very long name", 9)
	f.Add("日本語日本語", 5)
	f.Add("👩‍👩‍👧é", 3)
	f.Fuzz(func(t *testing.T, text string, cells int) {
		text, cells = Text(text), cells&63
		got := Cut(text, cells)
		if Width(got) > cells && Width(text) > cells || Width(text) <= cells && got != text {
			t.Errorf("%q in %d cells: %q has %d", text, cells, got, Width(got))
		}
	})
}

func TestUnits(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ got, want string }{
		{Cut("resque-production-mail", 11), "resqu…-mail"}, {Cut("mail", 0), ""}, {Cut("mail", 1), "…"}, {Cut("mail", 4), "mail"},
		{Count(0), "0"}, {Count(999), "999"}, {Count(1000), "1,000"}, {Count(41204118), "41,204,118"}, {Count(-1234), "-1,234"},
		{Plural(1, "job"), "1 job"}, {Plural(1204, "job"), "1,204 jobs"},
		{Span(0), "0s"}, {Span(250 * time.Microsecond), "250µs"}, {Span(31 * time.Millisecond), "31ms"}, {Span(1400 * time.Millisecond), "1.4s"},
		{Span(59 * time.Second), "59s"}, {Span(60 * time.Second), "1m"}, {Span(250 * time.Second), "4m10s"}, {Span(2 * time.Hour), "2h"},
		{Span(2*time.Hour + 90*time.Second), "2h2m"}, {Span(76 * time.Hour), "3d4h"}, {Span(-time.Second), "-1s"}, {Span(59*time.Minute + 59800*time.Millisecond), "1h"},
		{Rate(0), "0"}, {Rate(0.01), "<0.1"}, {Rate(0.1), "0.1"}, {Rate(8.24), "8.2"}, {Rate(312.4), "312"}, {Rate(12408), "12,408"},
		{Percent(131, 170), "77 %"}, {Percent(1, 0), "-"}, {Bytes(512), "512 B"}, {Bytes(1288490189), "1.2 GiB"},
		{Time(time.Date(2026, 11, 22, 13, 4, 31, 0, time.FixedZone("CET", 3600))), "2026-11-22 12:04:31Z"}, {Time(time.Time{}), "-"},
		{Ago(time.Unix(100, 0), time.Unix(160, 0)), "0s"}, {Ago(time.Unix(100, 0), time.Time{}), "-"},
		{Wrap("one two three", 7, "  "), "one two\n  three"}, {Wrap("abcdefghij", 4, ""), "abcd\nefgh\nij"}, {Wrap("", 4, ""), ""},
		{Place("redis://:***@redis-1:6379/0"), "redis-1:6379/0"}, {Place("unix:///run/redis.sock"), "unix:///run/redis.sock"}, {Place("redis+cluster://a:1,b:2"), "redis+cluster://a:1,b:2"},
	} {
		if tt.got != tt.want {
			t.Errorf("%q, and not %q", tt.got, tt.want)
		}
	}
}

// A reader of the JSON gets what was written, byte for byte, and its line is harmless.
func FuzzLine(f *testing.F) {
	for _, text := range []string{"mail", "\xff", "\x1b[2J", "\u202e", "\U000e0001", "a\"\\\n\t\x00", "\u2028", "👩‍👩‍👧"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		line := Object{{"text", text}, {"list", []string{text}}, {"raw", json.RawMessage(text)}}.Line()
		for _, c := range line {
			if !unicode.IsPrint(c) {
				t.Fatalf("%q has %q", line, c)
			}
		}
		var got struct {
			Text any
			List []any
			Raw  any
		}
		if err := json.Unmarshal([]byte(line), &got); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		plain, ok := got.Text.(string)
		if !ok {
			object, _ := got.Text.(map[string]any)
			coded, _ := object["base64"].(string)
			raw, err := base64.StdEncoding.DecodeString(coded)
			if err != nil {
				t.Fatal(err)
			}
			plain = string(raw)
		}
		if plain != text {
			t.Errorf("%q came as %q: %s", text, plain, line)
		}
	})
}

func TestObject(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 22, 13, 4, 31, 250e6, time.FixedZone("CET", 3600))
	got := Object{
		{"at", at}, {"never", time.Time{}}, {"for", 1500 * time.Millisecond}, {"n", 3}, {"big", int64(1) << 60}, {"share", 0.25}, {"nan", math.NaN()}, {"on", true},
		{"none", nil}, {"empty", Object(nil)}, {"raw", json.RawMessage("{\"a\" : [1.0, 1e400, \"\u202e\"]}")}, {"bad", json.RawMessage("{")}, {"bytes", []byte("x")},
		{"err", errors.New("away")}, {"all", []Object{{{"a", 1}}, {}}}, {"any", []any{1, "x"}}, {"payloads", []json.RawMessage{json.RawMessage("1")}}, {"nothing", json.RawMessage(nil)},
	}.With("more", "x").Line()
	want := `{"at":"2026-11-22T12:04:31.25Z","never":null,"for":1.5,"n":3,"big":1152921504606846976,"share":0.25,"nan":null,"on":true,"none":null,"empty":null,` +
		`"raw":{"a":[1.0,1e400,"\u202e"]},"bad":"{","bytes":"x","err":"away","all":[{"a":1},{}],"any":[1,"x"],"payloads":[1],"nothing":null,"more":"x"}`
	if got != want {
		t.Errorf("%s\nand not\n%s", got, want)
	}
}

func TestTable(t *testing.T) {
	t.Parallel()
	table := Table{
		Columns: []Column{{Head: "QUEUE", Cut: true}, {Head: "WAITING", Right: true}, {Head: "SERVED BY", Cut: true}},
		Rows:    [][]string{{"mail", "12,408", "100"}, {"a-queue-with-a-long-name", "3", "20 other + 2 http + 1"}},
	}
	for _, tt := range []struct {
		width int
		want  string
	}{
		{0, "QUEUE                     WAITING  SERVED BY\nmail                       12,408  100\na-queue-with-a-long-name        3  20 other + 2 http + 1\n"},
		{40, "QUEUE           WAITING  SERVED BY\nmail             12,408  100\na-queue…g-name        3  20 othe…ttp + 1\n"},
		{10, "QUEUE     WAITING  SERVED BY\nmail       12,408  100\na-qu…ame        3  20 o… + 1\n"}, // it cannot be cut so far
	} {
		if got := table.Draw(tt.width); got != tt.want {
			t.Errorf("%d cells:\n%s\nand not\n%s", tt.width, got, tt.want)
		}
	}
	if got, want := Pairs(12, [2]string{"queue", "mail"}, [2]string{"none", ""}, [2]string{"is", "abcdefghij\nk"}), "queue  mail\nis     abcdefgh\n       ij\n       k\n"; got != want {
		t.Errorf("%q, and not %q", got, want)
	}
	if !strings.HasPrefix(Pairs(0, [2]string{"a", strings.Repeat("x", 200)}), "a  xxx") {
		t.Error("without a width a value is broken")
	}
}
