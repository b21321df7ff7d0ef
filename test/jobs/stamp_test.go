package jobs

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/internal/daemontest"
)

// A job knows how long it waited where its payload says when it came: by the option, by the setting, or from another program. A
// plain job has the bytes that it always had.
func TestWaited(t *testing.T) {
	t.Parallel()
	b := daemontest.Setup(t)
	found := make(chan string, 1)
	b.Daemon.Register("Waits", func(ctx context.Context, _ int) {
		d, ok := goworker.FromContext(ctx).Waited()
		found <- fmt.Sprint(ok, d >= 40*time.Millisecond, d < time.Minute)
	})
	client := func(stamp bool) *goworker.Client {
		t.Helper()
		s := b.Settings
		s.Stamp = stamp
		c, err := goworker.NewClient(s)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		return c
	}
	plain, stamping := client(false), client(true)
	job := goworker.NewJob("work", "Waits", 1)
	for name, tt := range map[string]struct {
		client *goworker.Client
		opts   []goworker.EnqueueOption
		want   bool
	}{
		"plain":              {plain, nil, false},
		"the option":         {plain, []goworker.EnqueueOption{goworker.Stamp()}, true},
		"the setting":        {stamping, nil, true},
		"with other options": {stamping, []goworker.EnqueueOption{goworker.WithID("x1"), goworker.ExpireAfter(time.Hour)}, true},
		"Ruby's schedule":    {stamping, []goworker.EnqueueOption{goworker.ProcessIn(-time.Second), goworker.ResqueScheduler()}, false},
	} {
		before := time.Now().UnixMilli()
		if _, err := tt.client.Enqueue(t.Context(), job, tt.opts...); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		raw := fmt.Sprint(b.Queue("work"))
		b.Redis.Do(t, "DEL", "resque:queue:work")
		_, at, said := strings.Cut(raw, `"queued_at":`)
		var ms int64
		_, _ = fmt.Sscanf(at, "%d", &ms)
		if said != tt.want || said && (ms < before-1000 || ms > time.Now().UnixMilli()+1000) {
			t.Errorf("%s: %s", name, raw)
		}
		if name == "plain" && raw != `[{"class":"Waits","args":[1]}]` {
			t.Errorf("a plain job is %s", raw)
		}
	}

	if _, err := stamping.Enqueue(t.Context(), job); err != nil {
		t.Fatal(err)
	}
	time.Sleep(50 * time.Millisecond) // what it waits at least
	b.Start()
	if got := <-found; got != "true true true" {
		t.Errorf("waited %s", got)
	}
	if _, err := plain.Enqueue(t.Context(), job); err != nil {
		t.Fatal(err)
	}
	if got := <-found; got != "false false true" {
		t.Errorf("a plain job waited %s", got)
	}
}
