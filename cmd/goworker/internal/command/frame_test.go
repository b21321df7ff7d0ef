package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/goworker/goworker/internal/redistest"
	"github.com/goworker/goworker/internal/resque"
	"github.com/goworker/goworker/internal/resque/history"
)

// Scripts rely on the exit codes, and on a sentence that says what to do.
func TestExitCodes(t *testing.T) {
	t.Parallel()
	s, hung := redistest.Start(t), redistest.Start(t)
	s.Do(t, "SADD", "resque:queues", "mail", "full")
	s.Do(t, "RPUSH", "resque:queue:full", strings.Repeat("x", 2<<20), "y")
	s.Do(t, "SADD", "resque:workers", "h:1:mail")
	hung.Pause()
	t.Cleanup(hung.Resume)
	contexts := filepath.Join(t.TempDir(), "contexts.yaml")
	text := fmt.Sprintf("here:\n  uri: %s\n  protect: true\n  accept: [35]\nodd:\n  uri: redis://:secret@127.0.0.1:1/\n", s.URI())
	if err := os.WriteFile(contexts, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	lookup := func(name string) (string, bool) {
		value, ok := map[string]string{"REDIS_URL": s.URI(), "GOWORKER_CONTEXTS": contexts}[name]
		return value, ok
	}
	for _, tt := range []struct {
		args string
		code int
		want string // in what it prints, out or errs
	}{
		{"queues", exitDone, "mail"},
		{"--json queues", exitDone, `"queue":"mail"`},
		{"-u redis://127.0.0.1:1/ queues", exitUnavailable, "nothing listens at 127.0.0.1:1"},
		{"queues --context here", exitDone, "mail"},
		{"queues -context=here", exitDone, "mail"},
		{"queues --context nowhere", exitUsage, `has no context "nowhere"; it has here, odd`},
		{"queues --context odd", exitUnavailable, "nothing listens"},
		{"queues --context here -u redis://x", exitUsage, "give one of them"},
		{"queues --uri http://x", exitUsage, "http"},
		{"queues --timeout 0s", exitUsage, "take times above 0"},
		{"queues --colour", exitUsage, "goworker queues --help lists the flags"},
		{"queues sort", exitUsage, "there is no command queues sort; there are "},
		{"queues ls now", exitUsage, "takes flags only"},
		{"queues show", exitUsage, "takes the names of queues"},
		{"queues show nowhere", exitNothing, "there is no queue nowhere"},
		{"queues show mail nowhere", exitPartly, "there is no queue nowhere"},
		{"queues peek mail", exitNothing, "no job waits"},
		{"queues peek full", exitPartly, "--from 1"},
		{"queues peek full --count 0", exitUsage, "--count"},
		{"jobs find class:Nobody", exitNothing, "no job matches"},
		{"jobs find colour:red", exitUsage, "colour"},
		{"jobs show nobody", exitNothing, "nobody"},
		{"failed", exitDone, "there are no failures"},
		{"failed show 0123456789abcdef0123456789ab", exitNothing, "not there"},
		{"failed ls class:Nobody", exitNothing, "no failure matches"},
		{"delayed ls --from soon", exitUsage, "2026-11-24T00:00:00Z"},
		{"delayed show nobody", exitNothing, "nobody"},
		{"workers show nobody", exitNothing, "nobody"},
		{"locks show 0123456789abcdef0123456789abcdef", exitNothing, "0123456789abcdef0123456789abcdef"},
		{"schedule show nobody", exitNothing, "nobody"},
		{"operations show nobody", exitNothing, "nobody"},
		{"audit --count 0", exitUsage, "--count"},
		{"log --count 0", exitUsage, "--count"},
		{"delayed ls --from x class:A", exitUsage, "no page of this search ended there"},
		{"failed ls --from x", exitUsage, "no page of this search ended there"},
		{"failed export --from 5", exitUsage, "no page of this search ended there"},
		{"jobs find class:A --from x", exitUsage, "no page of this search ended there"},
		{"log --from x", exitUsage, "no page of this search ended there"},
		{"queues wait mail maal --empty", exitNothing, "there is no queue maal"},
		{"workers show h:1:mail nobody", exitPartly, "there is no worker nobody"},
		{"history --step second", exitUsage, "minute, 10m, hour or day"},
		{"history --since 1h --class A", exitDone, "there is no history"},
		{"doctor 35", exitFound, `queue "full"`},
		{"doctor 35 --context here", exitDone, "1 accepted"},
		{"doctor 35 --context here --strict", exitDone, "1 accepted"},
		{"doctor 6 --strict", exitWarned, "1 warning"},
		{"doctor 6", exitDone, "1 warning"},
		{"doctor 99", exitUsage, "there is no check 99"},
		{"doctor --fix --read-only", exitUsage, "forbids"},
		{"status --watch=1ms", exitUsage, "at least 200ms"},
		{"config check", exitDone, "it has 2 contexts"},
		{"config print --context here", exitDone, "protected  yes"},
		{"queues --timeout 100ms --budget 100ms -u " + hung.URI(), exitUnavailable, "does not answer"},
	} {
		var o, e output
		code := Run(t.Context(), patient(strings.Fields(tt.args)), lookup, &o, &e)
		if all := o.String() + e.String(); code != tt.code || !strings.Contains(all, tt.want) || strings.Contains(all, "secret") {
			t.Errorf("goworker %s: %d\n%s\nand not %d with %s", tt.args, code, all[:min(len(all), 800)], tt.code, tt.want)
		}
	}
}

// A question that takes longer than --timeout ends with 124 where Redis goes on to answer, and with 69 where it does not.
func TestDeadline(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	s.Do(t, "EVAL", `for i = 1, 50000 do redis.call("RPUSH", KEYS[1], '{"payload":{"class":"A","args":[]},"exception":"E'..i..'","error":"e","worker":"w","queue":"mail"}') end`, 1, "resque:failed")
	slow := s.StartProxy(t)
	slow.Delay(20 * time.Millisecond) // 50 pages of a thousand take a second
	args := []string{"failed", "groups", "--timeout", "400ms", "--budget", "1ms", "-u", "redis://" + slow.Addr}
	redistest.Eventually(t, time.Minute, "the time is over while Redis answers", func() bool { // on a busy machine a connection takes as long
		code, out, errs := run(t, args...)
		return code == exitDeadline && out == "" && strings.Contains(errs, "--timeout is over: Redis answers, so give more time")
	})
	s.Pause()
	t.Cleanup(s.Resume)
	if code, _, errs := run(t, args...); code != exitUnavailable || !strings.Contains(errs, "does not answer") {
		t.Errorf("%d %s", code, errs)
	}
}

// A wait that takes longer than --timeout ends with 124, and says what still waits.
func TestWaitTooLong(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	s.Do(t, "SADD", "resque:queues", "mail", "low")
	s.Do(t, "RPUSH", "resque:queue:mail", jobA, jobB)
	redistest.Eventually(t, time.Minute, "the time is over with two jobs in the queue", func() bool { // on a busy machine it is over before Redis is asked
		code, _, errs := run(t, "queues", "wait", "mail", "--empty", "--timeout", "100ms", "-u", s.URI())
		return code == exitDeadline && strings.Contains(errs, "2 jobs")
	})
}

// Ctrl-C ends a command that waits, and a reader that goes away ends one that prints.
func TestWatchingEnds(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	s.Do(t, "SADD", "resque:queues", "mail")
	lookup := func(name string) (string, bool) {
		uri, ok := map[string]string{"REDIS_URL": s.URI()}[name]
		return uri, ok
	}
	for _, args := range [][]string{{"status", "--watch=200ms"}, {"status", "--watch=200ms", "--json"}, {"status", "--sample=1h"}, {"log", "--follow"}} {
		ctx, cancel := context.WithCancel(t.Context())
		var o, e output
		ended := make(chan int, 1)
		go func() { ended <- Run(ctx, patient(args), lookup, &o, &e) }()
		if args[1] != "--sample=1h" && args[0] == "status" {
			redistest.Eventually(t, time.Minute, "two frames", func() bool { return strings.Count(o.String(), "mail") > 1 })
		}
		cancel()
		if code := <-ended; code != exitInterrupted {
			t.Errorf("%q: %d %s", args, code, e.String())
		}
	}
	if code := Run(t.Context(), []string{"queues"}, lookup, gone{}, &output{}); code == exitDone {
		t.Error("what could not be printed is done")
	}
}

// gone is a reader that has gone away.
type gone struct{}

func (gone) Write([]byte) (int, error) { return 0, errors.New("write: nobody reads") }

// A line that is printed to be pasted means the Redis that was asked, and holds no password.
func TestAimed(t *testing.T) {
	t.Parallel()
	contexts := filepath.Join(t.TempDir(), "contexts.yaml")
	if err := os.WriteFile(contexts, []byte("pro duction:\n  uri: redis://b:1/2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	const own, other = "goworker queues resume -- 'a -- b'", `redis-cli -u "$REDIS_URL" DEL x`
	for _, tt := range []struct{ given, env, line, want string }{
		{"", "redis://a:1", own, own},
		{"", "redis://a:1", other, other},
		{"", "", other, "redis-cli -u redis://localhost:6379/ DEL x"},
		{"--context=pro duction\x00-n\x00a;b:", "redis://a:1", own, "goworker --context 'pro duction' -n 'a;b:' queues resume -- 'a -- b'"},
		{"--context=pro duction", "redis://a:1", other, "redis-cli -u redis://b:1/2 DEL x"},
		{"-u\x00redis://b:1", "redis://a:1", own, "goworker -u redis://b:1 queues resume -- 'a -- b'"},
		{"-u\x00redis://b:1", "redis://a:1", other, "redis-cli -u redis://b:1 DEL x"},
		{"-u\x00redis://a:1", "redis://a:1", other, other},
		{"-u\x00redis://u:secret@b:1", "redis://a:1", own, "goworker -u 'redis://u:***@b:1' queues resume -- 'a -- b'"},
		{"-u\x00redis://u:secret@b:1", "redis://a:1", other, "redis-cli -u 'redis://u:***@b:1' DEL x"},
		{"-u\x00redis://b:1?db=2", "redis://a:1", other, ""},
		{"-u\x00redis://b:1\x00-u\x00redis://c:1", "redis://a:1", own, "goworker -u redis://b:1 -u redis://c:1 queues resume -- 'a -- b'"},
		{"-u\x00redis://b:1\x00-u\x00redis://c:1", "redis://a:1", other, ""},
	} {
		lookup := func(name string) (string, bool) {
			value, ok := map[string]string{"REDIS_URL": tt.env, "GOWORKER_CONTEXTS": contexts}[name]
			return value, ok
		}
		p, got := &program{lookup: lookup}, ""
		c := p.operates(p.long(&cobra.Command{Use: "x", SilenceErrors: true}, func(_ context.Context, o *operator, _ []string) error {
			got = o.aimed(tt.line)
			return nil
		}))
		c.SetArgs(strings.FieldsFunc(tt.given, func(r rune) bool { return r == 0 }))
		if err := c.ExecuteContext(t.Context()); err != nil || got != tt.want {
			t.Errorf("%q: %s, and not %s, %v", tt.given, got, tt.want, err)
		}
	}
}

// Each command that doctor and status print runs under sh without making the canary, and hands over each name as one word: a thousand
// names are traps.
func TestPrintedCommands(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	canary := filepath.Join(dir, "canary")
	s := redistest.Start(t)
	names := thousand(canary)
	for _, name := range names {
		s.Do(t, "SADD", "resque:queues", name)
		s.Do(t, "RPUSH", "resque:queue:"+name, "{}")
		s.Do(t, "SADD", "resque:go:paused", name)
		s.Do(t, "SADD", "resque:workers", name+":1:"+name)
		s.Do(t, "HSET", "resque:workers:heartbeat", name+":1:"+name, "no time")
	}
	var lines []string
	for _, args := range [][]string{{"doctor", "--json"}, {"status", "--json"}} {
		_, out, _ := on(t, s, 80, args...)
		exact(t, out)
		for line := range strings.Lines(out) {
			var f struct {
				Command  string
				Warnings []struct{ Command string }
			}
			if err := json.Unmarshal([]byte(line), &f); err != nil {
				t.Fatal(err)
			}
			lines = append(lines, f.Command)
			for _, w := range f.Warnings {
				lines = append(lines, w.Command)
			}
		}
	}
	lines = slices.DeleteFunc(lines, func(line string) bool { return line == "" })
	if len(lines) < 10 {
		t.Fatalf("only %d commands were printed", len(lines))
	}
	// A function's name may have no dash, so redis-cli is a program.
	tools := t.TempDir()
	if err := os.WriteFile(filepath.Join(tools, "redis-cli"), []byte("#!/bin/sh\nfor a; do printf '<%s>' \"$a\"; done; echo\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	script := "set -e\nPATH=" + tools + ":$PATH\nREDIS_URL=redis://x\ngoworker() { for a; do printf '<%s>' \"$a\"; done; echo; }\n" + strings.Join(lines, "\n") + "\n"
	for _, flags := range [][]string{{"-n"}, nil} {
		run := exec.CommandContext(t.Context(), "sh", flags...)
		run.Dir, run.Stdin = dir, strings.NewReader(script)
		out, err := run.CombinedOutput()
		if err != nil {
			t.Fatalf("sh %q: %v\n%s", flags, err, out)
		}
		if got := strings.Count(string(out), "\n"); flags == nil && got != len(lines) {
			t.Errorf("%d lines ran as %d", len(lines), got)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("a command made %v, %v", left, err)
	}
}

// Completion offers names of queues, but none that a shell would have to quote, and man writes a page for each command.
func TestCompletionAndMan(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	for _, name := range append(hostileNames("x"), "mail", "mail-high", "other") {
		s.Do(t, "SADD", "resque:queues", name)
	}
	_, out, _ := run(t, "__complete", "queues", "show", "-u", s.URI(), "mail", "")
	if out != "mail-high\nother\n:4\n" {
		t.Errorf("completion offers %q", out)
	}
	file := filepath.Join(t.TempDir(), "contexts.yaml")
	if err := os.WriteFile(file, []byte("shop:\n  uri: redis://x\nship:\n  uri: redis://y\n\"a b\":\n  uri: redis://z\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var o, e output
	named := func(name string) (string, bool) { return file, name == "GOWORKER_CONTEXTS" }
	if Run(t.Context(), []string{"__complete", "queues", "ls", "--context", "sh"}, named, &o, &e); o.String() != "ship\nshop\n:4\n" {
		t.Errorf("completion offers the contexts %q, %s", o.String(), e.String())
	}
	if code, script, _ := run(t, "completion", "bash"); code != exitDone || !strings.Contains(script, "__goworker") {
		t.Errorf("completion: %d %.200s", code, script)
	}
	dir := filepath.Join(t.TempDir(), "man")
	if code, _, errs := run(t, "man", dir); code != exitDone {
		t.Fatal(errs)
	}
	page, err := os.ReadFile(filepath.Join(dir, "goworker-queues-peek.1"))
	if err != nil || !strings.Contains(string(page), "--tail") || strings.Contains(string(page), "0001") {
		t.Errorf("%v\n%s", err, page)
	}
}

// thousand are a thousand names, each of which wants something of a shell.
func thousand(canary string) []string {
	traps := hostileNames(canary)
	var names []string
	for n := range 1000 {
		names = append(names, fmt.Sprint(traps[n%len(traps)], n, traps[(n/len(traps))%len(traps)]))
	}
	return names
}

// Where jobs usually wait for long, status says nothing of one that waits as long as ever.
func TestUsualWaits(t *testing.T) {
	t.Parallel()
	s := fleet(t)
	const line = `the oldest job of queue "mail" has waited`
	if _, out, errs := on(t, s, 0, "status"); !strings.Contains(out, line) {
		t.Fatalf("it does not say that a job has waited for three hours:\n%s%s", out, errs)
	}
	store, span := history.New(resque.New("")), history.Spans[1]
	for n := range 100 {
		row := history.Row{Queues: map[string]*history.Queue{"mail": {Age: history.Level{Seen: 1, Sum: 3_600_000, Most: 3_600_000}}}}
		s.Do(t, "SET", store.TenMinutesKey(span.Number(time.Now())-int64(n)).String(), row.Encode(nil))
	}
	if _, out, errs := on(t, s, 0, "status"); strings.Contains(out, line) || !strings.Contains(out, "mail") {
		t.Errorf("three hours are long where one hour is usual:\n%s%s", out, errs)
	}
}
