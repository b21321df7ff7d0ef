package goworker

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

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

const (
	phpWaiting  = `{"status":1,"updated":NOW,"started":1795229105,"result":null}`
	phpRunning  = `{"status":2,"updated":NOW,"started":1795229105,"result":null}`
	phpFailed   = `{"status":3,"updated":NOW,"started":1795229105,"result":null}`
	phpComplete = `{"status":4,"updated":NOW,"started":1795229105,"result":null}`

	oldPHPWaiting  = `{"status":1,"updated":NOW,"started":1795229105}`
	oldPHPRunning  = `{"status":2,"updated":NOW}`
	oldPHPFailed   = `{"status":3,"updated":NOW}`
	oldPHPComplete = `{"status":4,"updated":NOW}`

	// seed stands where PHP wrote its first status, so that a test sees which ones are new.
	seed = "as PHP wrote it"
)

func phpKey(id string) string { return "resque:job:" + id + ":status" }

// track does what PHP does when it enqueues a job that it tracks.
func (b *bundle) track(ids ...string) {
	b.t.Helper()
	for _, id := range ids {
		b.redis.Do(b.t, "SET", phpKey(id), seed)
	}
}

var updatedAt = regexp.MustCompile(`"updated":(\d+)`)

// status returns php-resque's status of a job. NOW stands in it for a time that is Redis's.
func (b *bundle) status(id string) string {
	b.t.Helper()
	return updatedAt.ReplaceAllStringFunc(b.redis.Text(b.t, "GET", phpKey(id)), func(field string) string {
		now, _ := strconv.Atoi(b.redis.List(b.t, "TIME")[0])
		at, _ := strconv.Atoi(strings.TrimPrefix(field, `"updated":`))
		if at > now+1 || at < now-int(2*soon/time.Second) {
			return field
		}
		return `"updated":NOW`
	})
}

// becomes waits for a status.
func (b *bundle) becomes(id, want string) {
	b.t.Helper()
	defer func() {
		if b.t.Failed() {
			b.t.Logf("the status of %s is %s, want %s", id, b.status(id), want)
		}
	}()
	b.eventually("the status of "+id, func() bool { return b.status(id) == want })
}

// expires checks whether the status of a job stays for a day, or for as long as PHP likes.
func (b *bundle) expires(id string, after bool) {
	b.t.Helper()
	const day = 24 * 60 * 60
	switch ttl := b.redis.Int(b.t, "TTL", phpKey(id)); {
	case after && (ttl > day || ttl < day-int(2*soon/time.Second)):
		b.t.Errorf("the status of %s expires in %d s, want a day", id, ttl)
	case !after && ttl != -1:
		b.t.Errorf("the status of %s expires in %d s, want never", id, ttl)
	}
}

// Each end of a job's run writes the status that PHP shows, and only where PHP tracks the job.
func TestPHPStatusOfEnds(t *testing.T) {
	t.Parallel()
	b := setup(t)
	returning := func(class string, err error, opts ...Option) {
		b.daemon.Register(class, func(string) error { return err }, opts...)
	}
	returning("Retry", errNoLuck, Retry(3, Delays{time.Hour}))
	returning("RetryAsRuby", errNoLuck, Retry(3, Delays{time.Hour}, ResqueRetry{}))
	returning("GiveUp", errNoLuck, Retry(1, Delays{0}))
	returning("Discard", Discard(nil))
	b.daemon.Register("Panic", func(string) { panic("no luck") })
	b.daemon.Register("Number", func(int) {})
	b.start()
	for _, test := range []struct {
		class   string
		new     string // the status of a job of resque/php-resque
		old     string // that of chrisboulton/php-resque
		expires bool
	}{
		{"Mark", phpComplete, oldPHPComplete, true},
		{"Fail", phpFailed, oldPHPFailed, true},
		{"Panic", phpFailed, oldPHPFailed, true},
		{"Number", phpFailed, oldPHPFailed, true},
		{"Nobody", phpFailed, oldPHPFailed, true},
		{"Retry", phpWaiting, oldPHPWaiting, false},
		{"RetryAsRuby", phpWaiting, oldPHPWaiting, false},
		{"GiveUp", phpFailed, oldPHPFailed, true},
		{"Discard", phpComplete, oldPHPComplete, true},
	} {
		id := test.class
		b.track(id, "old"+id)
		b.push(phpJob(test.class, id), oldPHPJob(test.class, "old"+id), phpJob(test.class, "untracked"+id))
		b.becomes(id, test.new)
		b.becomes("old"+id, test.old)
		b.expires(id, test.expires)
		b.expires("old"+id, test.expires)
	}
	expired := strings.Replace(phpJob("Mark", "expired"), `"id"`, `"expires_at":1,"id"`, 1)
	b.track("expired")
	b.push(expired)
	b.becomes("expired", phpComplete)
	b.expires("expired", true)

	b.push(phpJob("Mark", "last"))
	b.eventually("the last job runs", func() bool { return b.runs.ends("last") == 1 })
	if err := b.stop(); err != nil {
		t.Error(err)
	}
	for _, key := range b.redis.Keys(t) {
		if strings.Contains(key, "untracked") || strings.Contains(key, "last") {
			t.Errorf("the key %s is written for a job that PHP does not track", key)
		}
	}
}

