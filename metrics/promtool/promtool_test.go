// Package promtool runs Prometheus's own checks: of the rules, of a real scrape, and of each alert, firing and silent. PROMTOOL names
// the program; make test-operate unpacks Debian's.
package promtool

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/goworker/goworker/internal/redistest"
	"github.com/goworker/goworker/metrics"
	"github.com/goworker/goworker/metrics/internal/generate"
	"github.com/goworker/goworker/metrics/internal/scraped"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// rules is the file of rules, as the tests run beside this file.
const rules = "../../deploy/prometheus/goworker.rules.yaml"

// run runs promtool. Where it is missing, the test fails: what it shows would be shown by nothing.
func run(t *testing.T, stdin []byte, args ...string) {
	t.Helper()
	tool := os.Getenv("PROMTOOL")
	if tool == "" {
		tool = "promtool"
	}
	c := exec.Command(tool, args...)
	c.Stdin = bytes.NewReader(stdin)
	if out, err := c.CombinedOutput(); err != nil {
		t.Errorf("%s %s: %v; make promtool unpacks it, and PROMTOOL names it\n%s", tool, strings.Join(args, " "), err, out)
	}
}

func TestCheckRules(t *testing.T) {
	t.Parallel()
	run(t, nil, "check", "rules", rules)
}

func TestCheckConfig(t *testing.T) {
	t.Parallel()
	run(t, nil, "check", "config", "../../deploy/prometheus/prometheus.yaml")
}

// The text of a real scrape has no mistake that promtool knows.
func TestCheckMetrics(t *testing.T) {
	t.Parallel()
	b := scraped.Daemon(t)
	text, _ := scraped.Get(t, metrics.Handler(b.Daemon, metrics.Fleet()), "/metrics", 200)
	run(t, text, "check", "metrics")
}

// series are the inputs of one case of an alert: a value each minute.
type series map[string]string

// always is a value that stays.
func always(n float64) string { return fmt.Sprintf("%vx90", n) }

// The cases of each alert: series under which it fires at an hour and a half, and some under which it does not.
var cases = map[string]struct{ fires, silent series }{
	"NoProcess": {
		series{`goworker_redis_up{}`: always(1), `goworker_fleet_processes{kind="worker"}`: always(0), `goworker_fleet_workers{kind="other"}`: always(0)},
		series{`goworker_redis_up{}`: always(1), `goworker_fleet_processes{kind="worker"}`: always(0), `goworker_fleet_workers{kind="other"}`: always(2)}, // Ruby's
	},
	"QueueOld": {
		series{`goworker_queue_oldest_seconds{queue="mail",method="counted"}`: always(301), `goworker_queue_paused{queue="mail"}`: always(0)},
		series{`goworker_queue_oldest_seconds{queue="mail",method="counted"}`: always(3000), `goworker_queue_paused{queue="mail"}`: always(1)},
	},
	"QueueGrows": {
		series{`goworker_queue_jobs{queue="mail",state="waiting"}`: "0x69 0+300x20"}, // five a second: in half an hour 9,000 more
		series{`goworker_queue_jobs{queue="mail",state="waiting"}`: "90000+1x90"},
	},
	"QueueUnserved": {
		series{`goworker_queue_jobs{queue="mail",state="waiting"}`: always(3), `goworker_queue_workers{queue="mail",kind="goworker"}`: always(0), `goworker_queue_workers{queue="mail",kind="other"}`: always(0)},
		series{`goworker_queue_jobs{queue="mail",state="waiting"}`: always(3), `goworker_queue_workers{queue="mail",kind="goworker"}`: always(0), `goworker_queue_workers{queue="mail",kind="http"}`: always(1)},
	},
	"FailureRatio": {
		series{`goworker_jobs_total{queue="mail",class="Mail",outcome="done"}`: "0+100x90", `goworker_jobs_total{queue="mail",class="Mail",outcome="failed"}`: "0+6x90"},
		series{`goworker_jobs_total{queue="mail",class="Mail",outcome="done"}`: "0+1x90", `goworker_jobs_total{queue="mail",class="Mail",outcome="failed"}`: "0+1x90"}, // half of them, but few
	},
	"Stuck":         {series{`goworker_stuck_jobs{}`: always(1)}, series{`goworker_stuck_jobs{}`: always(0), `goworker_fleet_stuck_jobs{}`: always(0)}},
	"LeaseLost":     {series{`goworker_lease_losses_total{}`: "0x85 1x5"}, series{`goworker_lease_losses_total{}`: "0x10 1x80"}},
	"Poison":        {series{`goworker_poisoned_jobs_total{}`: "0x85 1x5"}, series{`goworker_poisoned_jobs_total{}`: always(7)}},
	"NotExchanging": {series{`goworker_fleet_not_exchanging_processes{}`: always(1)}, series{`goworker_fleet_not_exchanging_processes{}`: "0x89 1x1"}},
	"DelayedLate":   {series{`goworker_delayed_late_seconds{}`: always(31)}, series{`goworker_delayed_late_seconds{}`: always(29)}},
	"RedisErrors": {
		series{`goworker_redis_errors_total{kind="connection"}`: "0+5x90"},
		series{`goworker_redis_errors_total{kind="connection"}`: "0+1x90", `goworker_redis_up{}`: always(1)},
	},
	"Paused": {
		series{`goworker_queue_paused{queue="mail"}`: always(1), `goworker_queue_jobs{queue="mail",state="waiting"}`: always(3)},
		series{`goworker_queue_paused{queue="mail"}`: "0x70 1x20", `goworker_queue_jobs{queue="mail",state="waiting"}`: always(3)}, // not for so long
	},
	"PausedAll": {series{`goworker_fleet_paused{}`: always(1)}, series{`goworker_fleet_paused{}`: "0x70 1x20"}},
	"RestartLoop": {
		series{`goworker_start_timestamp_seconds{}`: "0+100x90"},
		series{`goworker_start_timestamp_seconds{}`: "0x80 1 2 2 3x10", `goworker_part_restarts_total{part="metrics"}`: always(4)}, // three deploys
	},
	"WebhookDead":      {series{`goworker_webhook_deliveries_total{webhook="ops",result="dead"}`: "0x60 2x30"}, series{`goworker_webhook_deliveries_total{webhook="ops",result="failed"}`: "0+5x90"}},
	"RedisEvicts":      {series{`goworker_redis_evicts{}`: always(1)}, series{`goworker_redis_evicts{}`: always(0)}},
	"RedisMemory":      {series{`goworker_redis_memory_bytes{}`: always(81), `goworker_redis_max_memory_bytes{}`: always(100)}, series{`goworker_redis_memory_bytes{}`: always(81), `goworker_redis_max_memory_bytes{}`: always(0)}},
	"WorkersSaturated": {series{`goworker_workers{state="busy"}`: always(96), `goworker_workers_limit{}`: always(100), `goworker_queue_jobs{queue="mail",state="waiting"}`: always(1)}, series{`goworker_workers{state="busy"}`: always(96), `goworker_workers_limit{}`: always(100), `goworker_queue_jobs{queue="mail",state="waiting"}`: always(0)}},
}

