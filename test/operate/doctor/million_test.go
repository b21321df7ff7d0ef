package doctor

import (
	"testing"
	"time"

	"github.com/goworker/goworker/inspect/checks"
	"github.com/goworker/goworker/internal/redistest"
)

// walking are the checks about keys that nothing lists: they see all only where the walk over all keys ends.
var walking = []int{34, 41, 42, 43, 47, 48}

// TestMillionForeignKeys: where a million keys of another program are on the server, checks that have to look through all keys do so
// if they have the time. If not they say how much they have seen, and that is not ok.
func TestMillionForeignKeys(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, append([]string{"--enable-debug-command", "yes"}, durable...)...)
	w := newWorld(t, server, nil)
	w.do("DEBUG", "POPULATE", 1_000_000, "foreign")

	for _, f := range w.look(walking...) {
		if f.State != checks.OK || f.Seen != 1 {
			t.Errorf("with time enough: check %d says %s of %v: %s", f.Check.Number, f.State, f.Seen, f.Sentence)
		}
	}
	w.do("RPUSH", "~queue:lost", job)
	if f := w.look(34)[0]; f.State != checks.Found {
		t.Errorf("with a minute: %s", f.Sentence)
	}
	w.do("DEL", "~queue:lost")

	w.options.Budget = 20 * time.Millisecond
	for _, number := range walking { // each by itself: together they share one walk
		f := w.look(number)[0]
		if f.State != checks.NotAllSeen || f.Seen >= 1 {
			t.Errorf("with 20 ms: check %d says %s of %v: %s", number, f.State, f.Seen, f.Sentence)
		}
		t.Logf("%d %s: %s (%s)", number, f.State, f.Sentence, f.Remedy.Words)
	}
}

// TestLongLists: of a list that is too long for the time, both ends are seen, and what is between them is not said to be ok.
func TestLongLists(t *testing.T) {
	t.Parallel()
	w := newWorld(t, redistest.Start(t, durable...), nil)
	w.registered("vm:1:mail")
	w.do("SADD", "~queues", "mail")
	w.do("EVAL", `for _ = 1, 200 do
		local batch = {}
		for i = 1, 1000 do batch[i] = ARGV[1] end
		redis.call('RPUSH', KEYS[1], unpack(batch))
		for i = 1, 1000 do batch[i] = ARGV[2] end
		redis.call('RPUSH', KEYS[2], unpack(batch))
	end`, 2, "~queue:mail", "~failed", job, failed)

	look := func(number int, budget time.Duration) checks.Finding {
		t.Helper()
		for w.options.Budget = budget; ; w.options.Budget *= 2 { // on a busy machine the time is over before a check begins
			if f := w.look(number)[0]; f.Seen > 0 {
				return f
			}
		}
	}
	for _, number := range []int{30, 31, 32} {
		if f := look(number, time.Hour); f.State != checks.OK {
			t.Errorf("with time enough: check %d says %s: %s", number, f.State, f.Sentence)
		}
		if f := look(number, 5*time.Millisecond); f.State != checks.NotAllSeen || f.Seen >= 1 {
			t.Errorf("with little time: check %d says %s of %v: %s", number, f.State, f.Seen, f.Sentence)
		}
	}
	w.do("LSET", "~queue:mail", -1, "{")
	w.do("LSET", "~failed", -1, "{")
	for _, number := range []int{30, 32} { // the last element is among the first that are looked at
		if f := look(number, 5*time.Millisecond); f.State != checks.Found || f.Seen >= 1 {
			t.Errorf("at the tail: check %d says %s of %v: %s", number, f.State, f.Seen, f.Sentence)
		}
	}
}
