package gateway

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goworker/goworker/internal/clock"
	"github.com/goworker/goworker/internal/neighbor"
	"github.com/goworker/goworker/internal/part"
	"github.com/goworker/goworker/internal/resque"
	"github.com/goworker/goworker/internal/resque/leases"
)

// Whoever waits longest gets the next job, also beside one who waits for other queues too and one who does not wait.
func TestOldestFirst(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		var all []client
		for i := range 6 {
			queues := []string{"a"}
			if i%2 == 1 {
				queues = []string{"b", "a"}
			}
			all = append(all, f.wants(t, time.Hour, 1, queues...))
			pass(time.Second)
		}
		for i := range all {
			f.push("a", fmt.Sprint("job", i))
			pass(time.Second)
			check(t, fmt.Sprint("client ", i), all[i].got(), fmt.Sprint("job", i))
		}
		first := f.wants(t, time.Hour, 1, "a")
		pass(time.Second)
		f.mu.Lock()
		f.queues["a"] = []string{"job"} // Redis's message is on its way
		f.mu.Unlock()
		hasty := f.wants(t, 0, 1, "a")
		pass(time.Second)
		check(t, "the one that waits", first.got(), "job")
		check(t, "the one that came later", hasty.got(), "-")
	})
}

// Many jobs at once wake many, in few turns, and idle waiters cost no turn.
func TestWakeMany(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		var all []client
		for range 1000 {
			all = append(all, f.wants(t, time.Hour, 1, "a"))
		}
		pass(time.Minute)
		before := f.came()
		var ids []string
		for i := range 600 {
			ids = append(ids, fmt.Sprint("job", i))
		}
		pass(time.Hour / 2)
		if n := f.came() - before; n > 0 {
			t.Errorf("%d turns while all wait", n)
		}
		f.push("a", ids...)
		pass(time.Second)
		for i, c := range all {
			want := "…"
			if i < len(ids) {
				want = ids[i]
			}
			check(t, fmt.Sprint("client ", i), c.got(), want)
		}
		if n := f.came() - before; n > 8 {
			t.Errorf("%d turns for 600 jobs", n)
		}
		pass(time.Hour)
		f.push("a", "last")
		pass(time.Second)
		check(t, "the 601st", all[600].got(), "last")
	})
}

// A turn is bounded; what does not fit is in the next one, in order of arrival.
func TestBoundsOfATurn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		for i := range 3000 {
			f.queues["a"] = append(f.queues["a"], fmt.Sprint("job", i))
		}
		f.wants(t, 0, 1, "a") // a turn is in flight while the others come
		pass(time.Millisecond / 2)
		var all []client
		for i := range 1200 {
			all = append(all, f.wants(t, 0, 1+i%2, "a"))
		}
		for range 30 {
			var acks []leases.Ack
			for i := range 150 {
				acks = append(acks, leases.Ack{Queue: "a", ID: fmt.Sprint(i)})
			}
			go f.d.ack(t.Context(), acks)
		}
		pass(time.Second)
		next := 1
		for i, c := range all { // at the end of a turn one that wants two may get one
			got := strings.Fields(c.got())
			if len(got) > 1+i%2 {
				t.Errorf("client %d got %s", i, got)
			}
			for _, id := range got {
				check(t, fmt.Sprint("client ", i), id, fmt.Sprint("job", next))
				next++
			}
		}
		if next < 1795 {
			t.Errorf("%d jobs were given", next)
		}
		for _, turn := range f.all() {
			asks := 0
			for _, a := range turn.Asks {
				asks += a.Count
			}
			if asks > 2*mostAsks || len(turn.Acks) > mostAcks || turn.Jobs != mostJobs || turn.Bytes != mostBytes {
				t.Errorf("a turn asks for %d jobs and has %d acknowledgements", asks, len(turn.Acks))
			}
		}
		if f.came() < 4 || f.came() > 8 {
			t.Errorf("%d turns", f.came())
		}
	})
}

// One turn has at most so many queues.
func TestManyQueues(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		f.wants(t, 0, 1, "first")
		pass(time.Millisecond / 2)
		var all []client
		for i := range 50 {
			var queues []string
			for q := range 99 {
				queues = append(queues, fmt.Sprint("q", i, ".", q))
			}
			f.push(queues[98], fmt.Sprint("job", i))
			all = append(all, f.wants(t, 0, 1, queues...))
		}
		pass(time.Second)
		for i, c := range all {
			check(t, fmt.Sprint("client ", i), c.got(), fmt.Sprint("job", i))
		}
		for _, turn := range f.all() {
			n := 0
			for _, a := range turn.Asks {
				n += len(a.Queues)
			}
			if n > mostQueues {
				t.Errorf("a turn asks %d queues", n)
			}
		}
	})
}

