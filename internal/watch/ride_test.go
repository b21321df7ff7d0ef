package watch

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/queues"
	"github.com/goworker/goworker/internal/redistest"
	"github.com/goworker/goworker/internal/resque"
)

// rider is an idle process whose renewals a test sends.
type rider struct {
	*testing.T
	*Order
	redis   *redistest.Server
	c       redis.Conn
	cargo   resque.Cargo
	process resque.Process
}

func newRider(t *testing.T, names string) *rider {
	t.Helper()
	r := &rider{T: t, Order: testWatch(t, names, queues.Strict, true), redis: redistest.Start(t), process: resque.Process{ID: "h:1:a", IDHead: "h.go:1-", IDQueues: "q"}}
	r.c = r.redis.Dial(t)
	if err := r.base.Store.Enter(r.c, r.process, time.Minute, time.Now()); err != nil {
		t.Fatal(err)
	}
	return r
}

// look makes the look that is due and finds what Redis has listed, and all queues empty.
func (r *rider) look(now time.Time, listed ...string) {
	r.Helper()
	r.Tick(now)
	x := plan(r.Order, now, 5, false)
	if len(x.Asks) == 0 && !x.List {
		r.Fatal("there is no look")
	}
	empty := asked(x)
	r.Answered(x, resque.Exchanged{Empty: empty, Queues: listed}, now)
	if x = plan(r.Order, now, 5, false); len(x.Asks) > 0 { // the look has named queues
		r.Answered(x, resque.Exchanged{Empty: asked(x)}, now)
	}
	r.Next(true)
}

// renew renews the lease, and reports whether that looked at queues.
func (r *rider) renew(between ...func()) (looked bool) {
	r.Helper()
	r.cargo.Number++
	r.Ride().Load(&r.cargo)
	looked = !r.cargo.Empty()
	for _, f := range between {
		f()
	}
	if _, err := r.base.Store.Renew(r.c, r.process.ID, time.Minute, time.Minute, &r.cargo); err != nil {
		r.Fatal(err)
	}
	return looked
}

// nears brings the next look so near that a renewal takes its place.
func (r *rider) nears() time.Time {
	r.next = time.Now().Add(time.Second)
	return r.Next(true)
}

func TestRenewalLooks(t *testing.T) {
	t.Parallel()
	r := newRider(t, "a,b")
	r.look(time.Now())
	if r.renew() {
		t.Error("a renewal looks long before it is time")
	}
	at := r.nears()
	if !r.renew() || r.Next(true).Sub(at) < r.interval/2 {
		t.Errorf("the next look is put off by %v", r.Next(true).Sub(at))
	}
	if x := plan(r.Order, time.Now(), 5, false); len(x.Asks) > 0 {
		t.Errorf("and it asks for %v", asked(x))
	}
	due := func(what string) {
		t.Helper()
		now := time.Now()
		if r.Next(true).After(now) {
			t.Errorf("%s the next look comes in %v", what, time.Until(r.Next(true)))
		}
		r.look(now)
	}
	r.nears()
	r.redis.Do(t, "RPUSH", "resque:queue:b", "job")
	r.renew()
	due("with a job of which Redis did not notify")
	r.redis.Do(t, "DEL", "resque:queue:b")
	r.nears()
	r.redis.Do(t, "SET", "resque:pause-all-workers", "true")
	r.renew()
	due("with the key of the pause")
}

// What a renewal finds while the poller is woken, or has other queues, puts off nothing.
func TestAwakeDuringARenewal(t *testing.T) {
	t.Parallel()
	r := newRider(t, "a,b")
	stays := func(what string, between func()) {
		t.Helper()
		r.look(r.Next(true))
		at := r.nears()
		r.renew(between)
		if next := r.next; next.After(at) {
			t.Errorf("%s the look is put off by %v", what, next.Sub(at))
		}
	}
	stays("after a push", func() {
		r.Changed([]string{"a"}, false)
		plan(r.Order, time.Now(), 5, false)
	})
	stays("with a new connection", func() { r.Connected(true) })
	r = newRider(t, "a,b")
	stays("with another list", func() {
		spec, err := queues.Parse([]string{"c"})
		if err != nil {
			t.Fatal(err)
		}
		r.leave = func(func(string) bool) {}
		r.Work(List{Queues: spec}, func() {})
		r.Tick(time.Now())
	})
}

