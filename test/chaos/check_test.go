package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// The checker finds what it is there to find.
func TestChecker(t *testing.T) {
	opts := options{dir: t.TempDir()}
	now := time.Now()
	at := func(ms int) string { return fmt.Sprint(now.Add(time.Duration(ms) * time.Millisecond).UnixNano()) }
	tests := []struct {
		name    string
		pushes  string
		workers [2]string // "event id ms attempt" each; the first worker was killed at 1000 ms
		want    string    // of the sum
		says    string
		orders  []order
	}{
		{"done", "a j", [2]string{"", "s j 0,e j 5"}, "pushed=1 done=1 failed=0 lost=0 twice=0", "", nil},
		{"never ran", "a j", [2]string{}, "pushed=1 done=0 failed=0 lost=1 twice=0", "LOST: j", nil},
		{"ran without an end", "a j", [2]string{"", "s j 0"}, "pushed=1 done=0 failed=0 lost=1 twice=0", "LOST: j, which ran without an outcome", nil},
		{"unknown and not there", "u j", [2]string{}, "pushed=0 done=0 failed=0 lost=0 twice=0", "", nil},
		{"unknown and there", "u j", [2]string{"", "s j 0,e j 5"}, "pushed=1 done=1 failed=0 lost=0 twice=0", "", nil},
		{"refused and there", "r j", [2]string{"", "s j 0,e j 5"}, "pushed=0 done=0 failed=0 lost=0 twice=0", "WRONG: the push of job j was refused, and yet it ran", nil},
		{"killed at it", "a j", [2]string{"s j 900", "s j 9000,e j 9005"}, "pushed=1 done=1 failed=0 lost=0 twice=1", "1 its process died", nil},
		{"finished long before the kill", "a j", [2]string{"s j -9000,e j -8000", "s j 9000,e j 9005"},
			"pushed=1 done=1 failed=0 lost=0 twice=1", "UNEXPLAINED: j", nil},
		{"run again while its process lived", "a j", [2]string{"s j 0", "s j 500,e j 600"},
			"pushed=1 done=1 failed=0 lost=0 twice=1", "UNEXPLAINED: j", nil},
		{"retried", "a j", [2]string{"", "s j 0 1,f j 5,s j 9 2,e j 10"}, "pushed=1 done=1 failed=0 lost=0 twice=0", "1 retries",
			[]order{{job: job{"j", "Again", 0}, fails: 1}}},
		{"retried too often", "a j", [2]string{"", "s j 0 1,f j 5,s j 9 2,e j 10"}, "pushed=1 done=1 failed=0 lost=0 twice=0",
			"WRONG: job j was tried 2 times, not 1", []order{{job: job{"j", "Again", 0}}}},
		{"retried too seldom", "a j", [2]string{"", "s j 0 1,e j 5"}, "pushed=1 done=1 failed=0 lost=0 twice=0",
			"WRONG: job j was tried 1 times only, not 2", []order{{job: job{"j", "Again", 0}, fails: 1}}},
		{"retried without having failed", "a j", [2]string{"", "s j 0 1,s j 9 2,e j 10"}, "pushed=1 done=1 failed=0 lost=0 twice=0",
			"WRONG: job j was tried for the 2. time", []order{{job: job{"j", "Again", 0}, fails: 1}}},
		{"too early", "a j", [2]string{"", "s j 0,e j 5"}, "pushed=1 done=1 failed=0 lost=0 twice=0",
			"before its time", []order{{job: job{"j", "Nap", 0}, at: now.Add(time.Millisecond)}}},
		{"replaced by one that ran", "a j,t k", [2]string{"", "s k 0,e k 5"}, "pushed=2 done=1 failed=0 lost=0 twice=0",
			"1 expired or replaced", []order{{job: job{"j", "Nap", 0}, unique: "a"}, {job: job{"k", "Nap", 0}, unique: "a", swaps: true}}},
		{"expired when its process had died", "a j", [2]string{"s j 990,e j 995", "x j 9000"}, "pushed=1 done=0 failed=0 lost=0 twice=0",
			"1 expired or replaced", []order{{job: job{"j", "Nap", 0}, expires: now.Add(time.Hour)}}},
		{"replaced by one that is nowhere", "a j,t k", [2]string{}, "pushed=1 done=0 failed=0 lost=1 twice=0", "LOST: j",
			[]order{{job: job{"j", "Nap", 0}, unique: "a"}, {job: job{"k", "Nap", 0}, unique: "a", swaps: true}}},
		{"two with one key at once", "a j,a k", [2]string{"", "s j 0,s k 5,e k 6,e j 7"}, "pushed=2 done=2 failed=0 lost=0 twice=0",
			"WRONG: 2 ran at once", []order{{job: job{"j", "Turn", 0}, key: "a"}, {job: job{"k", "Turn", 0}, key: "a"}}},
		{"two with two keys at once", "a j,a k", [2]string{"", "s j 0,s k 5,e k 6,e j 7"}, "pushed=2 done=2 failed=0 lost=0 twice=0",
			"", []order{{job: job{"j", "Turn", 0}, key: "a"}, {job: job{"k", "Turn", 0}, key: "b"}}},
		{"two with one lock at once", "a j,a k", [2]string{"s j 990", "s k 995,e k 996,s j 9000,e j 9005"},
			"pushed=2 done=2 failed=0 lost=0 twice=1", "WRONG: 2 ran at once",
			[]order{{job: job{"j", "Nap", 0}, unique: "a"}, {job: job{"k", "Nap", 0}, unique: "a"}}},
		{"two with one lock one after the other", "a j,a k", [2]string{"s j 990", "s j 9000,e j 9005,s k 9006,e k 9007"},
			"pushed=2 done=2 failed=0 lost=0 twice=1", "1 its process died",
			[]order{{job: job{"j", "Nap", 0}, unique: "a"}, {job: job{"k", "Nap", 0}, unique: "a"}}},
		{"failed, and not filed", "a j", [2]string{"", "s j 0,f j 5"}, "pushed=1 done=0 failed=0 lost=1 twice=0", "LOST: j", nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			a := newArena(opts, "checker", "", nil)
			defer a.close()
			exited := make(chan struct{})
			close(exited)
			a.fleet = []*process{
				{a: a, name: "w0", exited: exited, died: now.Add(time.Second), status: -1},
				{a: a, name: "w1", exited: exited, died: now.Add(time.Hour)},
			}
			write := func(name, events string) {
				var lines []string
				for _, e := range strings.FieldsFunc(events, func(r rune) bool { return r == ',' }) {
					var kind, id string
					var ms, attempt int
					_, _ = fmt.Sscan(e, &kind, &id, &ms, &attempt)
					lines = append(lines, fmt.Sprintf("%s\t%s\t%s\t%d,1\n", kind, id, at(ms), max(attempt, 1)))
				}
				if err := os.WriteFile(a.ledger(name), []byte(strings.Join(lines, "")), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			write("producer", test.pushes)
			write("w0", test.workers[0])
			write("w1", test.workers[1])
			a.expect(test.orders...)
			var done int
			_, _ = fmt.Sscanf(test.want[strings.Index(test.want, "done="):], "done=%d", &done)
			a.must("SET", "resque:stat:processed", done+strings.Count(test.workers[1], " 2"))
			a.must("HSET", "resque:go:stats", "expired", strings.Count(test.workers[1], "x"))
			r := a.join()
			if r.sum() != test.want {
				t.Errorf("%s, want %s", r.sum(), test.want)
			}
			row := r.row()
			if !strings.Contains(row, test.says) {
				t.Errorf("it does not say %q:\n%s", test.says, row)
			}
			shouldFail := strings.Contains(test.says, ": ") || strings.HasPrefix(test.says, "before")
			if r.bad() != shouldFail {
				t.Errorf("bad: %v:\n%s", r.bad(), row)
			}
		})
	}
}

// The caller of every script is killed at its boundaries.
func TestEveryScriptHasBoundaries(t *testing.T) {
	a := newArena(options{dir: t.TempDir()}, "scripts", "", nil)
	defer a.close()
	for name := range a.scripts() {
		name = countedAs(name)
		reached := slices.ContainsFunc(killed, func(b boundary) bool { return b.script == name }) ||
			slices.ContainsFunc(httpBoundaries, func(b httpBoundary) bool { return b.script == name })
		if !reached && !slices.Contains(unreached, name) {
			t.Errorf("the script %s has no boundary", name)
		}
	}
}

func TestTickChecker(t *testing.T) {
	a := newArena(options{dir: t.TempDir()}, "ticks", "", nil)
	defer a.close()
	a.tickEvery = 2
	for _, second := range []int{2, 4, 4, 8} {
		a.must("RPUSH", "resque:queue:ticks", fmt.Sprintf(`{"class":"Tick","args":["cron","2026-11-21T03:00:%02dZ"]}`, second))
	}
	r := newResult()
	a.checkTicks(&r)
	if r.pushed != 4 || r.done != 3 || len(r.lost) != 1 || len(r.unexplained) != 1 {
		t.Errorf("of ticks 2, 4, 4, 8 it says: %+v", r)
	}
}