// The jobs of a client that has gone while it was asked go to the next one, and else to the heads of their queues.
func TestHandOver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		next := f.wants(t, time.Hour, 2, "a")
		other := f.wants(t, time.Hour, 1, "a", "b")
		pass(time.Second)
		gone := f.wants(t, 0, 5, "c", "a") // asked with nothing before it
		_ = other
		pass(time.Millisecond / 2)
		if !f.d.withdraw(gone.ask) {
			t.Fatal("it had its answer")
		}
		f.mu.Lock()
		f.queues["c"] = []string{"c1", "c2"}
		f.mu.Unlock()
		pass(time.Second)
		check(t, "put back", f.back()+f.queue("c"), "[c2 c1][c1 c2]")

		late := f.wants(t, time.Hour, 1, "c")
		pass(time.Second)
		check(t, "who comes then", late.got(), "c1")

		f.mu.Lock()
		f.queues["c"], f.returned = nil, nil
		f.mu.Unlock()
		first, second := f.wants(t, time.Hour, 1, "c"), f.wants(t, time.Hour, 1, "c")
		pass(time.Second)
		f.push("c", "c3")
		pass(time.Millisecond / 2)
		if !f.d.withdraw(first.ask) {
			t.Fatal("it had its answer")
		}
		pass(time.Second)
		check(t, "the next waiter", second.got(), "c3")
		check(t, "put back", f.back(), "[]")
		check(t, "a waiter of another queue", next.got(), "…")
	})
}

// A job that was cancelled is not given, and its ask gets another one in the next turn.
func TestUnwanted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		f.unwanted["a1"] = true
		f.push("a", "a1", "a2")
		c := f.wants(t, 0, 1, "a")
		pass(time.Second)
		check(t, "the client", c.got(), "a2")
	})
}

// A queue that Redis refuses costs those who ask for it, and no other.
func TestErrorOfOneQueue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		f.errs = []resque.KeyError{{Key: "queue:bad", Reason: "WRONGTYPE"}}
		f.queues["good"] = []string{"g1", "g2"}
		bad, good, both := f.wants(t, time.Hour, 1, "bad"), f.wants(t, 0, 1, "good"), f.wants(t, 0, 1, "bad", "good")
		pass(time.Second)
		if got := bad.got(); !strings.HasPrefix(got, "error: ") || !strings.Contains(got, "queue:bad") {
			t.Errorf("bad: %s", got)
		}
		check(t, "good", good.got(), "g1")
		check(t, "both", both.got(), "g2")
	})
}

// A turn that Redis refuses fails for all that are in it, and the next one goes on.
func TestTurnRefused(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		f.refuse = errors.New("WRONGTYPE of go:leases")
		c := f.wants(t, time.Hour, 1, "a")
		_, err := f.d.ack(t.Context(), []leases.Ack{{Queue: "a", ID: "1"}})
		pass(time.Second)
		check(t, "the client", c.got(), "error: WRONGTYPE of go:leases")
		if !errors.Is(err, f.refuse) {
			t.Errorf("the acknowledgement: %v", err)
		}
		f.mu.Lock()
		f.refuse = nil
		f.queues["a"] = []string{"a1"}
		f.mu.Unlock()
		c = f.wants(t, 0, 1, "a")
		pass(time.Second)
		check(t, "the next client", c.got(), "a1")
	})
}

// An answer that is lost burns no try: what the turn reserved goes back, and its requests are asked again. An acknowledgement
// that was done is not unknown then. A request that Redis did not hear is made again.
func TestLostAnswer(t *testing.T) {
	t.Parallel()
	for _, fate := range []int{1, 2} {
		synctest.Test(t, func(t *testing.T) {
			f := newFake(t)
			f.queues["a"] = []string{"a1", "a2", "a3"}
			first := f.wants(t, 0, 1, "a")
			pass(time.Second)
			check(t, "the first", first.got(), "a1")
			f.mu.Lock()
			f.lose = func(n int) int {
				if n == 2 {
					return fate
				}
				return 0
			}
			f.mu.Unlock()
			c := f.wants(t, 0, 2, "a")
			waiter := f.wants(t, time.Hour, 1, "a")
			whats, err := f.d.ack(t.Context(), []leases.Ack{{Queue: "a", ID: "a1"}})
			if err != nil || whats[0] != leases.Acked {
				t.Errorf("the acknowledgement: %v, %v", whats, err)
			}
			whats, err = f.d.ack(t.Context(), []leases.Ack{{Queue: "a", ID: "a1"}})
			if err != nil || whats[0] != leases.Unknown {
				t.Errorf("another one: %v, %v", whats, err)
			}
			pass(time.Second)
			check(t, "the client", c.got(), "a2 a3")
			check(t, "the waiter", waiter.got(), "…")
			want := "[]"
			if fate == 2 {
				want = "[a3 a2]"
			}
			check(t, "put back", f.back(), want)
			f.push("a", "a4")
			pass(time.Second)
			check(t, "the waiter", waiter.got(), "a4")
		})
	}
}

