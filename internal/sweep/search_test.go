package sweep

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/goworker/goworker/internal/redistest"
	"github.com/goworker/goworker/internal/resque"
	"github.com/goworker/goworker/internal/resque/workflows"
)

// What is damaged by hand is named in the log, and resumed it goes on to the end.
func TestDamage(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		damage func(b *bundle)
		says   string // of the log
		ends   bool   // resumed, the workflow ends
	}{
		"the queue is removed": {func(b *bundle) { b.server.Do(b, "DEL", "resque:queue:low") },
			"workflow w stands still: step 0 (C0, queue low) is nowhere", true},
		"the schedule is removed": {func(b *bundle) {
			b.server.Do(b, "ZADD", "resque:go:schedule", 5, "3:low"+b.server.Text(b, "LPOP", "resque:queue:low"))
			b.server.Do(b, "DEL", "resque:go:schedule")
		}, "step 0 (C0, queue low) is nowhere", true},
		"the record of a process is removed": {func(b *bundle) {
			b.take()
			b.jobs = nil
			b.server.Do(b, "DEL", "resque:go:inflight:p")
			b.must(b.s.Reenter(b.c, resque.Process{ID: "p", Started: time.Unix(1, 0)}, 1, time.Hour))
			b.must(b.s.Restore(b.c, "p", 1, nil, "0"))
		}, "step 0 (C0, queue low) is nowhere", true},
		"a Ruby worker takes the step": {func(b *bundle) {
			raw := b.server.Text(b, "LPOP", "resque:queue:low")
			b.server.Do(b, "SADD", "resque:workers", "ruby:1:low")
			b.server.Do(b, "SET", "resque:worker:ruby:1:low", `{"queue":"low","run_at":"2026-01-01T00:00:00Z","payload":`+raw+`}`)
		}, "step 0 (C0, queue low) was taken by worker ruby:1:low, which is not goworker", true},
		"a join is removed": {func(b *bundle) {
			b.server.Do(b, "HDEL", b.s.WorkflowKey("w"), "j1")
			b.end("C0", workflows.Done, "5")
		}, "stands still although none of its steps is sent", false},
		"the letters are removed": {func(b *bundle) {
			b.server.Do(b, "DEL", b.s.LettersKey("w"))
			b.end("C0", workflows.Done, "5")
		}, "stands still although none of its steps is sent", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t, short)
			b.start(chain("w"))
			tc.damage(b)
			b.search()
			if log := b.log.String(); strings.Count(log, "WARN") != 1 || !strings.Contains(log, tc.says) {
				t.Errorf("the log says %s", log)
			}
			if n, err := b.s.Stalled(b.c); n != 1 || err != nil {
				t.Errorf("%d stalled, %v", n, err)
			}
			out, err := b.s.Resend(b.c, "w")
			b.must(err)
			b.want("flag", "", b.field("w", "stalled"))
			if n, err := b.s.Stalled(b.c); n != 0 || err != nil {
				t.Errorf("%d stalled, %v", n, err)
			}
			if !tc.ends {
				b.want("state", "running", b.field("w", "state"))
				return
			}
			b.want("sent again", "[0]", fmt.Sprint(out.Sent))
			b.want("first", "[]", b.end("C0", workflows.Done, "5"))
			b.want("second", "[5]", b.end("C1", workflows.Done, "6"))
			b.want("third", "[6]", b.end("C2", workflows.Done, "7"))
			b.want("state", "done", b.document("w", "state"))
			b.want("result", "7", b.document("w", "result"))
		})
	}
}