// PHP names the key by the id and, if there is one, the prefix. Other jobs have no status.
func TestPHPStatusKeys(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.start()
	var jobs, all []string
	written := make(map[string]string) // by the id in the key
	for _, test := range []struct {
		fields  string // of the payload, behind its arguments
		names   string // between job: and :status
		becomes string
	}{
		{`"id":"a1","prefix":"","queue_time":1795229105.5`, "a1", phpComplete},
		{`"id":"a2","prefix":"0","queue_time":1795229105.5`, "a2", phpComplete},
		{`"id":"a3","prefix":null,"queue_time":1795229105.5`, "a3", phpComplete},
		{`"id":"a4","prefix":"p","queue_time":1795229105.5`, "p_a4", phpComplete},
		{`"prefix":"\u00e9:","queue_time":1795229105,"id":"a5"`, "é:_a5", phpComplete},
		{`"id":"a6","queue_time":1795229105.5`, "a6", oldPHPComplete},
		{`"id":7,"queue_time":1795229105.5`, "7", oldPHPComplete},
		{`"id":"a8","prefix":""`, "a8", seed},
		{`"id":"a9"`, "a9", seed},
		{`"id":"a10","queue_time":"yesterday"`, "a10", seed},
		{`"id":"a11","queue_time":null`, "a11", seed},
		{`"id":"a12","queue_time":1e300`, "a12", seed},
		{`"id":"0","queue_time":1795229105.5`, "0", seed},
		{`"id":"","queue_time":1795229105.5`, "", seed},
		{`"queue_time":1795229105.5`, "none", seed},
	} {
		all = append(all, test.names)
		written[test.names] = test.becomes
		jobs = append(jobs, fmt.Sprintf(`{"class":"Mark","args":[%q],%s}`, fmt.Sprint(len(jobs)), test.fields))
	}
	b.track(append(all, "p_", "_a1", "0_a2", "a4")...)
	b.push(jobs...)
	b.eventually("all are committed", func() bool { return b.stat("processed") == len(jobs) })
	for name, want := range written {
		if got := b.status(name); got != want {
			t.Errorf("%s is %s, want %s", phpKey(name), got, want)
		}
	}
	for _, name := range []string{"p_", "_a1", "0_a2", "a4"} {
		if got := b.status(name); got != seed {
			t.Errorf("%s, which is no job's, is %s", phpKey(name), got)
		}
	}
}

// A job that takes a while is shown as running, also one that had failed before: its status does
// not expire any more.
func TestPHPStatusOfRunning(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.start()
	b.track("new", "old")
	b.redis.Do(t, "SET", phpKey("again"), seed, "EX", 1000)
	b.push(phpJob("Hold", "new"), oldPHPJob("Hold", "old"), phpJob("Hold", "again"), phpJob("Hold", "untracked"))
	for id, want := range map[string]string{"new": phpRunning, "old": oldPHPRunning, "again": phpRunning} {
		b.becomes(id, want)
		b.expires(id, false)
	}
	b.eventually("Resque's tools see the other one too", func() bool { return b.workersTold() == 4 })
	if b.redis.Int(t, "EXISTS", phpKey("untracked")) == 1 {
		t.Error("a job that is not tracked has a status")
	}
	b.open()
	for id, want := range map[string]string{"new": phpComplete, "old": oldPHPComplete, "again": phpComplete} {
		b.becomes(id, want)
		b.expires(id, true)
	}
}

