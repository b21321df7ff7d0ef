// Package rolling deploys a fleet by the files of deploy/ and rolls it, under load.
package rolling

import (
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/goworker/goworker/internal/redistest"
)

// A fleet of three processes is rolled three times under load, at last to another version with another configuration. Each job runs, and
// runs once; no process is lost, and no alert fires. Then there is trouble, and its alerts fire, and no others.
func TestRolledThreeTimes(t *testing.T) {
	f := newFleet(t)
	p := newPrometheus(t, f.targets())
	var tests []string

	endScrapes, endLoad := p.begin(), f.load()
	old := f.pids()
	f.roll()
	f.roll()
	old = append(old, f.pids()...)
	f.install("two")
	f.configure("second", false)
	f.roll()
	f.mu.Lock()
	before := len(f.given) // what comes after them, the new version runs
	f.mu.Unlock()
	p.more(3)
	endLoad()
	f.done()
	endScrapes()
	tests = append(tests, p.test("rolled", false))

	ids, by := f.all()
	slices.Sort(ids)
	want := slices.Sorted(slices.Values(f.given))
	if !slices.Equal(ids, want) {
		t.Errorf("%d jobs were enqueued; the book has %d entries, of %d jobs", len(want), len(ids), len(slices.Compact(ids)))
	}
	versions := make(map[string]int)
	for _, id := range f.given {
		versions[by[id]]++
	}
	for _, id := range f.given[before:] {
		if by[id] != "two second" {
			t.Errorf("job %s was enqueued after the last roll, and run by %s", id, by[id])
		}
	}
	if versions["one first"] == 0 || versions["two second"] == 0 || len(versions) != 2 {
		t.Errorf("the jobs were run by %v", versions)
	}
	redistest.Eventually(t, 10*time.Second, "all jobs are counted", func() bool { return f.redis.Int(t, "GET", "resque:stat:processed") >= len(want) })
	if n := f.redis.Int(t, "GET", "resque:stat:processed"); n != len(want) {
		t.Errorf("%d jobs count as processed, of %d", n, len(want))
	}
	if failed := f.redis.Int(t, "LLEN", "resque:failed"); failed != 0 {
		t.Errorf("%d jobs failed", failed)
	}
	if dead := f.lost(); len(dead) > 0 {
		t.Errorf("%q were found dead", dead)
	}
	if pids := slices.Compact(f.registered()); !slices.Equal(pids, slices.Sorted(slices.Values(f.pids()))) {
		t.Errorf("the workers in Redis are of the processes %d; %d run, and %d ran before", pids, f.pids(), old)
	}
	if n := len(f.registered()); n != processes*workers {
		t.Errorf("Redis has %d workers", n)
	}
	for n, s := range f.services {
		roll := []string{"stop", "stopping", "ended: exit status 0", "started", "ready"}
		if happened := s.Happened(); !slices.Equal(happened, slices.Concat([]string{"started", "ready"}, roll, roll, roll)) {
			t.Errorf("worker@%d: %q", n, happened)
		}
	}
	t.Logf("%d jobs in %d scrapes; by %v", len(want), p.count, versions)

	for _, trouble := range []struct {
		name   string
		alerts []string
		before func()
		make   func()
	}{
		{"killed", nil, func() {}, func() { // it is started again
			pid := f.services[0].PID()
			f.services[0].Signal(syscall.SIGKILL)
			redistest.Eventually(t, 10*time.Second, "it is started again", func() bool {
				now := f.services[0].PID()
				return now != 0 && now != pid && f.services[0].Ready(now) == nil
			})
		}},
		{"broken configuration", []string{"GoworkerFailureRatio"}, func() {}, func() {
			f.reconfigure("third", true)
			redistest.Eventually(t, 30*time.Second, "many jobs are seen to fail", func() bool { return p.sum("goworker_jobs_total", `outcome="failed"`) >= 300 })
		}},
		{"paused", []string{"GoworkerPaused"}, func() { f.reconfigure("second", false) }, func() {
			if err := f.client.Inspect().PauseQueue(t.Context(), "mail"); err != nil {
				t.Fatal(err)
			}
			redistest.Eventually(t, 10*time.Second, "the queue is seen paused", func() bool { return p.sum("goworker_queue_paused", `queue="mail"`) > 0 })
		}},
		{"stopped", []string{"GoworkerNoProcess", "GoworkerQueueUnserved"}, func() {
			if err := f.client.Inspect().ResumeQueue(t.Context(), "mail"); err != nil {
				t.Fatal(err)
			}
			redistest.Eventually(t, 30*time.Second, "the killed process is found dead", func() bool { return len(f.lost()) == 1 })
		}, func() {
			for _, s := range f.services {
				if err := s.Stop(); err != nil {
					t.Error(err)
				}
			}
			if pids := f.registered(); len(pids) > 0 {
				t.Errorf("workers of the processes %d are in Redis, and all are stopped", pids)
			}
			redistest.Eventually(t, 10*time.Second, "no process is seen", func() bool { return p.sum("goworker_fleet_processes", `kind="worker"`) == 0 })
		}},
	} {
		trouble.before()
		endScrapes, endLoad := p.begin(), f.load()
		p.more(1)
		trouble.make()
		p.more(2)
		endLoad()
		endScrapes()
		tests = append(tests, p.test(trouble.name, true, trouble.alerts...))
	}
	p.check(tests)
	if journal := f.journal.String(); strings.Contains(journal, "panic") || strings.Contains(journal, "DATA RACE") {
		t.Error("a program panicked")
	}
}
