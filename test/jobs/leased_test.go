package jobs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/inspect"
	"github.com/goworker/goworker/internal/daemontest"
	"github.com/goworker/goworker/internal/leased"
	"github.com/goworker/goworker/internal/neighbor"
	"github.com/goworker/goworker/internal/outcome"
	"github.com/goworker/goworker/internal/resque"
	"github.com/goworker/goworker/internal/resque/leases"
)

// counter is a server that gives jobs to clients and ends them, beside a daemon that has not started.
type counter struct {
	*daemontest.Bundle
	neighbor.Neighbor
	ender *leased.Ender
	store leases.Store
	c     redis.Conn
	turn  int64
}

const serverID = "server"

func setupCounter(t *testing.T, change ...func(*goworker.WorkerSettings)) *counter {
	t.Helper()
	s := &counter{Bundle: daemontest.Setup(t, change...)}
	t.Cleanup(func() { s.Daemon.Close() })
	s.must(goworker.Beside(&s.Neighbor, s.Daemon.Client()))
	s.ender = leased.NewEnder(s.Base, s.Features, leased.Worker("host", 7))
	s.store, s.c = leases.New(s.Store), s.Bundle.Redis.Dial(t)
	return s
}

func (s *counter) must(err error) {
	s.T.Helper()
	if err != nil {
		s.T.Fatal(err)
	}
}

// take gives all jobs of a queue to a client for a time.
func (s *counter) take(queue string, ttr time.Duration) []leases.Job {
	s.T.Helper()
	s.turn += 2
	_, _, err := s.store.Served(s.c, serverID, s.turn)
	s.must(err)
	answer, err := s.store.Turn(s.c, &leases.Turn{
		Server: serverID, Number: s.turn + 1, Jobs: 500, Bytes: 1 << 20, Texts: s.Features.Marks(),
		Seed: fmt.Sprintf("SEED%012d", s.turn), Asks: []leases.Ask{{Queues: []string{queue}, TTR: ttr, Count: 500}},
	})
	s.must(err)
	s.Time.Saw(time.UnixMilli(answer.Now))
	return answer.Jobs
}

// one takes the one job of the queue work.
func (s *counter) one() leases.Job {
	s.T.Helper()
	jobs := s.take("work", time.Hour)
	if len(jobs) != 1 {
		s.T.Fatalf("%d jobs, want one: %+v", len(jobs), jobs)
	}
	return jobs[0]
}

func endOf(j leases.Job, kind leased.Kind) leased.End {
	return leased.End{Queue: j.Queue, ID: j.ID, Lease: j.Lease, Payload: j.Payload, Kind: kind}
}

// end ends a job and wants that this has become of it.
func (s *counter) end(e leased.End, want outcome.State) {
	s.T.Helper()
	results, err := s.ender.End(s.T.Context(), s.c, []leased.End{e})
	s.must(err)
	if r := results[0]; !r.Ended || r.State != want || r.Err != nil {
		s.T.Fatalf("%+v, want %v", r, want)
	}
}

// ghosts wants that no leased job is left.
func (s *counter) ghosts() {
	s.T.Helper()
	for _, key := range []string{s.store.KeyOfLeased(), s.store.KeyOfLeases()} {
		if n := s.Bundle.Redis.Int(s.T, "EXISTS", key); n != 0 {
			s.T.Errorf("%s is left", key)
		}
	}
}

func (s *counter) mark(j leases.Job) string {
	s.T.Helper()
	mark, err := redis.String(s.c.Do("HGET", s.store.ReturnedKey().String(), j.Place()))
	if !errors.Is(err, redis.ErrNil) {
		s.must(err)
	}
	return mark
}

// A unique job that a client holds has its lock, and gives it back with its end.
func TestLeasedUnique(t *testing.T) {
	t.Parallel()
	s := setupCounter(t)
	first := s.MustEnqueue("Mark", "a", goworker.Unique(goworker.UntilDone()))
	j := s.one()
	if !j.Effects {
		t.Error("the lease does not say that the end has effects")
	}
	s.MustRefuse(first, "Mark", "a", goworker.Unique(goworker.UntilDone()))
	for _, lock := range s.Locks() { // as after an hour: its holder is looked for
		said := strings.SplitN(s.Bundle.Redis.Text(t, "HGET", lock, first.ID), " ", 4)
		s.Bundle.Redis.Do(t, "HSET", lock, first.ID, strings.Join([]string{said[0], "1", "1", said[3]}, " "))
	}
	s.MustRefuse(first, "Mark", "a", goworker.Unique(goworker.UntilDone()))
	s.end(endOf(j, leased.Retried), outcome.Failed) // it has one try
	s.Free()
	s.MustEnqueue("Mark", "a", goworker.Unique(goworker.UntilDone()))
	s.end(endOf(s.one(), leased.Done), outcome.Done)
	s.Free()
	s.ghosts()
	if n := s.Stat("processed"); n != 2 {
		t.Errorf("%d jobs processed", n)
	}
}

