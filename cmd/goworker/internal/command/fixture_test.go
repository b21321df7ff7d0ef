package command

import (
	"fmt"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/inspect"
	"github.com/goworker/goworker/internal/redistest"
	"github.com/goworker/goworker/internal/resque"
	"github.com/goworker/goworker/internal/resque/history"
)

// put writes recorded keys.
func put(t *testing.T, s *redistest.Server, keys []redistest.Key) {
	t.Helper()
	for _, k := range keys {
		args := []any{k.Key}
		command := ""
		switch v := k.Value.(type) {
		case string:
			command, args = "SET", append(args, v)
		case []string:
			command = map[string]string{"list": "RPUSH", "set": "SADD"}[k.Type]
			for _, e := range v {
				args = append(args, e)
			}
		case map[string]string:
			command = "HSET"
			for field, e := range v {
				args = append(args, field, e)
			}
		case map[string]float64:
			command = "ZADD"
			for member, score := range v {
				args = append(args, score, member)
			}
		}
		s.Do(t, command, args...)
	}
}

// fillRuby writes what Ruby's Resque and resque-scheduler leave, as they were recorded: no key of goworker is there.
func fillRuby(t *testing.T, s *redistest.Server) {
	t.Helper()
	for _, scenario := range []string{"schedule", "schedule_recurring", "work_failure", "enqueue"} {
		put(t, s, redistest.Golden(t, scenario).KeysAfter)
	}
	put(t, s, redistest.Golden(t, "work_running").Snapshots["while_running"])
	s.Do(t, "SET", "resque:stat:processed", "41204118")
	// Golden files show how long ago it was. The record keeps a time of its own, since its id is computed from it.
	const ruby = "vm:1428:low"
	s.Do(t, "SET", "resque:worker:"+ruby, fmt.Sprintf(`{"queue":"low","run_at":%q,"payload":{"class":"Slow","args":[1.0]}}`, ago(2).Format(time.RFC3339)))
	s.Do(t, "SET", "resque:worker:"+ruby+":started", ago(26).Format("2006-01-02 15:04:05 -0700"))
	s.Do(t, "HSET", "resque:workers:heartbeat", ruby, ago(1).Format(time.RFC3339))
	failed := s.Text(t, "LPOP", "resque:failed")
	s.Do(t, "RPUSH", "resque:failed", strings.Replace(failed, "2026/11/21", "2036/11/21", 1))
}

// ago is a time before now, in hours, with half a minute to spare until its age in hours and minutes changes.
func ago(hours int) time.Time { return time.Now().Add(-time.Duration(hours) * time.Hour).UTC() }

// fleet is what a fleet of goworker and Ruby leaves.
func fleet(t *testing.T) *redistest.Server {
	s := redistest.Start(t)
	fill(t, s)
	return s
}

