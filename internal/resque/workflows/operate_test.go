package workflows

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/google/go-cmp/cmp"

	"github.com/goworker/goworker/internal/redistest"
	"github.com/goworker/goworker/internal/resque"
)

// desk is what the tests of operators' changes stand on: a server and a workflow W, a group of some members with a
// callback. Its letters are those of the members, of the callback and of the branch.
type desk struct {
	t *testing.T
	*redistest.Server
	Store
	c       redis.Conn
	members int
}

const someWorkflow = "W"

func newDesk(t *testing.T, members int, fields ...any) *desk {
	t.Helper()
	t.Parallel()
	server := redistest.Start(t)
	d := &desk{t: t, Server: server, Store: New(resque.New("")), c: server.Dial(t), members: members}
	d.begin(fields...)
	return d
}

// begin writes the workflow as it is when all its members are sent.
func (d *desk) begin(fields ...any) {
	d.t.Helper()
	n := strconv.Itoa(d.members)
	d.Do(d.t, "FLUSHALL")
	d.Do(d.t, "SET", d.LettersKey(someWorkflow).String(), strings.Repeat("s", d.members)+"wb")
	d.Do(d.t, "HSET", append([]any{d.WorkflowKey(someWorkflow).String(), "state", StateRunning, "id", someWorkflow, "keep", 3600000, "name", "tests", "began", 1000,
		"j0", "1 0 0 j 0 0 - - - -",
		"j1", n + " 0 0 j " + n + " 1 0 " + strconv.Itoa(d.members+1) + " - -",
		"s" + n, d.template(d.members)}, fields...)...)
	d.Do(d.t, "ZADD", d.IndexKey().String(), 1, someWorkflow)
	d.Do(d.t, "HSET", d.KeyOfResult(someWorkflow), "state", StateRunning, "workflow", "tests", "enqueued", 1000, "ttl", 3600000)
}

// place of a member, or of the callback.
func (d *desk) place(step int) string {
	if step == d.members {
		return fmt.Sprintf("0 %d - - - n q", step+1)
	}
	return "1 - - - - n q"
}

func (d *desk) template(step int) string {
	return fmt.Sprintf(`s n - 0 0 0 0 1:q{"class":"C","args":[%d],"wf":"%s","id":"W.%d"}`, step, d.place(step), step)
}

// fail ends members as failed, or as not run.
func (d *desk) fail(to string, from, count int) {
	d.t.Helper()
	for n := from; n < from+count; n++ {
		d.Do(d.t, "SETRANGE", d.LettersKey(someWorkflow).String(), n, to)
		d.Do(d.t, "HSET", d.WorkflowKey(someWorkflow).String(), "f"+strconv.Itoa(n),
			fmt.Sprintf("1 %s\n{\"step\":%d,\"id\":\"W.%d\",\"class\":\"C\",\"queue\":\"q\",\"error\":\"no\",\"attempt\":1,\"state\":\"failed\"}\n%s", d.place(n), n, n, d.template(n)))
	}
	j := strings.Fields(d.field("j1"))
	of, at := "bad", 1
	if to == "x" {
		of, at = "off", 2
	}
	left, _ := strconv.Atoi(j[0])
	was, _ := strconv.Atoi(j[at])
	j[0], j[at] = strconv.Itoa(left-count), strconv.Itoa(was+count)
	d.Do(d.t, "HINCRBY", d.WorkflowKey(someWorkflow).String(), of, count)
	d.Do(d.t, "HSET", d.WorkflowKey(someWorkflow).String(), "j1", strings.Join(j, " "), "state", StateFailed)
	d.Do(d.t, "HSET", d.KeyOfResult(someWorkflow), "state", StateFailed, "ended", 2000)
	d.Do(d.t, "ZADD", d.HaltedKey().String(), 1, someWorkflow)
}

func (d *desk) letters() string {
	d.t.Helper()
	return d.Text(d.t, "GET", d.LettersKey(someWorkflow).String())
}

