package shell

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// echo is a goworker that prints each of its arguments between a mark and a line break. What prints otherwise, or makes a file, was
// run.
const echo = "goworker() { for a; do printf '<%s>\\n' \"$a\"; done; }\n"

// sh runs a line in a shell whose directory has one file, and returns what it printed.
func sh(t *testing.T, line string) string {
	t.Helper()
	dir := t.TempDir()
	script := echo + line + "\n"
	check := exec.CommandContext(t.Context(), "sh", "-n")
	check.Stdin = strings.NewReader(script)
	if out, err := check.CombinedOutput(); err != nil {
		t.Fatalf("sh -n refuses %q: %v\n%s", line, err, out)
	}
	run := exec.CommandContext(t.Context(), "sh", "-c", script)
	run.Dir, run.Env = dir, []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir}
	out, err := run.CombinedOutput()
	if err != nil {
		t.Fatalf("sh runs %q: %v\n%s", line, err, out)
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) > 0 {
		t.Fatalf("%q left %v in its directory, %v", line, left, err)
	}
	return string(out)
}

// args are the words that the shell hands over.
func args(words ...string) string {
	var b strings.Builder
	for _, w := range words {
		b.WriteString("<" + w + ">\n")
	}
	return b.String()
}

// hostile are words that would make the file canary, or be more than one word, if they were not quoted.
var hostile = []string{
	"$(touch canary)", "`touch canary`", "a;touch canary", "'; touch canary; '", `"; touch canary; "`, "| touch canary", "&& touch canary", "> canary",
	"a > canary", "$(>canary)", "<(touch canary)", "'$(touch canary)'", `\'; touch canary; \'`, "-rf", "--", "--help", "*", "?", "[a-z]*", "~", "~root", "#", "!!", "!x",
	"${IFS}", "$HOME", "$'x'", "a=b", "=ls", "{a,b}", "\\", "\\\\'", "'", "''", "'''", `"`, "a b", " ", "", "日本語", "e\u0301", "a'b'c", "%s", "a\\nb", "-u",
}

// Whatever a printed command's names are, a shell hands over exactly these words, and runs nothing else.
func TestLines(t *testing.T) {
	t.Parallel()
	line, ok := Own("queues peek", hostile...)
	if !ok {
		t.Fatal("a word that prints was refused")
	}
	if got, want := sh(t, line), args(slices.Concat([]string{"queues", "peek", "--"}, hostile)...); got != want {
		t.Errorf("%s\nhands over\n%sand not\n%s", line, got, want)
	}
	for _, word := range []string{"a\nb", "\x1b[2J", "\x00", "\u202e", "\u0085", "\xff", "a\tb", "a\rb"} {
		if line, ok := Own("queues peek", "mail", word); ok {
			t.Errorf("%q is in a command: %q", word, line)
		}
	}
	for _, tt := range []struct{ name, want string }{
		{"mail", "goworker queues peek mail"}, {"a-b_c.d:e/f@g", "goworker queues peek a-b_c.d:e/f@g"}, {"-x", "goworker queues peek -- -x"},
		{"it's", `goworker queues peek 'it'\''s'`}, {"", "goworker queues peek ''"}, {"größe", "goworker queues peek 'größe'"},
	} {
		if got, _ := Own("queues peek", tt.name); got != tt.want {
			t.Errorf("%q: %s, and not %s", tt.name, got, tt.want)
		}
	}
	if got, _ := Own("status"); got != "goworker status" {
		t.Errorf("without names: %s", got)
	}
}

// FuzzLine runs what would be printed. A word is handed over as it is, or the line is not printed.
func FuzzLine(f *testing.F) {
	for _, word := range hostile {
		f.Add(word, "mail")
		f.Add("mail", word)
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		line, ok := Own("queues peek", a, b)
		if ok != (Printable(a) && Printable(b)) {
			t.Fatalf("%q, %q: a line: %v", a, b, ok)
		}
		if !ok {
			return
		}
		if strings.ContainsAny(line, "\n\r\x00\x1b") {
			t.Fatalf("%q is more than a line", line)
		}
		words := []string{"queues", "peek", a, b}
		if strings.HasPrefix(a, "-") || strings.HasPrefix(b, "-") {
			words = []string{"queues", "peek", "--", a, b}
		}
		if got, want := sh(t, line), args(words...); got != want {
			t.Errorf("%s\nhands over\n%sand not\n%s", line, got, want)
		}
	})
}

// The shell of the tests does run what is not quoted: without that they would show nothing.
func TestCanary(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "canary")
	if err := exec.CommandContext(t.Context(), "sh", "-c", echo+"goworker $(touch "+file+")").Run(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(file); err != nil {
		t.Error(err)
	}
}