// A step that a client holds moves its workflow on, with the result that the client gives.
func TestLeasedStep(t *testing.T) {
	t.Parallel()
	s := setupCounter(t)
	_, err := s.Daemon.Client().Start(t.Context(), goworker.Chain(goworker.Step(job("First")), goworker.Step(job("Second", "b"))))
	s.must(err)
	e := endOf(s.one(), leased.Done)
	e.Result = json.RawMessage(`{"n":1}`)
	s.end(e, outcome.Done)
	j := s.one()
	if !strings.Contains(string(j.Payload), `"class":"Second","args":[{"n":1},"b"]`) && !strings.Contains(string(j.Payload), `"args":["b",{"n":1}]`) {
		t.Errorf("the next step is %s", j.Payload)
	}
	s.end(endOf(j, leased.Done), outcome.Done)
	s.ghosts()
}

// The document of a job says what became of it over HTTP.
func TestLeasedDocument(t *testing.T) {
	t.Parallel()
	s := setupCounter(t)
	for name, tt := range map[string]struct {
		end    leased.End
		want   outcome.State
		state  string
		result string
		err    string
	}{
		"done":      {end: leased.End{Kind: leased.Done, Result: json.RawMessage(`[1]`)}, want: outcome.Done, state: "done", result: "[1]"},
		"failed":    {end: leased.End{Kind: leased.Failed, Err: errors.New("bad luck")}, want: outcome.Failed, state: "failed", err: "bad luck"},
		"cancelled": {end: leased.End{Kind: leased.Cancelled}, want: outcome.Cancelled, state: "cancelled"},
		"expired":   {end: leased.End{Kind: leased.Expired}, want: outcome.Expired, state: "expired"},
	} {
		r := s.MustEnqueue("Mark", name, goworker.WithResult(0))
		j := s.one()
		tt.end.Queue, tt.end.ID, tt.end.Lease, tt.end.Payload = j.Queue, j.ID, j.Lease, j.Payload
		s.end(tt.end, tt.want)
		d, there, err := s.Store.ReadDocument(s.c, r.ID)
		if s.must(err); !there || d.State != tt.state || d.Result != tt.result || d.Error != tt.err {
			t.Errorf("%s: %+v", name, d)
		}
	}
	s.ghosts()
}

// An expired job that a turn finds is dropped and counted, and its lock is free.
func TestLeasedExpired(t *testing.T) {
	t.Parallel()
	s := setupCounter(t)
	s.MustEnqueue("Mark", "a", daemontest.Past(), goworker.Unique(goworker.UntilDone()))
	j := s.one()
	if j.Fate != leases.Expired {
		t.Fatalf("fate %v", j.Fate)
	}
	s.end(endOf(j, leased.Expired), outcome.Expired)
	s.Free()
	s.ghosts()
	if n := s.Bundle.Redis.Int(t, "HGET", "resque:go:stats", "expired"); n != 1 {
		t.Errorf("%d expired jobs are counted", n)
	}
}

const threeTries = `{"class":"Mark","args":["a"],"meta":{"k":"v"},"tries":3,"attempt":1,"expires_at":%d,"id":"01M80NTA9RZYBB7STPTR000000"}`

