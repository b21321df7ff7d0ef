//go:build unix

package webhook_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goworker/goworker/events"
	"github.com/goworker/goworker/internal/daemontest"
	"github.com/goworker/goworker/internal/redistest"
	"github.com/goworker/goworker/webhook"
)

// program writes a program of sh, and returns its path.
func program(t *testing.T, lines string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+lines), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

// A program gets the delivery on its standard input, and nothing of a job elsewhere. Its own words are its arguments.
func TestExec(t *testing.T) {
	t.Parallel()
	f, dir := setup(t), t.TempDir()
	path := program(t, `test "$1" = --room && test "$2" = ops && test $# = 2 || exit 3
env > `+dir+`/env
cat > `+dir+`/body.tmp && mv `+dir+`/body.tmp `+dir+`/body.$$
`)
	f.run(f.client, webhook.Settings{URL: "exec:" + path + " --room ops", NoNotices: true}, nil)
	f.heard()
	id := f.fail(1)[0]
	redistest.Eventually(t, daemontest.Soon, "the program gets the failure", func() bool {
		bodies, _ := filepath.Glob(dir + "/body.[0-9]*")
		return slices.ContainsFunc(bodies, func(name string) bool {
			var b webhook.Body
			raw, err := os.ReadFile(name)
			return err == nil && json.Unmarshal(raw, &b) == nil && slices.ContainsFunc(b.Events, func(i webhook.Item) bool { return i.Job == id && i.Kind == events.Failed })
		})
	})
	env, err := os.ReadFile(dir + "/env")
	if err != nil || strings.Contains(string(env), "Fails") || strings.Contains(string(env), webhook.KeyVariable) {
		t.Errorf("%v:\n%s", err, env)
	}
}

// A program that fails, or does not end, is a failed try. Its whole process group is killed.
func TestExecFails(t *testing.T) {
	t.Parallel()
	f, dir := setup(t), t.TempDir()
	fails := program(t, `cat > /dev/null
if [ ! -e `+dir+`/failed ]; then touch `+dir+`/failed; echo "no chat today" >&2; exit 7; fi
`)
	_, stop := f.run(f.client, webhook.Settings{URL: "exec:" + fails, NoNotices: true}, nil)
	f.heard()
	redistest.Eventually(t, daemontest.Soon, "the log says why", func() bool { return f.log.Count("exit status 7: no chat today") == 1 })
	redistest.Eventually(t, daemontest.Soon, "it is delivered", func() bool { return f.redis.Int(t, "XLEN", stream) == 0 })
	stop()

	hangs := program(t, `cat > /dev/null
if [ ! -e `+dir+`/hung ]; then sh -c 'echo $$ > `+dir+`/hung; exec sleep 1000'; fi
`)
	f.run(f.client, webhook.Settings{URL: "exec:" + hangs, NoNotices: true}, func(d *webhook.Deliverer) {
		d.Hurry(time.Millisecond, 10, slices.Repeat([]time.Duration{50 * time.Millisecond}, 1000)...)
		d.Within(time.Second)
	})
	f.fail(1)
	redistest.Eventually(t, daemontest.Soon, "it is delivered after the program was killed", func() bool {
		_, err := os.Stat(dir + "/hung")
		return err == nil && f.redis.Int(t, "XLEN", stream) == 0
	})
	if n := f.log.Count("had not ended after 1s, and was killed"); n == 0 {
		t.Error("the log does not say that the program was killed")
	}
	pid, err := os.ReadFile(dir + "/hung")
	if err != nil {
		t.Fatal(err)
	}
	redistest.Eventually(t, daemontest.Soon, "what the program has started is killed", func() bool {
		state, err := os.ReadFile("/proc/" + strings.TrimSpace(string(pid)) + "/stat")
		return err != nil || strings.Contains(string(state), ") Z ")
	})
}

// What a program leaves in the background ends with the program, and with the deliverer.
func TestExecLeavesNothing(t *testing.T) {
	t.Parallel()
	f, dir := setup(t), t.TempDir()
	ended := func(what string) {
		t.Helper()
		redistest.Eventually(t, daemontest.Soon, what+" is killed", func() bool {
			pid, err := os.ReadFile(dir + "/" + what)
			if err != nil || len(pid) == 0 {
				return false
			}
			state, err := os.ReadFile("/proc/" + strings.TrimSpace(string(pid)) + "/stat")
			return err != nil || strings.Contains(string(state), ") Z ")
		})
	}
	leaves := program(t, `cat > /dev/null
sleep 1000 > /dev/null 2>&1 &
echo $! > `+dir+`/left
yes | head -c 10000000
`)
	_, stop := f.run(f.client, webhook.Settings{URL: "exec:" + leaves, NoNotices: true}, nil)
	f.heard()
	redistest.Eventually(t, daemontest.Soon, "it is delivered", func() bool { return f.redis.Int(t, "XLEN", stream) == 0 })
	ended("left")
	stop()

	hangs := program(t, `sleep 1000 &
echo $! > `+dir+`/child
echo $$ > `+dir+`/hung.tmp && mv `+dir+`/hung.tmp `+dir+`/hung
wait
`)
	_, stop = f.run(f.client, webhook.Settings{URL: "exec:" + hangs, NoNotices: true}, func(d *webhook.Deliverer) { d.Within(time.Hour) })
	f.fail(1)
	redistest.Eventually(t, daemontest.Soon, "the program runs", func() bool {
		_, err := os.Stat(dir + "/hung")
		return err == nil
	})
	stop()
	ended("hung")
	ended("child")
	if n := f.redis.Int(t, "XLEN", stream); n == 0 {
		t.Error("what the program had not ended with counts as delivered")
	}
}
