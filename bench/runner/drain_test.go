package main

import (
	"context"
	"flag"
	"os"
	"slices"
	"testing"
	"time"
)

// TestMain lets eight works run at a time: they wait far more than they compute.
func TestMain(m *testing.M) {
	flag.Parse()
	_ = flag.Set("test.parallel", "8")
	os.Exit(m.Run())
}

// TestGoContendersDrainTheirQueues builds each Go contender and lets it push, work
// and be woken, a few jobs each; that they ran exactly once is what a trial checks.
// Machinery, which takes a minute to build, and Node are left to longer runs.
func TestGoContendersDrainTheirQueues(t *testing.T) {
	b := &bench{ctx: context.Background(), dir: t.TempDir(), started: time.Now()}
	var err error
	if b.opts, err = parseOptions(nil); err != nil {
		t.Fatal(err)
	}
	b.opts.soak = time.Second
	t.Chdir("..") // where the runner is started
	programs := map[string]bool{}
	for _, c := range contenders {
		if c.node || testing.Short() && (c.program == "machinery" || c.static) {
			continue
		}
		if !programs[c.binary("")] {
			if err := c.build(b.ctx, b.dir); err != nil {
				t.Fatal(err)
			}
			programs[c.binary("")] = true
		}
	}
	for _, c := range contenders {
		if !programs[c.binary("")] {
			continue
		}
		b.pushes.Store(c.name, 10*time.Millisecond) // so many jobs take longer on a busy machine
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			for _, w := range works() {
				if !slices.Contains([]string{
					"noop", "payload-1KiB", "all-10", "weighted-10", "failing", "link", "push", "push-bulk", "push-bulk-named",
					"unused", "history", "metrics", "events", "traces-1ms", "features", "push-unique", "delayed", "results", "call", "call-many", "waiters",
					"aggregation", "aggregation-one", "msgpack-small", "msgpack-record", "msgpack-numbers", "cursor",
					"members", "chord", "chords", "chain", "batch", "soak",
				}, w.name) || c.cannot(w) != "" || !w.has(c) {
					continue
				}
				t.Run(w.name, func(t *testing.T) {
					t.Parallel()
					run := trial{bench: b, c: c, w: w, workers: 5, jobs: 200}
					f, _, err := run.run(b.ctx)
					// goworker now and then ends by itself or loses a push it did not wait for,
					// which a run lists as failed; what is tried here is the bench.
					for tries := 1; err != nil && c.program != "ours" && tries < 8; tries++ {
						t.Log(err)
						f, _, err = run.run(b.ctx)
					}
					if err != nil {
						t.Error(err)
					} else if (f["jobs_per_s"] <= 0 || f["bytes_per_job"] <= 0) && f["await_latency_p50_ms"] <= 0 &&
						f["members_per_s"] <= 0 && f["added_per_s"] <= 0 && f["workflows_per_s"] <= 0 {
						t.Errorf("figures %v", f)
					}
				})
			}
		})
	}
}

func TestIdleRows(t *testing.T) {
	if testing.Short() {
		t.Skip("takes half a minute")
	}
	b := &bench{ctx: context.Background(), dir: t.TempDir(), started: time.Now()}
	var err error
	if b.opts, err = parseOptions(nil); err != nil {
		t.Fatal(err)
	}
	t.Chdir("..")
	c := contenderNamed("ours")
	if err := c.build(b.ctx, b.dir); err != nil {
		t.Fatal(err)
	}
	s, err := startServer(b.opts.redisServer, b.dir)
	if err != nil {
		t.Fatal(err)
	}
	defer s.stop()
	plan := idlePlan{
		work: "idle-processes", processes: 3, workers: 2, queues: 1, row: 3, samples: 20,
		gapMin: time.Millisecond, gapMax: 5 * time.Millisecond, count: idleCountShort,
	}
	if err := b.idle(b.ctx, s, c, plan); err != nil {
		t.Fatal(err)
	}
	if rows := b.results.Rows(); len(rows) != 5 {
		t.Errorf("rows: %+v, want the three of latency, the processes that woke and the commands", rows)
	}
}

func TestSharesOfQueues(t *testing.T) {
	b := &bench{ctx: context.Background(), dir: t.TempDir(), started: time.Now()}
	var err error
	if b.opts, err = parseOptions(nil); err != nil {
		t.Fatal(err)
	}
	t.Chdir("..")
	c := contenderNamed("ours")
	if err := c.build(b.ctx, b.dir); err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(b.opts.works, func(w work) bool { return w.weights != nil })
	run := trial{bench: b, c: c, w: b.opts.works[i], workers: 5, jobs: 3000}
	f, _, err := run.run(b.ctx)
	if err != nil {
		t.Fatal(err)
	}
	six, three, one := f["share_of_6_percent"], f["share_of_3_percent"], f["share_of_1_percent"]
	if sum := six + three + one; sum < 99.9 || sum > 100.1 || six < three || three < one || one == 0 {
		t.Errorf("figures %v, want shares that add up to 100, the highest weight's the largest", f)
	}
}
