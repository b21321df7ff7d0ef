package watch

import (
	"slices"
	"testing"
	"time"

	"github.com/goworker/goworker/internal/queues"
	"github.com/goworker/goworker/internal/resque"
)

// post is a process of a fleet whose Order takes each answer as the test says it.
type post struct {
	*testing.T
	*Order
	now   time.Time
	peers int
}

func newPost(t *testing.T) *post {
	t.Helper()
	p := &post{T: t, Order: testWatch(t, "a,b", queues.Strict, true), now: time.Now(), peers: 10}
	p.sentries.peers = func() int { return p.peers }
	return p
}

// turn plays one exchange of a process with so many idle workers.
func (p *post) turn(idle int, r resque.Exchanged) *resque.Exchange {
	p.Helper()
	p.Tick(p.now)
	x := &resque.Exchange{Process: "me"}
	p.Plan(x, idle, idle, p.now)
	x.Asks = slices.Clone(x.Asks)
	p.Answered(x, r, p.now)
	return x
}

var bothEmpty = resque.Exchanged{Empty: []string{"a", "b"}}

// sit has it find both queues empty, and claim a seat.
func (p *post) sit(held bool) {
	p.Helper()
	r, watched := bothEmpty, p.sentries.watched
	r.Seat.Held = held
	x := p.turn(5, r)
	if len(x.Asks) != 2 || !x.Arm || x.Sentry == nil || !x.Sentry.Sit || x.Sentry.Bell == watched {
		p.Fatalf("asks %v, arm %v, sentry %+v; want an armed look with a claim", x.Asks, x.Arm, x.Sentry)
	}
}

// A process that got no seat looks when its bell rings, and not for a push.
func TestWaitsForItsBell(t *testing.T) {
	t.Parallel()
	p := newPost(t)
	p.sit(false)
	p.Changed([]string{"a"}, false)
	if x := p.turn(5, bothEmpty); len(x.Asks) > 0 {
		t.Errorf("it asked %v for a push", x.Asks)
	}
	p.Changed([]string{resque.Called}, false)
	if x := p.turn(5, bothEmpty); len(x.Asks) != 2 {
		t.Errorf("it asked %v when its bell had rung", x.Asks)
	}
	p.sit(true) // it listens once more
	p.Changed([]string{"a"}, false)
	if x := p.turn(5, bothEmpty); len(x.Asks) != 1 || x.Asks[0].Queue != "a" {
		t.Errorf("with a seat it asked %v for a push", x.Asks)
	}
}

// A process that can take no more gives up its place, and then calls those whom Redis names.
func TestCallsWhenItIsFull(t *testing.T) {
	t.Parallel()
	for _, held := range []bool{true, false} {
		p := newPost(t)
		p.sit(held)
		if !held {
			p.Changed([]string{resque.Called}, false)
		}
		p.Changed([]string{"a"}, false)
		job := resque.Reserved{Queue: "a"}
		p.turn(2, resque.Exchanged{Jobs: []resque.Reserved{job, job}})
		x := p.turn(0, resque.Exchanged{Seat: resque.Seat{Call: []string{"x", "y"}}})
		if x.Sentry == nil || !x.Sentry.Rise || !slices.Equal(x.Sentry.Filled, []string{"a"}) {
			t.Fatalf("held %v: it sent %+v when it was full", held, x.Sentry)
		}
		if x = p.turn(0, resque.Exchanged{}); x.Sentry == nil || x.Sentry.Rise || !slices.Equal(x.Sentry.Call, []string{"x", "y"}) {
			t.Errorf("held %v: it sent %+v and not the calls", held, x.Sentry)
		}
		if x = p.turn(0, resque.Exchanged{}); x.Sentry != nil {
			t.Errorf("held %v: it sent %+v once more", held, x.Sentry)
		}
		// While its queues are full it neither claims nor calls.
		if x = p.turn(1, resque.Exchanged{Jobs: []resque.Reserved{job}}); len(x.Asks) == 0 || x.Arm || x.Sentry != nil {
			t.Errorf("held %v: with a free worker it sent %+v", held, x)
		}
		if x = p.turn(0, resque.Exchanged{}); x.Sentry != nil {
			t.Errorf("held %v: full again, it sent %+v", held, x.Sentry)
		}
		p.turn(5, bothEmpty)
		p.sit(held)
	}
}

// A process that prefetches wants more than it has idle workers for. Where a look gives all of that, others are called too.
func TestCallsWhenThereIsMore(t *testing.T) {
	t.Parallel()
	p := newPost(t)
	p.sit(true)
	p.Changed([]string{"a"}, false)
	job := resque.Reserved{Queue: "a"}
	p.turn(3, resque.Exchanged{Jobs: []resque.Reserved{job, job}})
	if x := p.turn(2, resque.Exchanged{Jobs: []resque.Reserved{job, job}}); x.Sentry != nil {
		t.Errorf("it sent %+v when it had found less than it wanted", x.Sentry)
	}
	if x := p.turn(2, resque.Exchanged{Jobs: []resque.Reserved{job, job}}); x.Sentry == nil || !x.Sentry.Rise || len(x.Asks) == 0 {
		t.Errorf("it asked %v and sent %+v when it had found all it wanted", x.Asks, x.Sentry)
	}
}

