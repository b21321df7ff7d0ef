package dashboard_test

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/internal/redistest"
)

// limitsPage is what the tests read of the JSON of /limits.
type limitsPage struct {
	Limits []struct {
		Spec, Name, Allows string
		Running            int
		Held               int `json:"held_back"`
		Overridden         bool
		By, Why            string
		Fullest            []struct {
			Key  string
			Jobs int
		} `json:"fullest_keys"`
	}
	Turns []struct {
		Queue, Key string
		Jobs       int
	}
	Locks []struct {
		Lock, ID, Class, Queue, Job string
		Refused                     int
	}
	Groups []struct {
		Group, Class, Queue string
		Key                 []any
		Items               int
	}
}

func (d *desk) limits(view string) limitsPage {
	d.Helper()
	return decoded[limitsPage](d, d.Get("/api/v1/limits?v="+view, ""))
}

func (d *desk) enqueue(class string, args []any, opts ...goworker.EnqueueOption) string {
	d.Helper()
	r, err := d.Client.Enqueue(d.Context(), goworker.NewJob("work", class, args...), opts...)
	if err != nil {
		d.Fatal(err)
	}
	return r.ID
}

// A limit holds jobs back; it is changed, obeyed, and reset.
func TestLimitChanged(t *testing.T) {
	t.Parallel()
	d := setup(t)
	for _, v := range []string{"limits", "turns", "locks", "groups"} {
		if a := d.Get("/limits?v="+v, ""); a.Status != 200 || !strings.Contains(a.Body, `class="empty"`) {
			t.Errorf("empty %s: %d", v, a.Status)
		}
	}
	var running atomic.Int64
	gate := make(chan struct{})
	d.works(func(w *goworker.Daemon) {
		w.Register("Hold", func(ctx context.Context, _ map[string]any) {
			running.Add(1)
			select {
			case <-gate:
			case <-ctx.Done():
			}
		}, goworker.MaxRunning(1))
		w.Register("Each", func(map[string]any) {}, goworker.MaxRunning(1, goworker.PerKey(goworker.ByArg(0, "token"))))
	})
	for range 3 {
		d.enqueue("Hold", []any{map[string]any{"token": "s3cr3t"}})
	}
	var p limitsPage
	redistest.Eventually(t, time.Minute, "two jobs are held back", func() bool { // the limits, the lanes and the look at the fleet are of other moments
		p = d.limits("limits")
		turns := d.limits("turns").Turns
		return len(p.Limits) > 0 && p.Limits[0].Running == 1 && p.Limits[0].Held == 2 && len(turns) == 1 && turns[0].Jobs == 2 && turns[0].Queue == "work" &&
			strings.Contains(d.Get("/limits", "").Body, "2 jobs are held back or wait for a turn")
	})
	l := p.Limits[0]
	if l.Name != "Hold" || l.Allows != "1" || l.Overridden {
		t.Errorf("%+v", l)
	}
	if a := d.Get("/limits", ""); !strings.Contains(a.Body, "1 at a time") {
		t.Errorf("%d", a.Status)
	}
	base := "/limits/" + url.PathEscape(l.Spec)
	for user, status := range map[string]int{"eve viewer": 403, "olga operator": 403, "mia admin work": 404} {
		if a := d.Post(base+"/set", user, "numbers", "2"); a.Status != status {
			t.Errorf("%s: %d", user, a.Status)
		}
	}
	if a := d.Post(base+"/set", "", "numbers", "many"); a.Status != 400 {
		t.Errorf("many: %d", a.Status)
	}
	if a := d.Post("/limits/nosuch/set", "", "numbers", "2"); a.Status != 404 {
		t.Errorf("no such limit: %d", a.Status)
	}
	if a := d.Post(base+"/set", "ann admin", "numbers", "2", "for", "1h", "why", "a test"); a.Status != http.StatusSeeOther {
		t.Fatalf("%d %s", a.Status, a.Body)
	}
	redistest.Eventually(t, time.Minute, "a second job runs", func() bool { return running.Load() == 2 })
	if l := d.limits("limits").Limits[0]; l.Allows != "2" || !l.Overridden || l.By != "ann" || l.Why != "a test" {
		t.Errorf("%+v", l)
	}
	if log := d.audited(); !strings.Contains(log, "dashboard ann: SetLimit") {
		t.Error(log)
	}
	if a := d.Post(base+"/reset", ""); a.Status != http.StatusSeeOther {
		t.Errorf("%d %s", a.Status, a.Body)
	}
	close(gate)
	redistest.Eventually(t, time.Minute, "all jobs have run", func() bool { return running.Load() == 3 })
	redistest.Eventually(t, time.Minute, "the limit is that of the program", func() bool {
		p := d.limits("limits")
		return len(p.Limits) > 0 && p.Limits[0].Allows == "1" && !p.Limits[0].Overridden
	})
	if a := d.Get("/limits", "mia viewer work"); a.Status != 200 || strings.Contains(a.Body, "Hold") {
		t.Errorf("a user of some queues: %d", a.Status)
	}
}

