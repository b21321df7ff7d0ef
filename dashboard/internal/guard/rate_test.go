package guard

import (
	"strconv"
	"testing"
	"time"
)

func TestRate(t *testing.T) {
	t.Parallel()
	clock := newHand()
	r := newRate(clock, time.Second, 3)
	for i := range 3 {
		if wait, ok := r.take("a"); !ok {
			t.Fatalf("%d: has to wait %s", i, wait)
		}
	}
	if wait, ok := r.take("a"); ok || wait != time.Second || r.left("a") != time.Second {
		t.Errorf("the fourth: %s, %t", wait, ok)
	}
	if _, ok := r.take("b"); !ok || r.left("c") != 0 {
		t.Error("another key has to wait")
	}
	clock.pass(900 * time.Millisecond)
	if wait, ok := r.take("a"); ok || wait != 100*time.Millisecond {
		t.Errorf("too early: %s, %t", wait, ok)
	}
	clock.pass(100 * time.Millisecond)
	if _, ok := r.take("a"); !ok {
		t.Error("a second brings none")
	}
	clock.pass(time.Hour)
	for range 3 {
		r.take("a")
	}
	if _, ok := r.take("a"); ok {
		t.Error("an hour brings more than the burst")
	}
}

// TestRateIsBounded forgets what was seen least recently.
func TestRateIsBounded(t *testing.T) {
	t.Parallel()
	r := newRate(newHand(), time.Second, 1)
	r.take("first")
	r.take("second")
	for i := range 3 * maxKeys {
		r.take("first")
		r.take(strconv.Itoa(i))
	}
	if len(r.keys) != maxKeys || r.recent.Len() != maxKeys {
		t.Errorf("%d keys and %d in order", len(r.keys), r.recent.Len())
	}
	if r.left("first") == 0 || r.left("second") != 0 {
		t.Error("it forgot another than the one that was seen least recently")
	}
}

// TestLimitsOfUsers counts for each user alone.
func TestLimitsOfUsers(t *testing.T) {
	t.Parallel()
	clock := newHand()
	g, err := New(Settings{Clock: clock})
	if err != nil {
		t.Fatal(err)
	}
	alice, bob := User{Name: "alice"}, User{Name: "bob"}
	for i := range RevealsAMinute + 1 {
		if _, ok := g.Reveal(alice); ok != (i < RevealsAMinute) {
			t.Errorf("reveal %d: %t", i, ok)
		}
	}
	if _, ok := g.Reveal(bob); !ok {
		t.Error("bob waits for alice")
	}
	for name, limit := range map[string]struct {
		take func(User) (func(), bool)
		most int
		used map[string]int
	}{"searches": {g.Search, SearchesAtATime, g.limits.searches.used}, "streams": {g.Stream, StreamsAtATime, g.limits.streams.used}} {
		var ends []func()
		for i := range limit.most + 1 {
			end, ok := limit.take(alice)
			if ok != (i < limit.most) {
				t.Errorf("%s: %d: %t", name, i, ok)
			}
			ends = append(ends, end)
		}
		if end, ok := limit.take(bob); !ok {
			t.Errorf("%s: bob waits for alice", name)
		} else {
			end()
		}
		ends[0]()
		ends[0]()
		ends[limit.most]() // was refused
		end, ok := limit.take(alice)
		if _, more := limit.take(alice); !ok || more {
			t.Errorf("%s: one that ended makes room for %t, %t", name, ok, more)
		}
		for _, end := range append(ends, end) {
			end()
		}
		if len(limit.used) != 0 {
			t.Errorf("%s: %v is remembered", name, limit.used)
		}
	}
}
