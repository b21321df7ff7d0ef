package inspect_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/goworker/goworker/inspect"
)

// A schedule is kept as Ruby keeps it, with the fields that only Ruby knows, under the name of who did it.
func TestSetSchedule(t *testing.T) {
	i, server, _ := setup(t)
	ctx := t.Context()
	by := i.By("ada", "")
	was, err := by.SetSchedule(ctx, "nightly", json.RawMessage(`{"class":"Echo","cron":"0 3 * * *","queue":"low","args":["a"],"description":"d"}`))
	want(t, "was", "", string(was), err)
	// as resque-scheduler's set_schedule writes it
	want(t, "kept", `{"class":"Echo","cron":"0 3 * * *","queue":"low","args":["a"],"description":"d"}`, server.Text(t, "HGET", "resque:persistent_schedules", "nightly"), nil)
	want(t, "changed", []string{"nightly"}, server.List(t, "SMEMBERS", "resque:schedules_changed"), nil)

	was, err = by.SetSchedule(ctx, "nightly", json.RawMessage(`{"cron":"@daily Europe/Berlin","queue":"low","parameters":{"n":{"default":1}}}`))
	want(t, "was", `{"class":"Echo","cron":"0 3 * * *","queue":"low","args":["a"],"description":"d"}`, string(was), err)
	if s, err := i.Schedule(ctx, "nightly"); err != nil || !strings.Contains(string(s.Config), `"parameters":{"n":{"default":1}}`) || s.Zone != "Europe/Berlin" || strings.Contains(s.Cron, "@") {
		t.Errorf("%+v %v", s, err)
	}
	before := server.Dump(t, "")
	for name, config := range map[string]string{"": `{"every":"1h","queue":"q"}`, "n": `{"every":"1h"}`, "c": `{"cron":"x","queue":"q"}`, "j": `[]`, "custom": `{"every":"1h","queue":"q","custom_job_class":"X"}`, "b": `{"every":"1h","queue":""}`} {
		if _, err := by.SetSchedule(ctx, name, json.RawMessage(config)); !errors.Is(err, inspect.ErrSchedule) {
			t.Errorf("%s: %v", config, err)
		}
	}
	want(t, "keys", before, server.Dump(t, ""), nil)
	audit, err := i.Audit(ctx, 10)
	want(t, "changes", 2, len(audit), err)
	if e := audit[0]; e.Who != "ada" || e.What != "SetSchedule" || e.On != "schedule nightly" || !json.Valid([]byte(e.Old)) {
		t.Errorf("%+v", e)
	}
}

// A run may have arguments of its own. A long entry is whole in the record of its removal.
func TestRunScheduleWith(t *testing.T) {
	i, server, _ := setup(t)
	ctx := t.Context()
	long := `{"class":"C","every":"1h","queue":"q","args":["` + strings.Repeat("x", 2000) + `"]}`
	server.Do(t, "HSET", "resque:persistent_schedules", "s", long)
	if err := i.RunScheduleWith(ctx, "s", []json.RawMessage{json.RawMessage(`9007199254740993`)}); err != nil {
		t.Fatal(err)
	}
	if err := i.RunScheduleWith(ctx, "s", nil); err != nil {
		t.Fatal(err)
	}
	want(t, "jobs", []string{`{"class":"C","args":[9007199254740993]}`, `{"class":"C","args":[]}`}, queue(t, server, "q"), nil)
	if err := i.By("ada", "").RemoveSchedule(ctx, "s"); err != nil {
		t.Fatal(err)
	}
	audit, err := i.Audit(ctx, 1)
	want(t, "record", long, audit[0].Old, err)
}

// The ticks of a schedule that was read, and who holds the lock of schedulers.
func TestUpcomingAndLocks(t *testing.T) {
	i, server, _ := setup(t)
	server.Do(t, "HSET", "resque:persistent_schedules", "s", `{"class":"C","cron":"0 3 * * * UTC","queue":"q"}`)
	s, err := i.Schedule(t.Context(), "s")
	want(t, "not begun", 0, len(s.Upcoming(time.Now().Add(1000*time.Hour), 5)), err)
	server.Do(t, "HSET", "resque:go:ticks", "s", "1700000000000 h:1:a x")
	s, err = i.Schedule(t.Context(), "s")
	want(t, "five", 5, len(s.Upcoming(time.Now().Add(1000*time.Hour), 5)), err)
	want(t, "two days", 2, len(s.Upcoming(time.Now().Add(48*time.Hour), 5)), nil)

	locks, err := i.SchedulerLocks(t.Context())
	want(t, "none", 0, len(locks), err)
	server.Do(t, "SET", "resque:resque:resque_scheduler_master_lock", "web-1:7", "EX", 180)
	locks, err = i.SchedulerLocks(t.Context())
	want(t, "one", 1, len(locks), err)
	if l := locks[0]; l.Holder != "web-1:7" || l.Left < time.Minute {
		t.Errorf("%+v", l)
	}
}
