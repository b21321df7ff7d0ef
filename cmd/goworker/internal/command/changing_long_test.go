package command

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/redistest"
	"github.com/goworker/goworker/internal/resque"
)

// operationOf is the id of the operation that a command printed with --json.
func operationOf(t *testing.T, out string) string {
	t.Helper()
	var object struct{ Operation string }
	if err := json.Unmarshal([]byte(out), &object); err != nil || object.Operation == "" {
		t.Fatalf("no operation in %q: %v", out, err)
	}
	return object.Operation
}

// What was cleared comes back byte for byte, and the line that says how is one that does it.
func TestUndo(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	uri := "--uri=" + server.URI()
	server.Do(t, "SADD", "resque:queues", "mail")
	server.Do(t, "RPUSH", "resque:queue:mail", jobA, jobB, "no job")
	before := server.List(t, "LRANGE", "resque:queue:mail", 0, -1)
	code, out, errs := run(t, "queues", "clear", "mail", "--yes", uri)
	line := regexp.MustCompile(`goworker (.*operations undo \S+)`).FindStringSubmatch(out)
	if code != exitDone || line == nil {
		t.Fatalf("%d %s %s", code, out, errs)
	}
	if code, out, errs := run(t, append(strings.Fields(line[1]), "--yes")...); code != exitDone || !strings.Contains(out, "3 jobs taken back") {
		t.Errorf("undo: %d %s %s", code, out, errs)
	}
	if after := server.List(t, "LRANGE", "resque:queue:mail", 0, -1); !reflect.DeepEqual(before, after) {
		t.Errorf("there was %q and is %q", before, after)
	}
	_, out, _ = run(t, "jobs", "rm", "class:A", "--yes", "--json", uri)
	id := operationOf(t, out)
	key := "resque:go:operation:" + id
	planned := server.Text(t, "HGET", key, "plan")
	server.Do(t, "HSET", key, "plan", strings.Replace(planned, `"remove"`, `"\u001b]0;owned\u0007\nremove"`, 1))
	for _, verb := range []string{"undo", "resume"} { // what is in Redis, any client may have written
		code, out, errs := run(t, "operations", verb, id, "--dry-run", uri)
		_, _, asked := run(t, "operations", verb, id, uri)
		if code != exitDone || !strings.Contains(out, `owned\u0007\nremove`) || strings.ContainsAny(out+errs+asked, "\x1b\a") || strings.Contains(asked, "\nremove") {
			t.Errorf("%s: %d %q %q %q", verb, code, out, errs, asked)
		}
	}
	server.Do(t, "HSET", key, "plan", planned)
	if code, out, errs := run(t, "bin", "empty", id, "--yes", uri); code != exitDone || out != "1 job removed for good\n" {
		t.Errorf("bin empty: %d %s %s", code, out, errs)
	}
	if code, _, errs := run(t, "operations", "undo", id, "--yes", uri); code != exitPartly || !strings.Contains(errs, "1 job could not be taken back: they are no longer in the bin") {
		t.Errorf("undo of what is gone: %d %s", code, errs)
	}
}