// says is what one alert says: a template of it asks Prometheus.
const says = `      - {series: 'goworker_queue_jobs{job="QueueOld-fires",queue="mail",state="waiting"}', values: '12x90'}
      - {series: 'goworker_queue_workers{job="QueueOld-fires",queue="mail",kind="goworker"}', values: '4x90'}
    alert_rule_test:
      - eval_time: 90m
        alertname: GoworkerQueueOld
        exp_alerts:
          - exp_labels: {severity: warning, check: waits-long, job: QueueOld-fires, queue: mail}
            exp_annotations:
              summary: 'the oldest job of queue mail has waited 5m 1s: 12 jobs wait'
              description: 'if nearly all workers are busy (goworker:busy_ratio), start more processes; else look at limits, and at the order of the queues'
              runbook_url: 'https://github.com/goworker/goworker/blob/main/docs/runbook.md#4-jobs-are-old-while-workers-are-idle'
`

// Each alert fires where its check finds something, and is silent where it does not.
func TestAlerts(t *testing.T) {
	t.Parallel()
	path, err := filepath.Abs(rules)
	if err != nil {
		t.Fatal(err)
	}
	quote := func(text string) string { return "'" + strings.ReplaceAll(text, "'", "''") + "'" }
	var input, want strings.Builder
	for _, a := range generate.Alerts {
		c, ok := cases[a.Name]
		if !ok {
			t.Errorf("alert %s has no cases", a.Name)
		}
		for what, in := range map[string]series{"fires": c.fires, "silent": c.silent} { // each is a fleet of its own
			job := a.Name + "-" + what
			for name, values := range in {
				name = strings.Replace(strings.Replace(name, "{", fmt.Sprintf(`{job=%q,instance="web:9400",`, job), 1), ",}", "}", 1)
				fmt.Fprintf(&input, "      - {series: %s, values: %s}\n", quote(name), quote(values))
			}
			value := map[string]int{"fires": 1, "silent": 0}[what]
			fmt.Fprintf(&want, "      - expr: 'count(count by (alertname) (ALERTS{alertname=\"Goworker%s\",alertstate=\"firing\",job=\"%s\"})) or vector(0)'\n        eval_time: 90m\n        exp_samples: [{labels: '{}', value: %d}]\n", a.Name, job, value)
		}
	}
	text := fmt.Sprintf("rule_files: [%q]\nevaluation_interval: 1m\ntests:\n  - interval: 1m\n    input_series:\n%s%s    promql_expr_test:\n%s", path, input.String(), says, want.String())
	file := filepath.Join(t.TempDir(), "alerts.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	run(t, nil, "test", "rules", file)
}