// workersTold is how many workers have a job that Resque's tools see.
func (b *bundle) workersTold() (n int) {
	b.t.Helper()
	for _, id := range b.redis.List(b.t, "SMEMBERS", "resque:workers") {
		n += b.redis.Int(b.t, "EXISTS", "resque:worker:"+id)
	}
	return n
}

// A job that goes back to its queue waits again, whether its handler ended in time or not.
func TestPHPStatusOfReturned(t *testing.T) {
	t.Parallel()
	b := setup(t, func(s *WorkerSettings) { s.ShutdownTimeout = 50 * time.Millisecond })
	b.start()
	b.track("hold", "deaf")
	b.push(phpJob("Hold", "hold"), phpJob("Deaf", "deaf"))
	b.becomes("hold", phpRunning)
	b.becomes("deaf", phpRunning)
	if err := b.stop(); err == nil {
		t.Error("Run returned no error, although a handler did not end")
	}
	for _, id := range []string{"hold", "deaf"} {
		if got := b.status(id); got != phpWaiting {
			t.Errorf("the status of %s is %s, want %s", id, got, phpWaiting)
		}
		b.expires(id, false)
	}
	if n := len(b.queue("work")); n != 2 {
		t.Errorf("%d jobs are back in the queue, want 2", n)
	}
}

// A job that is left to others waits again.
func TestPHPStatusOfLeft(t *testing.T) {
	t.Parallel()
	b := setup(t, leaving)
	b.track("x")
	b.push(phpJob("Nobody", "x"))
	b.start()
	b.becomes("x", phpWaiting)
	b.expires("x", false)
}

// A reaper writes the status of the jobs that ran in a dead process: a job that it puts back waits,
// and a poison job has failed. A job that was not running keeps its status.
func TestPHPStatusOfRecovered(t *testing.T) {
	t.Parallel()
	b := setup(t, func(s *WorkerSettings) { s.RecoverLimit = 1 })
	dead := b.died(true)
	poison := phpJob("Nobody", "poison")
	b.track("poison", "back", "unstarted")
	b.redis.Do(t, "HSET", "resque:go:process:"+dead.ID, "handed", "8 *8")
	for ticket, payload := range map[string]string{"7": phpJob("Nobody", "back"), "8": poison, "9": phpJob("Nobody", "unstarted")} {
		b.redis.Do(t, "HSET", "resque:go:inflight:"+dead.ID, ticket, "9:elsewhere"+payload)
	}
	b.redis.Do(t, "HSET", "resque:go:recovered", resque.Digest([]byte(poison)), fmt.Sprintf("1 %d another", time.Now().UnixMilli()))
	b.start()
	b.becomes("poison", phpFailed)
	b.expires("poison", true)
	b.becomes("back", phpWaiting)
	b.expires("back", false)
	b.eventually("two are back in their queue", func() bool { return len(b.queue("elsewhere")) == 2 })
	if got := b.status("unstarted"); got != seed {
		t.Errorf("the status of the job that was not started is %s", got)
	}
}

// The write of status 2 may reach Redis after the job's end. Then it changes nothing.
func TestPHPStatusIsNotLate(t *testing.T) {
	t.Parallel()
	b := setup(t)
	store, c := resque.New(""), b.redis.Dial(t)
	b.track("ended", "runs")
	b.redis.Do(t, "HSET", "resque:go:inflight:p", "2", "4:work"+phpJob("Mark", "runs"))
	var updates []resque.WorkerUpdate
	for i, id := range []string{"ended", "runs", "untracked"} {
		updates = append(updates, resque.WorkerUpdate{ID: "w:" + id, Work: &resque.Work{
			Worker: "w", Queue: "work", RunAt: time.Now(), Payload: []byte(phpJob("Mark", id)),
			Process: "p", Ticket: int64(i) + 1, Now: time.Now(),
		}})
	}
	b.redis.Do(t, "HSET", "resque:go:inflight:p", "3", "4:work"+phpJob("Mark", "untracked"))
	if err := store.UpdateWorkers(c, updates); err != nil {
		t.Fatal(err)
	}
	for id, want := range map[string]string{"ended": seed, "runs": phpRunning, "untracked": ""} {
		if got := b.status(id); got != want {
			t.Errorf("the status of %s is %q, want %q", id, got, want)
		}
	}
}
