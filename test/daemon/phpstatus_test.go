package daemon

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/internal/daemontest"
	"github.com/goworker/goworker/internal/resque"
)

// phpJob is a payload of resque/php-resque, oldPHPJob one of chrisboulton/php-resque. The id
// is also the first argument.
func phpJob(class, id string) string {
	return fmt.Sprintf(`{"class":%q,"args":[%q],"id":%[2]q,"prefix":"","queue_time":1795229105.968746}`, class, id)
}

func oldPHPJob(class, id string) string {
	return fmt.Sprintf(`{"class":%q,"args":[%q],"id":%[2]q,"queue_time":1795229105.968746}`, class, id)
}

// Each end of a job's run writes the status that PHP shows, and only where PHP tracks the job.
func TestPHPStatusOfEnds(t *testing.T) {
	t.Parallel()
	b := daemontest.Setup(t)
	returning := func(class string, err error, opts ...goworker.Option) {
		b.Daemon.Register(class, func(string) error { return err }, opts...)
	}
	returning("Retry", daemontest.ErrNoLuck, goworker.Retry(3, goworker.Delays{time.Hour}))
	returning("RetryAsRuby", daemontest.ErrNoLuck, goworker.Retry(3, goworker.Delays{time.Hour}, goworker.ResqueRetry{}))
	returning("GiveUp", daemontest.ErrNoLuck, goworker.Retry(1, goworker.Delays{0}))
	returning("Discard", goworker.Discard(nil))
	b.Daemon.Register("Panic", func(string) { panic("no luck") })
	b.Daemon.Register("Number", func(int) {})
	b.Start()
	for _, test := range []struct {
		class   string
		new     string // the status of a job of resque/php-resque
		old     string // that of chrisboulton/php-resque
		expires bool
	}{
		{"Mark", daemontest.PhpComplete, daemontest.OldPHPComplete, true},
		{"Fail", daemontest.PhpFailed, daemontest.OldPHPFailed, true},
		{"Panic", daemontest.PhpFailed, daemontest.OldPHPFailed, true},
		{"Number", daemontest.PhpFailed, daemontest.OldPHPFailed, true},
		{"Nobody", daemontest.PhpFailed, daemontest.OldPHPFailed, true},
		{"Retry", daemontest.PhpWaiting, daemontest.OldPHPWaiting, false},
		{"RetryAsRuby", daemontest.PhpWaiting, daemontest.OldPHPWaiting, false},
		{"GiveUp", daemontest.PhpFailed, daemontest.OldPHPFailed, true},
		{"Discard", daemontest.PhpComplete, daemontest.OldPHPComplete, true},
	} {
		id := test.class
		b.Track(id, "old"+id)
		b.Push(phpJob(test.class, id), oldPHPJob(test.class, "old"+id), phpJob(test.class, "untracked"+id))
		b.Becomes(id, test.new)
		b.Becomes("old"+id, test.old)
		b.Expires(id, test.expires)
		b.Expires("old"+id, test.expires)
	}
	expired := strings.Replace(phpJob("Mark", "expired"), `"id"`, `"expires_at":1,"id"`, 1)
	b.Track("expired")
	b.Push(expired)
	b.Becomes("expired", daemontest.PhpComplete)
	b.Expires("expired", true)

	b.Push(phpJob("Mark", "last"))
	b.Eventually("the last job runs", func() bool { return b.Runs.Ends("last") == 1 })
	if err := b.Stop(); err != nil {
		t.Error(err)
	}
	for _, key := range b.Redis.Keys(t) {
		if strings.Contains(key, "untracked") || strings.Contains(key, "last") {
			t.Errorf("the key %s is written for a job that PHP does not track", key)
		}
	}
}

