package command

import (
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/control/profile"
	"github.com/goworker/goworker/internal/redistest"
)

// inspect and control ask a process that runs, and end with the codes that scripts rely on.
func TestRemote(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	key, prof := filepath.Join(t.TempDir(), "key"), filepath.Join(t.TempDir(), "cpu.pprof")
	if err := os.WriteFile(key, []byte(strings.Repeat("k", 32)), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, _, errs := on(t, s, 80, "inspect", "ping"); code != exitUnavailable || !strings.Contains(errs, "no goworker process holds a lease here") {
		t.Errorf("nobody is there: %d, %s", code, errs)
	}
	d := goworker.New(goworker.WorkerSettings{
		URI: s.URI(), QueuesString: "work", Concurrency: 2, AllowNoHandlers: true, Name: "mailer", Control: goworker.ControlFull, ControlKeyFile: key,
		Logger: slog.New(slog.DiscardHandler),
	})
	defer d.Close()
	d.AddVerb(profile.Verb())
	d.AddVerb(goworker.Verb{Name: "flush", Help: "Empty the cache", Do: func(_ context.Context, args json.RawMessage) (any, error) {
		return map[string]any{"was\x1b[2J": args, "text": "two\nlines\x1b[2J"}, nil
	}})
	ended := make(chan error, 1)
	go func() { ended <- d.Run(t.Context()) }()
	redistest.Eventually(t, time.Minute, "it is ready", func() bool { return d.Health().Ready })

	for _, c := range []struct {
		args string
		code int
		out  string // or of what is on stderr
	}{
		{"inspect ping", exitDone, "2 workers, 0 busy"},
		{"inspect ping", exitDone, "   mailer   "},
		{"inspect ping mail*", exitDone, "up "},
		{"inspect ping other", exitNothing, "no process has such an id"},
		{"inspect ping --json", exitDone, `"state":"answered"`},
		{"inspect conf mailer", exitDone, "Concurrency          2"},
		{"inspect stacks", exitUsage, "stacks needs an address"},
		{"inspect ping [", exitUsage, "is no pattern"},
		{"inspect stacks mailer", exitDone, " goroutines\n"},
		{"inspect report", exitDone, "lease: renewed "},
		{"inspect stats", exitDone, "no job has ended"},
		{"inspect stats --json", exitDone, `"heap_bytes":`},
		{"inspect queues", exitDone, "queues      work"},
		{"inspect active", exitDone, "none"},
		{"inspect active --args", exitFailed, "not signed"},
		{"inspect active --args --key-file=" + key, exitDone, ""},
		{"inspect ping --read-only", exitDone, "workers"},
		{"inspect nothing", exitUsage, "there is no command inspect nothing"},
		{"inspect call flush", exitFailed, "no process answered: 1 refused"},
		{"inspect call stacks", exitUsage, "stacks needs an address"},
		{"inspect verbs", exitDone, "flush"},
		{"control flush", exitUsage, "to call a verb that the program has added: goworker control call flush"},
		{"control call nope", exitNothing, "no process knows the verb nope; they know active, "},
		{"control call nope --yes --to mail*", exitNothing, "no process knows the verb nope"},
		{"control call nope --to other", exitNothing, "no process has such an id"},
		{"control call flush", exitUsage, "no terminal to confirm it at"},
		{"control call flush {} --yes --key-file=" + key, exitDone, "text: two\n    lines"},
		{"control call flush { --yes", exitUsage, "no JSON"},
		{"control pause", exitUsage, "needs queues, --class or --self"},
		{"control pause --self --read-only", exitUsage, "read-only"},
		{"control pause --self --to=", exitUsage, "a name is empty"},
		{"control pause --self --to a,,b", exitUsage, "a name is empty"},
		{"control pause --self --dry-run", exitDone, "This would pause 1 process."},
		{"control pause --self --to other", exitNothing, "no process"},
		{"control pause --self --why=slow", exitDone, "takes jobs  "},
		{"control resume --self", exitDone, "takes jobs  "},
		{"control concurrency 1 --for 1h", exitDone, "2 → 1 for 1h (its settings say 2)"},
		{"control concurrency 1 --for 200h", exitUsage, "7d at most"},
		{"control concurrency 1 --for -1h", exitUsage, "such as 90s, 10m or 2h"},
		{"control concurrency 1", exitDone, "1 → 1 (its settings say 2)"},
		{"control concurrency +1", exitDone, "1 → 2 (its settings say 2)"},
		{"control concurrency 3", exitFailed, "not signed"},
		{"control concurrency +1 --key-file=" + key, exitDone, "2 → 3 (its settings say 2)"},
		{"control concurrency --key-file=" + key + " -- -1", exitDone, "3 → 2 "},
		{"control concurrency -1 --key-file=" + key, exitDone, "2 → 1 "},
		{"control concurrency -1", exitFailed, "which makes 0"},
		{"control concurrency many", exitUsage, "it must be a number from 1 to"},
		{"control concurrency 0", exitUsage, "it must be a number from 1 to"},
		{"control concurrency +5000", exitUsage, "it must be a number from 1 to"},
		{"control autoscale 1..2 --for=1h", exitDone, "off → 1..2 for 1h (its settings say off)"},
		{"inspect stats", exitDone, "autoscale"},
		{"control concurrency 1", exitDone, "it does not change by itself any more"},
		{"control autoscale 1..9", exitFailed, "not signed"},
		{"control call autoscale {\"bounds\":\"9..1\"} --yes --key-file=" + key, exitFailed, "as in 5..50"},
		{"control autoscale off", exitDone, "1..1 → off (its"},
		{"control queues add mail", exitFailed, "not signed"},
		{"control queues", exitDone, "Let processes work more queues"},
		{"control queues add", exitUsage, "queues as -queues takes them"},
		{"control queues add mail=2 slow --key-file=" + key, exitDone, "work → work=1,mail=2,slow=1 (its settings say work)"},
		{"control queues add mail=0", exitUsage, "the weight must be"},
		{"control queues add !", exitUsage, "an exclamation mark stands alone"},
		{"control queues add ,", exitUsage, "no queue is named"},
		{"control queues rm ,", exitUsage, "no queue is named"},
		{"control queues set [", exitUsage, "its bracket is not closed"},
		{"control queues set !low", exitUsage, "put * beside it"},
		{"inspect queues", exitDone, "queues      work=1,mail=2,slow=1"},
		{"inspect conf mailer", exitDone, "QueuesString         work=1,mail=2,slow=1"},
		{"control queues rm slow,mail --key-file=" + key, exitDone, "(its settings say work)"},
		{"control queues rm mail --key-file=" + key, exitFailed, "has no \"mail\""},
		{"control queues rm work --key-file=" + key, exitFailed, "at least one queue"},
		{"control queues set h* !high --key-file=" + key, exitDone, "work → h*,!high (its"},
		{"control call work-queues {} --yes --key-file=" + key, exitFailed, "must have one of"},
		{"control log debug", exitFailed, "its own logger"},
		{"control log foo", exitUsage, "must be debug, info, warn or error, not foo"},
		{"control log error+100", exitUsage, "must be debug, info, warn or error"},
		{"control log debug --for 2h", exitUsage, "--for takes 1h at most"},
		{"control log debug --for 0s", exitUsage, "a time above 0"},
		{"control retries A -- -1", exitUsage, "-1 is no number of retries: it must be 0 or more, or unlimited"},
		{"control retries A -1", exitUsage, "-1 is no number of retries"},
		{"control retries A many --dry-run", exitUsage, "many is no number of retries"},
		{"control retries A unlimited", exitDone, "the retries of class A are unlimited until reset"},
		{"control rules", exitDone, "no limit"},
		{"control timeout A -1s", exitUsage, "-1s is no time: it must be one such as 90s"},
		{"control timeout A 5", exitUsage, "5 is no time: it must be one such as 90s"},
		{"control timeout A 5s --for=-1h", exitUsage, "such as 90s, 10m or 2h"},
		{"control limit --class A many", exitUsage, `"many" is no number for a limit of class A: give a number such as 3`},
		{"control limit --class A -3", exitUsage, "is no number for a limit of class A"},
		{"control pause work --for=-1h", exitUsage, "such as 90s, 10m or 2h"},
		{"control profile cpu --for=100ms --to=mailer --key-file=" + key + " -o " + prof, exitDone, " of cpu in "},
		{"control profile heap --to=mailer -o " + prof, exitFailed, "not signed"},
		{"control profile heap --key-file=" + key + " -o " + prof, exitUsage, "profile needs an address"},
		{"control profile cpu --for=6m --to=mailer -o " + prof, exitUsage, "5m at most"},
		{"control profile heap --for=1s -o " + prof, exitUsage, "leave out --for"},
		{"control profile trace -o " + prof, exitUsage, "there is no profile trace"},
		{"control profile heap", exitUsage, "-o FILE"},
		{"control profile heap -o " + filepath.Join(prof, "x"), exitUsage, "there is no directory"},
		{"control shutdown", exitUsage, "no terminal to confirm it at"},
		{"control shutdown --yes", exitFailed, "not signed"},
		{"control shutdown --yes --now --key-file=" + key, exitDone, "stops; 0 jobs run there"},
	} {
		code, out, errs := on(t, s, 80, strings.Fields(c.args)...)
		if code != c.code || !strings.Contains(out+errs, c.out) {
			t.Errorf("%s ends with %d, not %d:\n%s%s", c.args, code, c.code, out, errs)
		}
		if strings.ContainsRune(out+errs, '\x1b') {
			t.Errorf("%s prints what moves a cursor: %q", c.args, out+errs)
		}
	}
	if err := <-ended; err != nil {
		t.Errorf("a shutdown ends it with %v", err)
	}
	if text, err := os.ReadFile(prof); err != nil || !strings.HasPrefix(string(text), "\x1f\x8b") {
		t.Errorf("the file of the profile begins with %.10q: %v", text, err)
	}
	audit := strings.Join(s.List(t, "LRANGE", "resque:go:audit", 0, -1), "\n")
	for _, line := range []string{`"what":"Control shutdown"`, `"why":"slow"`, `"what":"Control flush"`} {
		if !strings.Contains(audit, line) {
			t.Errorf("the audit lacks %s:\n%s", line, audit)
		}
	}
}

// Two numbers that cannot be are refused before anything is sent: there is no Redis here.
func TestRangesOfAutoscale(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{"5..3", "0..5", "-1..5", "5", "5..", "..5", "many", "1..2..3", "1..4097", "on", ""} {
		code, _, errs := run(t, "control", "autoscale", "--uri=redis://127.0.0.1:1", "--", bad)
		if code != exitUsage || !strings.Contains(errs, "two from 1 to 4096, the smaller one first, as in 5..50") {
			t.Errorf("%q ends with %d: %s", bad, code, errs)
		}
	}
	if code, _, errs := run(t, "control", "autoscale", "1..4096", "--for=-1h", "--uri=redis://127.0.0.1:1"); code != exitUsage || !strings.Contains(errs, "above 0") {
		t.Errorf("a time below 0 ends with %d: %s", code, errs)
	}
	if code, _, errs := run(t, "control", "autoscale", "1..4096", "--uri=redis://127.0.0.1:1"); code != exitUnavailable {
		t.Errorf("without a Redis it ends with %d: %s", code, errs)
	}
}