// A search that its budget ends changes no part of the jobs with a name, and shows those that it has found. Equal jobs of which there
// are too many are named by a search.
func TestNamedInPart(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	uri := "--uri=" + server.URI()
	server.Do(t, "SADD", "resque:queues", "mail")
	server.Do(t, "EVAL", `for n = 1, 3000 do redis.call('RPUSH', KEYS[1], n % 10 == 0 and ARGV[1] or '{"class":"B","args":[]}') end`, 1, "resque:queue:mail", `{"class":"A","args":[],"id":"a"}`)
	server.Do(t, "ZADD", "resque:go:schedule", 4_000_000_000_000, `4:mail{"class":"A","args":[],"id":"a"}`) // a search finds it first
	if code, _, errs := run(t, "jobs", "rm", "a", "--yes", "--budget=1ns", uri); code != exitPartly || !strings.Contains(errs, "not all jobs were seen, and more of them may have the name a") {
		t.Errorf("rm: %d %s", code, errs)
	}
	if n := server.Int(t, "ZCARD", "resque:go:schedule"); n != 1 {
		t.Errorf("%d delayed jobs are left", n)
	}
	if code, out, errs := run(t, "jobs", "show", "a", "--budget=1ns", uri); code != exitDone || !strings.Contains(out, "due      2096") {
		t.Errorf("show: %d %s %s", code, out, errs)
	}
	if code, _, errs := run(t, "jobs", "rm", "a", "--yes", uri); code != exitUsage || !strings.Contains(errs, "a names 301 jobs, and at most 250 are changed by their names: use the search id:a") {
		t.Errorf("rm: %d %s", code, errs)
	}
	if code, out, errs := run(t, "jobs", "rm", "id:a", "--yes", uri); code != exitDone {
		t.Errorf("rm by a search: %d %s %s", code, out, errs)
	}
	if n := server.Int(t, "LLEN", "resque:queue:mail"); n != 2700 {
		t.Errorf("%d jobs are left of the others", n)
	}
}

// An operation that Ctrl-C ends stops between two steps and says how it goes on; then each job has been retried once. Where Redis goes away it says so too, and how far
// it was.
func TestInterrupted(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"Ctrl-C", "Redis goes away"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			between := server.StartProxy(t)
			const most = 600 // thirty steps, one a second: it is not done before it is interrupted
			for n := range most {
				server.Do(t, "RPUSH", "resque:failed", fmt.Sprintf(`{"failed_at":"2026/11/21 12:00:00 UTC","payload":{"class":"A","args":[%d]},"queue":"mail"}`, n))
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var o, e output
			ended := make(chan int, 1)
			go func() {
				ended <- Run(ctx, []string{"failed", "retry", "--all", "--rate=20/s", "--yes", "--uri=redis://" + between.Addr}, none, &o, &e)
			}()
			retried := func() int { return len(server.List(t, "LRANGE", "resque:queue:mail", 0, -1)) }
			first := 0
			redistest.Eventually(t, time.Minute, "a second step is made", func() bool {
				n := retried()
				if first == 0 {
					first = n
				}
				return len(ended) > 0 || n > first
			})
			n, want, says := retried(), exitInterrupted, "interrupted"
			if how == "Ctrl-C" {
				cancel()
			} else {
				want, says = exitUnavailable, " jobs: "
				between.Refuse(true)
			}
			code := <-ended
			line := regexp.MustCompile(`goworker (.*operations resume \S+)`).FindStringSubmatch(e.String())
			if code != want || line == nil || !strings.Contains(e.String(), says) || n == 0 || n == most {
				t.Fatalf("%d and not %d, after %d jobs\n%s%s", code, want, n, o.String(), e.String())
			}
			between.Refuse(false)
			server.Do(t, "DEL", "resque:go:operating") // the lease of the one that lost Redis is over
			key := "resque:go:operation:" + server.List(t, "ZRANGE", "resque:go:operations", 0, -1)[0]
			fast := strings.Replace(server.Text(t, "HGET", key, "plan"), `"Pace":20,`, `"Pace":0,`, 1)
			server.Do(t, "HSET", key, "plan", fast) // the test does not wait for the other steps
			if code, out, errs := run(t, append(strings.Fields(line[1]), "--yes")...); code != exitDone || !strings.Contains(out, "600 jobs put back") {
				t.Errorf("resume: %d %s %s", code, out, errs)
			}
			jobs := server.List(t, "LRANGE", "resque:queue:mail", 0, -1)
			slices.Sort(jobs)
			if len(jobs) != most || len(slices.Compact(jobs)) != most {
				t.Errorf("the queue has %d jobs: %q", len(jobs), jobs)
			}
		})
	}
}

