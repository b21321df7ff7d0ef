package result

import "fmt"

// Bound is something that operators use: what it was measured to take, beside what it is compared with, and how much that may be.
type Bound struct {
	What, Unit string // of Measured and Beside

	Measured, Beside float64
	compared, known  bool

	// One of these two bounds the ratio of the two or, where nothing is compared, what was measured. The other one is 0, and both are
	// where nothing is allowed at all.
	Least, Most float64
}

// Compared reports whether the bound is of a ratio.
func (b Bound) Compared() bool { return b.compared }

// Value is what is bounded.
func (b Bound) Value() float64 {
	if b.compared {
		return b.Measured / b.Beside
	}
	return b.Measured
}

// Held is whether the bound is held.
func (b Bound) Held() Verdict {
	v := b.Value()
	switch {
	case !b.known:
		return Unknown
	case b.Least > 0 && v >= b.Least, b.Least == 0 && v <= b.Most:
		return Yes
	}
	return No
}

// Allowed is the bound as text.
func (b Bound) Allowed() string {
	switch {
	case b.Least > 0:
		return fmt.Sprintf("≥ %v×", b.Least)
	case b.compared:
		return fmt.Sprintf("≤ %v×", b.Most)
	}
	return "≤ " + bounded(b.Most)
}

func bounded(v float64) string {
	if v < 1000 {
		return fmt.Sprint(v)
	}
	return Number(v)
}

