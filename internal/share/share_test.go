package share

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// partners are shares of one pool as their pollers see them.
type partners struct {
	pool  *Pool
	total int
	all   []*partner
}

type partner struct {
	*Share
	running int
	queued  int // jobs that wait for a token
	woken   bool
	starts  int
}

func newPartners(total, n int) *partners {
	m := &partners{pool: NewPool(total), total: total}
	for range n {
		s := new(partner)
		s.Share = m.pool.Join(total, func() { s.woken = true })
		m.all = append(m.all, s)
	}
	return m
}

// turn is what a poller does: it says what it needs and starts what it may.
func (m *partners) turn(s *partner) {
	s.woken = false
	need := s.running
	if s.queued > 0 {
		need = m.total
	}
	held := s.acquire(s.running, need)
	for s.running < held && s.queued > 0 {
		s.running++
		s.queued--
		s.starts++
	}
	s.acquire(s.running, max(s.running, min(need, s.running+s.queued)))
}

// settle runs the shares that were woken, until none is.
func (m *partners) settle(t *rapid.T) {
	for rounds := 0; ; rounds++ {
		var woken *partner
		for _, s := range m.all {
			if s.woken {
				woken = s
			}
		}
		if woken == nil {
			return
		}
		if rounds > 10*m.total*len(m.all)+100 {
			t.Fatal("they wake each other without end")
		}
		m.turn(woken)
	}
}

func (m *partners) check(t *rapid.T) {
	sum, short := m.pool.free, false
	for i, s := range m.all {
		sum += s.held
		short = short || s.queued > 0 && s.running == s.held
		if s.running > s.held {
			t.Fatalf("share %d runs %d jobs with %d tokens", i, s.running, s.held)
		}
		if s.held > s.running && !s.woken && s.queued == 0 {
			t.Fatalf("share %d keeps %d tokens for %d jobs", i, s.held, s.running)
		}
	}
	if owed := slices.ContainsFunc(m.all, func(s *partner) bool { return s.held > s.running }); sum != m.total || m.pool.free < 0 && owed {
		t.Fatalf("%d tokens of %d, %d of them free", sum, m.total, m.pool.free)
	}
	if short && m.pool.free > 0 {
		t.Fatalf("%d tokens are free and a share waits", m.pool.free)
	}
}

// However jobs come and end, and the number of tokens changes: never more jobs start than there are tokens, no token is
// free while a job waits for one, and empty wake-ups end.
func TestPool(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m := newPartners(rapid.IntRange(1, 12).Draw(t, "tokens"), rapid.IntRange(1, 4).Draw(t, "shares"))
		pick := func(t *rapid.T) *partner { return rapid.SampledFrom(m.all).Draw(t, "share") }
		t.Repeat(map[string]func(*rapid.T){
			"push": func(t *rapid.T) {
				s := pick(t)
				s.queued += rapid.IntRange(1, 20).Draw(t, "jobs")
				m.turn(s)
				m.settle(t)
			},
			"end": func(t *rapid.T) {
				s := pick(t)
				s.running -= rapid.IntRange(0, s.running).Draw(t, "jobs")
				m.turn(s)
				m.settle(t)
			},
			"leave": func(t *rapid.T) { // its handlers have ended; it comes back later
				s := pick(t)
				s.running, s.queued, s.woken = 0, 0, false
				s.Leave()
				m.settle(t)
				s.Share = m.pool.Join(m.total, func() { s.woken = true })
			},
			"resize": func(t *rapid.T) {
				m.total = rapid.IntRange(1, 12).Draw(t, "tokens")
				m.pool.Resize(m.total)
				m.settle(t)
			},
			"": m.check,
		})
	})
}

// Shares that all want more than there is come to hold the same, give or take one,
// as jobs end; where there are fewer tokens than shares, each has its turn.
func TestPoolIsFair(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m := newPartners(rapid.IntRange(1, 12).Draw(t, "tokens"), rapid.IntRange(2, 4).Draw(t, "shares"))
		for _, s := range m.all { // the first has everything when the others come
			s.queued = 1 << 30
			m.turn(s)
		}
		rounds := 20 * m.total * len(m.all)
		for range rounds {
			s := rapid.SampledFrom(m.all).Draw(t, "share")
			if s.running > 0 {
				s.running--
				m.turn(s)
				m.settle(t)
			}
		}
		for _, s := range m.all { // each job has ended since
			for range s.running {
				s.running--
				m.turn(s)
				m.settle(t)
			}
		}
		m.check(t)
		for i, s := range m.all {
			if fair := m.total / len(m.all); s.held < fair || s.held > fair+1 {
				t.Fatalf("share %d of %d holds %d of %d tokens", i, len(m.all), s.held, m.total)
			}
			if s.starts == 0 {
				t.Fatalf("share %d never had a turn", i)
			}
		}
	})
}

