package sweep

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/goworker/goworker/internal/resque/workflows"
)

// The rest of a large group is sent by the sweep, to the queue of its steps.
func TestLargeGroup(t *testing.T) {
	t.Parallel()
	b := setup(t, Config{})
	b.start(fan("w", 1000, "s n - 0 0"))
	b.end("C0", workflows.Done, "")
	b.want("letters sent by the commit", "128", strconv.Itoa(strings.Count(b.letters("w"), "s")))
	b.step()
	b.want("letters sent", "1000", strconv.Itoa(strings.Count(b.letters("w"), "s")))
	if n := b.server.Int(t, "LLEN", "resque:queue:high"); n != 1000 {
		t.Errorf("%d jobs in the queue", n)
	}
	b.want("list", "", b.field("w", "more"))
	if n := b.server.Int(t, "HEXISTS", b.s.WorkflowKey("w"), "m129"); n != 0 {
		t.Error("a field of the list is left")
	}
}

// A paused workflow sends nothing, and goes on when it is resumed.
func TestHeld(t *testing.T) {
	t.Parallel()
	b := setup(t, Config{})
	b.start(chain("w"))
	b.server.Do(t, "HSET", b.s.WorkflowKey("w"), "paused", "1")
	b.end("C0", workflows.Done, "5")
	b.due()
	b.step()
	b.want("letters while it is paused", "dwwb", b.letters("w"))
	b.server.Do(t, "HDEL", b.s.WorkflowKey("w"), "paused")
	b.due()
	b.step()
	b.want("letters when it is resumed", "dswb", b.letters("w"))
	b.want("counter", "", b.field("w", "held"))
	b.want("arguments", "[5]", b.end("C1", workflows.Done, "6"))
	b.end("C2", workflows.Done, "7")
	b.want("state", "done", b.document("w", "state"))
}

// A deadline that has passed expires the workflow, once. Its error handler is called.
func TestDeadline(t *testing.T) {
	t.Parallel()
	b := setup(t, Config{})
	p := chain("w")
	p.Letters, p.Deadline = append(p.Letters, 'h'), time.Hour
	p.Fields = append(p.Fields, "p0", "- 4 -", "s4", planned{4, "mid", "- - - - - 0 -"}.template("w", "r e - 0 0"))
	b.start(p)
	b.due()
	b.step()
	b.want("state before", "running", b.field("w", "state"))
	b.server.Do(t, "HSET", b.s.WorkflowKey("w"), "until", 5)
	b.due()
	b.step()
	b.want("state", "expired", b.document("w", "state"))
	if args := b.end("C4", workflows.Done, ""); !strings.Contains(args, `"state":"expired"`) {
		t.Errorf("the handler got %s", args)
	}
	b.due()
	b.step()
	b.want("jobs", "C0", b.classes())
	if n := b.server.Int(t, "ZCARD", b.s.HaltedKey()); n != 1 {
		t.Errorf("%d halted workflows while a step is queued", n)
	}
	b.end("C0", workflows.NotRun, "")
	b.due()
	b.step()
	if n := b.server.Int(t, "ZCARD", b.s.HaltedKey()); n != 0 {
		t.Errorf("%d halted workflows although no step is left", n)
	}
}

// A step that ends from outside fails when its time is over.
func TestOutside(t *testing.T) {
	t.Parallel()
	b := setup(t, Config{})
	p := chain("w")
	p.Letters[0] = workflows.Outside
	p.Fields = append(p.Fields, "k0", "SECRET 3600000 1 - - - - n high")
	b.start(p)
	b.due()
	wait := b.step()
	b.want("letters", "ywwb", b.letters("w"))
	if wait > time.Minute {
		t.Errorf("the next look comes in %v", wait)
	}
	b.server.Do(t, "HSET", b.s.WorkflowKey("w"), "y0", 7)
	b.due()
	b.step()
	b.want("letters when its time is over", "fwwn", b.letters("w"))
	b.want("state", "failed", b.document("w", "state"))
	if e := b.document("w", "error"); !strings.Contains(e, `"class":"C0","queue":"low"`) || !strings.Contains(e, "no reply within 1h0m0s") {
		t.Errorf("error %s", e)
	}
	b.want("counter", "0", b.field("w", "outside"))
}