// Answers are lost again and again. What was done by the first turn is not unknown after the second; and where no answer comes at all, requests are
// refused, and attempts become rare.
func TestLostAnswers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		f.push("a", "a1")
		first := f.wants(t, 0, 1, "a")
		pass(time.Second)
		check(t, "the first", first.got(), "a1")
		f.mu.Lock()
		f.lose = func(n int) int { return []int{0, 0, 2, 1, 0}[min(n, 4)] }
		f.mu.Unlock()
		whats, err := f.d.ack(t.Context(), []leases.Ack{{Queue: "a", ID: "a1"}})
		if err != nil || whats[0] != leases.Acked {
			t.Errorf("the acknowledgement: %v, %v", whats, err)
		}
		f.mu.Lock()
		f.lose = func(int) int { return 2 }
		f.mu.Unlock()
		if _, err := f.d.ack(t.Context(), []leases.Ack{{Queue: "a", ID: "a2"}}); !errors.Is(err, errLost) {
			t.Errorf("an acknowledgement that never has an answer: %v", err)
		}
		f.wants(t, time.Hour, 1, "a")
		before := f.came()
		pass(10 * time.Second)
		if n := f.came() - before; n > 60 {
			t.Errorf("%d turns in ten seconds", n)
		}
		f.mu.Lock()
		f.lose = nil
		f.mu.Unlock()
		pass(5 * time.Second)
	})
}

// While Redis is away those that wait go on to wait, and all others are refused. When their time is over, they are refused too.
func TestAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		waiter, short := f.wants(t, time.Hour, 1, "a"), f.wants(t, time.Hour, 1, "a")
		pass(time.Second)
		f.mu.Lock()
		f.away = true
		f.mu.Unlock()
		hasty := f.wants(t, 0, 1, "a")
		if _, err := f.d.ack(t.Context(), []leases.Ack{{Queue: "a", ID: "1"}}); !errors.Is(err, errLost) {
			t.Errorf("the acknowledgement: %v", err)
		}
		came := f.wants(t, time.Hour, 1, "a")
		pass(5 * time.Second)
		check(t, "one that does not wait", hasty.got(), "error: the connection broke")
		check(t, "one that waits", waiter.got(), "…")
		f.d.hurry(short.ask)
		f.d.hurry(came.ask)
		pass(5 * time.Second)
		check(t, "one whose time is over", short.got(), "-")
		check(t, "one whose time is over, that was never asked", came.got(), "error: the connection broke")
		f.mu.Lock()
		f.away = false
		f.queues["a"] = []string{"a1"}
		f.mu.Unlock()
		pass(5 * time.Second)
		check(t, "one that waits", waiter.got(), "a1")
	})
}

// Where Redis does not notify, queues are looked at ten times a second while anybody waits.
func TestWithoutTracking(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		f.deaf = true
		a, b := f.wants(t, time.Hour, 1, "a"), f.wants(t, time.Hour, 1, "b")
		pass(time.Second)
		before := f.came()
		pass(10 * time.Second)
		if n := f.came() - before; n < 90 || n > 110 {
			t.Errorf("%d turns in ten seconds", n)
		}
		f.push("b", "b1")
		pass(200 * time.Millisecond)
		check(t, "b", b.got(), "b1")
		f.push("a", "a1")
		pass(200 * time.Millisecond)
		check(t, "a", a.got(), "a1")
		before = f.came()
		pass(10 * time.Second)
		if n := f.came() - before; n > 0 {
			t.Errorf("%d turns while nobody waits", n)
		}
	})
}

// A stop ends all waits at once, and takes the acknowledgements that have come.
func TestStopOfDesk(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		var all []client
		for range 1000 {
			all = append(all, f.wants(t, time.Hour, 1, "a"))
		}
		pass(time.Second)
		began := time.Now()
		f.d.drain()
		synctest.Wait()
		for _, c := range all {
			check(t, "a client", c.got(), "-")
		}
		if f.d.lines.waiting+len(f.d.lines.byKey)+len(f.d.lines.byQueue) != 0 {
			t.Error("something is left of asks that have ended")
		}
		if _, err := f.d.ask(&Ask{Queues: []string{"a"}}); !errors.Is(err, ErrStopping) {
			t.Errorf("an ask after that: %v", err)
		}
		if _, err := f.d.ack(t.Context(), []leases.Ack{{Queue: "a", ID: "1"}}); err != nil {
			t.Errorf("an acknowledgement after that: %v", err)
		}
		f.d.stop()
		<-f.d.done
		if took := time.Since(began); took > time.Second {
			t.Errorf("it took %s", took)
		}
		if _, err := f.d.ack(t.Context(), []leases.Ack{{Queue: "a", ID: "1"}}); !errors.Is(err, ErrStopping) {
			t.Errorf("an acknowledgement after the stop: %v", err)
		}
	})
}

