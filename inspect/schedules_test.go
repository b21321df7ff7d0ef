package inspect_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goworker/goworker/inspect"
)

// Schedules of Redis and those that only their ticks show are listed, run, removed and compared with a file.
func TestSchedules(t *testing.T) {
	i, server, _ := setup(t)
	ctx := t.Context()
	server.Do(t, "HSET", "resque:persistent_schedules",
		"nightly", `{"class":"Report","cron":"0 3 * * * UTC","queue":"reports","args":["all",{"a":1}],"description":"figures"}`,
		"broken", `{"class":"Report","cron":"0 99 * * *","queue":"reports"}`,
		"new", `{"class":"New","every":"1h","queue":"new"}`)
	now := time.Now().UTC().Truncate(time.Second)
	server.Do(t, "HSET", "resque:go:ticks", "nightly", fmt.Sprint(now.UnixMilli(), " h:1:a x"), "in code", fmt.Sprint(now.UnixMilli(), " - y"))
	server.Do(t, "HSET", "resque:delayed:last_enqueued_at", "ruby's", now.Format("2006-01-02 15:04:05 -0700"))
	if err := i.PauseSchedule(ctx, "nightly"); err != nil {
		t.Fatal(err)
	}
	all, err := i.Schedules(ctx)
	var names []string
	for _, s := range all {
		names = append(names, fmt.Sprintf("%s kept=%t broken=%t paused=%t %s never=%t", s.Name, s.Kept, s.Broken != nil, s.Paused, s.Owner, s.LastEnqueued.IsZero()))
	}
	want(t, "schedules", []string{
		"broken kept=true broken=true paused=false  never=true", "in code kept=false broken=false paused=false  never=true",
		"new kept=true broken=false paused=false  never=true", "nightly kept=true broken=false paused=true h:1:a never=true",
		"ruby's kept=false broken=false paused=false  never=false",
	}, names, err)

	nightly, err := i.Schedule(ctx, "nightly")
	want(t, "nightly", []any{"Report", "reports", "0 3 * * * UTC", "figures", 2}, []any{nightly.Class, nightly.Queue, nightly.Cron, nightly.Description, len(nightly.Args)}, err)
	ticks, err := i.NextTicks(ctx, "nightly", 3)
	want(t, "ticks", 3, len(ticks), err)
	for n, at := range ticks {
		if at.UTC().Format(time.TimeOnly) != "03:00:00" || !at.After(now) || n > 0 && at.Sub(ticks[n-1]) != 24*time.Hour {
			t.Errorf("tick %d is at %v", n, at)
		}
	}
	for name, want := range map[string]error{"in code": inspect.ErrScheduleElsewhere, "nowhere": inspect.ErrUnknownSchedule} {
		_, err := i.NextTicks(ctx, name, 3)
		for _, err := range []error{err, i.RunSchedule(ctx, name), i.RemoveSchedule(ctx, name)} {
			if !errors.Is(err, want) {
				t.Errorf("%s: %v; want %v", name, err, want)
			}
		}
	}
	if err := i.RunSchedule(ctx, "broken"); err == nil || !strings.Contains(err.Error(), "99") {
		t.Errorf("broken: %v", err)
	}
	if err := i.RunSchedule(ctx, "nightly"); err != nil {
		t.Error(err)
	}
	want(t, "jobs", []string{`{"class":"Report","args":["all",{"a":1}]}`}, queue(t, server, "reports"), nil)

	diffs, err := i.DiffSchedules(ctx, map[string]json.RawMessage{
		"nightly": json.RawMessage(`{"cron":"0 4 * * * UTC","class":"Report","queue":"reports","args":["all",{"a":1}],"description":"figures"}`),
		"new":     json.RawMessage(`{"every":"1h","class":"New","queue":"new"}`),
		"in code": json.RawMessage(`{"every":"1h","class":"New","queue":"new"}`),
		"added":   json.RawMessage(`{"every":"1h","class":"New","queue":"new"}`),
		"broken":  json.RawMessage(`{"every":"1h","class":"Report","queue":"reports"}`),
	})
	var said []string
	for _, d := range diffs {
		said = append(said, d.Name+": "+d.What+" "+strings.Join(d.Fields, ","))
	}
	want(t, "differences", []string{"added: only in the file ", "broken: differs cron,every", "in code: other times ", "nightly: differs cron", "ruby's: only in Redis "}, said, err)
	if _, err := i.DiffSchedules(ctx, map[string]json.RawMessage{"nightly": json.RawMessage(`{"cron":"x"}`)}); err == nil {
		t.Error("an entry that cannot be read is no error")
	}

	if err := i.RemoveSchedule(ctx, "broken"); err != nil {
		t.Error(err)
	}
	want(t, "changed for Ruby", []string{"broken"}, server.List(t, "SMEMBERS", "resque:schedules_changed"), nil)
	if _, err := i.Schedule(ctx, "broken"); !errors.Is(err, inspect.ErrUnknownSchedule) {
		t.Errorf("removed: %v", err)
	}
}

// Failures go out as lines and come back byte for byte, each to its list. What is no such line is refused.
func TestFailuresRoundTrip(t *testing.T) {
	i, server, _ := setup(t)
	ctx := t.Context()
	lists := map[string][]string{
		"failed":      {`{"failed_at":"2026/11/21 12:00:00 UTC","payload":{"class":"A","args":[ 1.0 ]},"error":"<&>","queue":"mail"}`, "no JSON", "bytes \xff", "{\"a\":\n1}", ` {"b":1}`},
		"mail_failed": {`{"payload":{"class":"B","args":[]},"queue":"mail"}`},
	}
	for list, records := range lists {
		for _, r := range records {
			server.Do(t, "RPUSH", "resque:"+list, r)
		}
	}
	server.Do(t, "SADD", "resque:failed_queues", "mail_failed")
	before := server.Dump(t, "resque:")
	failures, err := i.Failures().List(ctx, 0, -1)
	want(t, "failures", 6, len(failures), err)
	var lines []inspect.FailureLine
	for _, f := range failures {
		text := f.Line()
		if strings.ContainsRune(string(text), '\n') || !json.Valid(text) {
			t.Errorf("the line %q", text)
		}
		l, err := inspect.ParseFailureLine(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
		}
		lines = append(lines, l)
	}
	slices.Reverse(lines) // the newest first
	server.Do(t, "FLUSHALL")
	n, err := i.Failures().Import(ctx, lines...)
	want(t, "imported", 6, n, err)
	want(t, "what is there", before, server.Dump(t, "resque:"), nil)
	for _, text := range []string{`{`, `{}`, `{"list":"failed"}`, `{"list":"queue:x_failed","record":{}}`, `{"list":"go:x_failed","record":{}}`, `{"list":"stat:failed","record":{}}`, `{"list":"","record":{}}`} {
		if _, err := inspect.ParseFailureLine([]byte(text)); err == nil {
			t.Errorf("%s was read", text)
		}
	}
	server.Do(t, "SET", "resque:failed", "no list")
	if n, err := i.Failures().Import(ctx, lines...); n != 1 || err == nil { // that of the other list
		t.Errorf("into no list: %d, %v", n, err)
	}
}
