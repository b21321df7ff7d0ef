package metrics

import (
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/internal/clock"
	"github.com/goworker/goworker/internal/health"
	"github.com/goworker/goworker/internal/meter"
	"github.com/goworker/goworker/internal/neighbor"
	"github.com/goworker/goworker/internal/outcome"
	"github.com/goworker/goworker/internal/redistest"
)

// flooded is a daemon whose jobs have any names.
type flooded struct {
	tally *health.Tally
	meter *meter.Meter
	*goworker.Client
}

func (f *flooded) Measured(add func(neighbor.Measured)) {
	add(neighbor.Measured{Meter: f.meter, Tally: f.tally})
}
func (f *flooded) Stats() goworker.Stats            { return goworker.Stats{Since: f.tally.Since} }
func (f *flooded) Health() goworker.Health          { return goworker.Health{} }
func (f *flooded) StuckJobs() []goworker.StuckJob   { return nil }
func (f *flooded) PartStates() []goworker.PartState { return nil }

func (f *flooded) ended(queue, class string) {
	j := &outcome.Job{Name: class}
	if class != "" {
		j.Class = &outcome.Class{Name: class}
	}
	j.Queue = queue
	f.tally.Ended(j, &outcome.Outcome{State: outcome.Done, Started: true, Ran: time.Millisecond})
	f.tally.Waited(j, time.Second)
	f.meter.Enqueued(queue, class, meter.Pushed)
}

// However many names there are of queues, classes, limits and schedules, the series stay within their bounds; every label is valid UTF-8;
// and a name that has a series keeps it, so that no counter goes back.
func TestFloodOfNames(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client, err := goworker.NewClient(goworker.WorkerSettings{URI: server.URI()})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	f := &flooded{health.NewTally(clock.System), meter.New(), client}
	h := Handler(f, Fleet())
	scrape := func() map[string]float64 {
		t.Helper()
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
		if w.Code != 200 || !utf8.Valid(w.Body.Bytes()) {
			t.Fatalf("%d, valid UTF-8: %v", w.Code, utf8.Valid(w.Body.Bytes()))
		}
		parser := expfmt.NewTextParser(model.UTF8Validation)
		all, err := parser.TextToMetricFamilies(w.Body)
		if err != nil {
			t.Fatal(err)
		}
		series := make(map[string]float64)
		for name, family := range all {
			for _, m := range family.GetMetric() {
				key := name
				for _, l := range m.GetLabel() {
					if key += " " + l.GetName() + "=" + l.GetValue(); len(l.GetValue()) > 128 {
						t.Errorf("%s has a label of %d bytes", name, len(l.GetValue()))
					}
				}
				series[key] = m.GetCounter().GetValue()
			}
		}
		return series
	}
	f.ended("first", "First")
	before := scrape()
	if before["goworker_jobs_total class=First outcome=done queue=first"] != 1 {
		t.Fatalf("%v", before)
	}
	for n := range 1200 {
		queue, class := fmt.Sprint("q", n%500, "\xff\n\"", strings.Repeat("x", n%400)), fmt.Sprint("C", n, "\x00\xfe")
		f.ended(queue, class)
		f.ended(queue, "")
	}
	server.Do(t, "EVAL", `for n = 1, 3000 do
		local q = 'waits-' .. n .. '\255'
		redis.call('SADD', 'resque:queues', q)
		redis.call('RPUSH', 'resque:queue:' .. q, '{"class":"A","args":[]}')
		redis.call('HSET', 'resque:go:limits', 'c:Limit' .. n, '1')
	end`, 0)
	h = Handler(f, Fleet()) // which looks now
	f.ended("first", "First")
	after := scrape()
	count := func(metric string) (n int) {
		for key := range after {
			if key == metric || strings.HasPrefix(key, metric+" ") {
				n++
			}
		}
		return n
	}
	for metric, most := range map[string]int{
		"goworker_jobs_total": 3 * (MostPairs + 1), "goworker_job_duration_seconds": MostPairs + 1, "goworker_job_wait_seconds": MostQueues + 1,
		"goworker_enqueued_jobs_total": MostPairs + 1, "goworker_queue_jobs": 2 * (MostQueues + 1),
		"goworker_queue_paused": MostQueues + 1, "goworker_queue_workers": 3 * (MostQueues + 1), "goworker_limit_running": MostOthers + 1, "goworker_limit_max": MostOthers,
	} {
		if n := count(metric); n > most || n == 0 {
			t.Errorf("%s has %d series, and %d are allowed", metric, n, most)
		}
	}
	if len(after) > 6000 {
		t.Errorf("%d series", len(after))
	}
	total := 0.0
	for key, n := range after {
		if strings.HasPrefix(key, "goworker_jobs_total ") {
			total += n
		}
	}
	if total != 2402 {
		t.Errorf("%v jobs were counted, not 2402", total)
	}
	for range 3 { // others become the largest now, and each keeps its label
		for n := range 50 {
			for range 40 {
				f.ended(fmt.Sprint("late", n), fmt.Sprint("Late", n))
			}
		}
		for key, n := range scrape() {
			if was, there := after[key]; there && strings.Contains(key, "_total") && n < was {
				t.Errorf("%s fell from %v to %v", key, was, n)
			}
			if strings.Contains(key, "=late") {
				t.Errorf("%s is new", key)
			}
		}
	}
}