// A job is given as often as it has tries. Then it is a failure of its queue, which Resque can retry.
func TestTries(t *testing.T) {
	t.Parallel()
	s := setupCounter(t)
	till := time.Now().Add(time.Hour).UnixMilli()
	s.Push(fmt.Sprintf(threeTries, till))
	for attempt := 1; attempt <= 2; attempt++ {
		j := s.one()
		e := endOf(j, leased.Retried)
		e.Err = errors.New("busy")
		s.end(e, outcome.Retried)
		want := strings.Replace(fmt.Sprintf(threeTries, till), `"attempt":1`, fmt.Sprintf(`"attempt":%d`, attempt+1), 1)
		got := s.Queue("work")
		if len(got) != 1 || withoutRetryID(got[0]) != want {
			t.Fatalf("queue %q, want %s", got, want)
		}
		if mark := s.mark(j); !strings.HasPrefix(mark, "back ") {
			t.Errorf("mark %q", mark)
		}
	}
	j := s.one()
	e := endOf(j, leased.Retried)
	e.Err = errors.New("busy")
	s.end(e, outcome.Failed)
	s.ghosts()
	if mark := s.mark(j); !strings.HasPrefix(mark, "dead ") {
		t.Errorf("mark %q", mark)
	}
	if n := s.Bundle.Redis.Int(t, "SISMEMBER", "resque:failed_queues", "work_failed"); n != 1 {
		t.Error("failed_queues does not name the list")
	}
	var record struct {
		Payload                         json.RawMessage
		Exception, Error, Worker, Queue string
	}
	records := s.Bundle.Redis.List(t, "LRANGE", "resque:work_failed", 0, -1)
	if len(records) != 1 || json.Unmarshal([]byte(records[0]), &record) != nil {
		t.Fatalf("failures: %q", records)
	}
	if record.Exception != "Goworker::TriesExhausted" || record.Error != "The job was tried 3 times; at last: busy" ||
		record.Worker != "host.http:7-0:work" || record.Queue != "work" {
		t.Errorf("record %s", records[0])
	}
	listed, _, err := s.Daemon.Client().Inspect().Failures().Search(t.Context(), inspect.FailureFilter{}, "", 10) // whatever its backend
	if s.must(err); len(listed) != 1 || listed[0].Exception != record.Exception {
		t.Errorf("listed: %+v", listed)
	}
	if s.Stat("failed") != 1 || s.Stat("processed") != 3 {
		t.Errorf("%d processed, %d failed", s.Stat("processed"), s.Stat("failed"))
	}
}

// A worker's handler uses up tries as a client does, and knows of those that clients have used up. Without any the job is a
// failure.
func TestTriesInWorker(t *testing.T) {
	t.Parallel()
	s := setupCounter(t)
	tries := daemontest.TryingOn(s.Bundle, daemontest.Unlucky)
	s.Push(strings.Replace(fmt.Sprintf(threeTries, time.Now().Add(time.Hour).UnixMilli()), "Mark", "Try", 1))
	s.end(endOf(s.one(), leased.Retried), outcome.Retried)
	s.Start()
	s.Eventually("the second try has failed", func() bool { return len(s.Scheduled()) == 1 })
	if got := s.Scheduled()[0]; !strings.Contains(got, `"tries":3,"attempt":3,`) {
		t.Errorf("the third try is %s", got)
	}
	s.Due()
	s.Eventually("the job is filed", func() bool { return len(s.Failures()) == 1 })
	if got := tries.Seen(); got != "2/1 3/0" {
		t.Errorf("the handler saw %s", got)
	}
	if f := s.Failures()[0]; f.Error != daemontest.ErrNoLuck.Error() {
		t.Errorf("%+v", f)
	}
}

// withoutRetryID drops the field that distinguishes retried jobs of the same id.
func withoutRetryID(payload string) string {
	before, after, there := strings.Cut(payload, `"retry_id":"`)
	if !there {
		return payload
	}
	_, after, _ = strings.Cut(after, `",`)
	return before + after
}

// A job waits for its next try if its client wants that. Its id and its lock stay.
func TestTriesDelayed(t *testing.T) {
	t.Parallel()
	s := setupCounter(t)
	s.Push(fmt.Sprintf(threeTries, time.Now().Add(time.Hour).UnixMilli()))
	e := endOf(s.one(), leased.Retried)
	e.Delay = time.Minute
	s.end(e, outcome.Retried)
	s.ghosts()
	if got := s.Scheduled(); len(got) != 1 || !strings.HasSuffix(got[0], `"id":"01M80NTA9RZYBB7STPTR000000"}`) {
		t.Errorf("delayed: %q", got)
	}
}

// A job that goes back keeps its bytes, and goes to the head. Nothing says of a job that no client has got that it was away, nor of
// one at its first attempt: a job that is published later may have the same bytes.
func TestLeasedBack(t *testing.T) {
	t.Parallel()
	s := setupCounter(t)
	first, second := daemontest.Job("Mark", "a"), strings.Replace(threeTries, "%d", "1999999999999", 1)
	s.Push(first, second, daemontest.Job("Mark", "c"))
	jobs := s.take("work", time.Hour)
	s.Push("last")
	results, err := s.ender.End(t.Context(), s.c, []leased.End{endOf(jobs[1], leased.Unseen), endOf(jobs[0], leased.Returned)})
	s.must(err)
	for _, r := range results {
		if !r.Ended || r.State != outcome.Returned {
			t.Errorf("%+v", r)
		}
	}
	if got := s.Queue("work"); len(got) != 3 || got[0] != first || got[1] != second || got[2] != "last" {
		t.Errorf("queue %q", got)
	}
	if s.mark(jobs[0]) != "" || s.mark(jobs[1]) != "" {
		t.Errorf("marks %q, %q", s.mark(jobs[0]), s.mark(jobs[1]))
	}
	// A job without an id has got one, and keeps it when it goes back with a try.
	if id := jobs[2].ID; id == "" {
		t.Error("the job has no id")
	}
	if n := s.Stat("processed"); n != 0 {
		t.Errorf("%d processed", n)
	}
}