// A step in the middle of a chain is sent again with the result before it. If that was too large to be kept, it fails, and what
// keeps it from running is named.
func TestResendWithResults(t *testing.T) {
	t.Parallel()
	for _, size := range []int{10, 5000} {
		b := setup(t, short)
		value := `"` + strings.Repeat("x", size) + `"`
		b.start(chain("w"))
		b.end("C0", workflows.Done, value)
		b.server.Do(t, "DEL", "resque:queue:high")
		b.search()
		out, err := b.s.Resend(b.c, "w")
		b.must(err)
		if size == 10 {
			b.want("sent", "[1] []", fmt.Sprint(out.Sent, out.Lost))
			b.want("arguments", "["+value+"]", b.end("C1", workflows.Done, "1"))
			continue
		}
		b.want("lost", "[] [1]", fmt.Sprint(out.Sent, out.Lost))
		b.want("state", "failed", b.document("w", "state"))
		if e := b.document("w", "error"); !strings.Contains(e, `"state":"lost"`) || !strings.Contains(e, `"class":"C1"`) {
			t.Errorf("error %s", e)
		}
	}
}

// A step without a template, as of a large workflow, fails at its place.
func TestResendWithoutTemplate(t *testing.T) {
	t.Parallel()
	b := setup(t, short)
	b.start(fan("w", 1000, "s n - 0 0"))
	b.want("place", "1 1 - - - - n high", b.field("w", "i0"))
	b.server.Do(t, "DEL", "resque:queue:low")
	b.search()
	out, err := b.s.Resend(b.c, "w")
	b.must(err)
	b.want("lost", "[] [0]", fmt.Sprint(out.Sent, out.Lost))
	b.want("letters", "f"+strings.Repeat("w", 1000)+"n", b.letters("w"))
	b.want("state", "failed", b.document("w", "state"))
}

// The lost steps of a halted workflow become x, so that its entry goes.
func TestLostOfHalted(t *testing.T) {
	t.Parallel()
	b := setup(t, short)
	p := chain("w")
	p.Deadline = time.Millisecond
	b.start(p)
	b.server.Do(t, "DEL", "resque:queue:low")
	redistest.Eventually(t, soon, "the deadline passes", func() bool {
		b.due()
		b.step()
		return b.field("w", "state") == "expired"
	})
	b.search()
	b.want("letters", "xwwt", b.letters("w"))
	b.due()
	b.step()
	if n := b.server.Int(t, "ZCARD", b.s.HaltedKey()); n != 0 {
		t.Errorf("%d halted", n)
	}
	b.want("log", "", b.log.String())
}

// A workflow whose hash is gone: programs that wait for it return, and nothing is left.
func TestHashGone(t *testing.T) {
	t.Parallel()
	b := setup(t, Config{})
	b.start(chain("w"))
	b.server.Do(t, "DEL", b.s.WorkflowKey("w"))
	b.due()
	b.step()
	b.want("state", "failed", b.document("w", "state"))
	if e := b.document("w", "error"); !strings.Contains(e, `"state":"lost"`) {
		t.Errorf("error %s", e)
	}
	if ttl := b.server.Int(t, "PTTL", b.s.KeyOfResult("w")); ttl <= 0 {
		t.Errorf("the document is kept for %d ms", ttl)
	}
	b.server.Do(t, "DEL", b.s.KeyOfResult("w"))
	if keys := b.keys(); len(keys) > 0 {
		t.Errorf("%q are left", keys)
	}
	b.end("C0", workflows.Done, "") // the job that was sent just ends
}

// A key of the wrong type is named once, and holds up no other workflow.
func TestWrongType(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(b *bundle){
		"hash":    func(b *bundle) { b.spoil(b.s.WorkflowKey("bad").String(), "SET", "x") },
		"letters": func(b *bundle) { b.spoil(b.s.LettersKey("bad").String(), "RPUSH", "x") },
		"queue": func(b *bundle) {
			b.end("C0", workflows.Done, "")
			b.spoil("resque:queue:high", "SET", "x")
		},
	} {
		b := setup(t, Config{})
		b.start(fan("bad", 200, "s n - 0 0"))
		spoil(b)
		b.start(chain("good"))
		b.server.Do(t, "HSET", b.s.WorkflowKey("good"), "until", 5)
		for range 3 {
			b.due()
			b.step()
		}
		b.want(name+", state", "expired", b.document("good", "state"))
		if log := b.log.String(); strings.Count(log, "WARN") != 1 || !strings.Contains(log, "workflow=bad") {
			t.Errorf("%s: the log says %s", name, log)
		}
	}
}

