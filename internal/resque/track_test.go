package resque

import (
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
)

// tracked is a process whose exchanges may arm the messages that come in on wake.
type tracked struct {
	*proc
	wake redis.Conn
}

func newTracked(t *testing.T) tracked {
	t.Helper()
	w := newWire(t)
	m := w.enter("p")
	wake := w.server.Dial(t)
	w.must(w.s.Track(m.c, wake))
	m.turn(Exchange{Arm: true, List: true}) // the first one reads no queue
	return tracked{m, wake}
}

// arm finds the queues empty and tracks them.
func (k tracked) arm(queues ...string) {
	k.t.Helper()
	out := k.turn(Exchange{Want: 1, Asks: asks(queues...), Arm: true, List: true})
	k.same("empty", queues, out.Empty)
}

// heard collects what comes in until a PING is answered that was sent after the cause,
// and the cause itself had been answered before: then nothing else is on its way.
func (k tracked) heard(cause func(), watched ...string) (names []string, all bool) {
	k.t.Helper()
	cause()
	k.must(k.wake.Send("PING"))
	k.must(k.wake.Flush())
	for {
		reply, err := redis.Values(redis.ReceiveWithTimeout(k.wake, time.Minute))
		k.must(err)
		if text, _ := redis.String(reply[0], nil); text == "pong" {
			return sorted(names), all
		}
		n, a, err := k.s.ReceiveChanges(replay{k.wake, reply}, time.Second, watched...)
		k.must(err)
		names, all = append(names, n...), all || a
	}
}

// changes is heard without all.
func (k tracked) changes(cause func(), watched ...string) (names []string) {
	k.t.Helper()
	names, _ = k.heard(cause, watched...)
	return names
}

// replay is a connection that gives a message again.
type replay struct {
	redis.Conn
	message any
}

func (r replay) ReceiveWithTimeout(time.Duration) (any, error) { return r.message, nil }
func (r replay) DoWithTimeout(time.Duration, string, ...any) (any, error) {
	return nil, redis.ErrNil
}

func TestTracking(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		cause func(w *wire)
		want  []string
		all   bool
	}{
		{"a job in a queue found empty", func(w *wire) { w.do("RPUSH", "resque:queue:low", "l1") }, []string{"low"}, false},
		{"a queue with an odd name", func(w *wire) { w.do("RPUSH", "resque:queue:a:b é", "l1") }, []string{"a:b é"}, false},
		{"a queue that did not exist", func(w *wire) { w.do("SADD", "resque:queues", "new") }, []string{QueuesChanged}, false},
		{"both at once, as Ruby pushes", func(w *wire) { w.do("SADD", "resque:queues", "low"); w.do("RPUSH", "resque:queue:low", "l1") },
			[]string{QueuesChanged, "low"}, false},
		{"one message a change that was armed for", func(w *wire) {
			for range 9 {
				w.do("RPUSH", "resque:queue:low", "l1")
			}
		}, []string{"low"}, false},
		{"the pause key", func(w *wire) { w.do("SET", "resque:pause-all-workers", "true") }, []string{PauseChanged}, false},
		{"a queue that was not asked for", func(w *wire) { w.do("RPUSH", "resque:queue:other", "x") }, nil, false},
		{"the leases of others", func(w *wire) { w.enter("q") }, nil, false},
		{"everything is gone", func(w *wire) { w.do("FLUSHALL") }, nil, true},
		{"nothing", func(*wire) {}, nil, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			k := newTracked(t)
			k.arm("low", "a:b é")
			names, all := k.heard(func() { tt.cause(k.wire) })
			if all != tt.all || strings.Join(names, " ") != strings.Join(tt.want, " ") {
				t.Errorf("heard %q, all %v, want %q, %v", names, all, tt.want, tt.all)
			}
		})
	}
}

