package topology

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/inspect"
)

// clientEnqueues shows that a client that is no daemon works on every shape: plain, delayed and unique jobs in
// one call, each found again, and run.
func clientEnqueues(t *testing.T, s shape, d *goworker.Daemon) {
	ran := make(chan string, 8)
	d.Register("Note", func(id string) { ran <- id })
	settings := s.settings
	settings.Namespace = d.Namespace()
	var opts []goworker.ClientOption
	for scheme, open := range openers {
		opts = append(opts, goworker.WithDialer(scheme, open))
	}
	client, err := goworker.NewClient(settings, opts...)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if strings.HasPrefix(settings.URI, "embedded:") {
		client = d.Client() // each opens a Redis of its own
	}
	ctx := t.Context()
	item := func(id string, opts ...goworker.EnqueueOption) goworker.Item {
		return goworker.Item{Job: goworker.NewJob("work", "Note", id), Options: opts}
	}
	unique := goworker.Unique(goworker.ByKey("one"))
	receipts, err := client.EnqueueMany(ctx, item("plain"), item("named", goworker.WithID("named")), item("unique", unique),
		item("duplicate", unique), item("later", goworker.WithID("later"), goworker.ProcessIn(time.Hour)), item("ruby", goworker.ProcessIn(time.Hour), goworker.ResqueScheduler()))
	if err != nil {
		t.Fatal(err)
	}
	if receipts[0].ID != "" || receipts[1].ID != "named" || receipts[3].Duplicate == nil || receipts[3].Duplicate.Holder != receipts[2].ID {
		t.Errorf("receipts %+v", receipts)
	}
	in := client.Inspect()
	for _, id := range []string{"named", "later", receipts[2].ID} {
		if page, err := in.Find(ctx, inspect.Query{ID: id}, "", 10); err != nil || len(page.Jobs) != 1 {
			t.Errorf("job %s: %+v, %v", id, page, err)
		}
	}
	if n, err := in.Delayed().Count(ctx); n != 2 || err != nil {
		t.Errorf("%d jobs are delayed, %v; want 2", n, err)
	}
	stop := start(t, d)
	eventually(t, "three jobs have run", func() bool { return len(ran) == 3 })
	stop()
	got := []string{<-ran, <-ran, <-ran}
	if slices.Sort(got); !slices.Equal(got, []string{"named", "plain", "unique"}) {
		t.Errorf("ran %q", got)
	}
}
