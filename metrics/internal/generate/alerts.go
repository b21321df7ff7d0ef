// Package generate makes the alert rules and the dashboard of deploy/ from the table of checks and from the tables here.
package generate

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/goworker/goworker/inspect/checks"
)

// Alert is an alert rule. Its sentence, what to do and its bound are those of a check.
type Alert struct {
	Name  string
	Check *checks.Check
	Expr  string
	For   time.Duration
	Words map[string]string // what stands in the sentence and the remedy for {names}
}

// rule is a recording rule.
type rule struct{ name, expr, says string }

// Recordings are the recording rules. One Prometheus may look at several fleets, so each number is of one job of its configuration.
// Where several instances show the fleet, their largest number counts.
var recordings = []rule{
	{"goworker:busy_ratio", `sum by (job) (goworker_workers{state="busy"}) / (sum by (job) (goworker_workers_limit) > 0)`,
		"the share of the workers of goworker that have a job"},
	{"goworker:fleet_busy_ratio", `max by (job) (goworker_fleet_workers_busy) / (max by (job) (goworker_fleet_workers_looked) > 0)`,
		"the same of all programs, as one process sees it in Redis"},
	{"goworker:failure_ratio5m", `sum by (job) (rate(goworker_jobs_total{outcome="failed"}[5m])) / (sum by (job) (rate(goworker_jobs_total{outcome=~"done|failed|retried|snoozed|discarded"}[5m])) > 0)`,
		"the share of the runs of five minutes after which the job failed for good"},
	{"goworker:queue_jobs", `sum by (job, queue) (max by (job, queue, state) (goworker_queue_jobs))`,
		"jobs in a queue, limited ones too"},
	{"goworker:queue_oldest_seconds", `max by (job, queue) (goworker_queue_oldest_seconds)`,
		"how long the first job of a queue has been due"},
	{"goworker:queue_growth10m", `deriv(goworker:queue_jobs[10m])`,
		"how many more jobs come to a queue each second than go"},
	{"goworker:drain_seconds", `goworker:queue_jobs / (-goworker:queue_growth10m > 0)`,
		"how long it takes until a queue is empty, if all goes on like this"},
}

// check returns the check with a name.
func check(name string) *checks.Check {
	for _, c := range checks.Table {
		if c.Name == name {
			return c
		}
	}
	panic("no check has the name " + name)
}

// bound writes a bound of a check as PromQL has it.
func bound(name string, more ...int) string {
	c := check(name)
	b := c.Bound
	if len(more) > 0 {
		b = c.More[more[0]]
	}
	return strconv.FormatFloat(b.Value, 'f', -1, 64)
}

// within is a bound in seconds as a range of PromQL.
func within(name string, more ...int) string { return "[" + bound(name, more...) + "s]" }

const (
	times    = `{{ $value | humanize }} times`
	queue    = `{{ $labels.queue }}`
	howMany  = `{{ with printf "goworker:queue_jobs{job=%q,queue=%q}" $labels.job $labels.queue | query }}{{ . | first | value | humanize }} jobs wait{{ else }}jobs wait{{ end }}`
	busyThen = `if nearly all workers are busy (goworker:busy_ratio), start more processes; else look at limits, and at the order of the queues`
)

