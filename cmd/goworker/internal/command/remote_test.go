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
		{"inspect ping mail*", exitDone, "up "},
		{"inspect ping other", exitNothing, "no process has such an id"},
		{"inspect ping --json", exitDone, `"state":"answered"`},
		{"inspect conf mailer", exitDone, "name=Concurrency  value=2"},
		{"inspect stacks", exitPartly, "needs an address"},
		{"inspect stacks mailer", exitDone, "goroutines: "},
		{"inspect report", exitDone, "name=lease"},
		{"inspect queues", exitDone, "queues: work"},
		{"inspect active", exitDone, "mailer"},
		{"inspect active --args", exitPartly, "not signed"},
		{"inspect active --args --key-file=" + key, exitDone, ""},
		{"inspect ping --read-only", exitDone, "workers"},
		{"inspect nothing", exitUsage, "there is no command inspect nothing"},
		{"inspect verbs", exitDone, "level=full  name=flush"},
		{"control flush", exitUsage, "to call a verb that the program has added: goworker control call flush"},
		{"control call nope", exitNothing, "no process knows the verb nope; they know active, "},
		{"control call nope --yes --to mail*", exitNothing, "no process knows the verb nope"},
		{"control call nope --to other", exitNothing, "no process has such an id"},
		{"control call flush", exitUsage, "no terminal to confirm it at"},
		{"inspect call flush", exitPartly, "not signed"},
		{"control call flush {} --yes --key-file=" + key, exitDone, "text: two\n    lines"},
		{"control call flush { --yes", exitUsage, "no JSON"},
		{"control pause", exitUsage, "needs queues, --class or --self"},
		{"control pause --self --read-only", exitUsage, "read-only"},
		{"control pause --self --dry-run", exitDone, "This would pause 1 process."},
		{"control pause --self --to other", exitNothing, "no process"},
		{"control pause --self --why=slow", exitDone, "ready: "},
		{"control resume --self", exitDone, "ready: "},
		{"control concurrency 1 --for 1h", exitDone, "for: 3600"},
		{"control concurrency 1 --for 200h", exitPartly, "168h0m0s at most"},
		{"control concurrency 1", exitDone, "to: 1"},
		{"control concurrency +1", exitDone, "from: 1"},
		{"control concurrency 3", exitPartly, "not signed"},
		{"control concurrency +1 --key-file=" + key, exitDone, "to: 3"},
		{"control concurrency --key-file=" + key + " -- -2", exitDone, "to: 1"},
		{"control concurrency many", exitPartly, "it must be a number"},
		{"control autoscale 1..2 --for=1h", exitDone, "to: 1..2"},
		{"inspect stats", exitDone, "autoscale"},
		{"control concurrency 1", exitDone, "autoscale_fixed: true"},
		{"control autoscale 1..9", exitPartly, "not signed"},
		{"control call autoscale {\"bounds\":\"9..1\"} --yes --key-file=" + key, exitPartly, "as in 5..50"},
		{"control autoscale off", exitDone, "from: 1..1"},
		{"control queues add mail", exitPartly, "not signed"},
		{"control queues", exitDone, "Have processes work more queues"},
		{"control queues add", exitUsage, "queues as -queues takes them"},
		{"control queues add mail=2 slow --key-file=" + key, exitDone, "to: work=1,mail=2,slow=1"},
		{"inspect queues", exitDone, "queues: work=1,mail=2,slow=1"},
		{"inspect conf mailer", exitDone, "name=QueuesString  value=work=1,mail=2,slow=1"},
		{"control queues rm slow,mail --key-file=" + key, exitDone, "settings: work"},
		{"control queues rm mail --key-file=" + key, exitPartly, "has no \"mail\""},
		{"control queues rm work --key-file=" + key, exitPartly, "at least one queue"},
		{"control queues set h* !high --key-file=" + key, exitDone, "to: h*,!high"},
		{"control call work-queues {} --yes --key-file=" + key, exitPartly, "must have one of"},
		{"control log debug", exitPartly, "its own logger"},
		{"control profile cpu --for=100ms --to=mailer --key-file=" + key + " -o " + prof, exitDone, "file: " + prof},
		{"control profile heap --to=mailer -o " + prof, exitPartly, "not signed"},
		{"control profile heap --key-file=" + key + " -o " + prof, exitPartly, "needs an address"},
		{"control profile heap --for=1s -o " + prof, exitUsage, "leave out --for"},
		{"control profile trace -o " + prof, exitUsage, "there is no profile trace"},
		{"control profile heap", exitUsage, "-o FILE"},
		{"control profile heap -o " + filepath.Join(prof, "x"), exitUsage, "there is no directory"},
		{"control shutdown", exitUsage, "no terminal to confirm it at"},
		{"control shutdown --yes", exitPartly, "not signed"},
		{"control shutdown --yes --now --key-file=" + key, exitDone, "mailer"},
	} {
		code, out, errs := on(t, s, 80, strings.Fields(c.args)...)
		if c.out == "mailer" { // the id of the process
			c.out = ":"
		}
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
