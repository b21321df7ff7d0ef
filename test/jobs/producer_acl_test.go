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

// part returns what a page of docs has at the places of a pattern.
func part(t *testing.T, page, pattern string) []string {
	t.Helper()
	text, err := os.ReadFile("../../docs/" + page)
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(pattern).FindStringSubmatch(string(text))
	if found == nil {
		t.Fatalf("docs/%s has no %s", page, pattern)
	}
	return found[1:]
}

// userOf returns the rules of a user that a page shows, as arguments of ACL SETUSER. Each selector is one.
func userOf(t *testing.T, page, name string) []string {
	t.Helper()
	rules := part(t, page, "(?s)```acl\nuser "+name+" on >PASSWORD (.*?)```")[0]
	return regexp.MustCompile(`\([^)]*\)|\S+`).FindAllString(rules, -1)
}

// user makes a user of Redis, and a daemon that only enqueues as it.
func user(t *testing.T, s *redistest.Server, name string, rules []string) *goworker.Daemon {
	t.Helper()
	s.Do(t, "ACL", append([]any{"SETUSER", name, "on", ">pw"}, anys(rules)...)...)
	d := goworker.New(goworker.WorkerSettings{URI: "redis://" + name + ":pw@" + s.Addr, Logger: daemontest.Quiet})
	t.Cleanup(d.Close)
	return d
}

// refusesAll checks that Redis refuses commands to the user of a daemon.
func refusesAll(t *testing.T, d *goworker.Daemon, commands ...string) {
	t.Helper()
	c, err := d.GetConn()
	if err != nil {
		t.Fatal(err)
	}
	defer d.PutConn(c)
	for _, command := range commands {
		words := strings.Fields(command)
		if _, err := c.Do(words[0], anys(words[1:])...); err == nil || !strings.Contains(err.Error(), "NOPERM") {
			t.Errorf("%s: %v", command, err)
		}
	}
}

// operate are commands by which a user of Redis would operate the fleet.
var operate = []string{
	"HSET resque:go:rules pause:*:queue:q 1", "HSET resque:go:notice events 1", "XADD resque:go:control * m x", "PUBLISH resque:go:notice rules", "HSET resque:go:limits C 1",
	"SADD resque:go:paused q", "HSET resque:go:process:p limits x", "XADD resque:go:events * e x", "LPOP resque:queue:q", "LRANGE resque:queue:q 0 -1", "DEL resque:queue:q", "RPUSH resque:failed x", "KEYS *", "GET x",
}

// Producers as the pages on security, on unique jobs and on enqueueing have them can enqueue, and cannot read a job, take one, operate
// the fleet, or touch anything else.
func TestProducerACL(t *testing.T) {
	t.Parallel()
	redistest.OwnUser(t)
	plain := strings.Fields(strings.Join(part(t, "security.md", "`(~resque:queue[^`]*)`[^`]*`Enqueue` also `([^`]*)`"), " "))
	locks := strings.Fields(part(t, "unique.md", "`(~resque:go:unique[^`]*)`")[0])
	s := redistest.Start(t)
	d := user(t, s, "producer", plain)
	if err := d.Enqueue(&goworker.Job{Queue: "q", Payload: goworker.Payload{Class: "C", Args: nil}}); err != nil {
		t.Fatal(err)
	}
	refusesAll(t, d, append(operate, "ZADD resque:go:cancelled 1 a")...)

	users := map[string][]string{"locker": append(plain, locks...), "planner": userOf(t, "enqueueing.md", "planner")}
	if strings.Contains(s.Text(t, "INFO", "server"), "redis_version:6") {
		t.Log("Redis 6 has no selectors")
	} else {
		users["selected"] = userOf(t, "unique.md", "locker")
	}
	for name, rules := range users {
		t.Run(name, func(t *testing.T) {
			s := redistest.Start(t)
			d := user(t, s, name, rules)
			uniqueJobs(t, s, d)
			refusesAll(t, d, operate...)
			if name != "planner" { // it may lift a cancel, and so may cancel
				refusesAll(t, d, "ZADD resque:go:cancelled 1 a")
			}
			if name == "planner" {
				planned(t, s, d)
			}
			if name == "selected" {
				refusesAll(t, d, "HDEL resque:go:inflight:another 1", "HSET resque:go:inflight:another 1 x", "LREM resque:go:lane:x 1 x", "ZREM resque:go:processes p", "HSET resque:queue:q a b")
			}
		})
	}
}

// planned enqueues what else a planner may: delayed jobs, and with what the page adds, jobs with results and workflows.
func planned(t *testing.T, s *redistest.Server, d *goworker.Daemon) {
	t.Helper()
	job := goworker.NewJob("q", "C", 1)
	for i, opts := range [][]goworker.EnqueueOption{
		{goworker.WithID("a")}, {goworker.ProcessIn(time.Hour)}, {goworker.Priority(goworker.High)},
	} {
		if _, err := d.EnqueueWith(job, opts...); err != nil {
			t.Errorf("job %d: %v", i, err)
		}
	}
	if err := d.EnqueueIn(time.Hour, job); err != nil { // in resque-scheduler's schedule
		t.Error(err)
	}
	more := part(t, "enqueueing.md", "results.md\\) it also takes `([^`]*)`[^`]*batches it also takes `([^`]*)`")
	s.Do(t, "ACL", append([]any{"SETUSER", "planner"}, anys(strings.Fields(strings.Join(more, " ")))...)...)
	if _, err := d.EnqueueWith(job, goworker.WithResult(time.Hour)); err != nil {
		t.Error(err)
	}
	if _, err := d.Client().Start(t.Context(), goworker.Chain(goworker.Step(job), goworker.Step(job, goworker.WithResult(time.Hour)))); err != nil {
		t.Error(err)
	}
}

// uniqueJobs enqueues jobs with locks, as each case of a holder needs other commands.
func uniqueJobs(t *testing.T, s *redistest.Server, d *goworker.Daemon) {
	t.Helper()
	enqueue := func(opts ...goworker.EnqueueOption) (string, error) {
		r, err := d.EnqueueWith(&goworker.Job{Queue: "q", Payload: goworker.Payload{Class: "C", Args: nil}}, opts...)
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
	for _, key := range s.List(t, "KEYS", "resque:go:unique:"+strings.Repeat("?", 32)) { // last seen in 1970
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
}

func anys(texts []string) (all []any) {
	for _, t := range texts {
		all = append(all, t)
	}
	return all
}
