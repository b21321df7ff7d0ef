package main

import (
	"cmp"
	"flag"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

var seed = flag.Uint64("chaos.seed", rand.Uint64N(1<<32), "of all that is random")

func TestMain(m *testing.M) {
	flag.Parse()
	_ = flag.Set("test.parallel", "100") // TestChaos has its own limit
	os.Exit(m.Run())
}

// atOnce is how many faults are tried at a time. They wait more than they compute: for leases that
// run out.
const atOnce = 12

// longest are the faults that take longest. They begin first, so that none is left over at the end.
var longest = []string{
	"poison-long", "poison-stream", "poison-slow", "schedulers", "isolated", "policies", "deadline", "leader", "mixed", "poison",
	"redis-sleep", "redis-sigstop", "client-pause", "suspend", "operators", "keys", "boundaries", "clock", "storm", "replies",
}

// alike are faults by which the same goes wrong in several ways. A run tries one of each line, which the seed chooses, and what
// -run names.
var alike = [][]string{
	{"redis-sigstop", "redis-sleep", "client-pause"},
	{"poison-stream", "poison-slow", "poison-long"},
}

// left reports whether a fault is left to runs with another seed.
func left(name string, seed uint64) bool {
	for _, names := range alike {
		if slices.Contains(names, name) && name != names[seed%uint64(len(names))] {
			return !strings.Contains(flag.Lookup("test.run").Value.String(), name)
		}
	}
	return false
}

// Every fault once, briefly.
func TestChaos(t *testing.T) {
	opts := options{seed: *seed, kills: 12, jobs: 4000, workers: 4, duration: 20 * time.Second, short: true}
	cleanup, err := opts.prepare()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cleanup)
	t.Logf("-chaos.seed=%d", opts.seed)
	rows := slices.Clone(faults)
	slices.SortStableFunc(rows, func(a, b fault) int { return cmp.Compare(place(a), place(b)) })
	var begins []chan struct{} // of the rows that -run selects, in order
	free := make(chan struct{}, atOnce)
	for _, f := range rows {
		if left(f.name, opts.seed) {
			continue
		}
		t.Run(f.name, func(t *testing.T) {
			begin := make(chan struct{})
			begins = append(begins, begin)
			t.Parallel()
			<-begin
			defer func() { <-free }()
			r := f.run(opts)
			r.name = f.name
			t.Logf("\n%s%s", titles(), r.row())
			if r.bad() {
				t.Errorf("%d lost, %d unexplained, %d problems", len(r.lost), len(r.unexplained), len(r.problems))
			}
		})
	}
	go func() {
		for _, begin := range begins {
			free <- struct{}{}
			close(begin)
		}
	}()
}

// place is where a fault stands among the longest, behind all of them if it is none.
func place(f fault) int {
	if i := slices.Index(longest, f.name); i >= 0 {
		return i
	}
	return len(longest)
}
