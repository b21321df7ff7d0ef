package doctor

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/goworker/goworker/inspect/checks"
	"github.com/goworker/goworker/internal/redistest"
)

// hostile returns names as a producer may choose them. Those that a shell runs would write into the file canary.
func hostile(n int, canary string) (names []string) {
	random := rand.New(rand.NewPCG(1, 2))
	pieces := []string{
		" ", "  ", "\t", "\n", "\r\n", "'", `"`, "`", `\`, "$", "$(touch " + canary + ")", "`touch " + canary + "`", "; touch " + canary + " ;",
		"| touch " + canary + " #", "&& touch " + canary, "> " + canary, "${IFS}", "~", "*", "?", "[a-z]", "{a,b}", "!", "!!", "-rf", "--", "--fix", "%s", "%n",
		"\x1b[2J", "\x1b]0;title\x07", "\x1b[31m", "\x9b2J", "\x00", "\x7f", "\u202e", "\u200b", "\ufeff", "é", "日本", "🙂", "\xff", "\xc3", "a,b", "=2", ",", "=",
		"<script>", "&amp;", "\\n", "{queue}", "{worker}", "{", "}", "mail", "x", "0",
	}
	for len(names) < n {
		var b strings.Builder
		for range 1 + random.IntN(6) {
			b.WriteString(pieces[random.IntN(len(pieces))])
		}
		names = append(names, fmt.Sprint(b.String(), len(names)))
	}
	return names
}

// TestHostileNames plants a thousand names of every kind wherever a name can be. What the checks say of them moves no cursor, and
// each command runs in a shell as one command whose words are the names, and which starts nothing else.
func TestHostileNames(t *testing.T) {
	t.Parallel()
	w := newWorld(t, redistest.Start(t, durable...), nil)
	w.options.Most = 2000
	dir := t.TempDir()
	canary := filepath.Join(dir, "canary")
	names := hostile(1000, canary)
	planted := make(map[string]bool)
	w.registered("vm:1:*")
	w.do("HSET", "~workers:heartbeat", "x", "x")
	do := func(command, key string, args ...any) { w.server.Do(t, command, append([]any{w.ns + key}, args...)...) }
	for n, name := range names {
		planted[name] = true
		switch n % 10 {
		case 0:
			do("SADD", "queues", name+",") // no list can name it
			planted[name+","] = true
		case 1:
			do("RPUSH", "queue:"+name, job)
		case 2:
			do("HSET", "workers:heartbeat", name+":1:"+name, w.now(time.Hour))
			planted[name+":1:"+name] = true
		case 3:
			do("HSET", "go:limits", "c:"+name, name)
			planted["c:"+name] = true
		case 4:
			do("HSET", "go:unique:"+name, name, fmt.Sprintf("done %s %s  4:mail%s", ms(time.Hour), ms(time.Hour), job))
		case 5:
			do("SADD", "go:paused", name)
			do("RPUSH", "queue:"+name, job)
			do("SADD", "queues", name)
		case 6:
			do("SADD", "queues", name)
			do("RPUSH", "queue:"+name, "{"+name)
		case 7:
			do("SADD", "workers", name)
		case 8:
			do("HSET", "persistent_schedules", name, `{"class":"Mail","cron":"0 3 * * *","queue":".nights","args":[]}`)
			do("HSET", "go:ticks", name, ms(72*time.Hour)+" - x")
		case 9:
			do("SADD", "go:slots:c:"+name, "a:1:b/7")
			do("SET", "queue:"+name+"-text", "of another type")
			planted[name+"-text"] = true
		}
	}
	do("SET", "pruning_dead_workers_in_progress", names[77])
	do("SET", w.ns+"resque_scheduler_master_lock", names[78])
	w.process("a", "mail", "stuck", `[{"queue":"\u001b[2J","class":"$(touch `+canary+`)","started":1,"limit":1}]`)

	all := bad(w.look())
	found := make(map[int]int)
	var script strings.Builder
	var commands []checks.Finding
	for _, f := range all {
		found[f.Check.Number]++
		for _, text := range []string{f.Sentence, f.Remedy.Words, f.Remedy.Command, f.Rule} {
			if !utf8.ValidString(text) || strings.ContainsFunc(text, func(c rune) bool { return !unicode.IsPrint(c) }) {
				t.Errorf("check %d says %q", f.Check.Number, text)
			}
		}
		if f.Remedy.Command != "" && f.State == checks.Found {
			commands = append(commands, f)
			script.WriteString(f.Remedy.Command + "\n")
		}
	}
	for _, number := range []int{23, 24, 28, 29, 32, 33, 34, 38, 40, 44, 47, 48, 51, 53, 54} {
		if checks.ByNumber(number) != nil && found[number] == 0 {
			t.Errorf("check %d found nothing", number)
		}
	}
	t.Logf("%d findings of %d checks, %d commands", len(all), len(found), len(commands))
	if len(commands) < 300 {
		t.Errorf("only %d commands", len(commands))
	}

	// The words of each command, as a shell sees them, with a zero byte behind each and a line feed behind the last.
	for _, program := range []string{"goworker", "redis-cli"} {
		if err := os.WriteFile(filepath.Join(dir, program), []byte("#!/bin/sh\nprintf '%s\\0' \"${0##*/}\" \"$@\"\nprintf '\\n\\0'\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := exec.Command("sh", "-n", "-c", script.String()).CombinedOutput(); err != nil {
		t.Fatalf("sh -n: %v\n%s", err, out)
	}
	sh := exec.Command("sh", "-c", script.String())
	sh.Dir, sh.Env = dir, []string{"PATH=" + dir + ":/usr/bin:/bin", "REDIS_URL=redis://localhost:1"}
	out, err := sh.Output()
	if err != nil {
		t.Fatalf("sh: %v", err)
	}
	if _, err := os.Stat(canary); err == nil {
		t.Error("a name ran a command")
	}
	ran := strings.Split(strings.TrimSuffix(string(out), "\n\x00"), "\n\x00")
	if len(ran) != len(commands) {
		t.Fatalf("%d commands ran, not %d", len(ran), len(commands))
	}
	for n, line := range ran {
		f, argv := commands[n], strings.Split(strings.TrimSuffix(line, "\x00"), "\x00")
		if argv[0] == "goworker" && len(argv) > 3 && !slices.Contains(argv, "--") && argv[1] != "doctor" {
			t.Errorf("a name may be taken for an option: %q", f.Remedy.Command)
		}
		if argv[0] == "goworker" && slices.Contains(argv, "--") {
			if name := argv[slices.Index(argv, "--")+1]; !planted[name] && !slices.Contains(names, name) {
				t.Errorf("%q has the name %q, which is nowhere", f.Remedy.Command, name)
			}
		}
		for _, word := range argv[1:] { // a word is a name as it is, or one of goworker's
			if strings.Contains(word, canary) && !known(planted, w.ns, word) {
				t.Errorf("%q has the word %q, which is no name", f.Remedy.Command, word)
			}
		}
	}

	// What cannot be shown in a command is mended without one.
	for _, f := range all {
		if !f.Fixable() {
			continue
		}
		if _, err := checks.Fix(t.Context(), w.inspect(), f); err != nil { // another fix may have mended it too
			t.Errorf("the fix of %q: %v", f.Sentence, err)
		}
	}
	for _, f := range bad(w.look()) {
		if f.Check.HasFix() {
			t.Errorf("after its fix: %s", text([]checks.Finding{f}))
		}
	}
}

// known reports whether a word is a name that was planted, or a key with one.
func known(planted map[string]bool, ns, word string) bool {
	for name := range planted {
		if strings.Contains(word, name) && (len(word) == len(name) || strings.HasPrefix(word, ns) || strings.HasPrefix(name, word)) {
			return true
		}
	}
	return planted[word]
}