// A call that comes while the process is full goes on to another.
func TestPassesACallOn(t *testing.T) {
	t.Parallel()
	p := newPost(t)
	p.sit(false)
	p.Changed([]string{resque.Called}, false)
	if x := p.turn(0, resque.Exchanged{}); x.Sentry == nil || !x.Sentry.Rise {
		t.Errorf("it sent %+v", x.Sentry)
	}
}

// A process that waits looks, and claims, although the interval is a minute. A seat that it gets has it watch the queues.
func TestWaitsForALeaseAtMost(t *testing.T) {
	t.Parallel()
	p := newPost(t)
	p.sit(false)
	if at := p.Next(true); at.After(p.now.Add(resque.ClaimEvery)) {
		t.Fatalf("it looks only after %s", at.Sub(p.now))
	}
	p.now = p.now.Add(resque.ClaimEvery)
	r := bothEmpty
	r.Seat.Held = true
	if x := p.turn(5, r); len(x.Asks) != 2 || x.Arm || x.Sentry == nil || !x.Sentry.Sit || x.Sentry.Bell {
		t.Fatalf("asks %v, arm %v, sentry %+v; want a look with a claim", x.Asks, x.Arm, x.Sentry)
	}
	if x := p.turn(5, bothEmpty); len(x.Asks) != 2 || !x.Arm || x.Sentry != nil {
		t.Errorf("asks %v, arm %v, sentry %+v; want an armed look", x.Asks, x.Arm, x.Sentry)
	}
}

// Its bell rings while a look is under way that found its queues empty before. That says nothing about them any more, although the
// look was armed: a push came since, of which it has heard, and Redis watches that queue no more.
func TestItsBellRingsDuringALook(t *testing.T) {
	t.Parallel()
	p := newPost(t)
	p.sit(false)
	p.Changed([]string{resque.PauseChanged}, false) // so the next look is armed
	p.now = p.now.Add(resque.ClaimEvery)
	p.Tick(p.now)
	x := &resque.Exchange{Process: "me"}
	if p.Plan(x, 5, 5, p.now); len(x.Asks) != 2 || !x.Arm {
		t.Fatalf("asks %v, arm %v; want an armed look", x.Asks, x.Arm)
	}
	p.Changed([]string{"a"}, false)
	p.Changed([]string{resque.Called}, false)
	p.Answered(x, bothEmpty, p.now)
	if x := p.turn(5, bothEmpty); len(x.Asks) != 2 || !x.Arm {
		t.Errorf("asks %v, arm %v; want an armed look at both queues", x.Asks, x.Arm)
	}
}

// In a fleet of four each process hears of each push. One that waited does so as soon as the fleet has shrunk.
func TestSmallFleetHasNoSentries(t *testing.T) {
	t.Parallel()
	p := newPost(t)
	p.sit(false)
	p.peers = 4
	if x := p.turn(5, bothEmpty); len(x.Asks) != 2 || !x.Arm || x.Sentry != nil {
		t.Errorf("asks %v, arm %v, sentry %+v; want an armed look and no claim", x.Asks, x.Arm, x.Sentry)
	}
	p.Changed([]string{"a"}, false)
	if x := p.turn(5, bothEmpty); len(x.Asks) != 1 {
		t.Errorf("it asked %v for a push", x.Asks)
	}
}

// Another connection, another session and another list of queues are a new beginning.
func TestClaimsAgain(t *testing.T) {
	t.Parallel()
	for name, begin := range map[string]func(p *post){
		"connection": func(p *post) { p.Connected(true) },
		"session":    func(p *post) { p.sentries.process = "another"; p.Changed(nil, true) },
	} {
		p := newPost(t)
		p.sit(false)
		begin(p)
		x := p.turn(5, resque.Exchanged{Policy: new(resque.Policy)}) // it asks for the policy first
		if !x.Policy {
			t.Fatalf("%s: it sent %+v", name, x)
		}
		p.sit(false)
	}
	p := newPost(t)
	p.sit(false)
	crew := p.sentries.crew
	other, err := queues.Parse([]string{"a,b,c"})
	if err != nil {
		t.Fatal(err)
	}
	p.leave = func(func(string) bool) {}
	p.Work(List{Queues: other, Order: queues.Strict}, func() {})
	p.turn(5, resque.Exchanged{Policy: new(resque.Policy)})
	if x := p.turn(5, bothEmpty); len(x.Asks) != 3 || x.Sentry == nil || x.Sentry.Crew == crew {
		t.Errorf("with another list it asked %v, and sent %+v", x.Asks, x.Sentry)
	}
}