// A request that is alone takes its turn itself. What goes wrong in it the desk's own goroutine sets right.
func TestLead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		f.alone = true
		pass(time.Second)
		asks := func(wait time.Duration) client {
			x, err := f.d.ask(&Ask{Queues: []string{"a"}, TTR: time.Minute, Wait: wait})
			if err != nil {
				t.Fatal(err)
			}
			f.d.lead()
			return client{x, f.d}
		}
		f.push("a", "a1", "a2")
		check(t, "the request that is alone", asks(0).got(), "a1")
		whats, err := f.d.ack(t.Context(), []leases.Ack{{Queue: "a", ID: "a1"}})
		if err != nil || whats[0] != leases.Acked {
			t.Error(whats, err)
		}

		turns := f.came()
		f.lose = func(n int) int {
			if n == turns+1 {
				return 2
			}
			return 0
		}
		lost := asks(0)
		pass(time.Minute)
		check(t, "after the answer to its turn was lost", lost.got()+f.back(), "a2[a2]")

		waits := asks(time.Hour)
		check(t, "one that waits", waits.got(), "…")
		f.push("a", "a3")
		pass(time.Second)
		check(t, "after a push", waits.got(), "a3")
	})
}

// A server that came too late for several pushes lets others go first, for a moment. One that had the last job does not wait.
func TestYields(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		var asked time.Time
		f.lose = func(int) int { asked = time.Now(); return 0 }
		// late returns how long after a push the server asked, and how often.
		late := func(push func()) (time.Duration, int) {
			before, pushed := f.came(), time.Now()
			push()
			pass(time.Second)
			return asked.Sub(pushed), f.came() - before
		}
		missed := func() { // another server has the job
			f.mu.Lock()
			defer f.mu.Unlock()
			f.notify("a")
		}
		first, second := f.wants(t, time.Hour, 1, "a"), f.wants(t, time.Hour, 1, "a")
		pass(time.Second)
		var sum time.Duration
		for i := range 40 {
			took, turns := late(missed)
			if sum += took; turns != 1 || took > 1<<min(i, 5)*time.Millisecond+2*time.Millisecond || i == 0 && took > 2*time.Millisecond {
				t.Errorf("push %d was asked for %d times, after %s", i, turns, took)
			}
		}
		if sum < 100*time.Millisecond {
			t.Errorf("it waited %s in all, and each push costs Redis a turn of each server", sum)
		}
		late(func() { f.push("a", "one") })
		check(t, "the first", first.got(), "one")
		if took, _ := late(func() { f.push("a", "two") }); took > 2*time.Millisecond {
			t.Errorf("behind a job it waited for %s", took)
		}
		check(t, "the second", second.got(), "two")
	})
}

// A Redis that is away for a moment makes no server unhealthy, since its restart would mend nothing.
func TestHealthy(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := &Gateway{n: &neighbor.Neighbor{Base: part.Base{Clock: clock.System}}, desk: newDesk(clock.System), started: true}
		g.count.failed(time.Now(), errLost)
		for range 3 {
			time.Sleep(silentFor / 3)
			g.count.failed(time.Now(), errLost)
			if err := g.Healthy(); err != nil {
				t.Errorf("after a moment: %v", err)
			}
		}
		time.Sleep(time.Second)
		if err := g.Healthy(); !errors.Is(err, errLost) {
			t.Errorf("after ten seconds: %v", err)
		}
		g.count.connected(true)
		if err := g.Healthy(); err != nil {
			t.Errorf("with Redis: %v", err)
		}
		g.desk.flight = &flight{began: time.Now()}
		time.Sleep(silentFor + time.Second)
		if err := g.Healthy(); err == nil {
			t.Error("a turn without an answer is healthy")
		}
	})
}

// A client that names other queues each time fills no memory.
func TestManyNames(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLines(clock.System)
		for i := range 2 * mostAsked {
			l.leave(&ask{line: l.join([]string{strconv.Itoa(i)})})
		}
		if n := len(l.names()); n != mostAsked {
			t.Errorf("%d queues are known", n)
		}
		time.Sleep(askedFor + time.Second)
		if n := len(l.names()); n != 0 {
			t.Errorf("%d queues are known after %s", n, askedFor)
		}
	})
}