func fill(t *testing.T, s *redistest.Server) {
	t.Helper()
	fillRuby(t, s)
	s.Do(t, "SADD", "resque:queues", "mail", "reports")
	s.Do(t, "RPUSH", "resque:queue:mail", fmt.Sprintf(`{"class":"ActiveJob::QueueAdapters::ResqueAdapter::JobWrapper","args":[{"job_class":"Welcome","job_id":"8f1","queue_name":"mail","arguments":[7],"enqueued_at":%q}]}`, ago(3).Format(time.RFC3339Nano)),
		`{"class":"SendEmail","args":[1,{"account":7}],"id":"mine"}`)
	s.Do(t, "RPUSH", "resque:queue:reports", `{"class":"Report","args":[]}`)
	s.Do(t, "SADD", "resque:go:paused", "reports")

	lane := resque.NewLane("mail", resque.Limit{Kind: resque.LimitRunning, Name: "SendEmail/key", Keyed: true, Key: "acme"})
	s.Do(t, "RPUSH", resque.New("").KeyOfLane(lane), `{"class":"SendEmail","args":[2],"id":"laned"}`)
	member := resque.JobPrefix(lane.Queue) + lane.Shared
	s.Do(t, "SADD", "resque:go:lanes", member)
	s.Do(t, "ZADD", "resque:go:lanes:"+member, ago(2).UnixMicro(), lane.Own)
	s.Do(t, "HSET", "resque:go:limits", "c:SendEmail%2Fkey", "1", "r:Report", "100000.000 1", "c:odd", "many")
	s.Do(t, "HSET", "resque:go:rules", "limit:c:SendEmail%2Fkey", fmt.Sprintf(`{"value":"1","by":"ops@host-1","why":"the API is slow","at":%d}`, ago(3).UnixMilli()), "timeout:Report", `{"value":"90000"}`)

	s.Do(t, "ZADD", "resque:go:schedule", 1_900_000_000_000, `4:mail{"class":"SendEmail","args":[3],"id":"later"}`)
	s.Do(t, "ZADD", "resque:go:processes", 1_900_000_000_000, "web-1:722:be04")
	s.Do(t, "HSET", "resque:go:process:web-1:722:be04", "host", "web-1", "pid", 722, "version", "v0.9.0", "queues", "mail,reports", "concurrency", 2,
		"started", resque.StartedAt(ago(4)),
		"vitals", `{"at":1763805600000,"rss":54525952,"goroutines":38,"busy":1,"exchange":1763805599500,"rtt":310,"cpu":61000,"down":["schedule"]}`,
		"bridges", fmt.Sprintf(`[{"queue":"delayed:tasks","to":"msgpack:tasks","at":1763805600000,"waiting":1200,"taken":41000,"method":"counted","oldest":%d}]`, ago(3).UnixMilli()))
	s.Do(t, "SADD", "resque:workers", "web-1.go:722-0:mail,reports", "web-1.go:722-1:mail,reports")
	s.Do(t, "HSET", "resque:go:inflight:web-1:722:be04", "entered", "mark", 7, `4:mail{"class":"SendEmail","args":[4],"id":"runs"}`)
	const lock = "0123456789abcdef0123456789abcdef"
	s.Do(t, "HSET", "resque:go:unique:"+lock, "mine", `done 1800000000000 1800000001000  4:mail{"class":"SendEmail","args":[1,{"account":7}],"id":"mine"}`)
	s.Do(t, "ZADD", "resque:go:cancelled", 1_900_000_000_000, "j:later", 1_900_000_001_000, "t:web-1:722:be04:7")
	s.Do(t, "HSET", "resque:go:paused-schedules", "nightly", resque.StartedAt(ago(5)))
	plantPast(t, s)
	s.Do(t, "DEL", "resque:go:audit") // what it did; the audit shows one change
	s.Do(t, "LPUSH", "resque:go:audit", `{"at":"2026-11-22T12:00:00Z","who":"ops@host-1","why":"broken template","what":"PauseQueue","on":"queue reports","changed":1}`)
}

// hostileNames are names that want something of a terminal or a shell. The canary is a file that each of them would make.
func hostileNames(canary string) []string {
	touch := "touch " + canary
	return []string{
		"$(" + touch + ")", "`" + touch + "`", "a;" + touch, "a\n" + touch + "\n", "'; " + touch + "; '", `"; ` + touch + `; "`, "| " + touch, "&& " + touch,
		"a > " + canary, "-rf", "--help", "-u redis://elsewhere", "a b", "*", "~", "#", "!!", "${IFS}", "\\", "'", `"`, "a,b", "=2",
		"\x1b[31mred", "\x1b]0;title\x07", "a\rb", "\u202egnp.exe", "\u0085", "\u009b2J", "\xff\xfe", "\x00", "\t", "日本語", "e\u0301", "👩‍👩‍👧",
		"a very long name of a queue, so long that it cannot stand in a line of eighty columns whatever is done about it",
	}
}