// PHP names the key by the id and, if there is one, the prefix. Other jobs have no status.
func TestPHPStatusKeys(t *testing.T) {
	t.Parallel()
	b := daemontest.Setup(t)
	b.Start()
	var jobs, all []string
	written := make(map[string]string) // by the id in the key
	for _, test := range []struct {
		fields  string // of the payload, behind its arguments
		names   string // between job: and :status
		becomes string
	}{
		{`"id":"a1","prefix":"","queue_time":1795229105.5`, "a1", daemontest.PhpComplete},
		{`"id":"a2","prefix":"0","queue_time":1795229105.5`, "a2", daemontest.PhpComplete},
		{`"id":"a3","prefix":null,"queue_time":1795229105.5`, "a3", daemontest.PhpComplete},
		{`"id":"a4","prefix":"p","queue_time":1795229105.5`, "p_a4", daemontest.PhpComplete},
		{`"prefix":"\u00e9:","queue_time":1795229105,"id":"a5"`, "é:_a5", daemontest.PhpComplete},
		{`"id":"a6","queue_time":1795229105.5`, "a6", daemontest.OldPHPComplete},
		{`"id":7,"queue_time":1795229105.5`, "7", daemontest.OldPHPComplete},
		{`"id":"a8","prefix":""`, "a8", daemontest.Seed},
		{`"id":"a9"`, "a9", daemontest.Seed},
		{`"id":"a10","queue_time":"yesterday"`, "a10", daemontest.Seed},
		{`"id":"a11","queue_time":null`, "a11", daemontest.Seed},
		{`"id":"a12","queue_time":1e300`, "a12", daemontest.Seed},
		{`"id":"0","queue_time":1795229105.5`, "0", daemontest.Seed},
		{`"id":"","queue_time":1795229105.5`, "", daemontest.Seed},
		{`"queue_time":1795229105.5`, "none", daemontest.Seed},
	} {
		all = append(all, test.names)
		written[test.names] = test.becomes
		jobs = append(jobs, fmt.Sprintf(`{"class":"Mark","args":[%q],%s}`, fmt.Sprint(len(jobs)), test.fields))
	}
	b.Track(append(all, "p_", "_a1", "0_a2", "a4")...)
	b.Push(jobs...)
	b.Eventually("all are committed", func() bool { return b.Stat("processed") == len(jobs) })
	for name, want := range written {
		if got := b.Status(name); got != want {
			t.Errorf("%s is %s, want %s", daemontest.PHPKey(name), got, want)
		}
	}
	for _, name := range []string{"p_", "_a1", "0_a2", "a4"} {
		if got := b.Status(name); got != daemontest.Seed {
			t.Errorf("%s, which is no job's, is %s", daemontest.PHPKey(name), got)
		}
	}
}

// A job that takes a while is shown as running, also one that had failed before: its status does
// not expire any more.
func TestPHPStatusOfRunning(t *testing.T) {
	t.Parallel()
	b := daemontest.Setup(t)
	b.Start()
	b.Track("new", "old")
	b.Redis.Do(t, "SET", daemontest.PHPKey("again"), daemontest.Seed, "EX", 1000)
	b.Push(phpJob("Hold", "new"), oldPHPJob("Hold", "old"), phpJob("Hold", "again"), phpJob("Hold", "untracked"))
	for id, want := range map[string]string{"new": daemontest.PhpRunning, "old": daemontest.OldPHPRunning, "again": daemontest.PhpRunning} {
		b.Becomes(id, want)
		b.Expires(id, false)
	}
	b.Eventually("Resque's tools see the other one too", func() bool { return b.WorkersTold() == 4 })
	if b.Redis.Int(t, "EXISTS", daemontest.PHPKey("untracked")) == 1 {
		t.Error("a job that is not tracked has a status")
	}
	b.Open()
	for id, want := range map[string]string{"new": daemontest.PhpComplete, "old": daemontest.OldPHPComplete, "again": daemontest.PhpComplete} {
		b.Becomes(id, want)
		b.Expires(id, true)
	}
}

