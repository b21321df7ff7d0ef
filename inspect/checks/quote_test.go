package checks

import (
	"os/exec"
	"strings"
	"testing"
	"time"
)

func TestNumbersInSentences(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		value any
		want  string
	}{
		{340 * time.Microsecond, "340µs"}, {6 * time.Millisecond, "6ms"}, {1500 * time.Millisecond, "1.5s"}, {4 * time.Second, "4s"},
		{time.Minute, "1m"}, {4*time.Minute + 10*time.Second, "4m10s"}, {time.Hour - time.Millisecond, "1h"}, {2*time.Hour + 10*time.Minute, "2h10m"},
		{47 * time.Hour, "47h"}, {50 * time.Hour, "2d2h"}, {-time.Minute, "-1m"},
		{share(0.12), "12 %"}, {size(900), "900 B"}, {size(1 << 20), "1 MiB"}, {size(1300 << 20), "1.3 GiB"},
		{2114, "2,114"}, {999, "999"}, {int64(-1234567), "-1,234,567"}, {words("so"), "so"}, {"a\x1b[2J\u202e", `"a\x1b[2J\u202e"`},
		{strings.Repeat("é", 300), `"` + strings.Repeat("é", 200) + `"… (600 bytes)`},
	} {
		if got := in(tt.value); got != tt.want {
			t.Errorf("%v is %s, not %s", tt.value, got, tt.want)
		}
	}
}

func TestQuote(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"mail": "mail", "h:1:a,b": "'h:1:a,b'", "": "''", "it's": `'it'\''s'`, "$(x)": "'$(x)'", "-rf": "-rf", "~": "'~'", "é": "'é'",
	} {
		if got, ok := Quote(text); got != want || !ok {
			t.Errorf("%q is %s, %v, not %s", text, got, ok, want)
		}
	}
	for _, text := range []string{"a\nb", "\x00", "\xff", "\u202e", "\x1b[2J"} {
		if word, ok := Quote(text); ok {
			t.Errorf("%q is %s", text, word)
		}
	}
}

// Whatever a name is, a shell takes what Quote makes of it as one word, and that word is the name.
func FuzzQuote(f *testing.F) {
	for _, text := range []string{"", "a b", "'", "''", `\'`, "$(touch canary)", "`touch canary`", "a;b", "a\\", "-n", "*", "~root", "#", "a'$(x)'b", "é\u00a0"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		word, ok := Quote(text)
		if !ok {
			return
		}
		out, err := exec.Command("sh", "-c", "printf '%s\\n' "+word+" end").CombinedOutput()
		if err != nil || string(out) != text+"\nend\n" {
			t.Errorf("%q as %s: %v, %q", text, word, err, out)
		}
	})
}

// A row of the table has all that the faces print, and its texts name only values that they can fill.
func TestTable(t *testing.T) {
	t.Parallel()
	names := make(map[string]bool)
	last := 0
	for _, c := range Table {
		if c.Name == "" || names[c.Name] || c.Title == "" || c.Sentence == "" || c.Remedy == "" || c.Uses == 0 {
			t.Errorf("check %d, %q, lacks a name of its own, a title, a sentence, a remedy or a use", c.Number, c.Name)
		}
		names[c.Name] = true
		if c.In(Doctor) != (c.Number > 0) || c.In(Doctor) != (c.look != nil) {
			t.Errorf("check %d, %s: doctor runs those with a number", c.Number, c.Name)
		}
		if c.Number > 0 {
			if c.Number != last+1 {
				t.Errorf("check %d follows %d", c.Number, last)
			}
			last = c.Number
		}
		if c.Bound != (Bound{}) && c.Bound.Unit == "" {
			t.Errorf("the bound of check %d, %s, has no unit", c.Number, c.Name)
		}
		for _, text := range []string{c.Sentence, c.Remedy, c.Command} {
			if strings.Count(text, "{") != strings.Count(text, "}") {
				t.Errorf("check %d, %s: %q", c.Number, c.Name, text)
			}
		}
	}
	if last != 54 {
		t.Errorf("doctor has %d checks", last)
	}
}
