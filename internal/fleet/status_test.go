package fleet

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/goworker/goworker/internal/outcome"
	"github.com/goworker/goworker/internal/resque"
)

func (b *bundle) job(started time.Time) *outcome.Job {
	return &outcome.Job{Reserved: resque.Reserved{Queue: "work", Ticket: 1, Payload: []byte(job)}, Process: b.Self(), StartedAt: started}
}

func (b *bundle) worker(n int) string {
	return b.redis.Text(b.t, "GET", "resque:worker:"+b.Session().Worker(n))
}

func (b *bundle) stat(what string, n int) int {
	return b.redis.Int(b.t, "GET", "resque:stat:"+what+":"+b.Session().Worker(n))
}

func TestStatus(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var ran atomic.Int64
	b.Status.Running = func(*outcome.Job) { ran.Add(1) }
	b.start()
	for range 1000 {
		b.Status.Slot(1).Begin(b.job(time.Now().Add(time.Hour))) // however slow this machine is
		b.Status.Slot(1).End(resque.CountsDone)
	}
	b.eventually("the counts are written", func() bool { return b.stat("processed", 1) == 1000 })
	if ran.Load() != 0 {
		t.Error("it was called for jobs that end at once")
	}
	slot := b.Status.Slot(0)
	slot.Begin(b.job(time.Now()))
	b.eventually("a job that takes a while is shown", func() bool { return strings.Contains(b.worker(0), job) && slot.named.Load() })
	b.Status.Slot(1).End(resque.CountsDone)
	b.eventually("some turns later", func() bool { return b.stat("processed", 1) == 1001 })
	if ran.Load() != 1 {
		t.Errorf("Running was called %d times", ran.Load())
	}
	slot.End(resque.CountsFailed)
	b.eventually("it is shown no more", func() bool { return b.worker(0) == "" && b.stat("failed", 0) == 1 })
	if b.stat("processed", 0) != 1 || b.stat("failed", 1) != 0 {
		t.Error("a failed job counts as processed, and for its worker only")
	}
	slot.Begin(b.job(time.Now()))
	slot.End(resque.CountsNothing)
	b.eventually("the status writer sleeps", b.Status.idle.Load)
	if b.stat("processed", 0) != 1 {
		t.Error("a job that was not run counts")
	}
}

// What Redis has lost is written again.
func TestStatusAfterOutage(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var ran atomic.Int64
	b.Status.Running = func(*outcome.Job) { ran.Add(1) }
	b.start()
	slot := b.Status.Slot(0)
	b.redis.Kill()
	slot.Begin(b.job(time.Now().Add(-time.Minute)))
	b.eventually("the outage is logged", func() bool { return ran.Load() > 0 && b.log.count("part=records")+b.log.count("part=lease") > 0 })
	b.redis.Restart(t)
	b.eventually("the job is shown", func() bool { return strings.Contains(b.worker(0), job) })
	b.redis.Do(t, "FLUSHALL")
	b.RegisterAgain()
	b.eventually("the job is shown again", func() bool { return strings.Contains(b.worker(0), job) })
	if ran.Load() != 1 {
		t.Errorf("Running was called %d times", ran.Load())
	}
	slot.End(resque.CountsDone)
	b.eventually("it is shown no more", func() bool { return b.worker(0) == "" && b.stat("processed", 0) == 1 })
}

// A job of a session that has lost the lease runs in another process now.
func TestStatusOfAFormerSession(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.start()
	j := b.job(time.Now().Add(-time.Minute))
	j.Process = "former"
	b.Status.Slot(0).Begin(j)
	b.Status.Slot(1).Begin(b.job(time.Now().Add(-time.Minute)))
	b.eventually("the other job is shown", func() bool { return b.worker(1) != "" })
	if b.worker(0) != "" {
		t.Errorf("it says %s", b.worker(0))
	}
}
