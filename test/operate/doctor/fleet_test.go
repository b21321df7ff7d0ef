package doctor

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/goworker/goworker/internal/resque"
)

// worker registers a worker of another program, with a heartbeat of a moment ago.
func (w *world) registered(id string) {
	w.t.Helper()
	w.do("HSET", "~workers:heartbeat", id, w.now(0))
	w.do("SADD", "~workers", id)
	w.do("SET", "~worker:"+id+":started", "2026-11-21 11:38:58 +0000")
}

// queue names a queue and pushes jobs.
func (w *world) queue(name string, jobs ...string) {
	w.t.Helper()
	w.do("SADD", "~queues", name)
	for _, j := range jobs {
		w.do("RPUSH", "~queue:"+name, j)
	}
}

// process registers a process of goworker with a lease of an hour, and its first worker. Further fields replace those of its record.
func (w *world) process(host, queues string, fields ...string) (id string) {
	w.t.Helper()
	id = host + ":1:0000abcd"
	w.do("HSET", "~go:process:"+id, "epoch", "1", "host", host, "pid", "1", "version", "v9", "queues", queues, "concurrency", "1",
		"started", "2026-11-21 11:38:58 +0000", "id_head", host+".go:1-", "id_queues", queues, "knows", resque.Knows)
	for n := 0; n < len(fields); n += 2 {
		w.do("HSET", "~go:process:"+id, fields[n], fields[n+1])
	}
	w.do("ZADD", "~go:processes", fmt.Sprint(time.Now().Add(time.Hour).UnixMilli()), id)
	w.registered(host + ".go:1-0:" + queues)
	return id
}

func ms(ago time.Duration) string { return fmt.Sprint(time.Now().Add(-ago).UnixMilli()) }

const (
	job = `{"class":"Mail","args":[1]}`
	// failed is a record as Ruby writes it.
	failed = `{"failed_at":"2026/11/21 11:38:58 UTC","payload":{"class":"Mail","args":[1]},"exception":"RuntimeError","error":"boom","backtrace":["a.rb:4"],"worker":"vm:1:mail","queue":"mail"}`
)

// workerFaults are those of checks 28, 29, 49 and 50.
var workerFaults = []fault{
	{number: 28, plant: func(w *world) {
		w.registered("vm:7:mail")
		w.do("HSET", "~workers:heartbeat", "vm:7:mail", w.now(12*time.Minute))
		w.do("SET", "~worker:vm:7:mail", `{"queue":"mail","run_at":"2026-11-21T02:38:58Z","payload":`+job+`}`)
	}, expect: `worker "vm:7:mail" sent its last heartbeat 12m`, remedy: "goworker workers rm -- vm:7:mail", mended: func(w *world) {
		for _, key := range []string{"~workers", "~workers:heartbeat", "~worker:vm:7:mail", "~worker:vm:7:mail:started"} {
			w.none(key)
		}
		w.failure(`"exception":"Resque::PruneDeadWorkerDirtyExit"`, `"payload":`+job, `"worker":"vm:7:mail","queue":"mail"`)
	}},
	{number: 28, name: "without a registration", plant: func(w *world) {
		w.do("HSET", "~workers:heartbeat", "vm:8:mail", w.now(time.Hour))
	}, expect: "vm:8:mail", mended: func(w *world) { w.none("~workers:heartbeat") }},
	{number: 29, plant: func(w *world) { w.do("SET", "~pruning_dead_workers_in_progress", "vm:7:mail") },
		expect: `worker "vm:7:mail" holds the lock`, remedy: `redis-cli -u "$REDIS_URL" DEL ns`, mended: func(w *world) { w.none("~pruning_dead_workers_in_progress") }},
	{number: 49, plant: func(w *world) {
		w.process("a", "mail")
		w.process("b", "mail", "version", "v10")
	}, expect: `1 process of "v10" ("b:1:0000abcd"), 1 process of "v9"`, remedy: "finish the deploy"},
	{number: 49, name: "too old", plant: func(w *world) { w.process("a", "mail", "knows", "workflows msgpack") }, expect: "too old to know of leases"},
	{number: 50, plant: func(w *world) {
		w.registered("vm:1:mail")
		w.registered("vm:1:video")
	}, expect: `worker "vm:1:mail" and worker "vm:1:video"`, remedy: "-hostname"},
	{number: 50, name: "processes", plant: func(w *world) {
		w.process("a", "mail")
		w.process("b", "mail", "id_head", "a.go:1-")
	}, expect: "have the same host and process number"},
}

