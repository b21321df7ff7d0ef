package metrics_test

import (
	"bytes"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"google.golang.org/protobuf/encoding/protodelim"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/internal/redistest"
	"github.com/goworker/goworker/metrics"
	"github.com/goworker/goworker/metrics/internal/generate"
	"github.com/goworker/goworker/metrics/internal/scraped"
)

const within = time.Minute

// families reads the text of a scrape.
func families(t *testing.T, text []byte) map[string]*dto.MetricFamily {
	t.Helper()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	all, err := parser.TextToMetricFamilies(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// value is the sum of a metric's values whose labels are these, name and value by turns.
func value(f *dto.MetricFamily, labels ...string) (sum float64) {
	for _, m := range f.GetMetric() {
		is := make(map[string]string)
		for _, l := range m.GetLabel() {
			is[l.GetName()] = l.GetValue()
		}
		fits := true
		for n := 0; n < len(labels); n += 2 {
			fits = fits && is[labels[n]] == labels[n+1]
		}
		if !fits {
			continue
		}
		switch {
		case m.Counter != nil:
			sum += m.Counter.GetValue()
		case m.Gauge != nil:
			sum += m.Gauge.GetValue()
		case m.Histogram != nil:
			sum += float64(m.Histogram.GetSampleCount())
		}
	}
	return sum
}

// A scrape of a daemon shows every metric of the table, with its kind and its labels, and no other; and the numbers are those of its jobs.
func TestScrape(t *testing.T) {
	t.Parallel()
	b := scraped.Daemon(t)
	var all map[string]*dto.MetricFamily
	redistest.Eventually(t, within, "the outcomes reach Redis, and a scrape", func() bool {
		text, _ := scraped.Get(t, metrics.Handler(b.Daemon, scraped.Options()...), "/metrics", 200) // a new one looks at once
		all = families(t, text)
		return value(all["goworker_processed_total"]) >= scraped.Done+scraped.Failed+4 && all["goworker_queue_oldest_seconds"] != nil &&
			value(all["goworker_schedule_next_tick_timestamp_seconds"]) > 0 && value(all["goworker_limit_max"]) > 0
	})
	kinds := map[dto.MetricType]metrics.Kind{dto.MetricType_COUNTER: metrics.Counter, dto.MetricType_GAUGE: metrics.Gauge, dto.MetricType_HISTOGRAM: metrics.Histogram}
	rows := make(map[string]metrics.Row)
	for _, r := range metrics.Table() {
		rows[r.Name] = r
		// Redis counts what comes to a queue and goes only after some seconds.
		if f := all[r.Name]; f == nil && !slices.Contains([]string{"goworker_queue_pushed_total", "goworker_queue_taken_total", "goworker_schedule_last_tick_timestamp_seconds"}, r.Name) {
			t.Errorf("a scrape lacks %s", r.Name)
		}
	}
	for name, f := range all {
		r, known := rows[name]
		if !known {
			if !strings.HasPrefix(name, "go_") && !strings.HasPrefix(name, "process_") && !strings.HasPrefix(name, "promhttp_") {
				t.Errorf("the table lacks %s", name)
			}
			continue
		}
		if kinds[f.GetType()] != r.Kind || f.GetHelp() != r.Help {
			t.Errorf("%s is a %s, %q", name, f.GetType(), f.GetHelp())
		}
		for _, m := range f.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, l.GetName())
			}
			if want := slices.Sorted(slices.Values(r.Labels)); !slices.Equal(labels, want) {
				t.Errorf("%s has the labels %v, not %v", name, labels, want)
			}
		}
	}
	for _, tt := range []struct {
		want   float64
		name   string
		labels []string
	}{
		{scraped.Done + 2, "jobs_total", []string{"queue", "work", "class", "Mark", "outcome", "done"}},
		{scraped.Failed, "jobs_total", []string{"class", "Fail", "outcome", "failed"}},
		{0, "jobs_total", []string{"class", "Fail", "outcome", "done"}},
		{scraped.Done + 2, "job_duration_seconds", []string{"class", "Mark"}},
		{1, "job_wait_seconds", []string{"queue", "work"}},
		{scraped.Done + scraped.Delayed, "enqueued_jobs_total", []string{"class", "Mark", "result", "pushed"}},
		{scraped.Delayed, "delayed_jobs", []string{"schedule", "all"}},
		{scraped.Failed, "failed_jobs", nil}, {scraped.Failed, "failed_total", nil},
		{4, "workers_limit", nil}, {4, "fleet_workers", []string{"kind", "goworker"}}, {1, "fleet_processes", []string{"kind", "worker"}},
		{2, "workflow_steps_total", []string{"outcome", "done"}},
		{1, "limit_max", nil}, {1, "redis_up", nil}, {1, "tracking", nil}, {1, "build_info", nil},
		{7, "webhook_deliveries_total", []string{"webhook", "ops", "result", "delivered"}},
		{0, "queue_jobs", []string{"queue", "work"}}, {0, "reconnects_total", nil}, {0, "lease_losses_total", nil},
	} {
		if got := value(all["goworker_"+tt.name], tt.labels...); got != tt.want {
			t.Errorf("%s %v is %v, not %v", tt.name, tt.labels, got, tt.want)
		}
	}
	checkExprs(t, rows)
}