// What one does not use, another may; and it comes back as jobs end.
func TestPoolOfOneBusyShare(t *testing.T) {
	t.Parallel()
	m := newPartners(10, 2)
	flooded, quiet := m.all[0], m.all[1]
	flooded.queued = 1000
	m.turn(flooded)
	if flooded.running != 10 {
		t.Fatalf("one share alone runs %d jobs of 10", flooded.running)
	}
	quiet.queued = 2
	m.turn(quiet)
	if quiet.running != 0 {
		t.Fatal("there were no tokens")
	}
	flooded.running--
	m.turn(flooded)
	if !quiet.woken {
		t.Fatal("a token came free and who waits was not woken")
	}
	m.turn(quiet)
	if quiet.running != 1 {
		t.Fatalf("it runs %d jobs", quiet.running)
	}
}

// Reserved tokens count as used until their jobs begin or are no longer expected.
func TestReserved(t *testing.T) {
	t.Parallel()
	pool := NewPool(4)
	one, other := pool.Join(4, func() {}), pool.Join(4, func() {})
	one.Acquire(0, 4)
	if one.Slots() != 4 || !one.Spare(3) || one.Spare(4) {
		t.Fatalf("one share alone has %d slots", one.Slots())
	}
	one.Reserve(3)
	one.Begin()
	other.Acquire(0, 4)
	one.Acquire(1, 0)
	if other.Acquire(0, 4); one.Slots() != 3 || other.Slots() != 1 {
		t.Errorf("with 1 job that runs and 2 reserved the shares have %d and %d slots", one.Slots(), other.Slots())
	}
	one.KeepReserved(0)
	one.Acquire(1, 0)
	if other.Acquire(0, 4); one.Slots() != 1 || other.Slots() != 3 {
		t.Errorf("with 1 job that runs the shares have %d and %d slots", one.Slots(), other.Slots())
	}
	other.Leave()
	if one.Acquire(1, 9); one.Slots() != 4 {
		t.Errorf("the last share has %d slots", one.Slots())
	}
}

// A poller that shares its workers with no other always has all of them.
func TestAlone(t *testing.T) {
	t.Parallel()
	s := Alone(3)
	s.Reserve(3)
	s.Acquire(1, 1)
	if s.Slots() != 3 || s.Shared() || s.Spare(0) {
		t.Errorf("%d slots, shared %v, spare %v", s.Slots(), s.Shared(), s.Spare(0))
	}
	s.Leave()
}

// A pool that shrinks takes back what a share holds and does not use, and grants nothing until it has all that is missing.
func TestPoolShrinks(t *testing.T) {
	t.Parallel()
	p, woken := NewPool(6), 0
	wake := func() { woken++ }
	a, b := p.Join(6, wake), p.Join(6, wake)
	a.Acquire(0, 6)
	a.Reserve(4)
	a.Acquire(0, 6)
	if p.Resize(3); woken != 2 || p.Tokens() != 3 {
		t.Errorf("%d shares look at %d tokens", woken, p.Tokens())
	}
	if a.Acquire(0, 6); a.Slots() != 4 {
		t.Errorf("a share that uses four tokens and could use six has %d", a.Slots())
	}
	if b.Acquire(0, 6); b.Slots() != 0 {
		t.Errorf("another has %d", b.Slots())
	}
	a.Reserve(0)
	if a.Acquire(2, 2); a.Slots() != 2 {
		t.Errorf("a share with two jobs has %d", a.Slots())
	}
	if b.Acquire(0, 6); b.Slots() != 1 {
		t.Errorf("another has %d, want what is left of three", b.Slots())
	}
	a.Resize(3)
	if p.Resize(6); woken < 4 {
		t.Error("no share looks at the tokens that there are more of")
	}
}
