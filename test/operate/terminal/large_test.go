package terminal

import (
	"errors"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/goworker/goworker/internal/redistest"
)

// large is a Redis of 10,000 workers, 500 queues and a million jobs, in which only Ruby works.
func large(t *testing.T) *redistest.Server {
	s := redistest.Start(t)
	s.Do(t, "EVAL", `
		for q = 0, 499 do
			local name = string.format('queue-%03d', q)
			redis.call('SADD', 'resque:queues', name)
			for n = 1, 20 do
				local jobs = {}
				for j = 1, 100 do jobs[j] = '{"class":"Job' .. q .. '","args":[' .. n .. ',' .. j .. ']}' end
				redis.call('RPUSH', 'resque:queue:' .. name, unpack(jobs))
			end
		end`, 0)
	s.Do(t, "EVAL", `
		for w = 0, 9999 do
			local id = 'host-' .. w .. ':' .. w .. string.format(':queue-%03d', w % 500)
			redis.call('SADD', 'resque:workers', id)
			redis.call('SET', 'resque:worker:' .. id .. ':started', '2026-11-22 10:00:00 +0000')
			redis.call('HSET', 'resque:workers:heartbeat', id, '2036-11-22T10:00:00+00:00')
			redis.call('SET', 'resque:stat:processed:' .. id, w)
		end`, 0)
	return s
}

// Where a million jobs wait and 10,000 of Ruby's workers are registered, each reading verb answers within its own deadline, and says so where
// it has not seen all.
func TestLargeFleet(t *testing.T) {
	t.Parallel()
	s := large(t)
	for _, tt := range []struct {
		args string
		want string
		code []int
	}{
		{"status", "waiting 1,000,000", []int{0}}, {"status --json", `"waiting":1000000`, []int{0}}, {"queues ls", "queue-499", []int{0}}, {"queues show queue-007", "2,000", []int{0}},
		{"queues peek queue-007 --from 1000", "Job7(", []int{0}}, {"queues peek queue-007 --tail", "Job7(20, 100)", []int{0}}, {"workers ls", "host-9999", []int{0}},
		{"workers show host-77:77:queue-077", "queue-077", []int{0}}, {"processes ls", "", []int{0}}, {"jobs find class:Job499 --count 1 --budget 10m", "Job499(", []int{0}},
		{"jobs find class:Nobody --budget 100ms", "", []int{4}}, {"jobs find class:Nobody --budget 10m", "no job matches", []int{3}}, {"failed groups", "", []int{0}},
		{"delayed ls", "", []int{0}}, {"locks ls --budget 10m", "", []int{0}}, {"doctor --budget 10m", "checks:", []int{0, 5}},
		{"doctor 41 --budget 1ms --strict", "", []int{6}},
	} {
		run := exec.CommandContext(t.Context(), binary, strings.Fields(tt.args)...)
		run.Env = []string{"REDIS_URL=" + s.URI(), "HOME=" + t.TempDir()}
		out, err := run.CombinedOutput()
		code, exit := 0, new(exec.ExitError)
		if errors.As(err, &exit) {
			code = exit.ExitCode()
		} else if err != nil {
			t.Fatal(err)
		}
		if !slices.Contains(tt.code, code) || !strings.Contains(string(out), tt.want) {
			t.Errorf("goworker %s: %d, and not one of %v with %q\n%.2000s", tt.args, code, tt.code, tt.want, out)
		}
	}

	x := open(t, 80, 24, s.URI())
	x.line("goworker status --watch=300ms; echo it ended with $?")
	x.shows(`(?m)^queue-000 +2,000 `)
	x.tmux("send-keys", "-l", "/499")
	x.shows(`(?m)^queue-499 +2,000 `)
	x.key("C-c")
	x.shows(`(?m)^it ended with 130`)
}