// failureFaults are those of checks 30 to 32.
var failureFaults = []fault{
	{number: 30, name: "payload", plant: func(w *world) { w.failed(`"payload":{"class":"Mail","args":[1]},`, "") }, expect: "has no payload", remedy: "goworker failed rm -- "},
	{number: 30, name: "class", plant: func(w *world) { w.failed(`{"class":"Mail","args":[1]}`, `{"args":[1]}`) }, expect: "has a payload without a class"},
	{number: 30, name: "worker", plant: func(w *world) { w.failed(`"worker":"vm:1:mail",`, "") }, expect: "has no worker"},
	{number: 30, name: "time", plant: func(w *world) { w.failed(`"2026/11/21 11:38:58 UTC"`, "5") }, expect: "has no time"},
	{number: 30, name: "empty", plant: func(w *world) { w.do("RPUSH", "~failed", "") }, expect: "is empty", remedy: `failed 0 ''`},
	{number: 30, name: "no JSON", plant: func(w *world) { w.do("RPUSH", "~failed", "{") }, expect: "is no JSON object"},
	{number: 30, name: "in the middle of a long list of a queue", plant: func(w *world) {
		w.do("SADD", "~failed_queues", "mail_failed")
		args := []any{"~mail_failed"}
		for n := range 900 {
			if n == 450 {
				args = append(args, "null")
			}
			args = append(args, failed)
		}
		w.do("RPUSH", args...)
	}, expect: `in the list "mail_failed"`},
	{number: 31, plant: func(w *world) { w.failed(`["a.rb:4"]`, `"a.rb:4\nb.rb:5"`) }, expect: "is a text and no list", remedy: "goworker failed rm -- "},
	{number: 32, plant: func(w *world) {
		w.registered("vm:1:high,*")
		w.queue("mail", job, `{"class":`, job)
	}, expect: `"{\"class\":" in queue "mail" is no JSON`, remedy: "goworker doctor --fix 32", mended: func(w *world) {
		w.is("LRANGE", []any{job, job}, "~queue:mail", 0, -1)
		w.failure(`"payload":{"class":"InvalidPayload","args":["{\"class\":"]}`, `"backtrace":[]`, `"queue":"mail"`)
	}},
}