// An undo that Ctrl-C ends goes on with undo: an operation that is being taken back is not run on.
func TestUndoInterrupted(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	const queues = 20 // each of them is put back by a step
	for n := range queues {
		name := fmt.Sprint("mail-", n)
		server.Do(t, "SADD", "resque:queues", name)
		server.Do(t, "RPUSH", "resque:queue:"+name, jobA, jobB)
	}
	back := func() (n int) {
		for q := range queues {
			n += len(server.List(t, "LRANGE", fmt.Sprint("resque:queue:mail-", q), 0, -1))
		}
		return n
	}
	if code, out, errs := run(t, "jobs", "rm", "queue:mail-*", "--yes", "--uri="+server.URI()); code != exitDone {
		t.Fatal(out, errs)
	}
	id := server.List(t, "ZRANGE", "resque:go:operations", 0, -1)[0]
	slow := server.StartProxy(t)
	slow.Delay(100 * time.Millisecond) // so that it is not done before it is interrupted
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var o, e output
	ended := make(chan int, 1)
	go func() {
		ended <- Run(ctx, []string{"operations", "undo", id, "--yes", "--timeout=1m", "--uri=redis://" + slow.Addr}, none, &o, &e)
	}()
	redistest.Eventually(t, time.Minute, "a queue is put back", func() bool {
		return len(ended) > 0 || back() > 0
	})
	cancel()
	code := <-ended
	line := regexp.MustCompile(`goworker (.*operations undo \S+)`).FindStringSubmatch(e.String())
	if code != exitInterrupted || line == nil {
		t.Fatalf("%d\n%s%s", code, o.String(), e.String())
	}
	slow.Delay(0)
	if code, out, errs := run(t, append(strings.Fields(line[1]), "--yes")...); code != exitDone || !strings.Contains(out, "40 jobs taken back") {
		t.Errorf("once more: %d %s %s", code, out, errs)
	}
	if got := back(); got != 2*queues {
		t.Errorf("%d jobs are back", got)
	}
}

// What export writes, import puts back, byte for byte, each to its list and in its order.
func TestExportImport(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	uri := "--uri=" + server.URI()
	const most = 1200
	for n := range most {
		server.Do(t, "RPUSH", "resque:failed", fmt.Sprintf(`{"failed_at":"2026/11/21 12:00:00 UTC","payload":{"class":"A","args":[%d]},"error":"<é \u2028>","queue":"mail"}`, n))
	}
	server.Do(t, "RPUSH", "resque:failed", "no record \xff", "{\n}")
	server.Do(t, "RPUSH", "resque:mail_failed", `{"payload":{"class":"B","args":[]},"queue":"mail"}`)
	server.Do(t, "SADD", "resque:failed_queues", "mail_failed")
	lists := func() (all [][]string) {
		for _, list := range []string{"resque:failed", "resque:mail_failed"} {
			all = append(all, server.List(t, "LRANGE", list, 0, -1))
		}
		return all
	}
	before := lists()
	code, out, errs := run(t, "failed", "export", uri)
	if code != exitDone || strings.Count(out, "\n") != most+3 {
		t.Fatalf("export: %d, %d lines\n%s", code, strings.Count(out, "\n"), errs)
	}
	file := filepath.Join(t.TempDir(), "failed.jsonl")
	if err := os.WriteFile(file, []byte(out), 0o600); err != nil {
		t.Fatal(err)
	}
	server.Do(t, "FLUSHALL")
	if code, out, errs := run(t, "failed", "import", file, "--dry-run", uri); code != exitDone || !strings.Contains(out, "1,203 failures would be put back") || len(server.Keys(t)) > 0 {
		t.Errorf("import --dry-run: %d %s %s", code, out, errs)
	}
	if code, out, errs := run(t, "failed", "import", file, uri); code != exitDone || out != "1,203 failures put back\n" {
		t.Errorf("import: %d %s %s", code, out, errs)
	}
	if after := lists(); !reflect.DeepEqual(before, after) {
		t.Errorf("there were %d and %d failures, and are %d and %d, or others, or in another order", len(before[0]), len(before[1]), len(after[0]), len(after[1]))
	}
}

