package checks

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Names in findings come out of Redis, where any program may write them. In a sentence such a name must not move the cursor
// of a terminal, and in a command it must be one word of a shell, whatever it holds.

// Quote returns a text as one word of a POSIX shell: as it is if it is wholly of letters, digits and _.:/@-, else in single
// quotes. It returns false for a text that cannot be shown in a command: it holds what does not print, or is no UTF-8.
func Quote(text string) (word string, ok bool) {
	switch {
	case !printable(text):
		return "", false
	case plain(text):
		return text, true
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'", true
}

func plain(text string) bool {
	return text != "" && !strings.ContainsFunc(text, func(c rune) bool {
		return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && !strings.ContainsRune("_.:/@-", c)
	})
}

func printable(text string) bool {
	return utf8.ValidString(text) && !strings.ContainsFunc(text, func(c rune) bool { return !unicode.IsPrint(c) })
}

// mostShown is how many characters of a name a sentence has.
const mostShown = 200

// shown is a text from Redis in a sentence.
func shown(text string) string {
	rest := ""
	if utf8.RuneCountInString(text) > mostShown {
		rest = fmt.Sprintf("… (%d bytes)", len(text))
		end, n := 0, 0
		for end = range text {
			if n++; n > mostShown {
				break
			}
		}
		text = text[:end]
	}
	return strconv.Quote(text) + rest
}

// values are what a finding is about, by the names in braces of its row. A string is from Redis. Everything else is from this
// program.
type values map[string]any

// words is a text of this program in a sentence.
type words string

// share is a part of a whole: 0.12 is 12 %.
type share float64

// jobs is a number of jobs.
type jobs int64

func (n jobs) String() string { return plural(int(n), "job", "jobs") }

// size is a number of bytes.
type size int64

// arguments are several words of a command.
type arguments []string

// literal is a part of a command that needs no quotes any more. Whoever makes one has quoted what is from Redis.
type literal string

// in prints a value in a sentence.
func in(v any) string {
	switch v := v.(type) {
	case string:
		return shown(v)
	case time.Duration:
		return duration(v)
	case share:
		return fmt.Sprintf("%.0f %%", 100*float64(v))
	case size:
		return bytesOf(int64(v))
	case int:
		return count(int64(v))
	case int64:
		return count(v)
	case time.Time:
		return v.UTC().Format("2006-01-02 15:04:05Z")
	}
	return fmt.Sprint(v)
}

// exact prints a value for a program.
func exact(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case time.Duration:
		return strconv.FormatFloat(v.Seconds(), 'f', -1, 64)
	case time.Time:
		return v.UTC().Format(time.RFC3339Nano)
	case jobs:
		return strconv.FormatInt(int64(v), 10)
	case share:
		return strconv.FormatFloat(float64(v), 'f', -1, 64)
	}
	return fmt.Sprint(v)
}

// count groups digits: 2,114.
func count(n int64) string {
	text := strconv.FormatInt(n, 10)
	for at := len(text) - 3; at > 0 && text[at-1] != '-'; at -= 3 {
		text = text[:at] + "," + text[at:]
	}
	return text
}

// duration is 850ms, 4.2s, 11m, 3h20m or 4d6h.
func duration(d time.Duration) string {
	switch {
	case d < 0:
		return "-" + duration(-d)
	case d < time.Millisecond:
		return d.Round(time.Microsecond).String()
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Minute:
		return strings.TrimSuffix(fmt.Sprintf("%.1f", d.Seconds()), ".0") + "s"
	}
	whole, part, unit := d.Round(time.Second), time.Minute, time.Second
	names := "ms"
	switch {
	case d >= 48*time.Hour:
		whole, part, unit, names = d.Round(time.Hour), 24*time.Hour, time.Hour, "dh"
	case d >= time.Hour-time.Second/2:
		whole, part, unit, names = d.Round(time.Minute), time.Hour, time.Minute, "hm"
	}
	text := strconv.Itoa(int(whole/part)) + names[:1]
	if rest := whole % part / unit; rest > 0 {
		text += strconv.Itoa(int(rest)) + names[1:]
	}
	return text
}

// bytesOf is 900 B, 1.2 MiB or 3 GiB.
func bytesOf(n int64) string {
	const units = "KMGT"
	if n < 1024 {
		return fmt.Sprintf("%d B", n)
	}
	f, at := float64(n)/1024, 0
	for f >= 1024 && at < len(units)-1 {
		f, at = f/1024, at+1
	}
	return strings.TrimSuffix(fmt.Sprintf("%.1f", f), ".0") + " " + units[at:at+1] + "iB"
}

// fill puts values into a text with names in braces. It returns false if print refuses one of them.
func fill(text string, v values, print func(any) (string, bool)) (filled string, ok bool) {
	var b strings.Builder
	ok = true
	for {
		before, rest, found := strings.Cut(text, "{")
		b.WriteString(before)
		if !found {
			return b.String(), ok
		}
		name, after, _ := strings.Cut(rest, "}")
		value, has := v[name]
		if !has {
			panic("checks: a finding lacks the value {" + name + "} of its row")
		}
		word, may := print(value)
		ok = ok && may
		b.WriteString(word)
		text = after
	}
}

func sentence(text string, v values) string {
	filled, _ := fill(text, v, func(v any) (string, bool) { return in(v), true })
	return filled
}

// quoted prints a value in a command.
func quoted(v any) (text string, ok bool) {
	if line, ok := v.(literal); ok {
		return string(line), line != ""
	}
	list, several := v.(arguments)
	if !several {
		return Quote(exact(v))
	}
	var line []string
	for _, text := range list {
		word, ok := Quote(text)
		if !ok {
			return "", false
		}
		line = append(line, word)
	}
	return strings.Join(line, " "), true
}

// command fills a line for a shell. A name that it cannot hold is left to --fix, or to words.
func (c *Check) command(v values) string {
	line, ok := fill(c.Command, v, quoted)
	switch {
	case ok:
		return line
	case c.HasFix():
		return fmt.Sprintf("goworker doctor --fix %d", c.Number)
	}
	return ""
}