// Of several ends of one job one counts, and each caller hears whether it was theirs.
func TestLeasedOnce(t *testing.T) {
	t.Parallel()
	s := setupCounter(t)
	s.Push(daemontest.Job("Mark", "a"), daemontest.Job("Mark", "b"))
	jobs := s.take("work", time.Hour)
	lost := endOf(jobs[1], leased.Done)
	lost.Lease = "1"
	results, err := s.ender.End(t.Context(), s.c, []leased.End{endOf(jobs[0], leased.Done), endOf(jobs[0], leased.Failed), lost})
	s.must(err)
	if !results[0].Ended || results[1].Ended || results[2].Ended || results[1].Err != nil || results[2].Err != nil {
		t.Errorf("%+v", results)
	}
	if s.Stat("processed") != 1 || s.Stat("failed") != 0 {
		t.Errorf("%d processed, %d failed", s.Stat("processed"), s.Stat("failed"))
	}
	s.Bundle.Redis.Do(t, "SET", "resque:queue:work", "no list")
	results, err = s.ender.End(t.Context(), s.c, []leased.End{endOf(jobs[1], leased.Returned)})
	if s.must(err); results[0].Ended || !resque.IsWrongType(results[0].Err) && results[0].Err == nil {
		t.Errorf("%+v", results)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.ender.End(ctx, s.c, []leased.End{lost}); err == nil {
		t.Error("no error after the context has ended")
	}
}

// A daemon ends leases that have run out although no server is there, and runs the jobs.
func TestDaemonEndsLeases(t *testing.T) {
	t.Parallel()
	s := setupCounter(t)
	s.Push(strings.Replace(threeTries, "%d", "1999999999999", 1), daemontest.Job("Mark", "dead"))
	jobs := s.take("work", time.Second)
	if len(jobs) != 2 {
		t.Fatalf("%d jobs", len(jobs))
	}
	s.Start()
	s.Eventually("the job with a try left runs, and the other one is filed", func() bool {
		return s.Runs.Ends("a") == 1 && s.Bundle.Redis.Int(t, "LLEN", "resque:work_failed") == 1
	})
	s.ghosts()
}

// A lease that an operator releases ends long before its time: the job with a try left runs, and the other one is filed.
func TestReleasedLease(t *testing.T) {
	t.Parallel()
	s := setupCounter(t)
	s.Push(strings.Replace(threeTries, "%d", "1999999999999", 1), `{"class":"Mark","args":["dead"],"id":"last"}`)
	jobs := s.take("work", 10*time.Hour)
	if len(jobs) != 2 {
		t.Fatalf("%d jobs", len(jobs))
	}
	s.Start()
	in := s.Daemon.Client().Inspect()
	page, err := in.Leases(t.Context(), "", 10)
	if s.must(err); len(page.Jobs) != 2 {
		t.Fatalf("%+v", page)
	}
	for _, j := range page.Jobs {
		s.must(in.ReleaseLease(t.Context(), j.Queue, j.ID, j.LeaseID))
	}
	s.Eventually("the job with a try left runs, and the other one is filed", func() bool {
		return s.Runs.Ends("a") == 1 && s.Bundle.Redis.Int(t, "LLEN", "resque:work_failed") == 1
	})
	s.ghosts()
}

// Two sweeps that look at the same time end each lease once.
func TestTwoSweeps(t *testing.T) {
	t.Parallel()
	s := setupCounter(t)
	const n = 600
	for i := range n {
		s.Push(fmt.Sprintf(`{"class":"Mark","args":[],"tries":2,"attempt":1,"id":"i%d"}`, i))
	}
	for range 2 {
		s.take("work", time.Millisecond)
	}
	time.Sleep(2 * time.Millisecond) // longer than the leases, by Redis's clock of the same machine
	ended := make(chan error, 2)
	for range 2 {
		sweep, c := leased.NewSweep(s.Base, s.ender), s.Bundle.Redis.Dial(t)
		go func() {
			_, err := sweep.Step(t.Context(), c)
			ended <- err
		}()
	}
	s.must(errors.Join(<-ended, <-ended))
	s.ghosts()
	seen := make(map[string]bool)
	for _, raw := range s.Queue("work") {
		seen[raw] = true
		if !strings.Contains(raw, `"attempt":2`) {
			t.Fatalf("queued: %s", raw)
		}
	}
	if len(s.Queue("work")) != n || len(seen) != n {
		t.Errorf("%d jobs, %d of them different", len(s.Queue("work")), len(seen))
	}
}

// A worker does not run a job that a client has acknowledged after it went back: only other bytes of its id run.
func TestLateAck(t *testing.T) {
	t.Parallel()
	s := setupCounter(t)
	s.Push(strings.Replace(threeTries, "%d", "1999999999999", 1))
	j := s.one()
	s.end(endOf(j, leased.Retried), outcome.Retried)
	s.turn += 2
	answer, err := s.store.Turn(s.c, &leases.Turn{Server: serverID, Number: s.turn + 1, Seed: "0123456789ABCDEF", Acks: []leases.Ack{{Queue: j.Queue, ID: j.ID}}})
	if s.must(err); answer.Acks[0] != leases.Back {
		t.Fatalf("the late ack is %q", answer.Acks[0])
	}
	s.Push(strings.Replace(threeTries, `["a"],"meta":{"k":"v"},"tries":3,"attempt":1,"expires_at":%d`, `["other"],"tries":3,"attempt":2`, 1))
	s.Start()
	s.Eventually("both have ended", func() bool { return s.Stat("processed") == 3 })
	if s.Runs.Starts("a") != 0 || s.Runs.Starts("other") != 1 {
		t.Errorf("a ran %d times, other %d times", s.Runs.Starts("a"), s.Runs.Starts("other"))
	}
	if n := s.Bundle.Redis.Int(t, "HLEN", "resque:go:returned"); n != 0 {
		t.Error("the mark of the job that is done is left")
	}
}

// A daemon of a fleet without leases does not look for any: a renewal names their key, and that is all.
func TestIdleWithoutLeases(t *testing.T) {
	t.Parallel()
	b := daemontest.Setup(t)
	monitor := b.Redis.Monitor(t)
	b.Start()
	b.Renewed(2)
	renewals := 0
	for _, command := range monitor.Commands() {
		line := strings.Join(command, " ")
		if strings.Contains(line, "go:leased") {
			t.Errorf("the daemon sends %s", line)
		}
		if strings.Contains(line, "go:leases") {
			renewals++
		}
	}
	if renewals == 0 {
		t.Error("no renewal names the leases")
	}
}

// The holder of a lock is found although the job is held under another id than its own, as the second of two jobs is.
func TestLeasedUnderAnotherID(t *testing.T) {
	t.Parallel()
	s := setupCounter(t)
	first := s.MustEnqueue("Mark", "a", goworker.Unique(goworker.UntilDone()))
	j := s.one()
	s.Bundle.Redis.Do(t, "HDEL", s.store.KeyOfLeased(), j.Place())
	s.Bundle.Redis.Do(t, "ZREM", s.store.KeyOfLeases(), j.Place())
	s.Bundle.Redis.Do(t, "HSET", s.store.KeyOfLeased(), leases.Place("work", "other"), j.Payload)
	s.Bundle.Redis.Do(t, "ZADD", s.store.KeyOfLeases(), "1999999999999.5", leases.Place("work", "other"))
	for _, lock := range s.Locks() { // it was seen long ago, so the next one looks for its holder
		said := s.Bundle.Redis.Text(t, "HGET", lock, first.ID)
		parts := strings.SplitN(said, " ", 4)
		s.Bundle.Redis.Do(t, "HSET", lock, first.ID, strings.Join([]string{parts[0], "1", "1", parts[3]}, " "))
	}
	_, holder := s.EnqueueUnique("Mark", "a", goworker.Unique(goworker.UntilDone()))
	if holder != first.ID {
		t.Errorf("the lock is of %q, want %q", holder, first.ID)
	}
	s.Bundle.Redis.Do(t, "DEL", s.store.KeyOfLeased(), s.store.KeyOfLeases(), "resque:go:unique-rest")
	for _, lock := range s.Locks() {
		said := s.Bundle.Redis.Text(t, "HGET", lock, first.ID)
		parts := strings.SplitN(said, " ", 4)
		s.Bundle.Redis.Do(t, "HSET", lock, first.ID, strings.Join([]string{parts[0], "1", "1", parts[3]}, " "))
	}
	if _, holder := s.EnqueueUnique("Mark", "a", goworker.Unique(goworker.UntilDone())); holder != "" {
		t.Errorf("the lock of a job that is nowhere is still of %q", holder)
	}
}