// A fleet goes back to Ruby once no process of it lives.
func TestDrainToRuby(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	uri := "--uri=" + server.URI()
	c := server.Dial(t)
	p := resque.Process{ID: "h:1:a", Host: "h", PID: 1, Concurrency: 1, IDHead: "h.go:1-", IDQueues: "mail"}
	if err := resque.New("").Enter(c, p, time.Hour, time.Now()); err != nil {
		t.Fatal(err)
	}
	const later = `{"class":"Later","args":[],"attempt":2}`
	server.Do(t, "ZADD", "resque:go:schedule", 9999999999999, resque.JobPrefix("mail")+later)
	server.Do(t, "HSET", "resque:go:unique:x", "x", "y")
	before := server.Dump(t, "resque:")
	for _, how := range []string{"--dry-run", "--yes"} {
		code, out, errs := run(t, "drain-to-ruby", how, uri)
		if code != exitFailed || !strings.Contains(out, "alive: h:1 (") || !strings.Contains(errs, "stop them first") {
			t.Errorf("%s while a process lives: %d\n%s%s", how, code, out, errs)
		}
	}
	if after := server.Dump(t, "resque:"); !reflect.DeepEqual(before, after) {
		t.Errorf("while a process lives it changed something:\n%v\n%v", before, after)
	}
	if _, err := resque.New("").Leave(c, p.ID); err != nil {
		t.Fatal(err)
	}
	before = server.Dump(t, "resque:")
	if code, _, _ := run(t, "drain-to-ruby", uri); code != exitUsage {
		t.Errorf("unconfirmed: %d", code)
	}
	if code, _, _ := run(t, "drain-to-ruby", "--yes", "--read-only", uri); code != exitUsage {
		t.Errorf("with --read-only: %d", code)
	}
	if code, out, errs := run(t, "drain-to-ruby", "--dry-run", uri); code != exitDone || !strings.Contains(out, "1 delayed job goes to resque-scheduler's schedule\n  of these 1 lose their attempt\n") {
		t.Errorf("--dry-run: %d\n%s%s", code, out, errs)
	}
	if after := server.Dump(t, "resque:"); !reflect.DeepEqual(before, after) {
		t.Errorf("a dry run changed something:\n%v\n%v", before, after)
	}
	code, out, errs := run(t, "drain-to-ruby", "--yes", "--json", uri)
	var report struct {
		Delayed, Locks int
		Dropped        map[string]int
	}
	if err := json.Unmarshal([]byte(out), &report); err != nil || code != exitDone || report.Delayed != 1 || report.Locks != 1 || report.Dropped["attempt"] != 1 {
		t.Errorf("%d %v\n%s%s", code, err, out, errs)
	}
	if jobs := server.List(t, "LRANGE", "resque:delayed:10000000000", 0, -1); len(jobs) != 1 {
		t.Errorf("Ruby's schedule has %q", jobs)
	}
}