// queueFaults are those of checks 33 to 38.
var queueFaults = []fault{
	{number: 33, name: "comma", plant: func(w *world) { w.queue("a,b") }, expect: `queue "a,b" has a comma`, remedy: "goworker queues move -- 'a,b' a-b"},
	{number: 33, name: "blank", plant: func(w *world) { w.queue(" ") }, expect: "has a blank name", remedy: "goworker queues move -- ' ' renamed"},
	{number: 33, name: "weight", plant: func(w *world) { w.queue("=2") }, expect: "reads a weight"},
	{number: 33, name: "exclusion", plant: func(w *world) { w.queue("!low") }, expect: "exclamation mark", remedy: "goworker queues move -- '!low' low"},
	{number: 33, name: "whole key", plant: func(w *world) { w.queue(w.ns + "queue:mail") }, expect: "named by its whole key", remedy: " mail"},
	{number: 33, name: "with jobs", plant: func(w *world) { w.queue("mail ", job) }, expect: "it has 1 job", also: []int{35}},
	{number: 34, plant: func(w *world) { w.do("RPUSH", "~queue:lost", job, job) }, expect: `queue "lost" has 2 jobs`, remedy: `SADD ns`, mended: func(w *world) {
		w.is("SMEMBERS", []any{"lost"}, "~queues")
		w.is("LRANGE", []any{job, job}, "~queue:lost", 0, -1)
	}},
	{number: 35, plant: func(w *world) {
		w.registered("vm:1:high,video*")
		w.process("a", "low")
		w.queue("mail", job)
	}, expect: `queue "mail" has 1 job,`, remedy: "start a worker"},
	{number: 36, plant: func(w *world) {
		w.process("a", "mail", "classes", `["Video"]`)
		w.queue("mail", job)
	}, expect: `queue "mail" has jobs of class "Mail"`, remedy: "registers the class"},
	{number: 36, name: "over HTTP", plant: func(w *world) {
		w.registered("vm:1:*")
		w.taker("orders")
		w.queue("orders", `{"class":"HTTPJob","args":["x"],"id":"1"}`)
	}, expect: "cannot run what is published over HTTP", remedy: "!orders"},
	{number: 37, plant: func(w *world) { w.do("SET", "~pause-all-workers", " TRUE\n") }, expect: "are paused by the key", remedy: "DEL ns"},
	{number: 38, plant: func(w *world) {
		w.registered("vm:1:mail")
		w.queue("mail", job)
		w.do("SADD", "~go:paused", "mail")
		w.do("LPUSH", "~go:audit", fmt.Sprintf(`{"at":%q,"who":"ops@host-1","why":"broken template","what":"PauseQueue","on":"queue mail","changed":1}`,
			time.Now().Add(-31*time.Minute).UTC().Format(time.RFC3339)))
	}, expect: `by "ops@host-1": "broken template", and has 1 job`, remedy: "goworker queues resume -- mail"},
	{number: 38, name: "by nobody", plant: func(w *world) {
		w.registered("vm:1:mail")
		w.queue("mail", job)
		w.do("SADD", "~go:paused", "mail")
	}, expect: "since when is not known"},
}

// delayedFaults are those of checks 39 to 43.
var delayedFaults = []fault{
	{number: 39, plant: func(w *world) {
		second := fmt.Sprint(time.Now().Add(-11 * time.Minute).Unix())
		w.do("ZADD", "~delayed_queue_schedule", second, second)
		w.do("RPUSH", "~delayed:"+second, job, job)
	}, expect: "delayed jobs are late by up to 11m", remedy: "start a goworker process or resque-scheduler"},
	{number: 39, name: "of goworker", plant: func(w *world) {
		w.process("a", "mail")
		w.do("ZADD", "~go:schedule", ms(time.Minute), "4:mail"+job)
	}, expect: "1 job in all, and those that are alive", remedy: "the log of the first process"},
	{number: 40, plant: func(w *world) { w.do("SET", "~"+w.ns+"eu:resque_scheduler_master_lock", "vm:1") }, expect: `held by "vm:1", without an end`,
		remedy: "eu:resque_scheduler_master_lock", mended: func(w *world) { w.none("~" + w.ns + "eu:resque_scheduler_master_lock") }},
	{number: 40, plant: func(w *world) { w.do("SET", "~"+w.ns+"resque_scheduler_master_lock", "vm:1") }, expect: `held by "vm:1", without an end`,
		remedy: "resque_scheduler_master_lock", mended: func(w *world) { w.none("~" + w.ns + "resque_scheduler_master_lock") }},
	{number: 40, name: "of the dead", plant: func(w *world) {
		w.do("SET", "~"+w.ns+"resque_scheduler_master_lock", "vm:1:0123abcd", "EX", "170")
	}, expect: "no process of the fleet any more", mended: func(w *world) { w.none("~" + w.ns + "resque_scheduler_master_lock") }},
	{number: 40, name: "of node", plant: func(w *world) { w.do("SET", "~resque_scheduler_leader_lock", "vm-1") }, expect: "vm-1"},
	{number: 41, plant: func(w *world) {
		w.do("RPUSH", "~delayed:2000000000", `{"class":"Mail","args":[1],"queue":"mail"}`)
		w.do("HSET", "~delayed:last_enqueued_at", "nightly", "2026-11-21 11:38:58 +0000")
	}, expect: "has 1 job and is not in the set of seconds", remedy: "NX 2000000000 2000000000", mended: func(w *world) {
		w.is("ZRANGE", []any{"2000000000", "2000000000"}, "~delayed_queue_schedule", 0, -1, "WITHSCORES")
	}},
	{number: 42, plant: func(w *world) {
		w.do("HSET", "~go:inflight:a:1:0000abcd", "entered", "x", "7", "4:mail"+job, "8", "4:mail"+job)
	}, expect: "processes that are dead have reserved 2 jobs", remedy: "start a goworker process"},
	{number: 42, name: "over HTTP", plant: func(w *world) {
		w.do("HSET", "~go:leased", "4:mailx", job)
		w.do("ZADD", "~go:leases", ms(2*time.Minute), "4:mailx")
	}, expect: "leases ended more than a minute ago, hold 1 job", also: []int{43}},
	{number: 43, plant: func(w *world) {
		w.do("ZADD", "~go:schedule", ms(-time.Hour), `4:mail{"class":"Mail","args":[1],"id":"x"}`)
		w.do("RPUSH", "~go:lane:4:mail6:c:Mail", job, job)
	}, expect: "only goworker can move 2 jobs in lanes, 1 delayed job with more than class and arguments", remedy: "drain-to-ruby"},
}