func (d *desk) field(name string) string {
	d.t.Helper()
	text, err := redis.String(d.Do(d.t, "HGET", d.WorkflowKey(someWorkflow).String(), name), nil)
	if err != nil && !errors.Is(err, redis.ErrNil) {
		d.t.Fatal(err)
	}
	return text
}

func (d *desk) document(name string) string {
	d.t.Helper()
	return d.Text(d.t, "HGET", d.KeyOfResult(someWorkflow), name)
}

func (d *desk) halted() bool {
	d.t.Helper()
	return d.Int(d.t, "ZCARD", d.HaltedKey().String()) == 1
}

// queued returns how many jobs are in the queue or due.
func (d *desk) queued() int {
	d.t.Helper()
	return d.Int(d.t, "LLEN", d.KeyOfQueue("q")) + d.Int(d.t, "ZCARD", d.KeyOfSchedule())
}

// soon reports whether the sweep is to look at the workflow now.
func (d *desk) soon() bool {
	d.t.Helper()
	return d.Int(d.t, "EVAL", "return redis.call('ZSCORE', KEYS[1], ARGV[1])", 1, d.IndexKey().String(), someWorkflow) > 1
}

func (d *desk) same(what string, want, got any) {
	d.t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		d.t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func (d *desk) must(err error) {
	d.t.Helper()
	if err != nil {
		d.t.Fatal(err)
	}
}

func (d *desk) is(what string, err, want error) {
	d.t.Helper()
	if !errors.Is(err, want) {
		d.t.Errorf("%s: %v, want %v", what, err, want)
	}
}

// unchanged reports an error if f writes anything.
func (d *desk) unchanged(what string, f func()) {
	d.t.Helper()
	before := d.Dump(d.t, resque.DefaultNamespace)
	f()
	d.same(what, before, d.Dump(d.t, resque.DefaultNamespace))
}

// A cancel ends a workflow from each state that has not ended, and changes nothing of another. A second call, as after a
// lost reply, changes nothing either.
func TestHalt(t *testing.T) {
	d := newDesk(t, 3)
	for _, state := range []string{StateRunning, StateFailed, StateRetrying} {
		d.begin("again", "0 fx")
		d.Do(t, "HSET", d.WorkflowKey(someWorkflow).String(), "state", state)
		was, err := d.Halt(d.c, someWorkflow)
		d.must(err)
		d.same("state before", state, was)
		d.same(state, "cancelled cancelled ssswb  true true", fmt.Sprintf("%s %s %s %s %v %v",
			d.field("state"), d.document("state"), d.letters(), d.field("again"), d.halted(), d.soon()))
		d.unchanged("cancelling again", func() {
			was, err := d.Halt(d.c, someWorkflow)
			d.must(err)
			d.same("state before", StateCancelled, was)
		})
	}
	for _, state := range []string{StateDone, StateExpired} {
		d.Do(t, "HSET", d.WorkflowKey(someWorkflow).String(), "state", state)
		d.unchanged(state, func() {
			_, err := d.Halt(d.c, someWorkflow)
			d.is(state, err, ErrOver)
			if !strings.Contains(err.Error(), state) {
				t.Errorf("%v does not say %s", err, state)
			}
		})
	}
	_, err := d.Halt(d.c, "nowhere")
	d.is("an unknown one", err, ErrNoWorkflow)
}

// A cancel closes an open batch.
func TestHaltOpen(t *testing.T) {
	d := newDesk(t, 2, "open", "1")
	d.Do(t, "HSET", d.WorkflowKey(someWorkflow).String(), "j1", "3 0 0 j 2 1 0 3 - -")
	_, err := d.Halt(d.c, someWorkflow)
	d.must(err)
	d.same("the open join", "2 0 0 j 2 1 0 3 - -", d.field("j1"))
	d.same("open", "", d.field("open"))
}

// A paused workflow sends nothing. One that is resumed goes on when the sweep looks.
func TestHold(t *testing.T) {
	d := newDesk(t, 2)
	was, err := d.Hold(d.c, someWorkflow, true)
	d.must(err)
	d.same("paused before", false, was)
	was, err = d.Hold(d.c, someWorkflow, true)
	d.must(err)
	d.same("paused before", true, was)
	for n := range 2 {
		_, err := d.Mark(d.c, someWorkflow, n, d.place(n), []byte("1"))
		d.must(err)
	}
	d.same("sent while paused", 0, d.queued())
	was, err = d.Hold(d.c, someWorkflow, false)
	d.must(err)
	d.same("resumed", "true  true", fmt.Sprintf("%v %s %v", was, d.field("paused"), d.soon()))
	for _, state := range []string{StateDone, StateCancelled, StateExpired} {
		d.Do(t, "HSET", d.WorkflowKey(someWorkflow).String(), "state", state)
		d.unchanged(state, func() {
			for _, pause := range []bool{true, false} {
				_, err := d.Hold(d.c, someWorkflow, pause)
				d.is(state, err, ErrOver)
			}
		})
	}
}

// Retry sends what failed and what was not run in pieces of 500, and nothing else. A caller that is gone after the first
// piece leaves the rest to another.
func TestRetryInPieces(t *testing.T) {
	d := newDesk(t, 1300, "deadline", "60000", "until", "5")
	d.fail("f", 0, 700)
	d.fail("x", 700, 500)
	first, err := d.Retry(d.c, someWorkflow, true)
	d.must(err)
	d.same("the first piece", Piece{Sent: 500, State: StateRetrying}, first)
	d.same("in between", "retrying retrying 500 1 false", fmt.Sprintf("%s %s %d %s %v", d.field("state"), d.document("state"), d.queued(), d.field("round"), d.halted()))
	if until, _ := strconv.ParseInt(d.field("until"), 10, 64); time.Until(time.UnixMilli(until)) < 30*time.Second {
		t.Errorf("the deadline is at %d", until)
	}
	until := d.field("until")
	second, err := d.Retry(d.c, someWorkflow, false) // the sweep
	d.must(err)
	third, err := d.Retry(d.c, someWorkflow, true) // another caller at the same time
	d.must(err)
	d.same("the rest", []Piece{{Sent: 500, State: StateRetrying}, {Sent: 200, Over: true, State: StateRunning}}, []Piece{second, third})
	d.same("all are sent", strings.Repeat("s", 1300)+"wb", d.letters())
	d.same("the join", "1300 0 0 j 1300 1 0 1301 - -", d.field("j1"))
	d.same("after it", "running 1200  1 0 0 "+until, fmt.Sprintf("%s %d %s %s %s %s %s", d.field("state"), d.queued(), d.field("again"), d.field("round"),
		d.field("bad"), d.field("off"), d.field("until")))
	d.unchanged("a retry with nothing to do", func() {
		_, err := d.Retry(d.c, someWorkflow, true)
		d.is("running", err, ErrNothing)
		piece, err := d.Retry(d.c, someWorkflow, false)
		d.must(err)
		d.same("going on", Piece{Over: true, State: StateRunning}, piece)
	})
	_, err = d.Retry(d.c, "nowhere", true)
	d.is("an unknown one", err, ErrNoWorkflow)
}

// A handler is called once more in each round.
func TestRetryArmsHandlers(t *testing.T) {
	d := newDesk(t, 2, "p0", "- 4 -")
	d.Do(t, "SET", d.LettersKey(someWorkflow).String(), "sswbo")
	at := func(n int) string {
		return fmt.Sprintf("1 1 - - 0 - n q\n{\"error\":\"no\"}\n%s", d.template(n))
	}
	d.fail("f", 0, 2)
	for n := range 2 {
		d.Do(t, "HSET", d.WorkflowKey(someWorkflow).String(), "f"+strconv.Itoa(n), at(n))
	}
	_, err := d.Retry(d.c, someWorkflow, true)
	d.must(err)
	d.same("letters", "sswbh 1", d.letters()+" "+d.field("e4"))
}

// A unique workflow is not opened again while another one runs under its name.
func TestRetryHeld(t *testing.T) {
	d := newDesk(t, 2, "lock", "nightly")
	d.fail("f", 0, 1)
	d.Do(t, "SET", d.LockKey("nightly").String(), "other")
	d.Do(t, "HSET", d.WorkflowKey("other").String(), "state", StateRunning)
	d.unchanged("while another one runs", func() {
		_, err := d.Retry(d.c, someWorkflow, true)
		d.is("held", err, ErrHeld)
	})
	for _, other := range []string{StateFailed, StateDone} {
		d.begin("lock", "nightly")
		d.fail("f", 0, 1)
		d.Do(t, "SET", d.LockKey("nightly").String(), "other")
		d.Do(t, "HSET", d.WorkflowKey("other").String(), "state", other)
		_, err := d.Retry(d.c, someWorkflow, true)
		d.must(err)
		d.same("holder", someWorkflow, d.Text(t, "GET", d.LockKey("nightly").String()))
	}
	d.begin("lock", "nightly")
	d.fail("f", 0, 1)
	_, err := d.Retry(d.c, someWorkflow, true)
	d.must(err)
	d.same("the lock was free", someWorkflow, d.Text(t, "GET", d.LockKey("nightly").String()))
}

// An operator ends steps that were sent, failed or were not run, and the callback follows. Those that wait or are done
// stay as they are.
func TestMark(t *testing.T) {
	d := newDesk(t, 3)
	d.fail("f", 0, 1)
	d.fail("x", 1, 1)
	mark := func(step int) (byte, error) { return d.Mark(d.c, someWorkflow, step, d.place(step), []byte(`"m"`)) }
	d.unchanged("steps that are not to be marked", func() {
		_, err := mark(3)
		d.is("one that waits", err, ErrWaits)
		_, err = mark(4)
		d.is("a branch", err, ErrNoStep)
		_, err = mark(99)
		d.is("none", err, ErrNoStep)
		_, err = d.Mark(d.c, someWorkflow, 2, "", nil)
		d.is("a sent one without its place", err, ErrUnplaced)
		_, err = d.Mark(d.c, "nowhere", 2, "", nil)
		d.is("an unknown workflow", err, ErrNoWorkflow)
	})
	for step, letter := range map[int]byte{0: Failed, 1: NotRun, 2: Sent} {
		was, err := mark(step)
		d.must(err)
		d.same("letter", string(letter), string(was))
		d.unchanged("once more", func() {
			_, err := mark(step)
			d.is("a done one", err, ErrLate)
		})
	}
	d.same("what it failed with", ` "m" "m"`, d.field("f0")+" "+d.field("f1")+d.field("r0")+" "+d.field("r1"))
	d.same("members", "ddd", d.letters()[:3])
}

// A removed job's step has failed, and a retry sends it again.
func TestRemoved(t *testing.T) {
	d := newDesk(t, 2)
	job := []byte(fmt.Sprintf(`{"class":"C","args":[0],"attempt":3,"wf":"%s","expires_at":1,"id":"W.0"}`, d.place(0)))
	d.must(d.Removed(d.c, "q", job))
	d.same("after it", "fswb failed 1", fmt.Sprintf("%s %s %s", d.letters(), d.field("state"), d.field("bad")))
	d.unchanged("jobs that end no step", func() {
		for _, other := range []string{string(job), `{"class":"C","args":[]}`, `{"wf":`, `{"class":"C","args":[],"wf":"1 - - - - n q","id":"W"}`,
			`{"class":"C","args":[],"wf":"1 - - - - n q","id":"V.1"}`, `{"class":"C","args":[],"wf":"0 3 - - - n q","id":"W.2"}`} {
			d.must(d.Removed(d.c, "q", []byte(other)))
		}
	})
	piece, err := d.Retry(d.c, someWorkflow, true)
	d.must(err)
	d.same("retried", "1 sswb", fmt.Sprintf("%d %s", piece.Sent, d.letters()))
	d.same("its job", fmt.Sprintf(`{"class":"C","args":[0],"wf":"%s","id":"W.0"}`, d.place(0)), d.Text(t, "LPOP", d.KeyOfQueue("q")))
}

// A token ends its step once. Another one ends nothing.
func TestComplete(t *testing.T) {
	d := newDesk(t, 3)
	outside := func() {
		d.t.Helper()
		d.begin("k0", "SECRET 1000 "+d.place(0), "s0", "y"+d.template(0)[1:], "outside", "1", "y0", "5000")
		d.Do(t, "SET", d.LettersKey(someWorkflow).String(), "ysswb")
	}
	outside()
	token := Token(someWorkflow, 0, "SECRET")
	d.unchanged("tokens that no step has", func() {
		for _, wrong := range []string{"", "W", "W.0", "W.0.", "W.0.SECRE", "W.0.secret", "W.1.SECRET", "W.-1.SECRET", "V.0.SECRET", "W.0.SECRET.0", ".0.SECRET", "W.0.SECRET 1000"} {
			_, err := d.Complete(d.c, wrong, Done, []byte("1"))
			d.is(wrong, err, ErrToken)
		}
	})
	done, err := d.Complete(d.c, token, Done, []byte("1"))
	d.must(err)
	d.same("completed", Completed{Changed: true, Was: Outside}, done)
	d.same("letters", "dsswb", d.letters())
	d.unchanged("once more", func() {
		for _, to := range []byte{Done, Failed} {
			done, err := d.Complete(d.c, token, to, []byte(`{"error":"late"}`))
			d.must(err)
			d.same("again", Completed{Was: Done}, done)
		}
	})

	outside()
	done, err = d.Complete(d.c, token, Failed, []byte(`{"error":"refused"}`))
	d.must(err)
	d.same("failed", "true fsswb failed", fmt.Sprintf("%v %s %s", done.Changed, d.letters(), d.field("state")))
	d.unchanged("the first reply counts", func() {
		for _, to := range []byte{Done, Failed} {
			_, err := d.Complete(d.c, token, to, []byte("1"))
			d.must(err)
		}
	})
	_, err = d.Retry(d.c, someWorkflow, true)
	d.must(err)
	d.same("retried", "ysswb", d.letters())
	done, err = d.Complete(d.c, token, Done, []byte("1"))
	d.must(err)
	d.same("the token counts again", "true dsswb", fmt.Sprintf("%v %s", done.Changed, d.letters()))
}

// A result that comes after the time of the step is over lets the workflow go on.
func TestCompleteLate(t *testing.T) {
	d := newDesk(t, 2)
	d.begin("k0", "SECRET 1000 "+d.place(0))
	d.fail("f", 0, 1)
	d.unchanged("an error", func() {
		_, err := d.Complete(d.c, Token(someWorkflow, 0, "SECRET"), Failed, []byte("null"))
		d.must(err)
	})
	done, err := d.Complete(d.c, Token(someWorkflow, 0, "SECRET"), Done, []byte("1"))
	d.must(err)
	d.same("a result", "true dswb running", fmt.Sprintf("%v %s %s", done.Changed, d.letters(), d.field("state")))
}

// A key of another type refuses a change before its first write, and the error names the key.
func TestOperateWrongTypes(t *testing.T) {
	d := newDesk(t, 2)
	changes := map[string]func() error{
		"halt":  func() error { _, err := d.Halt(d.c, someWorkflow); return err },
		"hold":  func() error { _, err := d.Hold(d.c, someWorkflow, false); return err },
		"retry": func() error { _, err := d.Retry(d.c, someWorkflow, true); return err },
		"mark":  func() error { _, err := d.Mark(d.c, someWorkflow, 1, d.place(1), []byte("1")); return err },
		"complete": func() error {
			_, err := d.Complete(d.c, Token(someWorkflow, 1, "SECRET"), Done, []byte("1"))
			return err
		},
		"read": func() error { _, err := d.Read(d.c, someWorkflow); return err },
	}
	touched := map[string][]string{
		"halt":     {"hash", "index", "document", "halted"},
		"hold":     {"hash", "index"},
		"retry":    {"letters", "hash", "index", "document", "halted", "queue", "queues"},
		"mark":     {"letters", "hash", "queue", "queues"},
		"complete": {"letters", "hash", "queue", "queues"},
		"read":     {"letters", "hash", "document"},
	}
	keys := map[string]string{"letters": d.LettersKey(someWorkflow).String(), "hash": d.WorkflowKey(someWorkflow).String(), "index": d.IndexKey().String(),
		"document": d.KeyOfResult(someWorkflow), "halted": d.HaltedKey().String(), "queues": d.KeyOfQueues(), "queue": d.KeyOfQueue("q")}
	for name, change := range changes {
		for _, key := range touched[name] {
			d.begin("k1", "SECRET 1000 "+d.place(1))
			if name == "mark" || name == "complete" {
				d.Do(t, "SET", d.LettersKey(someWorkflow).String(), "dswb")
				d.Do(t, "HSET", d.WorkflowKey(someWorkflow).String(), "j1", "1 0 0 j 2 1 0 3 - -")
			}
			if name == "complete" {
				d.Do(t, "SET", d.LettersKey(someWorkflow).String(), "dywb")
			}
			if name == "retry" {
				d.fail("f", 0, 1)
			}
			d.Do(t, "DEL", keys[key])
			d.Do(t, "LPUSH", keys[key], "x")
			if key == "queue" {
				d.Do(t, "DEL", keys[key])
				d.Do(t, "SET", keys[key], "x")
			}
			d.unchanged(name+" with another "+key, func() {
				err := change()
				named := new(resque.KeyTypeError)
				if !errors.As(err, &named) || named.Key != keys[key] {
					t.Errorf("%s with another %s: %v", name, key, err)
				}
			})
		}
	}
}

// A step that ends from outside, and failed, is sent again with the values that it was given.
func TestCompleteRetriedWithValues(t *testing.T) {
	for own, values := range map[string]string{`7,`: `7,8,9,`, ``: `8,9,`} {
		t.Run(values, func(t *testing.T) { retriedWithValues(t, own, values) })
	}
}

func retriedWithValues(t *testing.T, own, values string) {
	d := newDesk(t, 2)
	text := fmt.Sprintf(`{"class":"C","args":[%s"TOKEN"],"wf":"%s","external":true,"id":"W.2"}`, own, d.place(2))
	at := strings.Index(text, own+`"TOKEN`) + len(strings.TrimSuffix(own, ",")) + len("1:q")
	last := strings.Index(text, `,"id"`) + len("1:q")
	d.Do(t, "HSET", d.WorkflowKey(someWorkflow).String(), "k2", "SECRET 1000 "+d.place(2), "s2", fmt.Sprintf("y v 0+2 0 60000 %d %d 1:q%s", at, last, text))
	for n := range 2 {
		_, err := d.Mark(d.c, someWorkflow, n, d.place(n), []byte(strconv.Itoa(n+8)))
		d.must(err)
	}
	sent := func() string {
		t.Helper()
		job := d.Text(t, "LPOP", d.KeyOfQueue("q"))
		before, after, ok := strings.Cut(job, `,"expires_at":`)
		if !ok || len(after) < 13 {
			t.Fatalf("it has no expiry: %s", job)
		}
		return before + after[13:]
	}
	want := strings.Replace(text, own+`"TOKEN"`, values+`"TOKEN"`, 1)
	d.same("sent", want, sent())
	_, err := d.Complete(d.c, Token(someWorkflow, 2, "SECRET"), Failed, []byte(`{"error":"no"}`))
	d.must(err)
	_, err = d.Retry(d.c, someWorkflow, true)
	d.must(err)
	d.same("sent again", want, sent())
}