// A lock is released once its job is nowhere, and not before without force.
func TestLockReleased(t *testing.T) {
	t.Parallel()
	d := setup(t)
	id := d.enqueue("Report", []any{"<script>", map[string]any{"password": "hunter2"}}, goworker.Unique())
	_, err := d.Client.Enqueue(t.Context(), goworker.NewJob("work", "Report", "<script>", map[string]any{"password": "hunter2"}), goworker.Unique())
	if duplicate := new(goworker.DuplicateError); !errors.As(err, &duplicate) {
		t.Fatal(err)
	}
	p := d.limits("locks")
	if len(p.Locks) != 1 || p.Locks[0].ID != id || p.Locks[0].Class != "Report" || p.Locks[0].Refused != 1 {
		t.Fatalf("%+v", p.Locks)
	}
	base := "/locks/" + p.Locks[0].Lock
	for _, path := range []string{"/limits?v=locks", base, "/api/v1" + base, "/api/v1/limits?v=locks"} {
		if a := d.Get(path, ""); a.Status != 200 || strings.Contains(a.Body, "hunter2") || strings.Contains(a.Body, "<script>") {
			t.Errorf("%s: %d", path, a.Status)
		}
		if a := d.Get(path, "mia admin mail"); a.Status == 200 && strings.Contains(a.Body, id) {
			t.Errorf("%s: a user of other queues sees the lock", path)
		}
	}
	if a := d.Get(base, ""); !strings.Contains(a.Body, "in its queue") {
		t.Errorf("it does not say where the job is: %s", a.Body)
	}
	if a := d.Post(base+"/release", "", "holder", id); a.Status != http.StatusConflict {
		t.Errorf("a lock in use: %d", a.Status)
	}
	if a := d.Post(base+"/release", "", "holder", id, "force", "1"); a.Status != http.StatusBadRequest {
		t.Errorf("force without the word: %d", a.Status)
	}
	if a := d.Post(base+"/release", "", "holder", "other"); a.Status != http.StatusConflict {
		t.Errorf("of another holder: %d", a.Status)
	}
	d.redis.Do(t, "DEL", "resque:queue:work")
	if a := d.Get(base, ""); !strings.Contains(a.Body, "its job is nowhere") {
		t.Errorf("it does not say that the job is nowhere: %s", a.Body)
	}
	for user, status := range map[string]int{"olga operator": 403, "mia admin mail": 404} {
		if a := d.Post(base+"/release", user); a.Status != status {
			t.Errorf("%s: %d", user, a.Status)
		}
	}
	if a := d.Post(base+"/release", "ann admin", "holder", id); a.Status != http.StatusSeeOther {
		t.Errorf("%d %s", a.Status, a.Body)
	}
	if a := d.Post(base+"/release", "ann admin", "holder", id); a.Status != 404 || d.Get(base, "").Status != 404 {
		t.Errorf("it is released twice: %d", a.Status)
	}
	if log := d.audited(); !strings.Contains(log, "dashboard ann: ReleaseLock") {
		t.Error(log)
	}
	d.enqueue("Report", []any{"<script>", map[string]any{"password": "hunter2"}}, goworker.Unique())
	lock := d.limits("locks").Locks[0]
	if a := d.Post("/locks/"+lock.Lock+"/release", "", "holder", lock.ID, "force", "1", "confirm", "force"); a.Status != http.StatusSeeOther {
		t.Errorf("force: %d %s", a.Status, a.Body)
	}
}

// More locks than a page has are on several pages, each once.
func TestLocksPages(t *testing.T) {
	t.Parallel()
	d := setup(t)
	for n := range 120 {
		d.enqueue("Report", []any{n}, goworker.Unique())
	}
	type page struct {
		limitsPage
		Next string
	}
	seen := make(map[string]bool)
	after, pages := "", 0
	for {
		p := decoded[page](d, d.Get("/api/v1/limits?v=locks&after="+after, ""))
		pages++
		for _, l := range p.Locks {
			seen[l.ID] = true
		}
		if after = p.Next; after == "" {
			break
		}
	}
	if len(seen) != 120 || pages < 3 {
		t.Errorf("%d locks on %d pages", len(seen), pages)
	}
	if a := d.Get("/limits?v=locks&after=x", ""); a.Status != 400 {
		t.Errorf("%d", a.Status)
	}
}

// A group of aggregated jobs becomes a job at once.
func TestGroupFlushed(t *testing.T) {
	t.Parallel()
	d := setup(t)
	got := make(chan int, 2)
	d.works(func(w *goworker.Daemon) {
		w.Register("Index", func(_ map[string]any, ids []int) { got <- len(ids) }, goworker.Aggregate(goworker.KeyArgs(0), goworker.MaxWait(time.Hour), goworker.Quiet(time.Hour)))
	})
	for n := range 3 {
		d.enqueue("Index", []any{map[string]any{"token": "s3cr3t"}, n})
	}
	redistest.Eventually(t, time.Minute, "a group of three waits", func() bool {
		p := d.limits("groups")
		return len(p.Groups) == 1 && p.Groups[0].Items == 3
	})
	if a := d.Get("/limits?v=groups", ""); strings.Contains(a.Body, "s3cr3t") || !strings.Contains(a.Body, "Flush 3") {
		t.Errorf("%s", a.Body)
	}
	base := "/aggregates/" + d.limits("groups").Groups[0].Group + "/flush"
	for user, status := range map[string]int{"eve viewer": 403, "olga operator mail": 404} {
		if a := d.Post(base, user); a.Status != status {
			t.Errorf("%s: %d", user, a.Status)
		}
	}
	if a := d.Post(base, "olga operator work"); a.Status != http.StatusSeeOther {
		t.Errorf("%d %s", a.Status, a.Body)
	}
	if n := <-got; n != 3 {
		t.Errorf("the job has %d items", n)
	}
	if a := d.Post(base, ""); a.Status != 404 {
		t.Errorf("it is flushed twice: %d", a.Status)
	}
	if log := d.audited(); !strings.Contains(log, "dashboard olga: FlushGroup") {
		t.Error(log)
	}
}
