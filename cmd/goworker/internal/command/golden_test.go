package command

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/goworker/goworker/cmd/goworker/internal/view"
	"github.com/goworker/goworker/internal/redistest"
)

var update = flag.Bool("update", false, "write the golden files")

// readers are the reading verbs, as an operator gives them. The name of a golden file is the verb.
var readers = []struct {
	name string
	args []string
}{
	{"status", []string{"status"}},
	{"queues-ls", []string{"queues", "ls"}},
	{"queues-show", []string{"queues", "show", "mail", "low"}},
	{"queues-peek", []string{"queues", "peek", "low"}},
	{"queues-peek-tail", []string{"queues", "peek", "mail", "--tail", "-c", "1"}},
	{"jobs-find", []string{"jobs", "find", "class:S*"}},
	{"jobs-show", []string{"jobs", "show", "mine"}},
	{"cancelled-ls", []string{"cancelled", "ls"}},
	{"failed-ls", []string{"failed", "ls"}},
	{"failed-groups", []string{"failed", "groups"}},
	{"failed-show", []string{"failed", "show", "d04317b65581ffb0f87f0bdd8bc2"}},
	{"failed-export", []string{"failed", "export"}},
	{"delayed-ls", []string{"delayed", "ls"}},
	{"delayed-show", []string{"delayed", "show", "later"}},
	{"schedule-ls", []string{"schedule", "ls"}},
	{"schedule-show", []string{"schedule", "show", "nightly"}},
	{"schedule-next", []string{"schedule", "next", "nightly"}},
	{"workers-ls", []string{"workers", "ls"}},
	{"workers-show", []string{"workers", "show", "vm:1428:low"}},
	{"processes-ls", []string{"processes", "ls"}},
	{"processes-show", []string{"processes", "show", "web-1:722:be04"}},
	{"limits-ls", []string{"limits", "ls"}},
	{"locks-ls", []string{"locks", "ls"}},
	{"locks-show", []string{"locks", "show", "0123456789abcdef0123456789abcdef"}},
	{"operations-ls", []string{"operations", "ls"}},
	{"bin-ls", []string{"bin", "ls"}},
	{"log", []string{"log"}},
	{"audit", []string{"audit"}},
	{"history", []string{"history", "--step", "hour", "--since", "6h"}},
	{"history-queue", []string{"history", "--step=hour", "--since=6h", "--queue", "mail"}},
	{"history-classes", []string{"history", "--step=hour", "--since=6h", "--classes"}},
	{"doctor", []string{"doctor", "24", "28", "32", "35", "37", "38", "39"}},
	{"inspect-ping", []string{"inspect", "ping"}},
	{"control-rules", []string{"control", "rules"}},
	{"config-print", []string{"config", "print"}},
}

// on runs a verb at a Redis whose reader has so many columns, and returns what it prints and its exit code.
func on(t *testing.T, s *redistest.Server, columns int, args ...string) (code int, out, errs string) {
	t.Helper()
	var o, e output
	lookup := func(name string) (string, bool) {
		value, ok := map[string]string{"REDIS_URL": s.URI(), "COLUMNS": fmt.Sprint(columns)}[name]
		return value, ok
	}
	flags := slices.Index(args, "--")
	if flags < 0 {
		flags = len(args)
	}
	code = Run(t.Context(), slices.Insert(slices.Clone(args), flags, "--timeout=1m", "--budget=1m"), lookup, &o, &e)
	return code, o.String(), e.String()
}

// changing is what differs from run to run: addresses, the time, and what INFO says of the server.
var changing = []struct {
	is *regexp.Regexp
	to string
}{
	{regexp.MustCompile(`127\.0\.0\.1:\d+`), "127.0.0.1:6379"},
	{regexp.MustCompile(`Redis \d+\.\d+\.\d+`), "Redis 7.0.15"},
	{regexp.MustCompile(`"version":"\d+\.\d+\.\d+","role"`), `"version":"7.0.15","role"`},
	{regexp.MustCompile(`(\S+ at \S+  Redis [^\n]*)\d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ`), "${1}2026-11-22 12:04:31Z"},
	{regexp.MustCompile(`("at"|"started"|"heartbeat"|"since"|"run_at"|"next"|"turn"):"20(2[5-9])-[^"]*"`), `$1:"2026-11-22T12:04:31Z"`},
	{regexp.MustCompile(`(NEXT +STATE\n[^\n]*?)20\d\d-\d\d-\d\d \d\d`), "${1}2026-11-22 03"},
	{regexp.MustCompile(`(?m)^((?:started|heartbeat|since|next) +)20(2[5-9])-\d\d-\d\d \d\d:\d\d:\d\dZ`), "${1}2026-11-22 12:04:31Z"},
	{regexp.MustCompile(`(?m)^2\d\d\d-\d\d-\d\d 03:00:00Z$`), "2026-11-23 03:00:00Z"},
	{regexp.MustCompile(`"(memory|clients|left|lease_age|oldest)":[0-9.]+`), `"$1":1`},
	{regexp.MustCompile(`\((\d+ms|[0-9.]+s)\)`), "(12ms)"},
	{regexp.MustCompile(`(?m)^20\d\d-\d\d-\d\d \d\d:00:00Z( +\d)`), "2026-11-22 12:00:00Z$1"},
	{regexp.MustCompile(`"(at|begun|changed|bin_ends|ends)":"20\d\d-[^"]*"`), `"$1":"2026-11-22T12:04:31Z"`},
	{regexp.MustCompile(`"open":(true|false)`), `"open":false`},
	{regexp.MustCompile(`"operation":"\w+"`), `"operation":"0123456789"`},
	{regexp.MustCompile(`(?m)^([0-9A-Za-z]+)(  20\d\d-\d\d-\d\d \d\d:\d\d:\d\dZ)(  ops@host-1  remove)`), "0123456789  2026-11-22 12:04:31Z$3"},
	{regexp.MustCompile(`(?m)^[0-9A-Za-z]+(  queue old)`), "0123456789$1"},
	{regexp.MustCompile(`KEPT FOR\n([^\n]*?) +\S+\n`), "KEPT FOR\n$1        1d\n"},
	{regexp.MustCompile(`later: --from \S+`), "later: --from MTYx"},
	{regexp.MustCompile(`"age":"[0-9.]+"`), `"age":"1"`},
	{regexp.MustCompile(`enqueued_at\\?":\\?"[^"\\]*`), `enqueued_at":"2026-11-22T12:04:31Z`},
}