// The names of queues are read where the list has patterns.
func TestRenewalReadsNames(t *testing.T) {
	t.Parallel()
	r := newRider(t, "q*")
	r.redis.Do(t, "SADD", "resque:queues", "q1", "other")
	r.look(time.Now(), "q1", "other")
	at := r.nears()
	if r.redis.Do(t, "SADD", "resque:queues", "another"); !r.renew() || !r.next.After(at) {
		t.Error("a name that no pattern means has the poller look")
	}
	r.nears()
	r.redis.Do(t, "SADD", "resque:queues", "q2")
	if r.renew(); r.next.After(time.Now()) {
		t.Error("a name that a pattern means does not have the poller look")
	}
	r.look(time.Now(), "q1", "other")
	r.nears()
	r.redis.Do(t, "DEL", "resque:queues")
	r.redis.Do(t, "SET", "resque:queues", "no set")
	if r.renew(); r.next.After(time.Now()) {
		t.Error("where Redis refuses the names the poller does not look")
	}
}

// Where the poller looks for more than a notification that was lost, it looks itself.
func TestLooksItself(t *testing.T) {
	t.Parallel()
	for what, change := range map[string]func(*rider){
		"without notifications":        func(r *rider) { r.tracking = false },
		"while the fleet is paused":    func(r *rider) { r.paused = true },
		"with jobs in a queue":         func(r *rider) { delete(r.empty, "a") },
		"with lanes to be read":        func(r *rider) { r.lanes.Changed([]string{resque.PolicyChanged}) },
		"with queues that it skips":    func(r *rider) { r.skip["a"] = &round{until: time.Now().Add(time.Hour)} },
		"with queues that are closed":  func(r *rider) { r.closed = func(string) bool { return false } },
		"with a seat to claim":         func(r *rider) { r.sentries.claimed = time.Now().Add(-resque.ClaimEvery) },
		"for the claim of a long wait": func(r *rider) { r.waiting = true },
		"with an interval of a second": func(r *rider) { r.interval = time.Second },
		"at the last renewal":          func(r *rider) { r.cargo.Last = true },
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			r := newRider(t, "a,b")
			r.look(time.Now())
			if r.nears(); !r.renew() {
				t.Fatal("a renewal of an idle process does not look")
			}
			r.next = time.Now().Add(time.Second)
			change(r)
			if r.Next(true); r.renew() {
				t.Error("a renewal looks")
			}
		})
	}
	var many []string
	for i := range mostRidden + 1 {
		many = append(many, fmt.Sprint("q", i))
	}
	for _, n := range []int{mostRidden, mostRidden + 1} {
		r := newRider(t, strings.Join(many[:n], ","))
		r.look(time.Now())
		r.nears()
		if looked := r.renew(); looked != (n == mostRidden) {
			t.Errorf("with %d queues a renewal looks: %v", n, looked)
		}
	}
}

// A process that has claimed a seat claims it again an interval after it is time for that, at most, whatever renewals find.
func TestClaimsBesideRenewals(t *testing.T) {
	t.Parallel()
	r := newRider(t, "a,b")
	r.sentries.peers = func() int { return 10 }
	r.interval = 5 * time.Second
	r.look(time.Now())
	claimed := time.Now().Add(-resque.ClaimEvery + time.Second)
	r.sentries.claimed = claimed
	at := r.nears()
	if !r.renew() || !r.Next(true).After(at) {
		t.Fatal("before it is time to claim no renewal looks")
	}
	if at = r.Next(true); at.After(claimed.Add(resque.ClaimEvery + r.interval)) {
		t.Errorf("the claim comes %v after the last", at.Sub(claimed))
	}
	r.Tick(at)
	x := &resque.Exchange{Process: r.sentries.process}
	if r.Plan(x, 5, 5, at); x.Sentry == nil || !x.Sentry.Sit || !slices.Equal(asked(x), []string{"a", "b"}) {
		t.Errorf("the look asks %v with %+v", asked(x), x.Sentry)
	}
}
