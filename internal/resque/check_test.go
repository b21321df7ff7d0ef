package resque

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gomodule/redigo/redis"
)

func TestCheckVersion(t *testing.T) {
	t.Parallel()
	for version, fits := range map[string]bool{
		"5.0.14": false, "6.0.16": false, "6.1.9": false, "6.2.0": true, "6.10.0": true, "7.0.15": true, "8.0": true,
		"10.0.0": true, "2.8.0": false, "255.255.255": true, "unknown": true, "": true,
	} {
		err := checkVersion("# Server\r\nredis_mode:standalone\r\nredis_version:" + version + "\r\nos:Linux\r\n")
		if (err == nil) != fits {
			t.Errorf("version %q: %v, want it to fit: %v", version, err, fits)
		}
		if err != nil && !strings.Contains(err.Error(), version) {
			t.Errorf("version %q: the message does not name it: %v", version, err)
		}
	}
	if err := checkVersion("# Server\r\n"); err != nil {
		t.Errorf("a server that does not tell: %v", err)
	}
}

// user logs in as a user that may run the commands of the scripts on the namespace's keys.
// The rules add permissions or remove some.
func (w *wire) user(rules ...any) redis.Conn {
	w.t.Helper()
	commands := slices.Collect(func(yield func(any) bool) {
		for _, c := range append(scriptCommands(w.t), "EVAL", "EVALSHA", "INFO") {
			if !yield("+" + strings.ToLower(c)) {
				return
			}
		}
	})
	w.do("ACL", append(append([]any{"SETUSER", "worker", "reset", "on", "nopass", "~resque:*"}, commands...), rules...)...)
	c := w.server.Dial(w.t)
	_, err := c.Do("AUTH", "worker", "x")
	w.must(err)
	return c
}

func scriptCommands(t testing.TB) []string {
	t.Helper()
	var files []string
	for _, dir := range []string{"scripts", "scripts/parts", "scripts/verbs", "failures/scripts", "delayed/scripts"} {
		here, err := filepath.Glob(dir + "/*.lua")
		if err != nil || len(here) == 0 {
			t.Fatalf("%s has the scripts %v: %v", dir, here, err)
		}
		files = append(files, here...)
	}
	// These are for operators alone, and leave out what Redis refuses.
	operators := []string{"scripts/keys.lua", "scripts/contents.lua", "scripts/heads.lua"}
	files = slices.DeleteFunc(files, func(f string) bool { return slices.Contains(operators, f) })
	// Every word in capitals and quotes is a command, but for these. XLEN is needed only for features
	// that have streams.
	options := []string{"EX", "PX", "XX", "NX", "WITHSCORES", "COUNT", "MAXLEN", "RANK", "LIMIT", "LT", "KEEPTTL", "XLEN"}
	words := regexp.MustCompile(`'([A-Z]{2,})'`)
	var found []string
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range words.FindAllStringSubmatch(string(text), -1) {
			if !slices.Contains(options, match[1]) {
				found = append(found, match[1])
			}
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}

func TestCheck(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	w.unchanged("the check", func() { w.must(w.s.Check(w.c, "p")) })
	w.unchanged("the check by a user who may do no more", func() { w.must(w.s.Check(w.user(), "p")) })
	w.must(w.s.Check(w.user("-info"), "p"))
	w.do("CONFIG", "SET", "maxmemory", "1")
	w.must(w.s.Check(w.c, "p"))
}

// A missing permission shows at the start, with the name of the command.
func TestCheckNamesWhatIsMissing(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	for _, command := range scriptCommands(t) {
		err := w.s.Check(w.user("-"+strings.ToLower(command)), "p")
		if err == nil || !strings.Contains(err.Error(), command) {
			t.Errorf("without %s: %v", command, err)
		}
	}
	for _, c := range []redis.Conn{w.user("resetkeys", "~other:*"), w.user("-evalsha", "-eval")} {
		if err := w.s.Check(c, "p"); err == nil {
			t.Error("no error although nothing works")
		}
	}
	_ = w.c.Close()
	if err := w.s.Check(w.c, "p"); err == nil {
		t.Error("no error on a closed connection")
	}
}
