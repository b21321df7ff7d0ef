package result

import "testing"

func TestBounds(t *testing.T) {
	t.Parallel()
	var c Collector
	c.Add("ours", "history", 25, "jobs_per_s", 96)
	c.Add("ours-no-history", "history", 25, "jobs_per_s", 100)
	c.Add("ours", "history", 100, "jobs_per_s", 98)
	c.Add("ours-no-history", "history", 100, "jobs_per_s", 100)
	c.Add("ours", "events", 100, "jobs_per_s", 100)
	c.Add("ours-events", "events", 100, "jobs_per_s", 98)
	c.Add("ours-events-all", "events", 100, "jobs_per_s", 94)
	c.Add("ours", "failure-idle", 1, "reached_p95_ms", 1)
	c.Add("ours", "failure-heard", 1, "reached_p95_ms", 5.5)
	c.Add("ours", "renewal", 1, "redis_us_per_call", 10)
	c.Add("ours", "renewal-20-classes", 1, "redis_us_per_call", 19)
	c.Add("ours", "fold", 100, "redis_us_per_call", 601)
	c.Add("ours", "renewal-fleet", 1, "redis_us_per_call", 10)
	c.Add("ours", "renewal-fleet", 500, "redis_us_per_call", 14)
	c.Add("ours", "recorder", 1, "allocations_per_call", 0)
	c.Add("ours", "recorder", 20, "allocations_per_call", 1)
	got := map[string]Bound{}
	for _, b := range (File{Rows: c.Rows()}).Bounds() {
		got[b.What+" "+b.Unit] = b
	}
	for what, want := range map[string]struct {
		held    Verdict
		allowed string
	}{
		"no-op jobs with the history: without it, 1 worker jobs/s":                         {Unknown, "≥ 0.97×"},
		"no-op jobs with the history: without it, 25 workers jobs/s":                       {No, "≥ 0.97×"},
		"no-op jobs with the history: without it, 100 workers jobs/s":                      {Yes, "≥ 0.97×"},
		"no-op jobs with a listener to bad ends: without one, 100 workers jobs/s":          {Yes, "≥ 0.97×"},
		"no-op jobs with a listener to all events: without one, 100 workers jobs/s":        {No, "≥ 0.95×"},
		"jobs of 1 ms with a listener to all events: without one, 100 workers jobs/s":      {Unknown, "≥ 0.97×"},
		"a job fails until a listener sees it, p95: a push to an idle process ms":          {No, "≤ 5×"},
		"a renewal with the pack of an idle process: without one µs of Redis":              {Unknown, "≤ 1.2×"},
		"a renewal with a pack of 20 classes: without one µs of Redis":                     {Yes, "≤ 2×"},
		"a fold of 100 packs of 20 classes: a renewal without a pack µs of Redis":          {No, "≤ 60×"},
		"a renewal in a fleet of 500 processes: of one µs of Redis":                        {Yes, "≤ 1.5×"},
		"the end of a job in the recorder of the history, 1 class allocations":             {Yes, "≤ 0"},
		"the end of a job in the recorder of the history, 20 classes by turns allocations": {No, "≤ 0"},
		"the history of 50 classes and 50 queues, with waits bytes of Redis":               {Unknown, "≤ 8,000,000"},
	} {
		b, ok := got[what]
		if !ok || b.Held() != want.held || b.Allowed() != want.allowed {
			t.Errorf("%s: %v, %s, there is %v; want %v, %s", what, b.Held(), b.Allowed(), ok, want.held, want.allowed)
		}
	}
}