// Bounds are those of what operators use.
func (f File) Bounds() []Bound {
	var list []Bound
	compare := func(what, unit string, b Bound, of, with Key) {
		m, ok1 := f.Get(of.Contender, of.Work, of.Workers, of.Figure)
		w, ok2 := f.Get(with.Contender, with.Work, with.Workers, with.Figure)
		b.What, b.Unit, b.Measured, b.Beside = what, unit, m.Median, w.Median
		b.compared, b.known = true, ok1 && ok2 && w.Median > 0
		list = append(list, b)
	}
	alone := func(what, unit string, most float64, of Key) {
		m, ok := f.Get(of.Contender, of.Work, of.Workers, of.Figure)
		list = append(list, Bound{What: what, Unit: unit, Measured: m.Median, known: ok, Most: most})
	}
	for _, n := range []int{1, 25, 100} {
		compare("no-op jobs with the history: without it, "+count(n), "jobs/s", Bound{Least: 0.97},
			Key{"ours", "history", n, "jobs_per_s"}, Key{"ours-no-history", "history", n, "jobs_per_s"})
	}
	for _, n := range []int{1, 25, 100} {
		compare("no-op jobs with metrics that are scraped each second: unscraped, "+count(n), "jobs/s", Bound{Least: 0.97},
			Key{"ours-scraped", "metrics", n, "jobs_per_s"}, Key{"ours-unscraped", "metrics", n, "jobs_per_s"})
		compare("the worker's CPU a job with metrics that are scraped each second: unscraped, "+count(n), "µs", Bound{Most: 1.03},
			Key{"ours-scraped", "metrics", n, "worker_cpu_us_per_job"}, Key{"ours-unscraped", "metrics", n, "worker_cpu_us_per_job"})
	}
	for _, n := range []int{1, 25, 100} { // which a busy machine changes less
		compare("the worker's CPU a job with the history: without it, "+count(n), "µs", Bound{Most: 1.03},
			Key{"ours", "history", n, "worker_cpu_us_per_job"}, Key{"ours-no-history", "history", n, "worker_cpu_us_per_job"})
	}
	compare("a sample of 10,000 workers and 1,000,000 jobs in 500 queues: of 10 and 1,000 in 500, p50", "ms", Bound{Most: 3},
		Key{"ours", "sample", 10_000, "sample_p50_ms"}, Key{"ours", "sample", 10, "sample_p50_ms"})
	compare("such samples, p95", "ms", Bound{Most: 3},
		Key{"ours", "sample", 10_000, "sample_p95_ms"}, Key{"ours", "sample", 10, "sample_p95_ms"})
	alone("the larger sample, p95", "ms", 5, Key{"ours", "sample", 10_000, "sample_p95_ms"})
	alone("a page of the dashboard of 10,000 workers, 1,000,000 jobs and 100,000 failures, p95", "ms", 100, Key{"ours", "dashboard-page", 10_000, "page_p95_ms"})
	alone("the slowest kind of page, p95", "ms", 100, Key{"ours", "dashboard-slowest-page", 10_000, "page_p95_ms"})
	alone("grouping 100,000 failures", "ms", 5000, Key{"ours", "group-failures", 100_000, "group_ms"})
	compare("the clear of a queue of 1,000,000 jobs: of 1,000, p50 of Redis's time", "ms", Bound{Most: 2},
		Key{"ours", "clear", 1_000_000, "redis_p50_ms"}, Key{"ours", "clear", 1000, "redis_p50_ms"})
	alone("the clear of 1,000,000 jobs, p95 of Redis's time", "ms", 0.1, Key{"ours", "clear", 1_000_000, "redis_p95_ms"})
	for _, of := range []struct {
		what, contender, work string
		least                 float64
	}{
		{"a rate", "ours-rated", "features", 0.65},
		{"a number at a time", "ours-limited", "features", 0.65},
		{"turns of ten keys", "ours-fair", "features", 0.65},
		{"a number at a time for each of ten keys", "ours-keyed", "features", 0.5},
		{"a number at a time for each of a hundred thousand keys", "ours-many-keys", "keys", 0.35},
	} {
		compare("no-op jobs with "+of.what+": without limits, "+count(25), "jobs/s", Bound{Least: of.least},
			Key{of.contender, of.work, 25, "jobs_per_s"}, Key{"ours", of.work, 25, "jobs_per_s"})
	}
	alone("the ten of one tenant behind a cold million of another start", "s", 1.2, Key{"ours", "behind-cold", 1_000_000, "behind_s"})
	alone("the ten of one tenant behind a sorted million of another start, p50", "starts", 30, Key{"ours", "behind-sorted", 1_000_000, "behind_starts"})
	renewal := Key{"ours", "renewal", 1, "redis_us_per_call"}
	for _, of := range []struct {
		what, work string
		calls      int
		most       float64
	}{
		{"a renewal with the pack of an idle process: without one", "renewal-idle-pack", 1, 1.2},
		{"a renewal with a pack of 20 classes: without one", "renewal-20-classes", 1, 2},
		{"a fold of 100 packs of 20 classes: a renewal without a pack", "fold", 100, 60},
	} {
		compare(of.what, "µs of Redis", Bound{Most: of.most}, Key{"ours", of.work, of.calls, "redis_us_per_call"}, renewal)
	}
	compare("a renewal in a fleet of 500 processes: of one", "µs of Redis", Bound{Most: 1.5},
		Key{"ours", "renewal-fleet", 500, "redis_us_per_call"}, Key{"ours", "renewal-fleet", 1, "redis_us_per_call"})
	for _, n := range []int{1, 20} {
		job := "the end of a job in the recorder of the history, " + map[int]string{1: "1 class", 20: "20 classes by turns"}[n]
		if n == 1 { // with several it also looks for the counters
			alone(job, "ns", 30, Key{"ours", "recorder", n, "call_ns"})
		}
		alone(job, "allocations", 0, Key{"ours", "recorder", n, "allocations_per_call"})
	}
	alone("commands of an idle process with the history", "a second", 1, Key{"ours", "idle-history", 25, "idle_commands_per_s"})
	alone("commands of an idle process without it", "a second", 1, Key{"ours-no-history", "idle-history", 25, "idle_commands_per_s"})
	alone("the history of 50 classes and 50 queues, with waits", "bytes of Redis", 8_000_000, Key{"ours", "history-rows", 50, "redis_bytes"})
	ping := Key{"ours", "ping", 50, "reached_p95_ms"}
	compare("a ping of 50 processes, p95: to its first answer", "ms", Bound{Most: 3}, ping, Key{"ours", "ping-first", 50, "reached_p95_ms"})
	alone("a ping of 50 processes, p95", "ms", 20, ping)
	compare("a pause of a queue until the last of 50 processes has read it, p95: a ping", "ms", Bound{Most: 2}, Key{"ours", "pause", 50, "reached_p95_ms"}, ping)
	compare("a limit of a class until the last of 50 processes has read it, p95: a ping", "ms", Bound{Most: 2}, Key{"ours", "limit", 50, "reached_p95_ms"}, ping)
	for _, of := range []struct {
		what, work, contender string
		least                 float64
	}{
		{"no-op jobs with a listener to bad ends: without one", "events", "ours-events", 0.97},
		{"no-op jobs with a listener to all events: without one", "events", "ours-events-all", 0.95},
		{"jobs of 1 ms with a listener to bad ends: without one", "events-1ms", "ours-events", 0.97},
		{"jobs of 1 ms with a listener to all events: without one", "events-1ms", "ours-events-all", 0.97},
	} {
		compare(of.what+", "+count(100), "jobs/s", Bound{Least: of.least}, Key{of.contender, of.work, 100, "jobs_per_s"}, Key{"ours", of.work, 100, "jobs_per_s"})
	}
	// With 25 workers such jobs leave the processor idle. What spans take where it is busy depends on the program's SDK and exporter.
	compare("jobs of 1 ms with traces: without, "+count(25), "jobs/s", Bound{Least: 0.97},
		Key{"ours-traced", "traces-1ms", 25, "jobs_per_s"}, Key{"ours", "traces-1ms", 25, "jobs_per_s"})
	for _, of := range []struct { // which a busy machine changes less
		what, contender string
		most            float64
	}{{"bad ends", "ours-events", 1.03}, {"all events", "ours-events-all", 1.05}} {
		compare("the worker's CPU a job with a listener to "+of.what+": without one, "+count(100), "µs", Bound{Most: of.most},
			Key{of.contender, "events", 100, "worker_cpu_us_per_job"}, Key{"ours", "events", 100, "worker_cpu_us_per_job"})
	}
	heard := Key{"ours", "failure-heard", 1, "reached_p95_ms"}
	compare("a job fails until a listener sees it, p95: a push to an idle process", "ms", Bound{Most: 5}, heard, Key{"ours", "failure-idle", 1, "reached_p95_ms"})
	alone("a job fails until a listener sees it, p95", "ms", 5, heard)
	added := Key{"ours", "queue-added", 1, "reached_p95_ms"}
	compare("a queue is added until its first job starts, p95: a push to an idle process", "ms", Bound{Most: 2}, added, Key{"ours", "queue-idle", 1, "reached_p95_ms"})
	alone("a queue is added until its first job starts, p95", "ms", 2, added)
	return list
}

// bounds adds them to what was aimed at.
func (t *targets) bounds() {
	for _, b := range t.f.Bounds() {
		text := Number(b.Value())
		if b.compared {
			text += "×"
		}
		t.add(b.Allowed()+" "+b.What+map[bool]string{false: ", in " + b.Unit}[b.compared], text, b.known, b.Held() == Yes)
	}
}
