package crash

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goworker/goworker"
)

// retries is how often the classes of this file are retried.
const retries = 3

// registerRetries adds classes that fail, and are retried without a wait, after a short
// one, or as resque-retry has it. Each notes its attempt; Stuck waits for the gate first,
// in its second run and the later ones.
//
//	Again id    fails at once; 30 ms later again
//	AtOnce id   fails at once; goes to the end of the queue
//	AsRuby id   fails at once; the count is resque-retry's
//	Stuck id    fails; goes to the end of the queue
//	Later id    fails at once; five seconds later again, then one
func registerRetries(note func(event, id, detail string), wait func(<-chan struct{}) bool) {
	fail := func(ctx context.Context, id string) error {
		note("start", id, fmt.Sprint(goworker.FromContext(ctx).Attempt))
		return errors.New("no luck")
	}
	goworker.Register("Again", fail, goworker.Retry(retries, goworker.Delays{30 * time.Millisecond}))
	goworker.Register("AtOnce", fail, goworker.Retry(retries, goworker.Delays{0}))
	goworker.Register("Later", fail, goworker.Retry(retries, goworker.Delays{5 * time.Second, time.Second}))
	goworker.Register("AsRuby", fail, goworker.Retry(retries, goworker.Delays{0}, goworker.ResqueRetry{}))
	goworker.Register("Stuck", func(ctx context.Context, id string) error {
		attempt := goworker.FromContext(ctx).Attempt
		note("start", id, fmt.Sprint(attempt))
		if attempt > 1 {
			wait(nil)
		}
		note("end", id, fmt.Sprint(attempt))
		return errors.New("no luck")
	}, goworker.Retry(retries, goworker.Delays{0}))
}

// attempts are the attempts a job's runs noted, in order.
func (f *fleet) attempts() map[string][]string {
	f.t.Helper()
	all := make(map[string][]string)
	for _, e := range f.events("start") {
		all[e.id] = append(all[e.id], e.detail)
	}
	return all
}

// failed are the payloads of the failures by the job's id.
func (f *fleet) failed() map[string][]string {
	f.t.Helper()
	all := make(map[string][]string)
	for _, raw := range f.redis.List(f.t, "LRANGE", "resque:failed", 0, -1) {
		var record struct{ Payload json.RawMessage }
		var payload struct{ Args []string }
		if err := json.Unmarshal([]byte(raw), &record); err != nil {
			f.t.Fatal(err)
		}
		if err := json.Unmarshal(record.Payload, &payload); err != nil || len(payload.Args) != 1 {
			f.t.Fatalf("failure of %s: %v", record.Payload, err)
		}
		all[payload.Args[0]] = append(all[payload.Args[0]], string(record.Payload))
	}
	return all
}

// A job that is retried dies with its process in its second run: it has its count in the
// next process.
func TestKilledRetryKeepsItsCount(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	victim := f.start("-concurrency=5")
	f.push(jobs("Stuck", 5)...)
	f.eventually(soon, "all run a second time", func() bool { return len(f.events("start")) == 10 })
	victim.kill()
	f.open()
	next := f.start("-concurrency=5")
	f.eventually(recovery, "they are given up", func() bool { return f.stat("failed") == 5 })
	f.buried()
	next.stop()
	for id, attempts := range f.attempts() {
		if got := strings.Join(attempts, " "); got != "1 2 2 3 4" {
			t.Errorf("%s ran as attempts %s", id, got)
		}
	}
	if n := f.stat("processed"); n != 5*(1+retries) {
		t.Errorf("stat:processed is %d, want %d", n, 5*(1+retries))
	}
	if keys := f.left(); len(keys) > 0 {
		t.Errorf("left behind: %q", keys)
	}
}

