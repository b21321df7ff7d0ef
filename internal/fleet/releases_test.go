package fleet

import (
	"fmt"
	"testing"
	"time"

	"github.com/goworker/goworker/internal/redistest"
	"github.com/goworker/goworker/internal/resque"
)

// Large payloads may have fields of their own while all processes that live know such records. A session that has had no such payload does
// not look.
func TestReleasesOfTheFleet(t *testing.T) {
	t.Parallel()
	b := renewals(t, func(*resque.Cargo) {})
	s := b.Session()
	beats := func(n int) {
		t.Helper()
		for range n {
			if err := b.beat(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	want := func(what string, from int) {
		t.Helper()
		if got := s.Apart(); got != from {
			t.Errorf("%s: payloads are apart from %d bytes on, want %d", what, got, from)
		}
	}
	enter := func(id, knows string) {
		t.Helper()
		if err := b.base.Store.Enter(b.redis.Dial(t), process(id), time.Hour, time.Now()); err != nil {
			t.Fatal(err)
		}
		b.redis.Do(t, "HSET", "resque:go:process:"+id, "knows", knows)
	}
	leave := func(id string) {
		t.Helper()
		if _, err := b.base.Store.Leave(b.redis.Dial(t), id); err != nil {
			t.Fatal(err)
		}
	}

	beats(4)
	want("no large payload was seen", 0)
	if !b.releases.looked.IsZero() {
		t.Error("it has looked all the same")
	}
	s.SawLarge()
	beats(2)
	want("all know it", resque.ApartFrom)
	looked := b.releases.looked
	if beats(5); b.releases.looked != looked {
		t.Error("it looks each time")
	}

	enter("other", resque.Knows)
	beats(2)
	want("another one has come", 0)
	beats(2)
	want("it knows it too", resque.ApartFrom)
	enter("older", "workflows msgpack leases")
	beats(2)
	want("an older one has come", 0)
	b.late.Add(int64(2 * releasesAgain))
	beats(4)
	want("it is there still", 0)
	leave("older")
	beats(4)
	want("it has gone", resque.ApartFrom)

	leave("other") // and an older one comes at the same time: their number says nothing
	enter("older2", "")
	beats(3)
	want("not looked for yet", resque.ApartFrom)
	b.late.Add(int64(releasesAgain))
	beats(2)
	want("each minute", 0)
	b.redis.Do(t, "ZADD", "resque:go:processes", -1, "older2")
	b.late.Add(int64(releasesAgain))
	beats(3)
	want("a dead one", resque.ApartFrom)

	b.redis.Do(t, "DEL", "resque:go:process:older2")
	for i := range 3 {
		enter(fmt.Sprint("p", i), resque.Knows)
	}
	b.redis.Do(t, "DEL", "resque:go:process:p1")
	beats(4)
	want("the record of one is missing", 0)
}

// The look begins with the first large payload, and its renewals follow each other at once as long as they bring it forward.
func TestReleasesAreSoonKnown(t *testing.T) {
	t.Parallel()
	b := renewals(t, func(*resque.Cargo) {})
	if err := b.base.Store.Enter(b.redis.Dial(t), process("other"), time.Hour, time.Now()); err != nil {
		t.Fatal(err)
	}
	b.redis.Do(t, "HSET", "resque:go:process:other", "knows", resque.Knows)
	woken := func() bool {
		select {
		case <-b.loop.Woken():
			return true
		default:
			return false
		}
	}
	follow := func() (renewals int) {
		t.Helper()
		for woken() {
			if err := b.beat(t.Context()); err != nil {
				t.Fatal(err)
			}
			renewals++
		}
		return renewals
	}
	if err := b.beat(t.Context()); err != nil { // it knows how many there are
		t.Fatal(err)
	}
	woken()
	b.Session().SawLarge()
	if n := follow(); n != 2 || b.Session().Apart() != resque.ApartFrom {
		t.Errorf("after %d renewals payloads are apart from %d bytes on", n, b.Session().Apart())
	}
	b.Session().SawLarge()
	if woken() {
		t.Error("another large payload renews the lease")
	}
	if err := b.base.Store.Enter(b.redis.Dial(t), process("gone"), time.Hour, time.Now()); err != nil {
		t.Fatal(err)
	}
	b.redis.Do(t, "DEL", "resque:go:process:gone")
	for range 3 {
		if err := b.beat(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if n := follow(); n > 1 || b.Session().Apart() != 0 {
		t.Errorf("%d renewals follow for a record that is missing; payloads are apart from %d bytes on", n, b.Session().Apart())
	}
}

// A process that another one declares dead again and again counts as dead at once: that one cannot give its jobs back.
func TestStuckReaper(t *testing.T) {
	t.Parallel()
	b := renewals(t, func(*resque.Cargo) {})
	c, store := b.redis.Dial(t), b.base.Store
	if err := store.Enter(c, process("dead"), time.Hour, time.Now()); err != nil {
		t.Fatal(err)
	}
	fence := func() {
		t.Helper()
		was := b.redis.Text(t, "ZSCORE", "resque:go:processes", "dead")
		redistest.Eventually(t, time.Minute, "it is fenced at another millisecond", func() bool {
			if taken, err := store.Fence(c, "dead", was); err != nil || !taken {
				t.Fatalf("%v, %v", taken, err)
			}
			return b.redis.Text(t, "ZSCORE", "resque:go:processes", "dead") != was
		})
	}
	observed := func() (dead []resque.Lease) {
		t.Helper()
		b.reaper.pending.Store(nil)
		if err := b.beat(t.Context()); err != nil {
			t.Fatal(err)
		}
		if seen := b.reaper.pending.Load(); seen != nil {
			dead = seen.dead
		}
		return dead
	}
	fence()
	if dead := observed(); len(dead) > 0 {
		t.Errorf("its reaper has just begun: %v", dead)
	}
	fence()
	if dead := observed(); len(dead) != 1 || dead[0].Process != "dead" {
		t.Errorf("of the one that was declared dead again: %v", dead)
	}
	if dead := observed(); len(dead) > 0 {
		t.Errorf("nothing has happened since: %v", dead)
	}
}