func steady(text string) string {
	for _, c := range changing {
		text = c.is.ReplaceAllString(text, c.to)
	}
	return text
}

// Each reading verb prints what its golden file has: at 80 and 200 columns and in JSON, where a fleet works and where only Ruby
// does. No line of 80 columns is longer, and nothing in it moves a cursor.
func TestGolden(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	for _, r := range readers {
		t.Run(r.name, func(t *testing.T) {
			var b strings.Builder
			for _, fixture := range []struct {
				name string
				fill func(*testing.T, *redistest.Server)
			}{{"only Ruby works", fillRuby}, {"a fleet works", fill}} {
				server.Do(t, "FLUSHALL") // how long ago it was changes in half a minute, and on a busy machine all verbs take longer
				fixture.fill(t, server)
				for _, columns := range []int{80, 200} {
					code, out, errs := on(t, server, columns, r.args...)
					fmt.Fprintf(&b, "# %s, %d columns: goworker %s\n%s%s= %d\n\n", fixture.name, columns, strings.Join(r.args, " "), out, indented(errs), code)
					if harmless(t, out+errs); r.name == "failed-export" {
						break // lines of JSON, whatever is asked for
					}
					for line := range strings.Lines(out) {
						if view.Width(strings.TrimSuffix(line, "\n")) > columns {
							t.Errorf("wider than %d columns: %s", columns, line)
						}
					}
				}
				code, out, errs := on(t, server, 80, append(r.args[:len(r.args):len(r.args)], "--json")...)
				fmt.Fprintf(&b, "# %s, --json\n%s%s= %d\n\n", fixture.name, out, indented(errs), code)
				exact(t, out)
			}
			compare(t, r.name+".txt", steady(b.String()))
		})
	}
}

func indented(errs string) string {
	if errs == "" {
		return ""
	}
	return "> " + strings.ReplaceAll(strings.TrimSuffix(errs, "\n"), "\n", "\n> ") + "\n"
}

// compare compares a text with a golden file.
func compare(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", "golden", name)
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs; go test -update writes it. It is now\n%s", file, difference(string(want), got))
	}
}

// difference are the lines in which texts differ.
func difference(want, got string) string {
	a, b := strings.Split(want, "\n"), strings.Split(got, "\n")
	var lines []string
	for n := range max(len(a), len(b)) {
		x, y := "", ""
		if n < len(a) {
			x = a[n]
		}
		if n < len(b) {
			y = b[n]
		}
		if x != y {
			lines = append(lines, "-"+x, "+"+y)
		}
	}
	return strings.Join(lines, "\n")
}

// harmless fails where a text could do something to a terminal.
func harmless(t *testing.T, text string) {
	t.Helper()
	if !utf8.ValidString(text) {
		t.Fatalf("it prints what is no UTF-8: %q", text)
	}
	for _, c := range text {
		if c != '\n' && !unicode.IsPrint(c) {
			t.Fatalf("it prints %q:\n%q", c, text)
		}
	}
}

// exact fails where a line is no JSON.
func exact(t *testing.T, text string) {
	t.Helper()
	harmless(t, text)
	for line := range strings.Lines(text) {
		if !json.Valid([]byte(line)) {
			t.Errorf("no JSON: %s", line)
		}
	}
}

// Where every name is a trap, no verb moves a cursor, leaves a line or prints what is no JSON, and none of them is lost in JSON.
func TestHostileNames(t *testing.T) {
	t.Parallel()
	s := hostile(t, filepath.Join(t.TempDir(), "canary"))
	verbs := [][]string{{"doctor"}, {"queues", "show"}, {"workers", "show"}}
	for _, r := range readers {
		if r.name != "failed-export" && !strings.HasSuffix(r.name, "-show") && r.name != "schedule-next" {
			verbs = append(verbs, r.args)
		}
	}
	for n, verb := range verbs {
		if n == 1 || n == 2 {
			verb = append(verb, hostileNames("x")...)
			verb = append(verb[:2:2], append([]string{"--"}, verb[2:]...)...)
		}
		for _, format := range []string{"--wide=false", "--wide", "--json"} {
			var o, e output
			args := append([]string{verb[0], format, "--timeout=1m", "--budget=1m", "-u", s.URI()}, verb[1:]...)
			Run(t.Context(), args, none, &o, &e)
			switch harmless(t, e.String()); format {
			case "--json":
				exact(t, o.String())
			default:
				harmless(t, o.String())
			}
			if format == "--wide=false" && n != 0 { // a command of doctor's is not cut: it is copied
				for line := range strings.Lines(o.String()) {
					if view.Width(strings.TrimSuffix(line, "\n")) > 80 {
						t.Errorf("%q: wider than 80 columns: %s", args, line)
					}
				}
			}
		}
	}
}