// An exchange that does not arm asks for nothing, and what a process changes itself is no news.
func TestTrackingOnlyWhereArmed(t *testing.T) {
	t.Parallel()
	k := newTracked(t)
	k.heard(func() { k.do("SADD", k.s.KeyOfQueues(), "new") }) // uses up what the first exchange armed
	k.turn(Exchange{Want: 1, Asks: asks("low"), List: true})
	names, _ := k.heard(func() { k.do("RPUSH", k.s.KeyOfQueue("low"), "l1") })
	k.same("heard without arming", 0, len(names))

	jobs := k.reserve(1, "low")
	k.arm("low")
	names, _ = k.heard(func() { k.turn(Exchange{Ended: back(jobs...)}) })
	k.same("heard of our own change", 0, len(names))
}

// A key that a feature watches is reported by its name, once it was armed and to the connection that asks for it.
func TestTrackingOfOtherKeys(t *testing.T) {
	t.Parallel()
	k := newTracked(t)
	key := k.s.TextKey("feature").String()
	read := func() {
		k.must(k.s.Arm(k.c))
		if _, err := k.c.Do("GET", key); err != nil {
			t.Fatal(err)
		}
	}
	read()
	k.same("names", []string{KeyChanged + key}, k.changes(func() { k.do("SET", key, "1") }, key, "resque:other"))
	k.same("names without reading", 0, len(k.changes(func() { k.do("SET", key, "2") }, key)))
	read()
	k.same("names of another watcher", 0, len(k.changes(func() { k.do("SET", key, "3") }, "resque:other")))
	k.arm("low")
	k.same("of a key that is also a queue", []string{KeyChanged + k.s.KeyOfQueue("low"), "low"},
		k.changes(func() { k.do("RPUSH", k.s.KeyOfQueue("low"), "l1") }, k.s.KeyOfQueue("low")))
}

func TestTrackingAfterScriptFlush(t *testing.T) {
	t.Parallel()
	k := newTracked(t)
	k.do("SCRIPT", "FLUSH")
	k.arm("low")
	names, _ := k.heard(func() { k.do("RPUSH", k.s.KeyOfQueue("low"), "l1") })
	k.same("heard", []string{"low"}, names)
}

func TestReceiveChangesErrors(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	wake := w.server.Dial(t)
	w.must(w.s.Track(w.c, wake))
	if _, _, err := w.s.ReceiveChanges(wake, time.Millisecond); err == nil {
		t.Error("silence is no error")
	}
	for _, message := range []any{[]any{}, []any{[]byte("subscribe")}, []any{[]byte("message"), []byte("x")}, "text", nil} {
		if _, _, err := w.s.ReceiveChanges(replay{wake, message}, time.Second); err == nil {
			t.Errorf("%v was taken for a message", message)
		}
	}
	if names, all, err := w.s.ReceiveChanges(replay{wake, []any{[]byte("pong"), []byte("")}}, time.Second); names != nil || all || err != nil {
		t.Errorf("an answer to a PING: %v, %v, %v", names, all, err)
	}
}

// Where the server does not let the messages through, tracking is not on: we poll.
func TestTrackRefused(t *testing.T) {
	t.Parallel()
	for name, rules := range map[string][]any{
		"no channel":  {"resetchannels"},
		"no tracking": {"-client|tracking"},
		"no key":      {"resetkeys", "~other:*"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWire(t)
			w.do("ACL", append([]any{"SETUSER", "worker", "on", "nopass", "+@all", "~resque:*", "&*"}, rules...)...)
			login := func() redis.Conn {
				c := w.server.Dial(t)
				_, err := c.Do("AUTH", "worker", "x")
				w.must(err)
				return c
			}
			if err := w.s.Track(login(), login()); err == nil {
				t.Error("no error although the messages cannot come")
			}
		})
	}
}

// Arming without tracking is an error and not a silent poller.
func TestArmWithoutTracking(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	m := w.enter("p")
	if _, err := m.try(Exchange{Want: 1, Asks: asks("low"), Arm: true}); err == nil {
		t.Error("no error")
	}
}