// A process dies after its handler has failed and before Redis has answered the commit:
// it counts or the run is repeated, and neither loses the job or an attempt.
func TestKilledBetweenFailureAndCommit(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	victim := f.start("-concurrency=1")
	f.push(job("Stuck", "a"))
	f.eventually(soon, "it runs a second time", func() bool { return len(f.events("start")) == 2 })
	f.redis.Pause()
	f.open()
	f.eventually(soon, "it has failed", func() bool { return len(f.events("end")) == 2 })
	victim.kill()
	f.redis.Resume()
	next := f.start("-concurrency=1")
	f.eventually(recovery, "it is given up", func() bool { return f.stat("failed") == 1 })
	f.buried()
	next.stop()
	if got := slices.Compact(f.attempts()["a"]); !slices.Equal(got, []string{"1", "2", "3", "4"}) {
		t.Errorf("it ran as attempts %q", f.attempts()["a"])
	}
	if n := f.stat("processed"); n != 1+retries || len(f.failed()["a"]) != 1 {
		t.Errorf("stat:processed is %d, want %d; failures %q", n, 1+retries, f.failed())
	}
	if keys := f.left(); len(keys) > 0 {
		t.Errorf("left behind: %q", keys)
	}
}

// All processes are dead while a job waits to be retried.
func TestKilledWhileRetriesWait(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	victim := f.start("-concurrency=1")
	f.push(jobs("Later", 3)...)
	f.eventually(soon, "they wait", func() bool { return f.redis.Int(t, "ZCARD", "resque:go:schedule") == 3 })
	victim.kill()
	next := f.start("-concurrency=1")
	f.eventually(recovery, "they are given up", func() bool { return f.stat("failed") == 3 })
	f.buried()
	next.stop()
	if n := f.stat("processed"); n != 3*(1+retries) {
		t.Errorf("stat:processed is %d, want %d", n, 3*(1+retries))
	}
	if keys := f.left(); len(keys) > 0 {
		t.Errorf("left behind: %q", keys)
	}
}

// Processes are killed at random instants while all jobs fail and are retried: every
// attempt of every job is counted once, and then it is filed as failed once.
func TestKillsDuringRetries(t *testing.T) {
	t.Parallel()
	for _, class := range []string{"Again", "AtOnce", "AsRuby"} {
		t.Run(class, func(t *testing.T) {
			t.Parallel()
			const total, kills = 300, 8
			f := newFleet(t)
			flags := []string{"-concurrency=4", "-recover-limit=0"}
			alive := []*process{f.start(flags...), f.start(flags...), f.start(flags...)}
			all := jobs(class, total)
			killed := 0
			for len(all) > 0 {
				n := min(len(all), total/kills)
				f.push(all[:n]...)
				all = all[n:]
				time.Sleep(time.Duration(rand.IntN(60_000)) * time.Microsecond)
				victim := rand.IntN(len(alive))
				alive[victim].kill()
				killed++
				alive[victim] = f.start(flags...)
			}
			f.eventually(2*recovery, "all are given up", func() bool { return f.stat("failed") >= f.wantFailed(class, total) && len(f.failed()) == total })
			f.eventually(recovery, "nothing of the dead is left", func() bool { return len(f.left(alive...)) == 0 })
			for _, p := range alive {
				p.stop()
			}
			if n := f.stat("processed"); n != total*(1+retries) {
				t.Errorf("stat:processed is %d, want %d", n, total*(1+retries))
			}
			failed, again := f.failed(), 0
			for id, attempts := range f.attempts() {
				again += len(attempts) - (1 + retries)
				if got := slices.Compact(slices.Clone(attempts)); !slices.Equal(got, []string{"1", "2", "3", "4"}) {
					t.Errorf("%s ran as attempts %q", id, attempts)
				}
				if len(failed[id]) != 1 {
					t.Errorf("%s is filed as failed %d times", id, len(failed[id]))
				}
			}
			t.Logf("%d kills, %d runs more than the attempts", killed, again)
		})
	}
}

// wantFailed is stat:failed: Ruby counts each attempt.
func (f *fleet) wantFailed(class string, total int) int {
	if class == "AsRuby" {
		return total * (1 + retries)
	}
	return total
}
