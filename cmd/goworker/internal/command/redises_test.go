package command

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/goworker/goworker/internal/redistest"
)

// With several Redises each verb asks all of them, and each row says where it is, in JSON too. One that does not answer hides no other: what the others
// have is printed, and the command ends with 69. A verb that takes one Redis says so.
func TestSeveralRedises(t *testing.T) {
	t.Parallel()
	a, b := redistest.Start(t), redistest.Start(t)
	port := func(s *redistest.Server) string { return s.Addr[strings.LastIndexByte(s.Addr, ':')+1:] }
	for n, s := range []*redistest.Server{a, b} {
		class := string(rune('A' + n))
		s.Do(t, "SADD", "resque:queues", "mail", "only"+class)
		s.Do(t, "RPUSH", "resque:queue:mail", `{"class":"`+class+`","args":[]}`)
		s.Do(t, "RPUSH", "resque:queue:only"+class, `{"class":"`+class+`","args":[]}`)
		s.Do(t, "RPUSH", "resque:failed", `{"failed_at":"2026/11/21 12:00:00 UTC","payload":{"class":"`+class+`","args":[]},"exception":"E`+class+`","error":"e","backtrace":[],"worker":"w","queue":"mail"}`)
		s.Do(t, "SADD", "resque:workers", "bad"+class, "h"+class+":1:mail")
		s.Do(t, "HSET", "resque:persistent_schedules", "nightly"+class, `{"class":"Report","every":"1h","queue":"low"}`)
		s.Do(t, "ZADD", "resque:go:schedule", 1_900_000_000_000, `4:mail{"class":"Later`+class+`","args":[],"id":"later"}`)
		s.Do(t, "HSET", "resque:go:limits", "c:Mail"+class, "3")
		s.Do(t, "HSET", "resque:go:unique:"+strings.Repeat(class, 32), "x", lockOf("x", `{"class":"`+class+`","id":"x"}`))
		s.Do(t, "ZADD", "resque:go:cancelled", 1_900_000_000_000, "j:cancelled"+class)
		s.Do(t, "ZADD", "resque:go:processes", 1_900_000_000_000, "web-"+class+":722:be04")
		s.Do(t, "HSET", "resque:go:process:web-"+class+":722:be04", "host", "web", "pid", 722, "version", "v0.9.0", "queues", "mail", "concurrency", 1)
		plantPast(t, s)
	}
	for _, tt := range []struct {
		args   string
		code   int
		on     []string // texts of rows; * is A, and B: each is printed, in the row of its Redis unless of is "sum"
		of     string
		object bool // its rows in JSON name the shard
	}{
		{args: "status", on: []string{"only*", `!`}, object: true},
		{args: "queues", on: []string{"only*"}, object: true},
		{args: "queues peek only*", on: []string{"*()"}, object: true},
		{args: "jobs find class:*", on: []string{"*()"}, object: true},
		{args: "jobs show later", on: []string{"Later*"}, of: "sum", object: true},
		{args: "failed", on: []string{"E*: e"}, object: true},
		{args: "failed groups", on: []string{"E*"}, of: "sum"},
		{args: "delayed", on: []string{"Later*()"}, object: true},
		{args: "schedule", on: []string{"nightly*"}, object: true},
		{args: "workers", on: []string{"h*:1:mail"}, object: true},
		{args: "processes", on: []string{"web-*:722:be04"}, object: true},
		{args: "limits", on: []string{"Mail*"}, object: true},
		{args: "locks", on: []string{"********************************"}, object: true},
		{args: "cancelled", on: []string{"cancelled*"}, object: true},
		{args: "log", on: []string{"v0.9.0"}, object: true},
		{args: "audit", on: []string{"ops@"}, object: true},
		{args: "bin", on: []string{"queue old"}, object: true},
		{args: "operations", on: []string{"remove"}, of: "sum"},
		{args: "history --step hour --since 6h", on: []string{":00:00Z"}, of: "sum"},
		{args: "doctor 24", code: exitFound, on: []string{`"bad*"`}, object: true},
	} {
		for n, s := range []*redistest.Server{a, b} {
			class := string(rune('A' + n))
			args := strings.Fields(strings.ReplaceAll(tt.args, "only*", "only"+class))
			for _, away := range []bool{false, true} {
				uris, want := []string{"-u", a.URI(), "-u", b.URI()}, tt.code
				if away { // before the one that answers
					uris, want = []string{"-u", "redis://127.0.0.1:1 " + s.URI()}, exitUnavailable
				}
				code, out, errs := run(t, append(args, uris...)...)
				if code != want || away && !strings.Contains(errs, "shard redis://127.0.0.1:1: ") {
					t.Errorf("%s, one away %v: %d and not %d\n%s%s", tt.args, away, code, want, out, errs)
				}
				for _, text := range tt.on {
					text = strings.ReplaceAll(text, "*", class)
					found := false
					for line := range strings.Lines(out) {
						found = found || strings.Contains(line, text) && (tt.of == "sum" || strings.Contains(line, port(s)))
					}
					if !found {
						t.Errorf("%s, one away %v: no row has %s and %s:\n%s%s", tt.args, away, text, port(s), out, errs)
					}
				}
				code, out, errs = run(t, append(append(args, "--json"), uris...)...)
				named := false
				for line := range strings.Lines(out) {
					var object struct{ Shard string }
					if err := json.Unmarshal([]byte(line), &object); err != nil {
						t.Errorf("%s: %v: %s", tt.args, err, line)
					}
					named = named || object.Shard == s.URI()
				}
				if code != want || named != tt.object {
					t.Errorf("%s --json, one away %v: %d and not %d, a row names the shard: %v\n%s%s", tt.args, away, code, want, named, out, errs)
				}
			}
		}
	}
	both := []string{"-u", a.URI(), "-u", b.URI()}
	for _, tt := range []struct {
		args string
		code int
		want string
	}{
		{"queues show mail", exitDone, "on " + port(b)},
		{"queues pause mail", exitDone, "queue mail is paused"},
		{"doctor 24", exitFound, "1 check of 2 Redises: 0 ok, 2 errors"},
		{"doctor 24 --fix --yes", exitDone, "24 mended"},
		{"queues clear onlyB --yes", exitDone, "1 job removed"},
		{"failed retry --all --yes", exitDone, "2 jobs put back"},
		{"config print", exitDone, a.URI() + " " + b.URI()},
		{"enqueue A -q mail", exitUsage, "takes one Redis, and 2 are given: give the one where the queue lies"},
		{"drain-to-ruby", exitUsage, "takes one Redis"},
		{"bench", exitUsage, "takes one Redis"},
	} {
		code, out, errs := run(t, append(strings.Fields(tt.args), both...)...)
		if code != tt.code || !strings.Contains(out+errs, tt.want) {
			t.Errorf("%s: %d and not %d with %s\n%s%s", tt.args, code, tt.code, tt.want, out, errs)
		}
	}
	if code, out, errs := run(t, "queues", "ls", "--json", "-u", a.URI(), "-u", a.URI()); code != exitDone || strings.Contains(out, "shard") {
		t.Errorf("a Redis that is named twice counts twice: %d\n%s%s", code, out, errs)
	}
	for n, s := range []*redistest.Server{a, b} {
		class := string(rune('A' + n))
		if left := s.List(t, "SMEMBERS", "resque:workers"); len(left) != 1 || len(s.List(t, "SMEMBERS", "resque:go:paused")) != 1 {
			t.Errorf("%s: not mended, or not paused: %v", class, left)
		}
		if got := s.List(t, "LRANGE", "resque:queue:mail", "0", "-1"); len(got) != 2 {
			t.Errorf("%s: retried where it failed: %v", class, got)
		}
	}
}
