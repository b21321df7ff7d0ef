package mixed

import (
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/goworker/goworker/internal/redistest"
)

// sent returns the commands that an idle process of a program sends in the time of ten renewals of its lease, by what they do.
func (f *fleet) sent(program string) map[string]int {
	f.t.Helper()
	p := f.start(program, "idle")
	f.push("Note", "warm")
	f.ran("warm")
	if program == f.newer { // the job is counted within ten seconds; after that there is nothing to count
		f.eventually("the job is in the history", func() bool {
			return f.redis.Int(f.t, "EXISTS", "resque:go:folded") == 1 && f.redis.Int(f.t, "LLEN", "resque:go:tally") == 0
		})
	}
	monitor := f.redis.Monitor(f.t)
	var commands [][]string
	var renewals []int // their places among the commands
	f.eventually("the lease is renewed often", func() bool {
		time.Sleep(200 * time.Millisecond) // each look is two commands
		commands, renewals = monitor.Commands(), nil
		for i, c := range commands {
			if slices.Contains(c, "resque:go:pulse") && strings.HasPrefix(c[0], "EVAL") {
				renewals = append(renewals, i)
			}
		}
		return len(renewals) > 12
	})
	p.end(syscall.SIGKILL)
	counts := make(map[string]int)
	for _, c := range commands[renewals[2]:renewals[12]] {
		what := c[0]
		if strings.HasPrefix(what, "EVAL") && len(c) > 3 {
			what += " " + strings.Join(strings.SplitN(c[3]+"::", ":", 4)[:3], ":")
		}
		if what != "PING" { // the monitor's
			counts[what]++
		}
	}
	return counts
}

// idle shows that an idle process sends nothing that one of the older release does not send, and not more of it, though it keeps
// the ages of queues.
func (f *fleet) idle() {
	var before, now map[string]int
	f.t.Run("each alone", func(t *testing.T) {
		for program, sent := range map[string]*map[string]int{f.older: &before, f.newer: &now} {
			t.Run(filepath.Base(program), func(t *testing.T) {
				t.Parallel()
				*sent = (&fleet{t: t, programs: f.programs, redis: redistest.Start(t)}).sent(program)
			})
		}
	})
	if f.t.Failed() {
		return
	}
	f.t.Logf("before %v, now %v", before, now)
	all := 0
	for what, n := range now {
		if all += n; n > before[what]+1 { // what comes each minute or each twenty seconds may fall into the time, or not
			f.t.Errorf("an idle process sends %s %d times in ten renewals, and sent it %d times before", what, n, before[what])
		}
	}
	for _, n := range before {
		all -= n
	}
	if all > 2 {
		f.t.Errorf("an idle process sends %d commands more than before in ten renewals", all)
	}
}