// Alerts are the alert rules.
var Alerts = []Alert{{
	Name: "NoProcess", Check: check("no-process"), For: check("no-process").Bound.Duration(),
	Expr: `max by (job) (goworker_redis_up) == 1 and max by (job) (goworker_fleet_processes{kind="worker"}) + max by (job) (goworker_fleet_workers{kind="other"}) == 0`,
}, {
	Name: "QueueOld", Check: check("waits-long"), For: time.Minute,
	Expr:  `goworker:queue_oldest_seconds > ` + bound("waits-long") + ` unless on (job, queue) max by (job, queue) (goworker_queue_paused) == 1`,
	Words: map[string]string{"queue": queue, "age": `{{ $value | humanizeDuration }}`, "waiting": howMany, "do": busyThen},
}, {
	Name: "QueueGrows", Check: check("queue-grows"), For: 5 * time.Minute,
	Expr:  `goworker:queue_growth10m * ` + bound("queue-grows", 0) + ` >= goworker:queue_jobs and goworker:queue_jobs >= ` + bound("queue-grows"),
	Words: map[string]string{"queue": queue, "waiting": howMany, "do": busyThen, "rate": `{{ with printf "goworker:queue_growth10m{job=%q,queue=%q}" $labels.job $labels.queue | query }}{{ . | first | value | humanize }}{{ end }}`},
}, {
	Name: "QueueUnserved", Check: check("unserved"), For: time.Minute,
	Expr:  `goworker:queue_jobs > 0 and on (job, queue) sum by (job, queue) (max by (job, queue, kind) (goworker_queue_workers)) == 0`,
	Words: map[string]string{"queue": queue, "jobs": `{{ $value | humanize }} jobs`},
}, {
	Name: "FailureRatio", Check: check("jobs-fail"), For: time.Minute,
	Expr: `goworker:failure_ratio5m >= ` + bound("jobs-fail") + ` and sum by (job) (increase(goworker_jobs_total{outcome="failed"}[5m])) >= ` + bound("jobs-fail", 0),
	Words: map[string]string{
		"failed": `{{ with printf "sum(increase(goworker_jobs_total{job=%q,outcome='failed'}[5m]))" $labels.job | query }}{{ . | first | value | humanize }}{{ end }}`,
		"jobs":   `jobs of five minutes`, "share": `{{ $value | humanizePercentage }}`,
	},
}, {
	Name: "Stuck", Check: check("stuck"), For: time.Minute,
	Expr:  `max by (job) (goworker_fleet_stuck_jobs) > 0 or sum by (job) (goworker_stuck_jobs) > 0`,
	Words: map[string]string{"class": `{{ $value | humanize }} (goworker status names it)`, "queue": `of the fleet`, "age": `more than a minute`, "process": `of it`, "limit": `of its class`},
}, {
	Name: "LeaseLost", Check: check("lease-lost"),
	Expr:  `sum by (job) (increase(goworker_lease_losses_total` + within("lease-lost") + `)) > 0`,
	Words: map[string]string{"times": times},
}, {
	Name: "Poison", Check: check("poison"),
	Expr:  `sum by (job) (increase(goworker_poisoned_jobs_total` + within("poison") + `)) > 0`,
	Words: map[string]string{"times": times},
}, {
	Name: "NotExchanging", Check: check("not-exchanging"), For: time.Minute,
	Expr:  `max by (job) (goworker_fleet_not_exchanging_processes) > 0`,
	Words: map[string]string{"process": `(of {{ $value | humanize }})`, "age": `more than a minute`, "queue": `of theirs`, "jobs": `jobs`},
}, {
	Name: "DelayedLate", Check: check("delayed-late"), For: time.Minute,
	Expr:  `max by (job) (goworker_delayed_late_seconds) > ` + bound("delayed-late"),
	Words: map[string]string{"late": `{{ $value | humanizeDuration }}`, "jobs": `jobs are delayed`, "who": `nothing moves them`, "do": `start a goworker process or resque-scheduler; goworker doctor says why those that are there do not`},
}, {
	Name: "RedisErrors", Check: check("redis-errors"), For: time.Minute,
	Expr: `sum by (job, kind) (increase(goworker_redis_errors_total` + within("redis-errors", 0) + `)) >= ` + bound("redis-errors") +
		` or label_replace(max by (job) (goworker_redis_up) == 0, "kind", "unreachable", "", "")`,
	Words: map[string]string{"kind": `{{ $labels.kind }}`},
}, {
	Name: "Paused", Check: check("paused-queues"), For: check("paused-queues").Bound.Duration(),
	Expr:  `max by (job, queue) (goworker_queue_paused) == 1 and on (job, queue) goworker:queue_jobs > 0`,
	Words: map[string]string{"queue": queue, "since": `for more than half an hour`, "jobs": howMany},
}, {
	Name: "PausedAll", Check: check("paused-all"), For: check("paused-queues").Bound.Duration(),
	Expr:  `max by (job) (goworker_fleet_paused) == 1`,
	Words: map[string]string{"key": `pause-all-workers`},
}, {
	Name: "RestartLoop", Check: check("restart-loop"),
	Expr: `label_replace(max by (job, instance) (changes(goworker_start_timestamp_seconds` + within("restart-loop", 0) + `)), "part", "the process", "", "") >= ` + bound("restart-loop") +
		` or sum by (job, instance, part) (increase(goworker_part_restarts_total` + within("restart-loop", 0) + `)) >= ` + bound("restart-loop"),
	Words: map[string]string{"what": `{{ $labels.part }} of {{ $labels.instance }}`, "times": times},
}, {
	Name: "WebhookDead", Check: check("webhook-dead"),
	Expr:  `sum by (job, webhook) (increase(goworker_webhook_deliveries_total{result="dead"}` + within("webhook-dead") + `)) > 0`,
	Words: map[string]string{"webhook": `{{ $labels.webhook }}`, "times": `{{ $value | humanize }} deliveries`},
}, {
	Name: "RedisEvicts", Check: check("redis-evicts"), For: time.Minute,
	Expr:  `max by (job) (goworker_redis_evicts) == 1`,
	Words: map[string]string{"policy": `another one than noeviction`},
}, {
	Name: "RedisMemory", Check: check("redis-memory"), For: 5 * time.Minute,
	Expr:  `max by (job) (goworker_redis_memory_bytes) / (max by (job) (goworker_redis_max_memory_bytes) > 0) > ` + bound("redis-memory"),
	Words: map[string]string{"used": `{{ $value | humanizePercentage }}`, "limit": `memory`, "share": `see goworker doctor`, "largest": `see goworker doctor`},
}, {
	Name: "WorkersSaturated", Check: check("workers-saturated"), For: 15 * time.Minute,
	Expr: `goworker:busy_ratio >= ` + bound("workers-saturated") + ` and on (job) sum by (job) (goworker:queue_jobs) > 0 or goworker:fleet_busy_ratio >= ` + bound("workers-saturated") +
		` and on (job) sum by (job) (goworker:queue_jobs) > 0`,
	Words: map[string]string{"share": `{{ $value | humanizePercentage }}`, "waiting": `jobs wait`},
}}

