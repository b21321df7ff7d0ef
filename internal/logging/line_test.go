package logging

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

// Whatever a class, a queue or an error is called: it is one line, begins as every
// line does, holds nothing a terminal would obey, and is not long. A line of JSON
// gives the text back.
func FuzzLogLine(f *testing.F) {
	for _, seed := range []string{
		"SendEmail", "a\nlevel=ERROR msg=\"all is lost\"", "\x1b[2J\x1b]0;title\x07", "\u009b31m\u202e\u2028\x7f", "\r", "%n%Msg", `\u001b`,
		`","level":"INFO","x":"`, "\xff\xfe", "\U000e0001\ufeff", "=", "", " ", strings.Repeat("é", MaxText),
	} {
		f.Add(seed, seed)
	}
	var out bytes.Buffer
	line := func(t *testing.T, format, class, problem string) string {
		out.Reset()
		log, flush := New(slog.LevelDebug, format, &out)
		log.Error("job failed", "class", class, "error", errors.New(problem), "queue", class)
		flush()
		text := out.String()
		if !utf8.ValidString(text) {
			t.Errorf("%s: %q is not UTF-8", format, text)
		}
		if line, ended := strings.CutSuffix(text, "\n"); !ended || strings.ContainsFunc(line, func(c rune) bool { return !unicode.IsPrint(c) }) {
			t.Errorf("%s: %q is not one line of printable text", format, text)
		}
		if len(text) > 3*6*MaxText+200 {
			t.Errorf("%s: a line of %d bytes", format, len(text))
		}
		return text
	}
	f.Fuzz(func(t *testing.T, class, problem string) {
		if text := line(t, "text", class, problem); !strings.HasPrefix(text, "time=") || strings.Count(text, " level=ERROR msg=\"job failed\" class=") != 1 {
			t.Errorf("%q does not begin as a line does", text)
		}
		text := line(t, "json", class, problem)
		var got struct{ Level, Msg, Class, Error, Queue string }
		if err := json.Unmarshal([]byte(text), &got); err != nil || got.Level != "ERROR" || got.Msg != "job failed" {
			t.Fatalf("%q: %v, %+v", text, err, got)
		}
		if utf8.ValidString(class) && len(class) <= MaxText && (got.Class != class || got.Queue != class) {
			t.Errorf("class %q is logged as %q", class, got.Class)
		}
	})
}

func TestShorten(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ text, want string }{
		{"", ""}, {"abcde", "abcde"}, {"abcdef", "abcde… (6 bytes)"}, {"abcdé", "abcd… (6 bytes)"}, {"\x80\x80\x80\x80\x80\x80\x80", "\x80… (7 bytes)"},
	} {
		if got := Shorten(test.text, 5); got != test.want {
			t.Errorf("%q is shortened to %q, want %q", test.text, got, test.want)
		}
	}
}