// Done workflows are kept an hour and others a week; KeepFor says otherwise. Then nothing is left.
func TestRetention(t *testing.T) {
	t.Parallel()
	b := setup(t, Config{})
	old := func(id string, age time.Duration) {
		at := time.Now().Add(-age).UnixMilli()
		b.server.Do(t, "HSET", b.s.WorkflowKey(id), "over", fmt.Sprintf("%s %d", b.field(id, "state"), at), "looked",
			fmt.Sprintf("%d %d", at, b.server.Int(t, "BITCOUNT", b.s.LettersKey(id))))
		b.due()
		b.step()
	}
	for _, tc := range []struct {
		name   string
		keep   time.Duration
		letter byte
		young  time.Duration
		old    time.Duration
	}{
		{"done", 0, workflows.Done, 59 * time.Minute, 61 * time.Minute},
		{"failed", 0, workflows.Failed, 167 * time.Hour, 169 * time.Hour},
		{"kept", 10 * time.Hour, workflows.Done, 9 * time.Hour, 11 * time.Hour},
	} {
		p := fan("w", 600, "s n - 0 0")
		p.Keep, p.Lock = tc.keep, "only"
		b.start(p)
		b.end("C0", tc.letter, "")
		b.step()
		if tc.letter == workflows.Done {
			b.take()
			for _, j := range b.jobs {
				b.commit(j, tc.letter, "")
			}
			b.jobs = nil
		}
		b.due()
		b.step()
		if state := b.document("w", "state"); state != "done" && tc.letter == workflows.Done {
			t.Fatalf("%s: %s", tc.name, state)
		}
		old("w", tc.young)
		if b.field("w", "state") == "" {
			t.Errorf("%s: removed too early", tc.name)
		}
		old("w", tc.old)
		if b.field("w", "state") != "" {
			t.Errorf("%s: not removed", tc.name)
		}
		b.server.Do(t, "DEL", b.s.KeyOfResult("w")) // its TTL is another matter
		if keys := b.keys(); len(keys) > 0 {
			t.Errorf("%s: %q are left", tc.name, keys)
		}
	}
}

// Small done workflows end by themselves: no sweep is needed for them.
func TestEndsByItself(t *testing.T) {
	t.Parallel()
	b := setup(t, Config{})
	for i := range 100 {
		p := chain(fmt.Sprint("w", i))
		p.Keep = time.Second
		b.start(p)
		b.end("C0", workflows.Done, "")
		b.end("C1", workflows.Done, "")
		b.end("C2", workflows.Done, "")
	}
	if n := b.server.Int(t, "ZCARD", b.s.IndexKey()); n != 0 {
		t.Errorf("%d in the index", n)
	}
	for _, key := range b.keys() {
		if ttl := b.server.Int(t, "PTTL", key); ttl == -1 || ttl > 1000 {
			t.Errorf("%s is kept for %d ms", key, ttl)
		}
	}
}

// Forget removes what has ended, and nothing else.
func TestForget(t *testing.T) {
	t.Parallel()
	b := setup(t, Config{})
	b.start(chain("w"))
	state, err := b.s.ForgetWorkflow(b.c, "w")
	b.must(err)
	b.want("state", "running", state)
	b.want("letters", "swwb", b.letters("w"))
	b.end("C0", workflows.Failed, `{"error":"x"}`)
	state, err = b.s.ForgetWorkflow(b.c, "w")
	b.must(err)
	b.want("state", "failed", state)
	if keys := b.keys(); len(keys) > 0 {
		t.Errorf("%q are left", keys)
	}
	state, err = b.s.ForgetWorkflow(b.c, "w")
	b.must(err)
	b.want("state of none", "", state)
}

// Two sweeps at a time do each thing once.
func TestTwoSweeps(t *testing.T) {
	t.Parallel()
	b := setup(t, Config{})
	b.start(fan("w", 5000, "s n - 0 0"))
	b.end("C0", workflows.Done, "")
	done := make(chan error)
	for range 2 {
		c := b.server.Dial(t)
		go func() {
			_, err := New(b.base, Config{}).Step(c)
			done <- err
		}()
	}
	for range 2 {
		b.must(<-done)
	}
	seen := make(map[string]int)
	for _, item := range append(b.server.List(t, "LRANGE", "resque:queue:high", 0, -1), b.server.List(t, "ZRANGE", "resque:go:schedule", 0, -1)...) {
		seen[item[strings.Index(item, `"id"`):]]++
	}
	for id, n := range seen {
		if n != 1 {
			t.Errorf("%s was sent %d times", id, n)
		}
	}
	if len(seen) != 5000 {
		t.Errorf("%d steps were sent", len(seen))
	}
}
