package main

import (
	"fmt"
	"os"
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
		workers [2]string // "event id ms" each; the first worker was killed at 1000 ms
		want    string    // of the sum
		says    string
	}{
		{"done", "a j", [2]string{"", "s j 0,e j 5"}, "pushed=1 done=1 failed=0 lost=0 twice=0", ""},
		{"never ran", "a j", [2]string{}, "pushed=1 done=0 failed=0 lost=1 twice=0", "LOST: j"},
		{"ran without an end", "a j", [2]string{"", "s j 0"}, "pushed=1 done=0 failed=0 lost=1 twice=0", "without an outcome"},
		{"unknown and not there", "u j", [2]string{}, "pushed=0 done=0 failed=0 lost=0 twice=0", ""},
		{"unknown and there", "u j", [2]string{"", "s j 0,e j 5"}, "pushed=1 done=1 failed=0 lost=0 twice=0", ""},
		{"refused and there", "r j", [2]string{"", "s j 0,e j 5"}, "pushed=0 done=0 failed=0 lost=0 twice=0", "refused, and yet it ran"},
		{"killed at it", "a j", [2]string{"s j 900", "s j 9000,e j 9005"}, "pushed=1 done=1 failed=0 lost=0 twice=1", "1 its process died"},
		{"finished long before the kill", "a j", [2]string{"s j -9000,e j -8000", "s j 9000,e j 9005"},
			"pushed=1 done=1 failed=0 lost=0 twice=1", "UNEXPLAINED: j"},
		{"run again while its process lived", "a j", [2]string{"s j 0", "s j 500,e j 600"},
			"pushed=1 done=1 failed=0 lost=0 twice=1", "UNEXPLAINED: j"},
		{"failed, and not filed", "a j", [2]string{"", "s j 0,f j 5"}, "pushed=1 done=0 failed=0 lost=1 twice=0", "LOST: j"},
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
					var ms int
					_, _ = fmt.Sscan(e, &kind, &id, &ms)
					lines = append(lines, kind+"\t"+id+"\t"+at(ms)+"\n")
				}
				if err := os.WriteFile(a.ledger(name), []byte(strings.Join(lines, "")), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			write("producer", test.pushes)
			write("w0", test.workers[0])
			write("w1", test.workers[1])
			a.must("SET", "resque:stat:processed", strings.Count(test.want, "done=1"))
			r := a.join()
			if r.sum() != test.want {
				t.Errorf("%s, want %s", r.sum(), test.want)
			}
			row := r.row()
			if !strings.Contains(row, test.says) {
				t.Errorf("it does not say %q:\n%s", test.says, row)
			}
			shouldFail := strings.ContainsAny(test.says, "LU") || strings.Contains(test.says, "yet") || strings.Contains(test.says, "without")
			if r.bad() != shouldFail {
				t.Errorf("bad: %v:\n%s", r.bad(), row)
			}
		})
	}
}