// checkExprs holds the rules and the dashboard to the metrics that a scrape has.
func checkExprs(t *testing.T, rows map[string]metrics.Row) {
	t.Helper()
	for _, where := range slices.Sorted(maps.Keys(generate.Exprs())) {
		for _, wrong := range generate.Wrong(generate.Exprs()[where], rows) {
			t.Errorf("%s: %s", where, wrong)
		}
	}
}

// To a Prometheus that asks for protocol buffers a histogram is a native one of schema 1, whose buckets are those of the recorder.
func TestNativeHistograms(t *testing.T) {
	t.Parallel()
	b := scraped.Daemon(t)
	const format = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited"
	body, kind := scraped.Get(t, metrics.Handler(b.Daemon), "/metrics", 200, "Accept", format)
	if !strings.HasPrefix(kind, "application/vnd.google.protobuf") {
		t.Fatal(kind)
	}
	for r := bytes.NewReader(body); ; {
		var f dto.MetricFamily
		if err := protodelim.UnmarshalFrom(r, &f); err != nil {
			t.Fatal("no histogram of durations: ", err)
		}
		if f.GetName() != "goworker_job_duration_seconds" {
			continue
		}
		h := f.GetMetric()[0].GetHistogram()
		sum := h.GetZeroCount()
		at := int64(0)
		for _, d := range h.GetPositiveDelta() {
			at += d
			sum += uint64(at)
		}
		if h.GetSchema() != 1 || sum != h.GetSampleCount() || len(h.GetBucket()) != 13 || h.GetBucket()[0].GetUpperBound() != 1.0/4096 || h.GetBucket()[12].GetUpperBound() != 4096 {
			t.Errorf("%v", h)
		}
		return
	}
}

// A scrape takes nothing from the packs of the history: what it shows leaves as it would without.
func TestScrapesDisturbNoPacks(t *testing.T) {
	t.Parallel()
	b := scraped.Daemon(t)
	h := metrics.Handler(b.Daemon)
	for range 20 {
		scraped.Get(t, h, "/metrics", 200)
	}
	if err := b.Stop(); err != nil { // the last renewal carries what is not packed yet
		t.Fatal(err)
	}
	text, _ := scraped.Get(t, h, "/metrics", 200)
	all := families(t, text)["goworker_jobs_total"]
	if got := value(all, "outcome", "done") + value(all, "outcome", "failed"); got != scraped.Done+scraped.Failed+4 {
		t.Errorf("after the run %v jobs", got)
	}
	if n := b.Redis.Int(t, "LLEN", "resque:go:tally"); n == 0 {
		t.Error("no pack was pushed")
	}
}

// Shards show their jobs together.
func TestShards(t *testing.T) {
	t.Parallel()
	one, other := redistest.Start(t), redistest.Start(t)
	s := goworker.NewShards(goworker.WorkerSettings{Concurrency: 2}, goworker.Shard{URI: one.URI(), Queues: []string{"a"}}, goworker.Shard{URI: other.URI(), Queues: []string{"b"}})
	text, _ := scraped.Get(t, metrics.Handler(s, metrics.Fleet()), "/metrics", 200)
	if all := families(t, text); all["goworker_build_info"] == nil || value(all["goworker_redis_up"]) != 1 {
		t.Errorf("%s", text)
	}
	s.Close()
}
