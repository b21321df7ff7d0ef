package result

import (
	"bytes"
	"strings"
	"testing"
)

func TestMedianAndPercentile(t *testing.T) {
	t.Parallel()
	hundred := make([]float64, 100)
	for i := range hundred {
		hundred[i] = float64(i + 1)
	}
	for _, test := range []struct {
		name      string
		got, want float64
	}{
		{"median of one", median([]float64{7}), 7},
		{"median of an odd number", median([]float64{1, 2, 9}), 2},
		{"median of an even number", median([]float64{1, 2, 4, 9}), 3},
		{"p50 of 100", Percentile(hundred, 50), 50},
		{"p99 of 100", Percentile(hundred, 99), 99},
		{"p99 of 10 is the highest", Percentile(hundred[:10], 99), 10},
		{"p0 is the lowest", Percentile(hundred, 0), 1},
		{"round large", round(123456.7), 123457},
		{"round to four digits", round(0.0123456), 0.01235},
		{"round zero", round(0), 0},
	} {
		if test.got != test.want {
			t.Errorf("%s: got %v, want %v", test.name, test.got, test.want)
		}
	}
}

func TestNumber(t *testing.T) {
	t.Parallel()
	for value, want := range map[float64]string{
		0: "0", 0.0012: "0.0012", 0.25: "0.250", 8: "8.00", 44.25: "44.2", 999: "999.0", 1000: "1,000", 1234567: "1,234,567",
	} {
		if got := Number(value); got != want {
			t.Errorf("Number(%v) = %q, want %q", value, got, want)
		}
	}
}

func TestTableComparesWithOthers(t *testing.T) {
	t.Parallel()
	var c Collector
	for _, value := range []float64{300, 100, 200} {
		c.Add("ours", "noop", 25, "jobs_per_s", value)
	}
	c.Add("limit", "noop", 25, "jobs_per_s", 400)
	c.Add("goworker", "noop", 25, "jobs_per_s", 20)
	c.Add("ours", "idle", 25, "idle_commands_per_s", 0)

	f := File{Rows: c.Rows()}
	want := Row{Key: Key{"ours", "noop", 25, "jobs_per_s"}, Median: 200, Min: 100, Max: 300}
	if len(f.Rows) != 4 || f.Rows[0] != want {
		t.Fatalf("rows = %+v, want four, the first %+v", f.Rows, want)
	}
	var out bytes.Buffer
	f.Print(&out)
	lines := strings.Split(out.String(), "\n")
	if got := strings.Join(strings.Fields(lines[1]), " "); got != "jobs_per_s noop 25 ours 200.0 100.0–300.0 - 10.0× 0.500×" {
		t.Errorf("first row of the table: %q", got)
	}
	if got := strings.Join(strings.Fields(lines[3]), " "); got != "goworker 20.0 20.0–20.0 0.100× - 0.050×" {
		t.Errorf("goworker's row of the table: %q", got)
	}
}

func TestMergeKeepsWhatWasNotMeasuredAgain(t *testing.T) {
	t.Parallel()
	row := func(contender string, v float64, date string) Row {
		return Row{Key: Key{contender, "noop", 25, "jobs_per_s"}, Median: v, Min: v, Max: v, Date: date}
	}
	old := File{
		Date: "monday", Versions: map[string]string{"asynq": "v1", "go": "go1"},
		Rows:   []Row{row("ours", 1, ""), row("asynq", 2, ""), row("bullmq", 3, "sunday")},
		Failed: []Failure{{Contender: "ours", Work: "noop", Workers: 25, Why: "x"}, {Contender: "asynq", Work: "link", Workers: 25, Why: "y"}},
	}
	f := File{Date: "tuesday", Versions: map[string]string{"go": "go2"}, Rows: []Row{row("ours", 10, "")}}.Merge(old)
	want := []Row{row("ours", 10, ""), row("asynq", 2, "monday"), row("bullmq", 3, "sunday")}
	if len(f.Rows) != 3 || f.Rows[0] != want[0] || f.Rows[1] != want[1] || f.Rows[2] != want[2] {
		t.Errorf("rows = %+v, want %+v", f.Rows, want)
	}
	if len(f.Failed) != 1 || f.Failed[0].Contender != "asynq" {
		t.Errorf("failed = %+v, want asynq's only: ours has been measured", f.Failed)
	}
	if f.Versions["go"] != "go2" || f.Versions["asynq"] != "v1" {
		t.Errorf("versions = %v", f.Versions)
	}
}

func TestTargets(t *testing.T) {
	t.Parallel()
	var c Collector
	c.Add("ours", "noop", 25, "jobs_per_s", 300)
	c.Add("ours", "noop", 100, "jobs_per_s", 300)
	for peer, v := range map[string]float64{"goworker": 20, "asynq": 50, "gocraft": 100, "limit": 400} {
		c.Add(peer, "noop", 25, "jobs_per_s", v)
	}
	for n, v := range map[int]float64{1: 4, 2: 5, 8: 6} {
		c.Add("ours", "shards", n, "worker_cpu_us_per_job", v)
	}
	got := map[string]Target{}
	for _, target := range (File{Rows: c.Rows()}).Targets() {
		got[target.What] = target
	}
	for what, want := range map[string]Target{
		"≥ 8× no-op jobs against goworker, 25 workers":         {Measured: "15.0×", Reached: Yes},
		"≥ 8× no-op jobs against asynq, 25 workers":            {Measured: "6.00×", Reached: No},
		"≥ 16× no-op jobs against asynq, 100 workers":          {Measured: "-", Reached: Unknown},
		"≥ 3× no-op jobs against the fastest peer, 25 workers": {Measured: "3.00× (gocraft)", Reached: Yes},
		"≥ 0.7× no-op jobs against limit, 25 workers":          {Measured: "0.750×", Reached: Yes},

		"≤ 1.25× the worker's CPU a job over 2 Redises, 25 workers for each: over one": {Measured: "1.25×", Reached: Yes},
		"≤ 1.25× the worker's CPU a job over 4 Redises, 25 workers for each: over one": {Measured: "-", Reached: Unknown},
		"≤ 1.25× the worker's CPU a job over 8 Redises, 25 workers for each: over one": {Measured: "1.50×", Reached: No},
	} {
		want.What = what
		if got[what] != want {
			t.Errorf("%q: got %+v, want %+v", what, got[what], want)
		}
	}
}
