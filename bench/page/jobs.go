package page

import (
	"github.com/goworker/goworker/bench/result"
)

// perJob are the figures of what a job costs.
var perJob = []figure{
	{"worker's CPU, µs", "worker_cpu_us_per_job"}, {"Redis's CPU, µs", "redis_cpu_us_per_job"}, {"bytes", "bytes_per_job"},
}

// aggregation compares jobs that are gathered into groups with the same jobs one by one.
func aggregation(f result.File) string {
	var t table
	heads := []string{"", "keys", "items/s", "µs of time an item"}
	for _, x := range perJob {
		heads = append(heads, x.head)
	}
	t.head(append(heads, "items/s : one by one")...)
	empty := true
	for _, of := range []struct{ work, keys string }{{"aggregation-one", "1"}, {"aggregation", "100"}} {
		for _, name := range []string{"ours", "ours-gathering", "asynq", "asynq-gathering"} {
			own := f.Median(name, of.work, 25, "jobs_per_s")
			if own == 0 {
				continue
			}
			empty = false
			cells := []string{title(name), of.keys, number(f, name, of.work, 25, "jobs_per_s"), result.Number(1e6 / own)}
			for _, x := range perJob {
				cells = append(cells, number(f, name, of.work, 25, x.name))
			}
			ratio, alone := "", map[string]string{"ours-gathering": "ours", "asynq-gathering": "asynq"}[name]
			if one := f.Median(alone, of.work, 25, "jobs_per_s"); one > 0 {
				ratio = result.Number(own/one) + "×"
			}
			t.row(append(cells, ratio)...)
		}
	}
	if empty {
		return notMeasured
	}
	return t.String()
}

// packed compares jobs in MessagePack with the same jobs in JSON.
func packed(f result.File) string {
	figures := []figure{
		{"bytes of an item", "item_bytes"}, {"bytes of Redis's memory", "redis_bytes_per_job"}, {"jobs/s", "jobs_per_s"},
		{"worker's CPU, µs", "worker_cpu_us_per_job"}, {"Redis's CPU, µs", "redis_cpu_us_per_job"},
		{"encoded in ns", "encode_ns"}, {"decoded in ns", "decode_ns"},
	}
	var t table
	heads := []string{"arguments", "item"}
	for _, x := range figures {
		heads = append(heads, x.head)
	}
	t.head(heads...)
	empty := true
	for _, shape := range []struct{ work, head string }{
		{"msgpack-small", "a short text, a number"},
		{"msgpack-record", "a record of eight fields, a number"},
		{"msgpack-numbers", "1,000 integers, a number"},
	} {
		for _, c := range []struct{ name, head string }{{"ours", "JSON"}, {"ours-msgpack", "MessagePack"}} {
			cells, any := []string{shape.head, c.head}, false
			for _, x := range figures {
				text := number(f, c.name, shape.work, 25, x.name)
				any = any || text != ""
				cells = append(cells, text)
			}
			if any {
				empty = false
				t.row(cells...)
			}
		}
	}
	if empty {
		return notMeasured
	}
	return t.String()
}

// cursors is what it costs a no-op job to keep how far it is.
func cursors(f result.File) string {
	figures := []figure{
		{"jobs/s", "jobs_per_s"}, {"worker's CPU, µs", "worker_cpu_us_per_job"}, {"Redis's CPU, µs", "redis_cpu_us_per_job"},
		{"commands", "commands_per_job"}, {"inside scripts", "inner_commands_per_job"}, {"bytes", "bytes_per_job"},
	}
	var t table
	heads := []string{"a job with an id"}
	for _, x := range figures {
		heads = append(heads, x.head)
	}
	t.head(append(heads, "jobs/s : none")...)
	plain := f.Median("ours-named", "cursor", 25, "jobs_per_s")
	if plain == 0 {
		return notMeasured
	}
	for _, row := range []struct{ contender, what string }{
		{"ours-named", "does nothing"},
		{"ours-set", "sets its cursor once"},
		{"ours-cursor", "reads its cursor and sets it once"},
		{"ours-sets", "reads its cursor and sets it 1,000 times"},
		{"ours-once", "has one result of `Once`"},
	} {
		own := f.Median(row.contender, "cursor", 25, "jobs_per_s")
		if own == 0 {
			continue
		}
		cells := []string{row.what}
		for _, x := range figures {
			cells = append(cells, number(f, row.contender, "cursor", 25, x.name))
		}
		t.row(append(cells, result.Number(own/plain)+"×")...)
	}
	return t.String()
}