// All sent steps are found wherever they are, and nothing is said.
func TestFoundEverywhere(t *testing.T) {
	t.Parallel()
	b := setup(t, short)
	for _, id := range []string{"queue", "record", "schedule", "lane", "leased"} {
		b.start(chain(id))
	}
	list := b.server.List(t, "LRANGE", "resque:queue:low", 0, -1)
	b.server.Do(t, "DEL", "resque:queue:low")
	raw := func(id string) string {
		for _, item := range list {
			if strings.Contains(item, `"`+id+`.0"`) {
				return item
			}
		}
		return ""
	}
	b.server.Do(t, "RPUSH", "resque:queue:low", raw("queue"))
	b.server.Do(t, "HSET", "resque:go:inflight:p", "7", "3:low"+raw("record"))
	b.server.Do(t, "ZADD", "resque:go:schedule", 5e12, "3:low"+raw("schedule"))
	b.server.Do(t, "HSET", "resque:go:leased", "3:lowleased", raw("leased"))
	lane := resque.NewLane("low", resque.Limit{Kind: resque.LimitRunning, Name: "one", Keyed: true, Key: "k"})
	b.server.Do(t, "SADD", "resque:go:lanes", resque.JobPrefix("low")+lane.Shared)
	b.server.Do(t, "ZADD", "resque:go:lanes:"+resque.JobPrefix("low")+lane.Shared, 0, lane.Own)
	b.server.Do(t, "RPUSH", b.s.KeyOfLane(lane), raw("lane"))
	b.search()
	b.want("log", "", b.log.String())
	if n, err := b.s.Stalled(b.c); n != 0 || err != nil {
		t.Errorf("%d stalled, %v", n, err)
	}
	b.server.Do(t, "DEL", b.s.KeyOfLane(lane))
	b.sweep.search.next = time.Time{} // set when a pass begins: the search before is over
	b.search()
	if log := b.log.String(); strings.Count(log, "WARN") != 1 || !strings.Contains(log, "workflow lane stands still") {
		t.Errorf("the log says %s", log)
	}
}

// A backlog is read once in a pass, however many workflows stand still behind it.
func TestOneReadForAll(t *testing.T) {
	t.Parallel()
	b := setup(t, short)
	const backlog, count = 20_000, 200
	pushed := 0
	for pushed < backlog {
		args := []any{"resque:queue:low"}
		for range 1000 {
			args = append(args, fmt.Sprintf(`{"class":"Plain","args":[%d]}`, pushed))
			pushed++
		}
		b.server.Do(t, "RPUSH", args...)
	}
	for i := range count {
		b.start(chain(fmt.Sprint("w", i)))
	}
	b.sweep.search.next = time.Now().Add(time.Hour) // no pass yet
	redistest.Eventually(t, soon, "they stand still", func() bool {
		b.due()
		for range 2 * count / pageLooks {
			b.sweep.rest = time.Time{}
			_, err := b.sweep.step(b.c)
			b.must(err)
		}
		return len(b.sweep.search.want) == count
	})
	b.sweep.search.next = time.Time{}
	monitor := b.server.Monitor(t)
	now, err := b.s.Now(b.c)
	b.must(err)
	b.must(b.sweep.seek(b.c, now))
	for b.sweep.search.pages != nil {
		b.must(b.sweep.seek(b.c, now))
	}
	reads, jobs := 0, 0
	for _, command := range monitor.Inner() {
		if command[0] == "LRANGE" && command[1] == "resque:queue:low" {
			reads++
		}
	}
	jobs = backlog + count
	if reads == 0 || reads > jobs/1000+10 {
		t.Errorf("%d reads of a queue of %d jobs", reads, jobs)
	}
	if len(b.sweep.search.want) > 0 {
		t.Errorf("%d workflows are still looked for", len(b.sweep.search.want))
	}
	b.want("log", "", b.log.String())
}
