package resque

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestInfo(t *testing.T) {
	a := newAdmin(t)
	if info, err := a.Info(a.c, true); err != nil || !cmp.Equal(info, Info{}) {
		t.Errorf("of an empty Redis: %+v, %v", info, err)
	}
	a.push(t, "mail", "1", "2")
	a.push(t, "Low", "3")
	a.push(t, "empty", "4")
	a.Do(t, "LPOP", "resque:queue:empty")
	a.Do(t, "SADD", "resque:queues", "jesque")
	a.Do(t, "ZADD", "resque:queue:jesque", 1, "x")
	a.Do(t, "SADD", "resque:workers", "h:1:q", "h:2:q", "h", "h:4:q")
	a.Do(t, "SET", "resque:worker:h:1:q", `{"queue":"q"}`)
	a.Do(t, "SET", "resque:worker:h", `garbage`)
	a.Do(t, "SET", "resque:worker:h:4:q", ``)
	a.Do(t, "SET", "resque:stat:processed", "10")
	a.Do(t, "SET", "resque:stat:failed", "99")
	a.Do(t, "RPUSH", "resque:failed", "a", "b")
	a.Do(t, "RPUSH", "resque:mail_failed", "c")
	a.Do(t, "SADD", "resque:failed_queues", "mail_failed")

	want := Info{Pending: 3, Processed: 10, Failed: 2, Workers: 4, Working: 2,
		Queues: []QueueInfo{{"Low", 1}, {"empty", 0}, {"jesque", 0}, {"mail", 2}}}
	monitor := a.Monitor(t)
	info, err := a.Info(a.c, false)
	if diff := cmp.Diff(want, info); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	for _, c := range monitor.Commands() {
		if c[0] == "KEYS" || c[0] == "SCAN" {
			t.Errorf("asked %q", c)
		}
	}
	want.Failed = 3
	info, err = a.Info(a.c, true)
	if diff := cmp.Diff(want, info); err != nil || diff != "" {
		t.Errorf("with a failure list for each queue: %v (-want +got):\n%s", err, diff)
	}
	text := strings.Join([]string{
		"resque.pending=3", "resque.processed+=10", "resque.failed+=3", "resque.workers=4", "resque.working=2",
		"queues.Low=1", "queues.empty=0", "queues.jesque=0", "queues.mail=2",
	}, "\n")
	if got := info.StatsText(); got != text {
		t.Errorf("text %q; want %q", got, text)
	}
}

func TestInfoManyQueues(t *testing.T) {
	a := newAdmin(t)
	const n = 1500 // more than a batch sends at a time
	for i := range n {
		a.push(t, fmt.Sprint("q", i), "x")
		if _, err := a.c.Do("SADD", "resque:workers", fmt.Sprintf("h:%d:q", i)); err != nil {
			t.Fatal(err)
		}
	}
	info, err := a.Info(a.c, false)
	if err != nil || info.Pending != n || len(info.Queues) != n || info.Workers != n {
		t.Errorf("pending %d, queues %d, workers %d, %v; want %d of each", info.Pending, len(info.Queues), info.Workers, err, n)
	}
	workers, err := a.Workers(a.c)
	if len(workers) != n || err != nil {
		t.Errorf("%d workers, %v; want %d", len(workers), err, n)
	}
}

func TestInfoRefused(t *testing.T) {
	for _, key := range []string{"queues", "workers", "failed_queues", "failed"} {
		t.Run(key, func(t *testing.T) {
			a := newAdmin(t)
			a.Do(t, "SET", "resque:"+key, "x")
			_, err := a.Info(a.c, true)
			wantError(t, err, "WRONGTYPE")
		})
	}
}
