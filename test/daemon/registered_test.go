package daemon

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/inspect"
	"github.com/goworker/goworker/internal/daemontest"
)

// Redis says which classes and schedules a process has, also those that it got while it runs, and the version of its program.
func TestRegistered(t *testing.T) {
	t.Parallel()
	b := daemontest.Setup(t, func(s *goworker.WorkerSettings) { s.AppVersion = "1.2" })
	b.Daemon.Register("Charge", func(context.Context) error { return nil },
		goworker.Timeout(3*time.Second), goworker.Retry(4), goworker.MaxRunning(2))
	if err := b.Daemon.Schedule("hourly", goworker.Recurring{Every: time.Hour, Class: "Charge", Queue: "work", Args: []any{"a"}}); err != nil {
		t.Fatal(err)
	}
	b.Start()
	in := b.Inspect()
	has := func(schedule string) func() bool {
		return func() bool {
			r, err := in.Registered(t.Context())
			return err == nil && slices.ContainsFunc(r.Schedules, func(s inspect.ScheduleRecord) bool { return s.Name == schedule })
		}
	}
	b.Eventually("the schedule is there", has("hourly"))
	r, err := in.ProcessMore(t.Context(), b.Process())
	at := slices.IndexFunc(r.Classes, func(c inspect.ClassRecord) bool { return c.Name == "Charge" })
	if err != nil || at < 0 {
		t.Fatalf("registered: %+v, %v", r, err)
	}
	if c := r.Classes[at]; c.Timeout != 3*time.Second || c.Retries != 4 || len(c.Limits) != 1 || len(c.Options) != 4 {
		t.Errorf("the class is %+v", c)
	}
	if err := b.Daemon.Schedule("later", goworker.Recurring{Cron: "0 3 * * *", Location: time.UTC, Queue: "work"}); err != nil {
		t.Fatal(err)
	}
	b.Eventually("the other one is there", has("later"))
	s, err := in.Schedule(t.Context(), "later")
	if err != nil || s.Source != inspect.SourceCode || !slices.Equal(s.Processes, []string{b.Process()}) || s.Cron == "" {
		t.Errorf("the schedule is %+v, %v", s, err)
	}
	processes, err := in.Processes(t.Context())
	if err != nil || len(processes) != 1 || processes[0].AppVersion != "1.2" {
		t.Errorf("processes: %+v, %v", processes, err)
	}
	b.Eventually("it is a deploy", func() bool {
		deploys, err := in.Deploys(t.Context(), time.Time{})
		return err == nil && len(deploys) == 1 && deploys[0].Version == "1.2" && deploys[0].Process == b.Process()
	})
	if err := b.Stop(); err != nil {
		t.Error(err)
	}
	if key := "resque:go:process-more:" + processes[0].ID; b.Redis.Int(t, "EXISTS", key) != 0 {
		t.Errorf("the key %s is left", key)
	}
}
