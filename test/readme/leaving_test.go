package readme

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goworker/goworker/internal/redistest"
	"github.com/goworker/goworker/internal/resque"
)

// section returns the text below a heading of a page, up to the next heading of its rank.
func section(t *testing.T, page, heading string) string {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(text), "\n## "+heading+"\n")
	if !found {
		t.Fatalf("%s has no section %q", page, heading)
	}
	rest, _, _ = strings.Cut(rest, "\n## ")
	return rest
}

var shell = regexp.MustCompile("(?s)```sh\n(.*?)```")

// fleet puts the jobs of a fleet that was stopped into Redis, and those of a process that was killed.
func fleet(t *testing.T) *redistest.Server {
	t.Helper()
	s := redistest.Start(t)
	job := func(class string) string { return fmt.Sprintf(`{"class":%q,"args":[]}`, class) }
	s.Do(t, "SADD", "resque:queues", "mail")
	s.Do(t, "RPUSH", "resque:queue:mail", job("Q1"), job("Q2"))
	s.Do(t, "SADD", "resque:go:lanes", "4:mailf:Turn")
	s.Do(t, "ZADD", "resque:go:lanes:4:mailf:Turn", 1, "f:Turn=acme")
	s.Do(t, "RPUSH", "resque:go:lane:4:mail6:f:Turnf:Turn=acme", job("L1"), job("L2"), job("L3"))
	s.Do(t, "RPUSH", "resque:go:lane:5:büro6:f:Turnf:Turn=x", job("B1"))
	s.Do(t, "ZADD", "resque:go:schedule", 1900000000001, `4:mail{"class":"S1","args":[1],"attempt":2}`, 1900000000000, "5:büro"+job("S2"))
	s.Do(t, "ZADD", "resque:go:processes", 5, "web:7:x")
	s.Do(t, "HSET", "resque:go:process:web:7:x", "epoch", 1)
	s.Do(t, "HSET", "resque:go:inflight:web:7:x", "entered", "mark", 9, "4:mail"+job("I9"), 10, "+6:f:Turn11:f:Turn=acme4:mail"+job("I10"),
		11, "~4:mail", "p11", job("I11"), 12, "~+6:f:Turn11:f:Turn=acme4:mail", "p12", job("I12"), "apart", 3, "p8", job("ended"))
	s.Do(t, "HSET", "resque:go:unique:d", "id", "x")
	s.Do(t, "HSET", "resque:go:limits", "c:Report", 1)
	s.Do(t, "SET", "resque:go:unique-rest", 1)
	return s
}

func classes(list []string) (all []string) {
	for _, text := range list {
		class, _, _ := strings.Cut(strings.TrimPrefix(text, `{"class":"`), `"`)
		all = append(all, class)
	}
	return all
}

// TestLeavingByHand runs the commands that the page on leaving shows, as they stand there.
func TestLeavingByHand(t *testing.T) {
	t.Parallel()
	cli, err := exec.LookPath("redis-cli")
	if err != nil {
		t.Skip("redis-cli is not installed")
	}
	text := section(t, "../../docs/leaving.md", "By hand")
	blocks := shell.FindAllStringSubmatch(text, -1)
	if len(blocks) < 5 {
		t.Fatalf("the page shows %d blocks of commands only", len(blocks))
	}
	for _, mode := range []string{"later", "now"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			s := fleet(t)
			bin := t.TempDir()
			wrapper := fmt.Sprintf("#!/bin/sh\nexec %s -u %s \"$@\"\n", cli, s.URI())
			if err := os.WriteFile(filepath.Join(bin, "redis-cli"), []byte(wrapper), 0o700); err != nil {
				t.Fatal(err)
			}
			script := "set -e\n"
			for _, b := range blocks {
				script += b[1]
			}
			script = strings.ReplaceAll(script, "resque: later", "resque: "+mode)
			for range 2 { // a second time it does nothing
				cmd := exec.Command("sh", "-c", script)
				cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"))
				out, err := cmd.CombinedOutput()
				if err != nil || bytes.Contains(out, []byte("ERR")) {
					t.Fatalf("%v:\n%s", err, out)
				}
			}
			mail, office := []string{"L1", "L2", "L3", "I9", "I10", "I11", "I12", "Q1", "Q2"}, []string{"B1"}
			if mode == "now" {
				mail, office = append(mail, "S1"), append(office, "S2")
			} else {
				for second, want := range map[string]string{
					"1900000001": `{"class":"S1","args":[1],"attempt":2,"queue":"mail"}`, "1900000000": `{"class":"S2","args":[],"queue":"büro"}`,
				} {
					if got := s.List(t, "LRANGE", "resque:delayed:"+second, 0, -1); !slices.Equal(got, []string{want}) {
						t.Errorf("delayed to %s: %q, want %q", second, got, want)
					}
					if got := s.Text(t, "ZSCORE", "resque:delayed_queue_schedule", second); got != second {
						t.Errorf("the score of %s is %q", second, got)
					}
				}
			}
			for queue, want := range map[string][]string{"mail": mail, "büro": office} {
				if got := classes(s.List(t, "LRANGE", "resque:queue:"+queue, 0, -1)); !slices.Equal(got, want) {
					t.Errorf("queue %s has %v, want %v", queue, got, want)
				}
			}
			if n := s.Int(t, "SCARD", "resque:queues"); n != 2 {
				t.Errorf("%d queues are known, want 2", n)
			}
			for _, key := range s.Keys(t) {
				if strings.HasPrefix(key, "resque:go:") {
					t.Errorf("%s is left", key)
				}
			}
		})
	}
}

