package generate

import (
	"bytes"
	"encoding/json"
)

// panel is a panel of the dashboard.
type panel struct {
	title, unit string
	wide        int // of 24 columns
	queries     []query
	stat        bool // one number in place of a graph
	help        string
}

type query struct{ expr, legend string }

// section is a row of panels.
type section struct {
	title  string
	panels []panel
}

// Of the variables, $job is the job of the scrape configuration, and $queue and $class are any number of names.
const (
	ofJob   = `job=~"$job"`
	ofQueue = ofJob + `,queue=~"$queue"`
	ofClass = ofQueue + `,class=~"$class"`
)

func quantile(q, metric, by, labels string) string {
	return `histogram_quantile(` + q + `, sum by (le` + by + `) (rate(` + metric + `_bucket{` + labels + `}[$__rate_interval])))`
}

// sections are the dashboard: what an operator looks at first comes first.
var sections = []section{
	{"Is all well", []panel{
		{title: "Processes", wide: 3, stat: true, queries: []query{{`max(goworker_fleet_processes{` + ofJob + `,kind="worker"})`, ""}}},
		{title: "Jobs that wait", wide: 3, stat: true, queries: []query{{`sum(goworker:queue_jobs{` + ofJob + `})`, ""}}},
		{title: "Oldest job", unit: "s", wide: 3, stat: true, queries: []query{{`max(goworker:queue_oldest_seconds{` + ofJob + `})`, ""}}},
		{title: "Workers busy", unit: "percentunit", wide: 3, stat: true, queries: []query{{`max(goworker:busy_ratio{` + ofJob + `}) or max(goworker:fleet_busy_ratio{` + ofJob + `})`, ""}}},
		{title: "Jobs that fail", unit: "percentunit", wide: 3, stat: true, queries: []query{{`max(goworker:failure_ratio5m{` + ofJob + `})`, ""}}},
		{title: "Stuck jobs", wide: 3, stat: true, queries: []query{{`max(goworker_fleet_stuck_jobs{` + ofJob + `}) or sum(goworker_stuck_jobs{` + ofJob + `})`, ""}}},
		{title: "Delayed jobs are late by", unit: "s", wide: 3, stat: true, queries: []query{{`max(goworker_delayed_late_seconds{` + ofJob + `})`, ""}}},
		{title: "Alerts", wide: 3, stat: true, queries: []query{{`count(ALERTS{alertname=~"Goworker.+",alertstate="firing",` + ofJob + `}) or vector(0)`, ""}}},
	}},
	{"Queues", []panel{
		{title: "Jobs that wait", wide: 12, help: "Those that a limit holds back are among them.", queries: []query{{`goworker:queue_jobs{` + ofQueue + `}`, "{{queue}}"}}},
		{title: "Age of the oldest job", unit: "s", wide: 12, help: "The label method says how it is known: exact, counted within some seconds, or seen, which is a lower bound.",
			queries: []query{{`goworker:queue_oldest_seconds{` + ofQueue + `}`, "{{queue}}"}}},
		{title: "Held back by limits", wide: 8, queries: []query{{`max by (queue) (goworker_queue_jobs{` + ofQueue + `,state="limited"})`, "{{queue}}"}}},
		{title: "Empty in", unit: "s", wide: 8, help: "Without a line the queue is empty, or does not become shorter.", queries: []query{{`goworker:drain_seconds{` + ofQueue + `}`, "{{queue}}"}}},
		{title: "Who takes from it", wide: 8, queries: []query{{`max by (queue, kind) (goworker_queue_workers{` + ofQueue + `}) > 0`, "{{queue}} {{kind}}"}}},
		{title: "Pushed and taken a second", wide: 12, queries: []query{
			{`max by (queue) (rate(goworker_queue_pushed_total{` + ofQueue + `}[$__rate_interval]))`, "{{queue}} pushed"},
			{`-max by (queue) (rate(goworker_queue_taken_total{` + ofQueue + `}[$__rate_interval]))`, "{{queue}} taken"}}},
		{title: "Waited before they ran, 95 %", unit: "s", wide: 12, help: "Of jobs whose payloads say when they were enqueued.", queries: []query{{quantile("0.95", "goworker_job_wait_seconds", ", queue", ofQueue), "{{queue}}"}}},
	}},
	{"Jobs", []panel{
		{title: "Ended a second, by outcome", wide: 12, queries: []query{{`sum by (outcome) (rate(goworker_jobs_total{` + ofClass + `}[$__rate_interval]))`, "{{outcome}}"}}},
		{title: "Ended a second, by class", wide: 12, queries: []query{{`sum by (class) (rate(goworker_jobs_total{` + ofClass + `}[$__rate_interval]))`, "{{class}}"}}},
		{title: "Run time, 95 %", unit: "s", wide: 12, queries: []query{{quantile("0.95", "goworker_job_duration_seconds", ", class", ofClass), "{{class}}"}}},
		{title: "Failed a second, by class", wide: 12, queries: []query{{`sum by (class) (rate(goworker_jobs_total{` + ofClass + `,outcome="failed"}[$__rate_interval])) > 0`, "{{class}}"}}},
		{title: "Worker time, by class", wide: 12, help: "How many workers a class has busy on average.", queries: []query{{`sum by (class) (rate(goworker_job_duration_seconds_sum{` + ofClass + `}[$__rate_interval]))`, "{{class}}"}}},
		{title: "Enqueued by these programs a second", wide: 12, queries: []query{{`sum by (class, result) (rate(goworker_enqueued_jobs_total{` + ofClass + `}[$__rate_interval]))`, "{{class}} {{result}}"}}},
	}},
	{"Workers", []panel{
		{title: "Workers", wide: 8, queries: []query{{`sum by (state) (goworker_workers{` + ofJob + `})`, "{{state}}"}, {`sum(goworker_workers_limit{` + ofJob + `})`, "limit"}, {`sum(goworker_jobs_running{` + ofJob + `})`, "jobs"}}},
		{title: "Registered workers, all programs", wide: 8, queries: []query{{`max by (kind) (goworker_fleet_workers{` + ofJob + `})`, "{{kind}}"}, {`max(goworker_fleet_workers_busy{` + ofJob + `})`, "busy"}}},
		{title: "Paused, by reason", wide: 8, queries: []query{{`sum by (scope) (goworker_paused{` + ofJob + `}) > 0`, "{{scope}}"}, {`max(goworker_fleet_paused{` + ofJob + `}) > 0`, "all programs"}, {`max by (queue) (goworker_queue_paused{` + ofQueue + `}) > 0`, "queue {{queue}}"}}},
		{title: "What went wrong, an hour", wide: 12, queries: []query{
			{`sum(increase(goworker_recovered_jobs_total{` + ofJob + `}[1h]))`, "jobs of dead processes"}, {`sum(increase(goworker_duplicate_runs_total{` + ofJob + `}[1h]))`, "runs of jobs that others had"},
			{`sum(increase(goworker_lease_losses_total{` + ofJob + `}[1h]))`, "lost leases"}, {`sum(increase(goworker_poisoned_jobs_total{` + ofJob + `}[1h]))`, "poison"}}},
		{title: "Parts", wide: 12, queries: []query{{`sum by (part) (increase(goworker_part_restarts_total{` + ofJob + `}[1h])) > 0`, "{{part}} restarted"}, {`sum(goworker_parts_down{` + ofJob + `})`, "down"}}},
		{title: "Versions", wide: 12, queries: []query{{`count by (version, goversion) (goworker_build_info{` + ofJob + `})`, "{{version}} {{goversion}}"}}},
		{title: "Age of the processes", unit: "s", wide: 12, queries: []query{{`time() - max by (instance) (goworker_start_timestamp_seconds{` + ofJob + `})`, "{{instance}}"}}},
	}},
	{"Redis", []panel{
		{title: "Exchange, 50 and 99 %", unit: "s", wide: 8, queries: []query{{quantile("0.5", "goworker_exchange_duration_seconds", "", ofJob), "50 %"}, {quantile("0.99", "goworker_exchange_duration_seconds", "", ofJob), "99 %"}}},
		{title: "Jobs an exchange", wide: 8, queries: []query{{`sum(rate(goworker_exchange_jobs_sum{` + ofJob + `}[$__rate_interval])) / sum(rate(goworker_exchange_jobs_count{` + ofJob + `}[$__rate_interval]))`, "mean"}}},
		{title: "Since the last exchange and renewal", unit: "s", wide: 8, queries: []query{
			{`max(time() - goworker_last_exchange_timestamp_seconds{` + ofJob + `})`, "exchange"}, {`max(time() - goworker_lease_renewed_timestamp_seconds{` + ofJob + `})`, "renewal"}}},
		{title: "Errors a second, by kind", wide: 8, queries: []query{{`sum by (kind) (rate(goworker_redis_errors_total{` + ofJob + `}[$__rate_interval]))`, "{{kind}}"},
			{`sum by (connection) (rate(goworker_reconnects_total{` + ofJob + `}[$__rate_interval]))`, "reconnects of the {{connection}}"}}},
		{title: "Outages, an hour", unit: "s", wide: 8, queries: []query{{`max(increase(goworker_redis_outage_seconds_total{` + ofJob + `}[1h]))`, "the longest of a process"}, {`max(increase(goworker_redis_outages_total{` + ofJob + `}[1h]))`, "how many"}}},
		{title: "Processes without tracking", wide: 8, help: "They poll, and a push wakes them late.", queries: []query{{`count(goworker_tracking{` + ofJob + `} == 0) or vector(0)`, ""}}},
		{title: "Memory", unit: "bytes", wide: 8, queries: []query{{`max(goworker_redis_memory_bytes{` + ofJob + `})`, "used"}, {`max(goworker_redis_max_memory_bytes{` + ofJob + `}) > 0`, "limit"}}},
		{title: "Connections", wide: 8, queries: []query{{`max(goworker_redis_clients{` + ofJob + `})`, ""}}},
		{title: "Round trip, and the look of the exporter", unit: "s", wide: 8, queries: []query{{`max(goworker_redis_round_trip_seconds{` + ofJob + `})`, "round trip"}, {`max(goworker_fleet_look_seconds{` + ofJob + `})`, "look"}}},
	}},
	{"Later, and together", []panel{
		{title: "Delayed jobs", wide: 8, queries: []query{{`max by (schedule) (goworker_delayed_jobs{` + ofJob + `})`, "{{schedule}}"}}},
		{title: "Failures kept", wide: 8, queries: []query{{`max(goworker_failed_jobs{` + ofJob + `})`, ""}}},
		{title: "Jobs of all programs a second", wide: 8, queries: []query{{`max(rate(goworker_processed_total{` + ofJob + `}[$__rate_interval]))`, "processed"}, {`max(rate(goworker_failed_total{` + ofJob + `}[$__rate_interval]))`, "failed"}}},
		{title: "Limits: running and most", wide: 12, queries: []query{{`max by (limit) (goworker_limit_running{` + ofJob + `})`, "{{limit}} running"}, {`max by (limit) (goworker_limit_max{` + ofJob + `})`, "{{limit}} most"}}},
		{title: "Limits: waiting", wide: 12, queries: []query{{`max by (limit) (goworker_limit_waiting{` + ofJob + `})`, "{{limit}}"}}},
		{title: "Since the last tick", unit: "s", wide: 8, queries: []query{{`time() - max by (schedule) (goworker_schedule_last_tick_timestamp_seconds{` + ofJob + `})`, "{{schedule}}"}}},
		{title: "Until the next tick", unit: "s", wide: 8, queries: []query{{`max by (schedule) (goworker_schedule_next_tick_timestamp_seconds{` + ofJob + `}) - time()`, "{{schedule}}"}}},
		{title: "Workflows", wide: 8, queries: []query{{`max by (state) (goworker_workflows{` + ofJob + `})`, "{{state}}"}, {`sum by (outcome) (rate(goworker_workflow_steps_total{` + ofJob + `}[$__rate_interval]))`, "steps {{outcome}} a second"}}},
		{title: "Over HTTP", wide: 8, queries: []query{{`max(goworker_leased_jobs{` + ofJob + `})`, "leased"}, {`max(goworker_fleet_processes{` + ofJob + `,kind="http"})`, "servers"}}},
		{title: "Webhooks, an hour", wide: 8, queries: []query{{`sum by (webhook, result) (increase(goworker_webhook_deliveries_total{` + ofJob + `}[1h]))`, "{{webhook}} {{result}}"}}},
		{title: "Dropped, an hour", wide: 8, queries: []query{{`sum(increase(goworker_events_dropped_total{` + ofJob + `}[1h]))`, "packs of events"}, {`sum(increase(goworker_history_dropped_total{` + ofJob + `}[1h]))`, "packs of the history"}}},
	}},
}