// hostile is a Redis in which every name is a trap.
func hostile(t *testing.T, canary string) *redistest.Server {
	s := redistest.Start(t)
	names := hostileNames(canary)
	sort.Strings(names)
	for n, name := range names {
		s.Do(t, "SADD", "resque:queues", name)
		s.Do(t, "RPUSH", "resque:queue:"+name, `{"class":"A","args":[`+quote(name)+`],"id":"`+fmt.Sprint(n)+`"}`)
		s.Do(t, "SADD", "resque:workers", name+":1:"+name)
		s.Do(t, "SET", "resque:worker:"+name+":1:"+name, `{"queue":`+quote(name)+`,"payload":{"class":`+quote(name)+`,"args":[]}}`)
		s.Do(t, "HSET", "resque:persistent_schedules", name, `{"class":`+quote(name)+`,"every":"1h","queue":`+quote(name)+`}`)
		s.Do(t, "RPUSH", "resque:failed", `{"failed_at":`+quote(name)+`,"payload":{"class":`+quote(name)+`,"args":[]},"exception":`+quote(name)+`,"error":`+quote(name)+
			`,"backtrace":[`+quote(name)+`],"worker":`+quote(name)+`,"queue":`+quote(name)+`}`)
		s.Do(t, "ZADD", "resque:go:schedule", 1_900_000_000_000+n, fmt.Sprintf("%d:%s", len(name), name)+`{"class":`+quote(name)+`,"args":[]}`)
		s.Do(t, "HSET", "resque:go:limits", "c:"+name, "3")
		s.Do(t, "ZADD", "resque:go:cancelled", 1_900_000_000_000+n, "j:"+name)
	}
	s.Do(t, "HSET", "resque:go:limits", "\x1b[1m", "3")
	return s
}

// quote is a text in JSON; bytes that are no UTF-8 stay as they are.
func quote(text string) string {
	out := []byte{'"'}
	for i := range len(text) {
		switch c := text[i]; {
		case c == '"' || c == '\\':
			out = append(out, '\\', c)
		case c < 0x20:
			out = fmt.Appendf(out, `\u%04x`, c)
		default:
			out = append(out, c)
		}
	}
	return string(append(out, '"'))
}

// plantPast writes hours of history, lines of the log, and an operation that has removed two jobs.
func plantPast(t *testing.T, s *redistest.Server) {
	t.Helper()
	store := history.New(resque.New(""))
	hours := history.Spans[2]
	for n := range 3 {
		class := &history.Class{Ends: [history.States]uint64{uint64(1000 * (n + 1)), 7}, Processed: uint64(1000*(n+1) + 7)}
		for range 20 {
			class.Runs.Record(30 * time.Millisecond)
			class.Waits.Record(2 * time.Second)
		}
		class.Runs.Record(time.Minute)
		row := history.Row{
			Classes: map[string]*history.Class{"SendEmail": class, "\x1b[2JEvil": {Ends: [history.States]uint64{3}}, history.Unknown: {Ends: [history.States]uint64{1}}},
			Queues:  map[string]*history.Queue{"mail": {Pushed: 1100, Taken: 1000, Done: 990, Failed: 7, Depth: history.Level{Seen: 2, Sum: 50, Most: 40}}},
			Fleet:   history.Fleet{Present: time.Hour * 2, Busy: time.Hour, Waiting: history.Level{Seen: 4, Sum: 200, Most: 70}, Processes: history.Level{Seen: 1, Sum: 1, Most: 1}},
		}
		s.Do(t, "SET", store.HourKey(hours.Number(time.Now())-3+int64(n)).String(), row.Encode(nil))
	}
	at := time.Date(2026, 11, 22, 12, 4, 31, 0, time.UTC).UnixMilli()
	s.Do(t, "XADD", "resque:go:log", fmt.Sprint(at, "-0"), "kind", "online", "process", "web-1:722:be04", "version", "v0.9.0")
	s.Do(t, "XADD", "resque:go:log", fmt.Sprint(at, "-1"), "kind", "lost", "process", "web-2:811:9c1f\x1b[2J", "text", "its lease was over", "by", "web-1:722:be04")

	client, err := goworker.NewClient(goworker.WorkerSettings{URI: s.URI()})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	s.Do(t, "RPUSH", "resque:queue:old", `{"class":"Old","args":[1]}`, `{"class":"Old","args":[2]}`)
	s.Do(t, "SADD", "resque:queues", "old")
	all := client.Inspect().By("ops@host-1", "not needed").Operations()
	op, err := all.Start(t.Context(), inspect.Plan{Verb: inspect.Drop, Query: inspect.Query{Class: "Old", Queue: "old"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range all.Run(t.Context(), op.ID) {
		if err != nil {
			t.Fatal(err)
		}
	}
	s.Do(t, "SREM", "resque:queues", "old")
}
