package page

import (
	"fmt"
	"time"

	"github.com/goworker/goworker/bench/result"
	"github.com/goworker/goworker/internal/sizing"
)

// fleets are how many processes work a full queue of one Redis; idle ones wait.
func busyFleets(f result.File) string {
	var t table
	t.head("processes of 25 workers", "jobs/s", "a Redis's core in use, %", "Redis's CPU a job, µs", "process's CPU a job, µs", "commands a job", "jobs/s by a whole core of Redis's")
	empty := true
	line := func(head, work string, n, redises int) {
		redis := f.Median("ours", work, n, "redis_cpu_us_per_job")
		if redis == 0 {
			return
		}
		empty = false
		t.row(head, number(f, "ours", work, n, "jobs_per_s"), number(f, "ours", work, n, "redis_busy_percent"), number(f, "ours", work, n, "redis_cpu_us_per_job"),
			number(f, "ours", work, n, "worker_cpu_us_per_job"), number(f, "ours", work, n, "commands_per_job"), result.Number(float64(redises)*1e6/redis))
	}
	for _, n := range []int{1, 2, 4, 8, 16} {
		line(fmt.Sprint(n), "fleet", n, 1)
	}
	line("2, and 2 shards of one Redis each", "fleet-shards", 2, 2)
	if empty {
		return notMeasured
	}
	return t.String()
}

func idleFleets(f result.File) string {
	var t table
	t.head("processes that wait", "commands/s each", "Redis's CPU each, µs/s", "Redis's core in use, %", "bytes/s each", "connections each", "Redis's memory each, KiB",
		"at 100 pushes/s: commands a job", "model", "Redis's core in use, %")
	empty := true
	for _, n := range []int{1, 10, 100, 300, 1000} {
		idle := f.Median("ours", "fleet-idle", n, "redis_us_per_s")
		if idle == 0 {
			continue
		}
		empty = false
		cell := func(figure string) string { return number(f, "ours", "fleet-idle", n, figure) }
		t.row(wholeNumber(n), cell("idle_commands_per_s"), cell("redis_us_per_s"), result.Number(idle*float64(n)/1e4), cell("bytes_per_s"), cell("connections"),
			result.Number(f.Median("ours", "fleet-idle", n, "redis_bytes")/1024), number(f, "ours", "fleet-woken", n, "commands_per_job"),
			result.Number(woken(n)), number(f, "ours", "fleet-woken", n, "redis_busy_percent"))
	}
	if empty {
		return notMeasured
	}
	return t.String()
}

// renewed is what the renewals of fleets take.
func renewed(f result.File) string {
	var t table
	t.head("processes", "a renewal, µs of Redis", "of one alone", "all renewals, % of Redis's core")
	empty := true
	alone := f.Median("ours", "renewal-fleet", 1, "redis_us_per_call")
	for _, n := range []int{1, 100, 500, 1000} {
		took := f.Median("ours", "renewal-fleet", n, "redis_us_per_call")
		if took == 0 || alone == 0 {
			continue
		}
		empty = false
		const every = 2.0 // internal/fleet
		t.row(wholeNumber(n), number(f, "ours", "renewal-fleet", n, "redis_us_per_call"), fmt.Sprintf("%.2f×", took/alone), result.Number(float64(n)*took/every/1e4))
	}
	if empty {
		return notMeasured
	}
	return t.String()
}

// WokenRate is how many jobs a second come to the fleets that mostly wait.
const WokenRate = 100

// woken is what the model says of a fleet that mostly waits.
func woken(processes int) float64 {
	return sizing.Alone(sizing.Plain) + sizing.Woken(WokenRate, processes)
}

// planned is a table of the model: a row a load.
func planned(loads []sizing.Load) func(result.File) string {
	return func(f result.File) string {
		m := Figures(f)
		var t table
		t.head("load", "workers", "processes of workers", "commands a job", "Redis's CPU a job, µs", "Redis's cores", "Redises", "processes' cores, without handlers", "connections", "MB/s")
		for _, l := range loads {
			p, err := m.Of(l)
			if err != nil {
				return err.Error() + "\n"
			}
			t.row(fmt.Sprintf("%s jobs/s of %s", wholeNumber(int(l.Rate)), l.Duration), wholeNumber(p.Needed),
				fmt.Sprintf("%s × %s", wholeNumber(p.Processes), wholeNumber(p.Workers)), result.Number(p.Commands+p.Woken),
				fmt.Sprintf("%.0f", us(p.RedisTime)), result.Number(p.RedisBusy), fmt.Sprint(p.Redises), result.Number(p.WorkerCores),
				wholeNumber(p.Connections), result.Number(p.Rate*p.Bytes/1e6))
		}
		return t.String()
	}
}

func us(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// wholeNumber is a number without a fraction.
func wholeNumber(n int) string {
	if n < 1000 {
		return fmt.Sprint(n)
	}
	return result.Number(float64(n))
}

// kinds is a table of what kinds of jobs cost, by the model: alone, and in a full queue.
func kinds(f result.File) string {
	m := Figures(f)
	var t table
	t.head("a job is", "commands, alone", "Redis's CPU, alone, µs", "of it beside exchanges and push", "process's CPU, alone, µs", "bytes, alone")
	for _, name := range sizing.Kinds() {
		k, n := m.Kinds[name], sizing.Alone(name)
		t.row(name, wholeNumber(int(n)), result.Number(m.Push.Redis+k.Redis+n*m.Exchange.Redis), result.Number(k.Redis), result.Number(k.Worker+n*m.Exchange.Worker),
			result.Number(m.Push.Bytes+k.Bytes+n*m.Exchange.Bytes))
	}
	return t.String()
}

// weights are bytes of Redis's memory.
func weights(f result.File) string {
	all := Figures(f)
	m := all.Memory
	var t table
	t.head("what", "bytes of Redis")
	plus := func(v float64) string { return "its length + " + result.Number(v) }
	t.row("a job that waits in a queue", plus(m.Waiting))
	t.row("a job that waits for its time", plus(m.Delayed))
	t.row("a failure record, beside its job", plus(m.Failure))
	t.row("a result of 14 bytes, with its document", result.Number(m.Result))
	t.row("the history of 50 classes and 50 queues", result.Number(m.History))
	t.row("a process: its connections, record and workers", result.Number(all.Process.Redis))
	return t.String()
}

var usual = []sizing.Load{
	{Rate: 10, Duration: 500 * time.Millisecond},
	{Rate: 100, Duration: 200 * time.Millisecond},
	{Rate: 500, Duration: 200 * time.Millisecond},
	{Rate: 1000, Duration: 50 * time.Millisecond},
	{Rate: 5000, Duration: 20 * time.Millisecond, Workers: 50},
}

var large = []sizing.Load{
	{Rate: 1000, Duration: time.Second, Workers: 100},
	{Rate: 10_000, Duration: 100 * time.Millisecond, Workers: 100},
	{Rate: 10_000, Duration: time.Second, Workers: 250},
	{Rate: 100_000, Duration: 10 * time.Millisecond, Workers: 250},
	{Rate: 100_000, Duration: 100 * time.Millisecond, Workers: 500},
	{Rate: 100_000, Duration: 200 * time.Millisecond, Workers: 25, Processes: 1000},
}