// A benchmark leaves nothing behind, and does not run where a context is protected.
func TestBench(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	uri := "--uri=" + server.URI()
	code, out, errs := run(t, "bench", "--jobs=200", "--pings=3", "--workers=4", "--json", uri)
	var figures struct {
		Jobs int
		Push float64 `json:"push_per_second"`
		Run  float64 `json:"run_per_second"`
		P50  float64 `json:"start_p50"`
	}
	if err := json.Unmarshal([]byte(out), &figures); err != nil || code != exitDone || figures.Jobs != 200 || figures.Push <= 0 || figures.Run <= 0 || figures.P50 <= 0 {
		t.Errorf("%d %v\n%s%s", code, err, out, errs)
	}
	if keys := server.Keys(t); len(keys) > 0 {
		t.Errorf("it left %q", keys)
	}
	server.Do(t, "SET", "resque:x", "kept")
	if code, _, _ := run(t, "bench", "--dry-run", uri); code != exitDone {
		t.Errorf("--dry-run: %d", code)
	}
	if code, _, _ := run(t, "bench", "--read-only", uri); code != exitUsage {
		t.Errorf("--read-only: %d", code)
	}
	file := filepath.Join(t.TempDir(), "contexts.yaml")
	if err := os.WriteFile(file, []byte("live:\n  uri: "+server.URI()+"\n  protect: true\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var o, e output
	lookup := func(name string) (string, bool) {
		if name == "GOWORKER_CONTEXTS" {
			return file, true
		}
		return "", false
	}
	if code := Run(t.Context(), []string{"bench", "--context=live", "--yes=10000"}, lookup, &o, &e); code != exitUsage || !strings.Contains(e.String(), "protected") {
		t.Errorf("in a protected context: %d %s", code, e.String())
	}
	if keys := server.Keys(t); !slices.Equal(keys, []string{"resque:x"}) {
		t.Errorf("it left %q", keys)
	}
}

// The worker of dev runs its load, and what another program pushes by the line that was printed.
func TestDevFleet(t *testing.T) {
	t.Parallel()
	for _, server := range []string{"redis-server", "no-such-server"} {
		t.Run(server, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var o, e output
			ended := make(chan int, 1)
			go func() {
				ended <- Run(ctx, []string{"dev", "--rate=20", "--redis-server=" + server}, none, &o, &e)
			}()
			pushes := regexp.MustCompile(`redis-cli -p (\d+) RPUSH (\S+) \\\n\s+'(.*)'`)
			var push []string
			redistest.Eventually(t, time.Minute, "it says how to push", func() bool {
				push = pushes.FindStringSubmatch(o.String())
				return push != nil || len(ended) > 0
			})
			if push == nil {
				t.Fatalf("it ended with %d\n%s%s", <-ended, o.String(), e.String())
			}
			c, err := redis.Dial("tcp", "127.0.0.1:"+push[1])
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			if _, err := c.Do("RPUSH", push[2], push[3]); err != nil {
				t.Fatal(err)
			}
			redistest.Eventually(t, time.Minute, "its jobs run, and a status shows them", func() bool {
				n, _ := redis.Int(c.Do("GET", "resque:stat:processed"))
				waiting, _ := redis.Int(c.Do("LLEN", push[2]))
				return n > 5 && waiting == 0 && strings.Contains(o.String(), "QUEUE") && strings.Contains(o.String(), "mail")
			})
			dashboard := regexp.MustCompile(`(?m)^The dashboard is at (http://127\.0\.0\.1:\d+/)\?token=(\S+)$`)
			var address []string
			redistest.Eventually(t, time.Minute, "it says where the dashboard is", func() bool {
				address = dashboard.FindStringSubmatch(o.String())
				return address != nil
			})
			if status, text := call(t, "GET", address[1]+"queues", "", "Authorization", "Bearer "+address[2]); status != http.StatusOK || !strings.Contains(text, "payments") {
				t.Errorf("the dashboard: %d %s", status, text)
			}
			if inside := strings.Contains(e.String(), "inside this process"); inside != (server == "no-such-server") {
				t.Errorf("on stderr it said %q", e.String())
			}
			cancel()
			if code := <-ended; code != exitDone {
				t.Errorf("it ended with %d\n%s", code, e.String())
			}
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var o, e output
	ended := make(chan int, 1)
	go func() { ended <- Run(ctx, []string{"dev", "--no-dashboard"}, none, &o, &e) }()
	redistest.Eventually(t, time.Minute, "it says how to push", func() bool { return strings.Contains(o.String(), "RPUSH") || len(ended) > 0 })
	cancel()
	if code := <-ended; code != exitDone || strings.Contains(o.String(), "dashboard") {
		t.Errorf("--no-dashboard: it ended with %d\n%s%s", code, o.String(), e.String())
	}
	if code, _, errs := run(t, "dev", "--uri=redis://localhost:1"); code != exitUsage || !strings.Contains(errs, "of its own") {
		t.Errorf("with another Redis: %d %s", code, errs)
	}
}
