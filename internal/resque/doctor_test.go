package resque

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/redistest"
)

// What check 19 and 20 ask for is the minimal ACL of docs/redis.md, but for the rules that it has for operators.
func TestNeedsAreTheMinimalACL(t *testing.T) {
	t.Parallel()
	var asks, page, channels, heard []string
	for _, n := range append(slices.Clone(needed), notified...) {
		asks = append(asks, n.rule())
		if command := New("resque:").tried(n); command[0] == "SUBSCRIBE" {
			heard = append(heard, command[1].(string))
		}
	}
	for _, rule := range redistest.MinimalACL(t)[1:] {
		if operators := []string{"+rename", "+persist", "+acl|whoami"}; strings.HasPrefix(rule, "+") && !slices.Contains(operators, rule) {
			page = append(page, rule)
		}
		if channel, is := strings.CutPrefix(rule, "&"); is {
			page, channels = append(page, "+subscribe"), append(channels, channel)
		}
	}
	slices.Sort(asks)
	slices.Sort(page)
	page = slices.Compact(page)
	if !slices.Equal(heard, channels) {
		t.Errorf("doctor asks for the channels %q, and the page has %q", heard, channels)
	}
	if asks = slices.Compact(asks); !slices.Equal(asks, page) {
		t.Errorf("doctor asks for %q, and the page has %q", asks, page)
	}
}

// The user of the page has all that is asked for; without a rule that one is named.
func TestRefusedTo(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	rules := redistest.MinimalACL(t)
	for _, tt := range []struct{ without, needs, nudge string }{
		{"", "", ""}, {"-zadd", "+zadd", ""}, {"-zadd -eval", "+eval +zadd", ""}, {"-client|caching", "", "+client|caching"},
		{"resetchannels", "", "&__redis__:invalidate &resque:go:notice"}, {"resetchannels &__redis__:invalidate", "", "&resque:go:notice"}, {"-xadd -xrange", "", "+xadd +xrange"}, {"resetkeys ~other:*", "~resque:*", "~resque:*"},
	} {
		w.do("ACL", redis.Args{"SETUSER", rules[0], "reset"}.AddFlat(rules[1:]).AddFlat(strings.Fields(tt.without))...)
		r, err := w.s.RefusedTo(w.c, rules[0])
		if got := strings.Join(r.Needs, " "); got != tt.needs || strings.Join(r.Nudge, " ") != tt.nudge || err != nil {
			t.Errorf("without %q: %q, %q, %v", tt.without, r.Needs, r.Nudge, err)
		}
		if r.Reaches() == strings.HasPrefix(tt.needs, "~") {
			t.Errorf("without %q: reaches keys: %v", tt.without, r.Reaches())
		}
	}
}

// A key's name says what it is for, and KeyNamed is the way back.
func TestKeyOf(t *testing.T) {
	t.Parallel()
	s := New("my:app")
	for key, want := range map[string]KeyKind{
		"my:app:queue:a:b": QueueKey, "my:app:go:queue:a": OwnQueueKey, "my:app:delayed:1795470000": BucketKey, "my:app:delayed:last_enqueued_at": OtherKey,
		"my:app:go:inflight:h:1:x": InFlightKey, "my:app:go:unique:ab": LockKey, "my:app:go:slots:c:A": SlotsKey, "my:app:worker:h:1:q": WorkerKey, "my:app:my:app:eu:resque_scheduler_master_lock": SchedulerLockKey, "my:app:my:app:resque_scheduler_master_lock": OtherKey,
		"my:app:worker:h:1:q:started": OtherKey, "my:app:workers": OtherKey, "other:queue:a": OtherKey,
	} {
		kind, name := s.KeyOf(key)
		if kind != want || kind != OtherKey && s.KeyNamed(kind, name) != key {
			t.Errorf("%s is of kind %d with the name %q", key, kind, name)
		}
	}
}

// What doctor removes is removed only if it is still what it found, and a key of another type is left alone.
func TestForget(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	forget := func(f func() (bool, error), want bool) {
		t.Helper()
		if got, err := f(); got != want || err != nil {
			t.Errorf("%v, %v", got, err)
		}
	}
	beat := func(value string) func() (bool, error) {
		return func() (bool, error) { return w.s.ForgetHeartbeat(w.c, "h:1:q", value) }
	}
	work := func(value string) func() (bool, error) {
		return func() (bool, error) { return w.s.ForgetWork(w.c, "h:1:q", []byte(value)) }
	}
	worker := func() (bool, error) { return w.s.ForgetWorker(w.c, "h:1", time.Now(), false) }
	forget(beat("x"), false)
	forget(work("x"), false)
	forget(worker, false)

	w.do("HSET", w.s.heartbeats(), "h:1:q", "x", "h:2:q", "x")
	w.do("SET", w.s.worker("h:1:q"), "x")
	forget(beat("y"), false)
	forget(work("y"), false)
	forget(beat("x"), true)
	forget(work("x"), true)
	forget(beat("x"), false)

	// One that is alive keeps what it has in hand, and one that is dead leaves a failure.
	for beat, failures := range map[string]int{HeartbeatAt(time.Now()): 0, HeartbeatAt(time.Now().Add(-time.Hour)): 1} {
		w.do("SADD", w.s.workers(), "h:1")
		w.do("HSET", w.s.heartbeats(), "h:1", beat)
		w.do("SET", w.s.worker("h:1"), `{"queue":"q","payload":{"class":"A","args":[]}}`)
		forget(worker, true)
		if n := w.server.Int(t, "LLEN", w.s.failed()); n != failures {
			t.Errorf("with a heartbeat at %s there are %d failures", beat, n)
		}
		if n := w.server.Int(t, "EXISTS", w.s.worker("h:1")); n != 1-failures {
			t.Errorf("with a heartbeat at %s the job in hand is there %d times", beat, n)
		}
		w.do("DEL", w.s.failed())
	}

	for _, key := range []string{w.s.heartbeats(), w.s.worker("h:1:q")} {
		w.do("DEL", key)
		w.do("RPUSH", key, "x")
	}
	for _, f := range []func() (bool, error){beat("x"), work("x"), worker} {
		if changed, err := f(); changed || !IsWrongType(err) {
			t.Errorf("a key of another type: %v, %v", changed, err)
		}
	}
}

// A refusal names the rule that would allow the command.
func TestDenied(t *testing.T) {
	t.Parallel()
	s := New("")
	for text, want := range map[string]string{
		"NOPERM User x has no permissions to run the 'config|get' command":                  "this Redis user may not run CONFIG GET: +config|get",
		"NOPERM this user has no permissions to run the 'config' command or its subcommand": "this Redis user may not run CONFIG GET: +config|get",
		"NOPERM No permissions to access a key":                                             "this Redis user may not run CONFIG GET on these keys: ~resque:*",
		"ERR unknown command 'CONFIG', with args beginning with: ":                          "this server does not know CONFIG GET: ",
		"ERR unknown command `CONFIG`, with args beginning with: ":                          "this server does not know CONFIG GET: ",
		"ERR Unknown subcommand or wrong number of arguments for 'GET'. Try CONFIG HELP.":   "this server does not know CONFIG GET: ",
	} {
		_, err := s.Config(redistest.Answering(redis.Error(text)), "x")
		var denied *DeniedError
		if !errors.As(err, &denied) || denied.Error()+": "+denied.Rule != want {
			t.Errorf("%s: %v", text, err)
		}
	}
	if _, err := s.Config(redistest.Answering(redis.Error("LOADING Redis is loading")), "x"); err == nil || errors.As(err, new(*DeniedError)) {
		t.Errorf("another error: %v", err)
	}
}