// A process that holds a lease keeps its jobs, whoever runs the commands.
func TestLeavingByHandRefuses(t *testing.T) {
	t.Parallel()
	text := section(t, "../../docs/leaving.md", "By hand")
	scripts := regexp.MustCompile(`(?s)EVAL '(.*?)' 0`).FindAllStringSubmatch(text, -1)
	if len(scripts) != 2 {
		t.Fatalf("the page shows %d scripts, want 2", len(scripts))
	}
	s := fleet(t)
	s.Do(t, "ZADD", "resque:go:processes", 99999999999999, "web:7:x")
	before := s.Keys(t)
	c := s.Dial(t)
	for _, script := range scripts {
		if _, err := c.Do("EVAL", script[1], 0, "resque:", "web:7:x"); err == nil || !strings.Contains(err.Error(), "alive") {
			t.Errorf("the answer is %v", err)
		}
	}
	if after := s.Keys(t); !slices.Equal(before, after) {
		t.Errorf("the keys are %q, and were %q", after, before)
	}
}

// TestLeavingProgram runs the program of the page: as it stands there it only reports, and without
// the dry run it drains.
func TestLeavingProgram(t *testing.T) {
	t.Parallel()
	program := regexp.MustCompile("(?s)```go\n(package main.*?)```").FindStringSubmatch(section(t, "../../docs/leaving.md", "Rollback"))
	if program == nil {
		t.Fatal("the page shows no program")
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	s := fleet(t)
	run := func(source string) string {
		file, binary := filepath.Join(t.TempDir(), "main.go"), filepath.Join(t.TempDir(), "leave")
		if err := os.WriteFile(file, []byte(source), 0o600); err != nil {
			t.Fatal(err)
		}
		build := exec.Command("go", "build", "-ldflags=-s", "-o", binary, file)
		build.Dir = root
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("building the program: %v\n%s", err, out)
		}
		cmd := exec.Command(binary)
		cmd.Env = append(os.Environ(), "REDIS_URL="+s.URI())
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v:\n%s", err, out)
		}
		return string(out)
	}
	before := s.Dump(t, "")
	if out := run(program[1]); !strings.Contains(out, "delayed, to resque-scheduler: 2;") || !strings.Contains(out, "lost attempt: 1 delayed job\n") {
		t.Errorf("the program said:\n%s", out)
	}
	if after := s.Dump(t, ""); len(after) != len(before) {
		t.Errorf("the dry run left %d keys of %d", len(after), len(before))
	}
	run(strings.Replace(program[1], "goworker.DrainDryRun()", "goworker.DrainNow()", 1))
	want := []string{"I10", "I12", "L1", "L2", "L3", "I9", "I11", "Q1", "Q2", "S1"}
	if got := classes(s.List(t, "LRANGE", "resque:queue:mail", 0, -1)); !slices.Equal(got, want) {
		t.Errorf("the queue has %v, want %v", got, want)
	}
}

// TestLeavingTable compares the table of keys with the one by which a drain decides.
func TestLeavingTable(t *testing.T) {
	t.Parallel()
	var want []string
	for _, row := range resque.Fates {
		if strings.HasPrefix(row.Key, "go:") {
			want = append(want, fmt.Sprintf("| `%s` | %s | %s |", row.Key, row.Fate, row.Why))
		}
	}
	var got []string
	for line := range strings.Lines(section(t, "../../docs/leaving.md", "What becomes of each key")) {
		if strings.HasPrefix(line, "| `") {
			got = append(got, strings.TrimSpace(line))
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("the page has these rows:\n%s\nand the table these:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	// Each key that jobs or people's decisions are in is named by the table of features.
	features := section(t, "../../docs/leaving.md", "What Ruby does not do")
	for _, row := range resque.Fates {
		start, _, _ := strings.Cut(row.Key, "<")
		person := row.Builder == "paused" || row.Builder == "pausedSchedules"
		if row.Fate != resque.FateReleased && row.Fate != resque.FateMoved && !person {
			continue
		}
		if row.Builder == "kept" { // of no feature
			continue
		}
		if !strings.Contains(features, "`"+start) {
			t.Errorf("the table of features does not name %s", row.Key)
		}
	}
}
