package daemon

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/internal/daemontest"
	"github.com/goworker/goworker/internal/resque"
)

// With a list for each queue nothing is ever written to the common one, whatever way
// a job fails.
func TestFailureBackendThroughout(t *testing.T) {
	t.Parallel()
	b := daemontest.Setup(t, func(s *goworker.WorkerSettings) {
		s.FailureBackend, s.QueuesString, s.MaxPayload, s.RecoverLimit = goworker.FailureRedisMultiQueue, "work,other", 2000, 1
	})

	// A job that was running in two processes that died, one of them just now.
	dead := b.Died(true)
	poison := daemontest.Job("Mark", "poison")
	b.Redis.Do(t, "HSET", "resque:go:process:"+dead.ID, "handed", "7 *7")
	b.Redis.Do(t, "HSET", "resque:go:inflight:"+dead.ID, "7", "5:other"+poison)
	b.Redis.Do(t, "HSET", "resque:go:recovered", resque.Digest([]byte(poison)), fmt.Sprintf("1 %d another", time.Now().UnixMilli()))
	// Workers of Ruby's that died, one with a job and one with unreadable text.
	for id, work := range map[string]string{"ruby:1:work": `{"queue":"work","payload":{"class":"R","args":[]}}`, "ruby:2:work": "corrupt"} {
		b.Redis.Do(t, "SADD", "resque:workers", id)
		b.Redis.Do(t, "HSET", "resque:workers:heartbeat", id, time.Now().Add(-time.Hour).UTC().Format(time.RFC3339))
		b.Redis.Do(t, "SET", "resque:worker:"+id, work)
	}
	b.Push(daemontest.Job("Fail", "f"), daemontest.Job("Nobody", "n"), "not JSON", `{"class":"Mark","args":[`+strings.Repeat(`"x",`, 600)+`"x"]}`, `{"class":"Mark","args":[{}]}`)
	b.Start()
	b.Eventually("all are filed", func() bool {
		return b.Redis.Int(t, "LLEN", "resque:work_failed") == 6 && b.Redis.Int(t, "LLEN", "resque:other_failed") == 1 &&
			b.Redis.Int(t, "LLEN", "resque:_failed") == 1
	})
	if names := b.Redis.List(t, "SMEMBERS", "resque:failed_queues"); fmt.Sprint(slices.Sorted(slices.Values(names))) != "[_failed other_failed work_failed]" {
		t.Errorf("failed_queues %q", names)
	}
	if info, err := b.Daemon.Info(); info.Failed != 8 || err != nil {
		t.Errorf("info: failed %d, %v; want 8", info.Failed, err)
	}
	if n, err := b.Daemon.Failures().RetryWhere(goworker.FailureFilter{Class: "Fail"}); n != 1 || err != nil {
		t.Errorf("retried %d, %v", n, err)
	}
	b.Eventually("it fails again", func() bool { return b.Redis.Int(t, "LLEN", "resque:work_failed") == 7 })
	if n := b.Redis.Int(t, "EXISTS", "resque:failed"); n != 0 {
		t.Error("the common list was written to")
	}
}
