package page

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/goworker/goworker/internal/sizing"
)

func TestModelHasTheFiguresOfTheResults(t *testing.T) {
	t.Parallel()
	_, f := read(t)
	want, err := json.MarshalIndent(Figures(f), "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(docs, filepath.FromSlash(Model)))
	if err != nil || string(got) != string(want)+"\n" {
		t.Errorf("internal/sizing/figures.json differs from bench/results/all.json, %v; run go run ./runner -draw in bench/", err)
	}
}

// The model is made of the rows of one and of a hundred workers. It predicts the rows between them and those without look-ahead, of which
// it knows nothing but the number of commands.
func TestModelPredictsTheResults(t *testing.T) {
	t.Parallel()
	_, f := read(t)
	m := Figures(f)
	rows := 0
	for _, contender := range []string{"ours", "ours-no-look-ahead"} {
		for _, workers := range []int{1, 10, 25, 100} { // with a thousand a job costs less yet: the model errs to the safe side
			commands, ok := f.Get(contender, "noop", workers, "commands_per_job")
			if !ok {
				continue
			}
			for figure, want := range map[string]struct{ exchange, job, within float64 }{
				"redis_cpu_us_per_job":  {m.Exchange.Redis, m.Kinds[sizing.Plain].Redis, 1.3},
				"worker_cpu_us_per_job": {m.Exchange.Worker, m.Kinds[sizing.Plain].Worker, 1.7},
				"bytes_per_job":         {m.Exchange.Bytes, m.Kinds[sizing.Plain].Bytes, 1.2},
			} {
				predicted, measured := want.exchange*commands.Median+want.job, f.Median(contender, "noop", workers, figure)
				rows++
				if predicted > want.within*measured || measured > want.within*predicted {
					t.Errorf("%s of %s with %d workers: the model says %.2f, measured were %.2f", figure, contender, workers, predicted, measured)
				}
			}
		}
	}
	if rows < 20 {
		t.Errorf("%d rows were compared", rows)
	}
	// A full queue: two jobs a worker share an exchange.
	for _, workers := range []int{1, 10, 25, 100} {
		predicted, measured := sizing.Exchanges(1e9, workers, time.Millisecond), f.Median("ours", "noop", workers, "commands_per_job")
		if predicted > 2.5*measured || measured > 2.5*predicted {
			t.Errorf("%d workers: the model says %.4f exchanges a job, measured were %.4f", workers, predicted, measured)
		}
	}
	// Fleets that mostly wait.
	for _, n := range []int{1, 10, 100, 300, 1000} {
		if measured := f.Median("ours", "fleet-woken", n, "commands_per_job"); measured > 2.5*woken(n) || woken(n) > 2.5*measured {
			t.Errorf("%d processes: the model says %.2f commands a job, measured were %.2f", n, woken(n), measured)
		}
		if measured := f.Median("ours", "fleet-idle", n, "connections"); measured*float64(n) != float64(sizing.Connections(n, sizing.Plain)) {
			t.Errorf("%d processes have %v connections each", n, measured)
		}
	}
}
