package main

import (
	"flag"
	"math/rand/v2"
	"os"
	"testing"
	"time"
)

var seed = flag.Uint64("chaos.seed", rand.Uint64N(1<<32), "of all that is random")

func TestMain(m *testing.M) {
	flag.Parse()
	// The faults wait far more than they compute: for leases that run out.
	_ = flag.Set("test.parallel", "12")
	os.Exit(m.Run())
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
	for _, f := range faults {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			r := f.run(opts)
			r.name = f.name
			t.Logf("\n%s%s", titles(), r.row())
			if r.bad() {
				t.Errorf("%d lost, %d unexplained, %d problems", len(r.lost), len(r.unexplained), len(r.problems))
			}
		})
	}
}
