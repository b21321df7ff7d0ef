package crash

import (
	"fmt"
	"strings"
	"testing"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/inspect"
)

// client is a client of the fleet's Redis.
func (f *fleet) client() *goworker.Client {
	f.t.Helper()
	client, err := goworker.NewClient(goworker.WorkerSettings{URI: f.redis.URI()})
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(client.Close)
	return client
}

func withID(class, id string) string {
	return fmt.Sprintf(`{"class":%q,"args":[%q],"id":%q}`, class, id, id)
}

// dropped waits until nothing is left of some jobs that were started once each. It runs another job
// meanwhile, behind which none of them may come.
func (f *fleet) dropped(n int, next *process) {
	f.t.Helper()
	f.eventually(recovery, "they are dropped", func() bool {
		return f.redis.Int(f.t, "EXISTS", "resque:go:cancelled") == 0 && len(f.queue()) == 0
	})
	f.buried()
	f.push(nap("behind", 1))
	f.eventually(soon, "the job behind them runs", func() bool { return counts(f.events("end"))["behind"] == 1 })
	next.stop()
	if starts := f.events("start"); len(starts) != n+1 {
		f.t.Errorf("the jobs that were started are %q", ids(starts))
	}
	if failed := f.stat("failed"); failed != 0 {
		f.t.Errorf("%d failed", failed)
	}
	if keys := f.left(); len(keys) > 0 {
		f.t.Errorf("left behind: %q", keys)
	}
}

// Jobs that were cancelled while they ran die with their process, by id and by ticket: no process runs
// them again, although the handlers did not look at their contexts.
func TestCancelledJobsDieWithTheirProcess(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	victim := f.start("-concurrency=2")
	f.push(withID("Deaf", "a"), job("Deaf", "plain"))
	f.eventually(soon, "both run", func() bool { return len(f.events("start")) == 2 })
	client := f.client()
	if err := client.Cancel(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	page, err := client.Inspect().Find(t.Context(), inspect.Query{Class: "Deaf", Args: []any{"plain"}}, "", 1)
	if err != nil || len(page.Jobs) != 1 {
		t.Fatal(page, err)
	}
	if err := client.CancelRunning(t.Context(), page.Jobs[0].Process, page.Jobs[0].Ticket); err != nil {
		t.Fatal(err)
	}
	victim.kill()
	f.dropped(2, f.start("-concurrency=2"))
}

// A job whose process is dead already is cancelled before another process has it.
func TestCancelInDeadProcess(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	victim := f.start("-concurrency=1")
	f.push(withID("Hold", "a"), withID("Hold", "ahead"))
	f.eventually(soon, "one runs", func() bool { return len(f.events("start")) == 1 })
	victim.kill()
	client := f.client()
	for _, id := range []string{"a", "ahead"} {
		if err := client.Cancel(t.Context(), id); err != nil {
			t.Fatal(err)
		}
	}
	f.dropped(1, f.start("-concurrency=1"))
}

// A job that kills each process that runs it is cancelled: it kills no other one, and is not filed.
func TestCancelPoison(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.push(withID("Die", "poison"))
	for n := range 2 {
		p := f.launch("-concurrency=2")
		<-p.exited
		f.eventually(recovery, "it died of the job", func() bool { return len(f.events("start")) == n+1 })
	}
	if err := f.client().Cancel(t.Context(), "poison"); err != nil {
		t.Fatal(err)
	}
	next := f.start("-concurrency=2")
	f.dropped(2, next)
	if failed := f.redis.List(t, "LRANGE", "resque:failed", 0, -1); len(failed) > 0 || strings.Contains(next.output(), "suspect") {
		t.Errorf("failures %q", failed)
	}
}