var hole = regexp.MustCompile(`\{([a-z]+)\}`)

// filled is a text of a check with the words in the place of its {names}.
func (a *Alert) filled(text string) string {
	return hole.ReplaceAllStringFunc(text, func(name string) string {
		with, ok := a.Words[strings.Trim(name, "{}")]
		if !ok {
			panic(fmt.Sprintf("alert %s has nothing for %s of its check", a.Name, name))
		}
		return with
	})
}

// Summary is what the alert says, as a template of Prometheus.
func (a *Alert) Summary() string { return a.filled(a.Check.Sentence) }

// Do is what to do. It shows a command only where no name of Redis stands in it: a template cannot quote one for a shell.
func (a *Alert) Do() string {
	text := a.filled(a.Check.Remedy)
	if c := a.Check.Command; c != "" && !strings.Contains(c, "{") {
		text += ": " + c
	}
	return text
}

// Severity is the label of an alert.
func (a *Alert) Severity() string {
	if a.Check.Severity == checks.Error {
		return "critical"
	}
	return "warning"
}

// Rules returns the file of rules.
func Rules() []byte {
	var b strings.Builder
	b.WriteString("# Made from the table of checks by metrics/internal/generate: go -C metrics test ./internal/generate -update\ngroups:\n")
	b.WriteString("  - name: goworker-recordings\n    rules:\n")
	for _, r := range recordings {
		fmt.Fprintf(&b, "      # %s\n      - record: %s\n        expr: %s\n", r.says, r.name, quoted(r.expr))
	}
	b.WriteString("  - name: goworker\n    rules:\n")
	for _, a := range Alerts {
		fmt.Fprintf(&b, "      - alert: %s\n        expr: %s\n", "Goworker"+a.Name, quoted(a.Expr))
		if a.For > 0 {
			fmt.Fprintf(&b, "        for: %ds\n", int(a.For.Seconds()))
		}
		fmt.Fprintf(&b, "        labels: {severity: %s, check: %s}\n        annotations:\n          summary: %s\n          description: %s\n",
			a.Severity(), a.Check.Name, quoted(a.Summary()), quoted(a.Do()))
		if url := a.Check.RunbookURL(); url != "" {
			fmt.Fprintf(&b, "          runbook_url: %s\n", quoted(url))
		}
	}
	return []byte(b.String())
}

// quoted is a text in single quotes, which YAML reads as it stands.
func quoted(text string) string { return "'" + strings.ReplaceAll(text, "'", "''") + "'" }
