package jobs

import (
	"errors"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/internal/daemontest"
	"github.com/goworker/goworker/internal/redistest"
)

// A producer as docs/security.md has it can enqueue, and cannot read a job, take
// one, or touch anything else.
func TestProducerACL(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/security.md")
	if err != nil {
		t.Fatal(err)
	}
	unique, err := os.ReadFile("../../docs/unique.md")
	if err != nil {
		t.Fatal(err)
	}
	more := regexp.MustCompile("`(~resque:go:[^`]*)`").FindSubmatch(unique)
	if more == nil {
		t.Fatal("docs/unique.md does not say what more it takes")
	}
	rules := regexp.MustCompile("`(~resque:queue[^`]*)`[^`]*`Enqueue` also `([^`]*)`").FindSubmatch(page)
	if rules == nil {
		t.Fatal("docs/security.md shows no producer")
	}
	s := redistest.Start(t)
	args := []any{"SETUSER", "producer", "on", ">pw"}
	for _, rule := range strings.Fields(string(rules[1]) + " " + string(rules[2])) {
		args = append(args, rule)
	}
	s.Do(t, "ACL", args...)
	d := goworker.New(goworker.WorkerSettings{URI: "redis://producer:pw@" + s.Addr, Logger: daemontest.Quiet})
	defer d.Close()
	if err := d.Enqueue(&goworker.Job{Queue: "q", Payload: goworker.Payload{Class: "C", Args: nil}}); err != nil {
		t.Fatal(err)
	}
	s.Do(t, "ACL", append([]any{"SETUSER", "locker", "on", ">pw"}, append(args[4:], anys(strings.Fields(string(more[1])))...)...)...)
	locker := goworker.New(goworker.WorkerSettings{URI: "redis://locker:pw@" + s.Addr, Logger: daemontest.Quiet})
	defer locker.Close()
	enqueue := func(opts ...goworker.EnqueueOption) (string, error) {
		r, err := locker.EnqueueWith(&goworker.Job{Queue: "q", Payload: goworker.Payload{Class: "C", Args: nil}}, opts...)
		return r.Replaced, err
	}
	duplicate := new(goworker.DuplicateError)
	for i, opts := range [][]goworker.EnqueueOption{
		{goworker.Unique()}, {goworker.Unique()}, // taken, refused
		{goworker.Unique(goworker.ReplaceWaiting())}, {goworker.Unique(goworker.ReplaceWaiting()), goworker.ProcessAt(time.Now().Add(time.Hour))}, {goworker.Unique(goworker.ReplaceWaiting())},
	} {
		replaced, err := enqueue(opts...)
		if i == 1 != errors.As(err, &duplicate) || i != 1 && err != nil || (i > 1) != (replaced != "") {
			t.Errorf("unique job %d: replaces %q, %v", i, replaced, err)
		}
	}
	for _, key := range s.List(t, "KEYS", "resque:go:unique:*") { // last seen in 1970
		said := s.List(t, "HGETALL", key)
		parts := strings.SplitN(said[1], " ", 4)
		s.Do(t, "HSET", key, said[0], parts[0]+" "+parts[1]+" 0 "+parts[3])
	}
	s.Do(t, "ZADD", "resque:go:processes", 1, "another")
	s.Do(t, "HSET", "resque:go:inflight:another", 1, strings.Repeat("x", 999))
	s.Do(t, "SADD", "resque:go:lanes", "1:q")
	s.Do(t, "ZADD", "resque:go:lanes:1:q", 1, "f:C=k")
	s.Do(t, "RPUSH", "resque:go:lane:1:q0:f:C=k", "{}")
	if _, err := enqueue(goworker.Unique()); !errors.As(err, &duplicate) {
		t.Errorf("looking for the job: %v", err)
	}
	c, err := d.GetConn()
	if err != nil {
		t.Fatal(err)
	}
	defer d.PutConn(c)
	for _, command := range [][]any{{"LPOP", "resque:queue:q"}, {"LRANGE", "resque:queue:q", 0, -1}, {"DEL", "resque:queue:q"}, {"RPUSH", "resque:failed", "x"}, {"KEYS", "*"}, {"GET", "x"}} {
		if _, err := c.Do(command[0].(string), command[1:]...); err == nil || !strings.Contains(err.Error(), "NOPERM") {
			t.Errorf("%v: %v", command, err)
		}
	}
}

func anys(texts []string) (all []any) {
	for _, t := range texts {
		all = append(all, t)
	}
	return all
}