// A job that goes back to its queue waits again, whether its handler ended in time or not.
func TestPHPStatusOfReturned(t *testing.T) {
	t.Parallel()
	b := daemontest.Setup(t, func(s *goworker.WorkerSettings) { s.ShutdownTimeout = 50 * time.Millisecond })
	b.Start()
	b.Track("hold", "deaf")
	b.Push(phpJob("Hold", "hold"), phpJob("Deaf", "deaf"))
	b.Becomes("hold", daemontest.PhpRunning)
	b.Becomes("deaf", daemontest.PhpRunning)
	if err := b.Stop(); err == nil {
		t.Error("Run returned no error, although a handler did not end")
	}
	for _, id := range []string{"hold", "deaf"} {
		if got := b.Status(id); got != daemontest.PhpWaiting {
			t.Errorf("the status of %s is %s, want %s", id, got, daemontest.PhpWaiting)
		}
		b.Expires(id, false)
	}
	if n := len(b.Queue("work")); n != 2 {
		t.Errorf("%d jobs are back in the queue, want 2", n)
	}
}

// A job that is left to others waits again.
func TestPHPStatusOfLeft(t *testing.T) {
	t.Parallel()
	b := daemontest.Setup(t, daemontest.Leaving)
	b.Track("x")
	b.Push(phpJob("Nobody", "x"))
	b.Start()
	b.Becomes("x", daemontest.PhpWaiting)
	b.Expires("x", false)
}

// A reaper writes the status of the jobs that ran in a dead process: a job that it puts back waits,
// and a poison job has failed. A job that was not running keeps its status.
func TestPHPStatusOfRecovered(t *testing.T) {
	t.Parallel()
	b := daemontest.Setup(t, func(s *goworker.WorkerSettings) { s.RecoverLimit = 1 })
	dead := b.Died(true)
	poison := phpJob("Nobody", "poison")
	b.Track("poison", "back", "unstarted")
	b.Redis.Do(t, "HSET", "resque:go:process:"+dead.ID, "handed", "8 *8")
	for ticket, payload := range map[string]string{"7": phpJob("Nobody", "back"), "8": poison, "9": phpJob("Nobody", "unstarted")} {
		b.Redis.Do(t, "HSET", "resque:go:inflight:"+dead.ID, ticket, "9:elsewhere"+payload)
	}
	b.Redis.Do(t, "HSET", "resque:go:recovered", resque.Digest([]byte(poison)), fmt.Sprintf("1 %d another", time.Now().UnixMilli()))
	b.Start()
	b.Becomes("poison", daemontest.PhpFailed)
	b.Expires("poison", true)
	b.Becomes("back", daemontest.PhpWaiting)
	b.Expires("back", false)
	b.Eventually("two are back in their queue", func() bool { return len(b.Queue("elsewhere")) == 2 })
	if got := b.Status("unstarted"); got != daemontest.Seed {
		t.Errorf("the status of the job that was not started is %s", got)
	}
}

// The write of status 2 may reach Redis after the job's end. Then it changes nothing.
func TestPHPStatusIsNotLate(t *testing.T) {
	t.Parallel()
	b := daemontest.Setup(t)
	store, c := resque.New(""), b.Redis.Dial(t)
	b.Track("ended", "runs")
	b.Redis.Do(t, "HSET", "resque:go:inflight:p", "2", "4:work"+phpJob("Mark", "runs"))
	var updates []resque.WorkerUpdate
	for i, id := range []string{"ended", "runs", "untracked"} {
		updates = append(updates, resque.WorkerUpdate{ID: "w:" + id, Work: &resque.Work{
			Worker: "w", Queue: "work", RunAt: time.Now(), Payload: []byte(phpJob("Mark", id)),
			Process: "p", Ticket: int64(i) + 1, Now: time.Now(),
		}})
	}
	b.Redis.Do(t, "HSET", "resque:go:inflight:p", "3", "4:work"+phpJob("Mark", "untracked"))
	if err := store.UpdateWorkers(c, updates); err != nil {
		t.Fatal(err)
	}
	for id, want := range map[string]string{"ended": daemontest.Seed, "runs": daemontest.PhpRunning, "untracked": ""} {
		if got := b.Status(id); got != want {
			t.Errorf("the status of %s is %q, want %q", id, got, want)
		}
	}
}
