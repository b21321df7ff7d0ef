package metrics_test

import (
	"encoding/json"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/internal/redistest"
	"github.com/goworker/goworker/metrics"
	"github.com/goworker/goworker/metrics/internal/scraped"
)

// An exporter shows a fleet of Ruby's workers alone: jobs that wait, who takes them, what failed.
func TestExporter(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	server.Do(t, "SADD", "resque:queues", "mail", "idle")
	server.Do(t, "RPUSH", "resque:queue:mail", `{"class":"A","args":[]}`, `{"class":"A","args":[]}`)
	server.Do(t, "SADD", "resque:workers", "ruby:1:mail", "ruby:2:mail")
	for _, w := range []string{"ruby:1:mail", "ruby:2:mail"} {
		server.Do(t, "HSET", "resque:workers:heartbeat", w, time.Now().UTC().Format(time.RFC3339))
	}
	server.Do(t, "SET", "resque:stat:processed", "41")
	c, err := goworker.NewClient(goworker.WorkerSettings{URI: server.URI()})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	h := metrics.Exporter(c)
	text, _ := scraped.Get(t, h, "/metrics", 200)
	all := families(t, text)
	for _, tt := range []struct {
		want   float64
		name   string
		labels []string
	}{
		{2, "queue_jobs", []string{"queue", "mail", "state", "waiting"}}, {2, "queue_workers", []string{"queue", "mail", "kind", "other"}},
		{2, "fleet_workers", []string{"kind", "other"}}, {0, "fleet_processes", nil}, {41, "processed_total", nil}, {0, "queue_workers", []string{"queue", "idle"}},
	} {
		if got := value(all["goworker_"+tt.name], tt.labels...); got != tt.want {
			t.Errorf("%s %v is %v, not %v", tt.name, tt.labels, got, tt.want)
		}
	}
	if all["goworker_jobs_total"] != nil {
		t.Error("an exporter has no jobs of its own")
	}
	scale := func(path string, status int) (s metrics.Scale) {
		t.Helper()
		body, kind := scraped.Get(t, h, path, status)
		if err := json.Unmarshal(body, &s); err != nil || kind != "application/json" {
			t.Errorf("%s, %s: %v", kind, body, err)
		}
		return s
	}
	if s := scale("/scale?queue=mail", 200); s.Waiting != 2 || s.Workers != 2 || s.Queue != "mail" || s.Busy == nil {
		t.Errorf("%+v", s)
	}
	if s := scale("/scale?queue=unknown", 200); s.Waiting != 0 || s.Oldest != 0 {
		t.Errorf("%+v", s)
	}
	scale("/scale", 400)
	scraped.Get(t, h, "/healthz", 200)
	scraped.Get(t, h, "/other", 404)
}

// Many scrapers cost one look a second.
func TestManyScrapers(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	server.Do(t, "SADD", "resque:queues", "mail")
	c, err := goworker.NewClient(goworker.WorkerSettings{URI: server.URI()})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	h := metrics.Exporter(c)
	scraped.Get(t, h, "/metrics", 200) // the first look takes what is looked at each 15 seconds, too
	begun, before := time.Now(), calls(t, server)
	var all sync.WaitGroup
	for range 6 {
		all.Go(func() {
			for range 50 {
				scraped.Get(t, h, "/scale?queue=mail", 200)
			}
		})
	}
	all.Wait()
	most := (int(time.Since(begun)/time.Second) + 2) * 40 // a look has 25 commands at most, and few inside of scripts
	if n := calls(t, server) - before; n > most {
		t.Errorf("300 requests took %d commands", n)
	}
}

// While Redis does not answer, a scrape says so and does not fail, and an autoscaler is given no old numbers as if they were true.
func TestRedisAway(t *testing.T) {
	t.Parallel()
	c, err := goworker.NewClient(goworker.WorkerSettings{URI: "redis://127.0.0.1:1/"})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	h := metrics.Exporter(c)
	text, _ := scraped.Get(t, h, "/metrics", 200)
	if all := families(t, text); all["goworker_redis_up"] == nil || value(all["goworker_redis_up"]) != 0 || all["goworker_queue_jobs"] != nil {
		t.Errorf("%s", text)
	}
	scraped.Get(t, h, "/scale?queue=mail", 503)
	scraped.Get(t, h, "/healthz", 200)
}

// calls is how many commands the server has had.
func calls(t *testing.T, server *redistest.Server) int {
	t.Helper()
	for line := range strings.Lines(server.Text(t, "INFO", "stats")) {
		var n int
		if text, ok := strings.CutPrefix(strings.TrimSpace(line), "total_commands_processed:"); ok {
			if err := json.Unmarshal([]byte(text), &n); err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	t.Fatal("Redis does not count its commands")
	return 0
}