// limitFaults are those of checks 44 to 48.
var limitFaults = []fault{
	{number: 44, plant: func(w *world) { w.do("HSET", "~go:limits", "c:Mail", "many") }, expect: `limit "c:Mail" is "many", which is no number`, remedy: "goworker limits reset -- c:Mail"},
	{number: 44, name: "zero", plant: func(w *world) { w.do("HSET", "~go:limits", "c:Mail", "0") }, expect: "so no job of it runs"},
	{number: 45, plant: func(w *world) {
		w.process("a", "mail", "limits", `{"c:Mail":"10"}`)
		w.do("HSET", "~go:limits", "c:Mail", "2")
	}, expect: `is "2", and its programs say "10"`, remedy: "goworker limits reset -- c:Mail"},
	{number: 46, plant: func(w *world) {
		w.process("a", "mail", "limits", `{"c:Mail":"10"}`)
		w.process("b", "mail", "limits", `{"c:Mail":"20"}`)
		w.do("HSET", "~go:limits", "c:Mail", "20")
	}, expect: `limit "c:Mail": "10", "20"`, remedy: "the same number"},
	{number: 47, plant: func(w *world) {
		w.do("HSET", "~go:unique:1234", "K3W1", fmt.Sprintf(`done %s %s  4:mail{"class":"Mail","args":[1],"unique":"done:1234","id":"K3W1"}`, ms(time.Hour), ms(time.Hour)))
		w.do("PEXPIRE", "~go:unique:1234", 3_600_000)
	}, expect: `the lock "1234" is held by job "K3W1" of queue "mail", which is nowhere`, remedy: "goworker locks release -- 1234", mended: func(w *world) { w.none("~go:unique:1234") }},
	{number: 48, plant: func(w *world) { w.do("SADD", "~go:slots:c:Mail", "a:1:0000abcd/7", "a:1:0000abcd/8") },
		expect: `2 of the 2 jobs that count as running under limit "c:Mail" are nowhere`, remedy: "wait a minute"},
}