// Exprs returns all queries of the dashboard and of the rules, by where they are. $__rate_interval is a time.
func Exprs() map[string]string {
	all := make(map[string]string)
	for _, r := range recordings {
		all["the rule "+r.name] = r.expr
	}
	for _, a := range Alerts {
		all["the alert "+a.Name] = a.Expr
	}
	for _, s := range sections {
		for _, p := range s.panels {
			for n, q := range p.queries {
				all["the panel "+s.title+", "+p.title+", query "+string(rune('A'+n))] = q.expr
			}
		}
	}
	for n, v := range variables {
		all["the variable "+v.name+string(rune('0'+n))] = v.of
	}
	return all
}

// variable is a choice at the top of the dashboard.
type variable struct {
	name, of, label string
	many            bool
}

var variables = []variable{
	{"job", "goworker_build_info", "job", true},
	{"queue", "goworker_queue_jobs", "queue", true},
	{"class", "goworker_jobs_total", "class", true},
}

// Recordings returns the names of the recording rules.
func Recordings() (names []string) {
	for _, r := range recordings {
		names = append(names, r.name)
	}
	return names
}

// Dashboard returns the dashboard of Grafana.
func Dashboard() []byte {
	type object = map[string]any
	source := object{"type": "prometheus", "uid": "${datasource}"}
	var panels []object
	id, y := 0, 0
	next := func() int { id++; return id }
	for _, s := range sections {
		panels = append(panels, object{"id": next(), "type": "row", "title": s.title, "collapsed": false, "panels": []object{}, "gridPos": object{"h": 1, "w": 24, "x": 0, "y": y}})
		y++
		x, height := 0, 8
		for _, p := range s.panels {
			kind := "timeseries"
			if height = 8; p.stat {
				kind, height = "stat", 4
			}
			if x+p.wide > 24 {
				x, y = 0, y+height
			}
			var targets []object
			for n, q := range p.queries {
				targets = append(targets, object{"refId": string(rune('A' + n)), "expr": q.expr, "legendFormat": q.legend, "datasource": source})
			}
			unit := p.unit
			if unit == "" {
				unit = "short"
			}
			panels = append(panels, object{
				"id": next(), "type": kind, "title": p.title, "description": p.help, "datasource": source, "targets": targets,
				"gridPos": object{"h": height, "w": p.wide, "x": x, "y": y}, "fieldConfig": object{"defaults": object{"unit": unit, "min": nil}, "overrides": []object{}},
			})
			x += p.wide
		}
		y += height
	}
	list := []object{{"name": "datasource", "type": "datasource", "query": "prometheus", "label": "Prometheus"}}
	for _, v := range variables {
		list = append(list, object{
			"name": v.name, "type": "query", "datasource": source, "query": object{"query": "label_values(" + v.of + ", " + v.label + ")", "refId": v.name},
			"multi": v.many, "includeAll": true, "allValue": ".*", "refresh": 2, "sort": 1, "current": object{"text": "All", "value": "$__all"},
		})
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetIndent("", " ")
	e.SetEscapeHTML(false)
	err := e.Encode(object{
		"uid": "goworker", "title": "goworker", "tags": []string{"goworker"}, "schemaVersion": 39, "editable": true, "refresh": "30s", "timezone": "browser",
		"time": object{"from": "now-3h", "to": "now"}, "templating": object{"list": list}, "panels": panels,
		"annotations": object{"list": []object{{"name": "Alerts", "enable": true, "datasource": source, "expr": `ALERTS{alertname=~"Goworker.+",alertstate="firing"}`, "titleFormat": "{{alertname}}", "iconColor": "red"}}},
	})
	if err != nil {
		panic(err) // strings and numbers only
	}
	return b.Bytes()
}
