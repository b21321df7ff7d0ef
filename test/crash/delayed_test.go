package crash

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/goworker/goworker"
)

// Processes that do nothing but move delayed jobs are killed while they do: each job
// gets into its queue once, those of one schedule in the order of their times, and no
// dead process keeps the schedulers' lock for long.
func TestKilledPumps(t *testing.T) {
	t.Parallel()
	const (
		total     = 3000
		processes = 3
		kills     = 8
		period    = 8 * time.Second
	)
	f := newFleet(t)
	d := goworker.New(goworker.WorkerSettings{URI: f.redis.URI(), Logger: slog.New(slog.DiscardHandler)})
	defer d.Close()
	began := time.Now().Add(15 * time.Second) // what is past when it is enqueued is not delayed
	want := make(map[string][]string)
	var items []goworker.Item
	for i := 0; i < total; i += 3 {
		at := began.Add(time.Duration(i) * period / total).Truncate(time.Millisecond)
		queue := []string{"whole", "precise", "own"}
		for j, opts := range [][]goworker.EnqueueOption{
			{goworker.ProcessAt(at.Truncate(time.Second).Add(time.Second)), goworker.ResqueScheduler()},
			{goworker.ProcessAt(at), goworker.ResqueScheduler()},
			{goworker.ProcessAt(at), goworker.WithID(fmt.Sprint(i))},
		} {
			id := fmt.Sprintf("%05d", i+j)
			want[queue[j]] = append(want[queue[j]], id)
			items = append(items, goworker.Item{Job: goworker.NewJob(queue[j], "Nap", id, 0), Options: opts})
		}
	}
	if _, err := d.Client().EnqueueMany(t.Context(), items...); err != nil {
		t.Fatal(err)
	}
	var alive []*process
	for range processes {
		alive = append(alive, f.start("-queues=none"))
	}
	for range kills {
		time.Sleep(rand.N(2 * period / kills)) // wherever that finds them
		n := rand.IntN(processes)
		alive[n].kill()
		alive[n] = f.start("-queues=none")
	}
	queued := func(queue string) []string { return f.redis.List(t, "LRANGE", "resque:queue:"+queue, 0, -1) }
	f.eventually(2*recovery, "all jobs are in their queues", func() bool {
		return len(queued("whole"))+len(queued("precise"))+len(queued("own")) >= total
	})
	for queue := range want {
		var got []string
		for _, payload := range queued(queue) {
			_, args, _ := strings.Cut(payload, `"args":["`)
			id, _, _ := strings.Cut(args, `"`)
			got = append(got, id)
		}
		if queue == "precise" { // what was late may have gone with its second
			slices.Sort(got)
		}
		if diff := cmp.Diff(want[queue], got); diff != "" {
			t.Errorf("queue %s (-want +got):\n%s", queue, diff)
		}
	}
	f.buried()
	for _, p := range alive {
		p.stop()
	}
	for _, key := range []string{"delayed_queue_schedule", "go:schedule", "go:precise", "resque:resque_scheduler_master_lock"} {
		if f.redis.Int(t, "EXISTS", "resque:"+key) == 1 {
			t.Errorf("left behind: %s", key)
		}
	}
}
