package main

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// empty is an arena without processes, whose checks a test calls by themselves.
func empty(t *testing.T) *arena {
	t.Helper()
	a := newArena(options{dir: t.TempDir()}, "checker", "", nil)
	t.Cleanup(a.close)
	return a
}

func wantProblems(t *testing.T, a *arena, want ...string) {
	t.Helper()
	if len(a.problems) != len(want) {
		t.Fatalf("problems %q, want %d", a.problems, len(want))
	}
	for i, p := range want {
		if !strings.Contains(a.problems[i], p) {
			t.Errorf("problem %q, want %q", a.problems[i], p)
		}
	}
}

// The checker of poison streams counts deaths and finds innocent jobs that were filed.
func TestStreamChecker(t *testing.T) {
	a := empty(t)
	now := time.Now()
	l := newLedgers()
	l.jobs["poison-0"] = &story{runs: make([]run, mostDeaths+1)}
	l.jobs["poison-1"] = &story{runs: make([]run, mostDeaths)}
	l.jobs["fill-1"] = &story{runs: []run{{start: now.Add(time.Second).UnixNano()}, {start: now.Add(40 * time.Second).UnixNano()}}}
	for _, id := range []string{"poison-0", "fill-2"} {
		a.must("RPUSH", "resque:failed", fmt.Sprintf(`{"payload":{"class":"Noop","args":[%q,0]},"exception":"Resque::DirtyExit","error":"The job was running in 4 processes"}`, id))
	}
	a.checkStream(stream{poisons: 2}, l, now, now.Add(time.Minute))
	wantProblems(t, a, "poison-0 ran in 6 processes", `1 innocent jobs were filed with the poison: ["fill-2"]`, "for 39.0 s no other job began")
}

// The checker of storms counts from the last kill that concerned a job.
func TestStormChecker(t *testing.T) {
	a := empty(t)
	at := func(seconds int) int64 { return time.Unix(1000+int64(seconds), 0).UnixNano() }
	l := newLedgers()
	l.jobs["late"] = &story{runs: []run{{start: at(0)}, {start: at(18)}}}
	l.jobs["twice"] = &story{runs: []run{{start: at(0)}, {start: at(20)}}}
	l.jobs["done"] = &story{runs: []run{{start: at(0), end: at(1)}}}
	c := concern{a: a, kills: map[string][]int64{"late": {at(1)}, "twice": {at(9), at(1)}, "done": {at(2)}}}
	r := newResult()
	c.check(l, &r)
	if got := r.recovered("/"); got != "17.0/17.0/17.0" {
		t.Errorf("recovered within %s", got)
	}
	wantProblems(t, a, "1 interrupted jobs waited for more than 15s: late for 17.0 s")
}

// The checker of jobs with results compares what is kept with the ledgers, with cancels and with waits.
func TestResultsChecker(t *testing.T) {
	a := empty(t)
	now := time.Now()
	for id, state := range map[string]string{"done": "done", "says-done": "done", "stuck": "running", "began": "cancelled", "waited": "failed"} {
		a.must("HSET", "resque:go:result:"+id, "state", state)
	}
	a.readDocuments()
	a.checkDocument(order{job: job{id: "done"}, keeps: true}, "done")
	a.checkDocument(order{job: job{id: "says-done"}, keeps: true}, "failed")
	a.checkDocument(order{job: job{id: "none"}, keeps: true}, "done")
	l := newLedgers()
	a.cancels["began"], a.cancels["done"] = now, now
	l.jobs["began"] = &story{runs: []run{{start: now.Add(-time.Second).UnixNano()}, {start: now.Add(4 * time.Second).UnixNano()}}}
	l.jobs["done"] = &story{runs: []run{{start: now.Add(2 * time.Second).UnixNano()}}}
	heard := make(chan struct{})
	close(heard)
	a.waits = []*wait{{id: "done", done: heard, state: "done"}, {id: "waited", done: heard, state: "done"}}
	causes{a: a}.checkResults(l)
	wantProblems(t, a, "job stuck is kept as running", `job says-done is kept as "done", and it was failed`, `job none is kept as "", and it was done`,
		"job began began in  4s after it was cancelled", `a wait for job waited ended with "done", <nil>, and it is kept as "failed"`)
}

// The checker excuses only jobs that stood in a key that was removed.
func TestRemovalsExcuse(t *testing.T) {
	a := empty(t)
	a.must("RPUSH", "resque:go:lane:x", `{"class":"Nap","args":["gone",1]}`)
	a.must("SET", "resque:stat:processed", 1)
	a.removeKey("resque:go:lane:x", 0, "")
	a.acknowledged(job{id: "gone"}, job{id: "elsewhere"}, job{id: "done"})
	p := &process{a: a, name: "w0", exited: make(chan struct{}), died: time.Now().Add(time.Hour)}
	close(p.exited)
	a.fleet = []*process{p}
	if err := os.WriteFile(a.ledger("w0"), []byte("s\tdone\t1\t1,1\ne\tdone\t2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if r := a.join(); len(r.lost) != 1 || r.lost[0] != "elsewhere" || r.removed != 1 || r.done != 1 {
		t.Errorf("lost %q, removed %d, done %d", r.lost, r.removed, r.done)
	}
}

// Of a process that loses its record and its connections, the jobs of the second before may run twice, and their locks with them. Those
// that came just now it may not know.
func TestRemovalsDoubt(t *testing.T) {
	a := empty(t)
	const record = "resque:go:inflight:h:1:x"
	value := func(id string) string { return `4:work{"class":"Nap","args":["` + id + `",1]}` }
	held, began := newHolding(), time.Now()
	held.look([]string{value("ended"), value("running")}, began)
	held.look([]string{value("running"), value("later")}, began.Add(970*time.Millisecond))
	held.end(began.Add(time.Second), 10*time.Millisecond)
	if want := []string{"ended", "later", "running"}; !slices.Equal(slices.Sorted(maps.Keys(held.seen)), want) {
		t.Errorf("seen: %v, want %q", held.seen, want)
	}
	if held.heard["ended"] || held.heard["later"] || !held.heard["running"] {
		t.Errorf("heard of: %v", held.heard)
	}
	a.excuse(record, []string{"2", value("running"), "4", value("new")}, held, true, time.Now())
	if !a.removed.doubtful["ended"] || a.removed.unheard["running"] || !a.removed.unheard["new"] {
		t.Errorf("doubtful %v, unheard %v", a.removed.doubtful, a.removed.unheard)
	}
	a.expect(order{job: job{"ended", "Nap", 0}, unique: "a"}, order{job: job{"other", "Nap", 0}, unique: "a"}, order{job: job{"third", "Nap", 0}, unique: "a"})
	p := &process{a: a, name: "w0", exited: make(chan struct{}), died: time.Now().Add(time.Hour)}
	close(p.exited)
	a.fleet = []*process{p}
	check := func(ledger string) {
		if err := os.WriteFile(a.ledger("w0"), []byte(ledger), 0o600); err != nil {
			t.Fatal(err)
		}
		l, err := readLedgers(a.dir)
		if err != nil {
			t.Fatal(err)
		}
		a.newCauses().checkLimits(l)
	}
	check("s\tended\t1\t1,1\ns\tother\t2\t1,1\ne\tother\t3\ne\tended\t4\n")
	wantProblems(t, a)
	check("s\tthird\t1\t1,1\ns\tother\t2\t1,1\ne\tother\t3\ne\tthird\t4\n")
	wantProblems(t, a, "2 ran at once")
}