// runningFaults are those of checks 51 to 54.
var runningFaults = []fault{
	{number: 51, plant: func(w *world) {
		w.process("a", "mail", "stuck", fmt.Sprintf(`[{"queue":"mail","class":"Resize","id":"x","worker":"a.go:1-0","started":%s,"limit":60000}]`, ms(41*time.Minute)))
	}, expect: `class "Resize" from queue "mail" has run for 41m`, remedy: "restart"},
	{number: 52, plant: func(w *world) {
		w.process("a", "mail", "vitals", fmt.Sprintf(`{"at":%s,"exchange":%s,"workers":25,"busy":3}`, ms(0), ms(2*time.Minute)))
		w.queue("mail", job)
	}, expect: `process "a:1:0000abcd" has not asked Redis for jobs for 2m`, remedy: "restart it"},
	{number: 53, plant: func(w *world) {
		w.do("HSET", "~persistent_schedules", "nightly", `{"class":"Mail","cron":"0 3 * * *","queue":"nights","args":[]}`)
	}, expect: `schedule "nightly" enqueues "Mail" into queue "nights"`, remedy: "start a worker"},
	{number: 54, plant: func(w *world) {
		w.registered("vm:1:mail")
		w.do("HSET", "~persistent_schedules", "hourly", `{"class":"Mail","cron":"0 * * * *","queue":"mail","args":[]}`)
		w.do("HSET", "~go:ticks", "hourly", ms(5*time.Hour)+" - x")
	}, expect: `schedule "hourly" should have enqueued "Mail"`, remedy: "goworker schedule run -- hourly"},
	{number: 54, name: "of Ruby's", plant: func(w *world) {
		w.registered("vm:1:mail")
		w.do("HSET", "~persistent_schedules", "hourly", `{"class":"Mail","cron":"0 * * * *","queue":"mail","args":[]}`)
		w.do("HSET", "~delayed:last_enqueued_at", "hourly", time.Now().Add(-5*time.Hour).UTC().Format("2006-01-02 15:04:05 -0700"))
	}, expect: "hourly"},
}

// taker registers a server of HTTP that clients ask for the jobs of a queue.
func (w *world) taker(queue string) {
	w.t.Helper()
	w.do("ZADD", "~go:takers", ms(-time.Hour), "web:2:0000beef")
	w.do("HSET", "~go:taker:web:2:0000beef", "host", "web", "pid", "2", "version", "v9", "queues", queue)
}

// failed files a failure that differs from Ruby's.
func (w *world) failed(old, now string) {
	w.t.Helper()
	w.do("RPUSH", "~failed", failed, strings.Replace(failed, old, now, 1))
}

// none: a key is gone.
func (w *world) none(key string) {
	w.t.Helper()
	if n := w.do("EXISTS", key); fmt.Sprint(n) != "0" {
		w.t.Errorf("the key %s is still there", key)
	}
}

// is compares an answer.
func (w *world) is(command string, want []any, args ...any) {
	w.t.Helper()
	if got := w.do(command, args...); fmt.Sprintf("%s", got) != fmt.Sprintf("%s", want) {
		w.t.Errorf("%s %v: %s, not %s", command, args, got, want)
	}
}

// failure: the only failure is a record that Ruby could have written, and has these texts in it.
func (w *world) failure(texts ...string) {
	w.t.Helper()
	list, _ := w.do("LRANGE", "~failed", 0, -1).([]any)
	if len(list) != 1 {
		w.t.Fatalf("%d failures, not 1", len(list))
	}
	raw, _ := list[0].([]byte)
	var fields map[string]any
	if err := json.Unmarshal(raw, &fields); err != nil {
		w.t.Fatalf("the failure is no JSON: %v", err)
	}
	for _, name := range []string{"failed_at", "payload", "exception", "error", "backtrace", "worker", "queue"} {
		if fields[name] == nil {
			w.t.Errorf("the failure has no %s: %s", name, raw)
		}
	}
	for _, text := range texts {
		if !strings.Contains(string(raw), text) {
			w.t.Errorf("the failure is %s, without %s", raw, text)
		}
	}
	if found := bad(w.look(30, 31)); len(found) > 0 {
		w.t.Errorf("the failure is not as Ruby's:\n%s", text(found))
	}
}
