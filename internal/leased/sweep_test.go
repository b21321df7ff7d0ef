package leased

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/args"
	"github.com/goworker/goworker/internal/clock"
	"github.com/goworker/goworker/internal/feature/failed"
	"github.com/goworker/goworker/internal/logging"
	"github.com/goworker/goworker/internal/outcome"
	"github.com/goworker/goworker/internal/part"
	"github.com/goworker/goworker/internal/redistest"
	"github.com/goworker/goworker/internal/resque"
	"github.com/goworker/goworker/internal/resque/leases"
)

func TestMain(m *testing.M) { redistest.Main(m) }

const soon = time.Minute

// none knows no class, as a server.
type none struct{}

func (none) Class(string) *outcome.Class              { return nil }
func (none) Unknown(class string) error               { return errors.New("unknown class " + class) }
func (none) Misfit(class string, _ *args.Error) error { return errors.New("misfit " + class) }

type dialer struct{ *redistest.Server }

func (d dialer) Dial(context.Context) (redis.Conn, error) { return redis.DialURL(d.URI()) }

type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) count(part string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), part)
}

// bundle is a Redis with jobs that clients hold, and a sweep.
type bundle struct {
	testing.TB
	server *redistest.Server
	c      redis.Conn
	base   part.Base
	log    *lines
	sweep  *Sweep
}

func setup(t *testing.T) *bundle {
	t.Helper()
	t.Parallel()
	b := &bundle{TB: t, server: redistest.Start(t), log: new(lines)}
	log := slog.New(slog.NewTextHandler(b.log, nil))
	b.c = b.server.Dial(t)
	b.base = part.Base{
		Log: log, Outages: logging.NewOutages(log, clock.System), Clock: clock.System, Store: resque.New(""), Dialer: dialer{b.server},
	}
	b.sweep = b.other()
	return b
}

// other returns one more sweep.
func (b *bundle) other() *Sweep {
	set := outcome.New(outcome.Deps{Base: b.base, Time: clock.System, Exceptions: func(error) string { return "" }}, none{}, failed.New)
	return NewSweep(b.base, NewEnder(b.base, set, Worker("host", 7)))
}

// hold puts a job that a client holds, whose lease ends in so long.
func (b *bundle) hold(queue, id string, in time.Duration) {
	b.Helper()
	place := leases.Place(queue, id)
	b.server.Do(b, "HSET", "resque:go:leased", place, fmt.Sprintf(`{"class":"C","args":[],"tries":2,"attempt":1,"id":"%s"}`, id))
	b.server.Do(b, "ZADD", "resque:go:leases", time.Now().Add(in).UnixMilli(), place)
}

func (b *bundle) step() time.Duration {
	b.Helper()
	wait, err := b.sweep.Step(b.Context(), b.c)
	if err != nil {
		b.Fatal(err)
	}
	return wait
}

func (b *bundle) queued(n int) {
	b.Helper()
	if got := b.server.Int(b, "LLEN", "resque:queue:q"); got != n {
		b.Errorf("%d jobs in the queue, want %d", got, n)
	}
}

// After a jump of Redis's clock no lease ends at once: not here, and not by a sweep that has not seen the jump.
func TestJump(t *testing.T) {
	b := setup(t)
	b.hold("q", "a", -time.Second)
	b.sweep.jumps.saw(time.Now(), time.Now(), time.Now().Add(-time.Hour)) // as if Redis's clock had been an hour behind
	for range 3 {
		b.step()
	}
	b.queued(0)
	b.sweep = b.other()
	b.step()
	b.queued(0)
	if n := b.log.count("clock has jumped ahead"); n != 1 {
		t.Errorf("%d lines in the log", n)
	}
	b.server.Do(t, "DEL", "resque:go:jump") // its time is over
	b.step()
	b.queued(1)
}

// A renewal that sees the jump has it noted before the sweep looks. Without leases nothing is asked.
func TestJumpAtRenewal(t *testing.T) {
	b := setup(t)
	before := b.server.Int(t, "EXISTS", "resque:go:jump")
	b.sweep.Answered(true, resque.Due{Now: time.Now().Add(-time.Hour), Asked: time.Now(), Leases: resque.Never})
	b.sweep.Answered(true, resque.Due{Now: time.Now(), Asked: time.Now(), Leases: resque.Never})
	if b.sweep.jumped.Load() != 0 || b.sweep.poked.Load() {
		t.Error("a jump counts although there are no leases")
	}
	b.hold("q", "a", -time.Second)
	b.sweep.Answered(true, resque.Due{Now: time.Now().Add(time.Hour), Asked: time.Now(), Leases: -time.Hour})
	if !b.sweep.poked.Load() {
		t.Error("no turn is wanted")
	}
	b.step()
	b.queued(0)
	if before != 0 || b.server.Int(t, "EXISTS", "resque:go:jump") != 1 {
		t.Error("the jump is not noted")
	}
}

// What Redis refuses to put back waits, and does not keep the sweep from what is behind it.
func TestStuck(t *testing.T) {
	b := setup(t)
	b.server.Do(t, "SET", "resque:queue:bad", "no list")
	for i := range mostEnds + 1 {
		b.hold("bad", fmt.Sprint(i), -time.Hour)
	}
	b.hold("q", "a", -time.Second)
	var ended []string
	b.sweep.Ended = func(j leases.Job, r Result) { ended = append(ended, fmt.Sprint(j.ID, " ", r.State)) }
	wait := b.step()
	b.queued(1)
	if wait <= 0 || wait > refusedFor {
		t.Errorf("the next look comes in %v", wait)
	}
	if len(ended) != 1 || ended[0] != "a retried" {
		t.Errorf("ended: %q", ended)
	}
	if n := b.log.count("cannot be put back"); n != 1 {
		t.Errorf("%d lines in the log", n)
	}
	b.server.Do(t, "DEL", "resque:queue:bad")
	for i := range mostEnds + 1 {
		b.server.Do(t, "ZADD", "resque:go:leases", 1, leases.Place("bad", fmt.Sprint(i)))
	}
	b.step()
	if n := b.server.Int(t, "LLEN", "resque:queue:bad"); n != mostEnds+1 {
		t.Errorf("%d jobs", n)
	}
}

// A sweep trims a page of the marks of jobs that went back, and not at each look.
func TestTrims(t *testing.T) {
	b := setup(t)
	old := func() { b.server.Do(t, "HSET", "resque:go:returned", "1:qa", fmt.Sprintf("back %040d 1", 0)) }
	old()
	b.step()
	if n := b.server.Int(t, "EXISTS", "resque:go:returned"); n != 0 {
		t.Error("a mark of 1970 stays")
	}
	old()
	b.step()
	if n := b.server.Int(t, "EXISTS", "resque:go:returned"); n != 1 {
		t.Error("the marks are trimmed at each look")
	}
	b.sweep.trimAt = b.sweep.trimAt.Add(-trimEvery)
	b.step()
	if n := b.server.Int(t, "EXISTS", "resque:go:returned"); n != 0 {
		t.Error("a mark stays after a minute")
	}
}

// A process that begins to lead looks within a minute, although there are no leases: they may have been removed, and the jobs
// not.
func TestLeaderLooks(t *testing.T) {
	b := setup(t)
	b.hold("q", "a", time.Hour)
	b.server.Do(t, "DEL", "resque:go:leases")
	b.sweep.Answered(true, resque.Due{Leases: resque.Never})
	if left := time.Until(time.Unix(0, b.sweep.planned.Load())); left > againEvery {
		t.Fatalf("the first look is in %v", left)
	}
	b.sweep.planned.Store(0)
	if _, err := b.sweep.turn(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer b.sweep.line.Close()
	if n := b.server.Int(t, "ZCARD", "resque:go:leases"); n != 1 {
		t.Errorf("%d leases", n)
	}
}

// Shortly before that look a renewal asks whether there is anything to look for. An idle leader then sends nothing itself.
func TestLeaderAsksWithARenewal(t *testing.T) {
	b := setup(t)
	p := resque.Process{ID: "host:7:a", IDHead: "host.go:7-", IDQueues: "q"}
	if err := b.base.Store.Enter(b.c, p, time.Minute, time.Now()); err != nil {
		t.Fatal(err)
	}
	var cargo resque.Cargo
	renew := func(in time.Duration) (left time.Duration) {
		t.Helper()
		b.sweep.planned.Store(time.Now().Add(in).UnixNano())
		cargo.Number++
		b.sweep.Load(&cargo)
		if _, err := b.base.Store.Renew(b.c, p.ID, time.Minute, time.Minute, &cargo); err != nil {
			t.Fatal(err)
		}
		return time.Until(time.Unix(0, b.sweep.planned.Load()))
	}
	stays := func(when string) {
		t.Helper()
		if left := renew(time.Second); left > time.Second {
			t.Errorf("%s the look is put off: it comes in %v", when, left)
		}
	}
	stays("before it leads")
	b.sweep.Answered(true, resque.Due{Leases: resque.Never})
	if left := renew(time.Second); left < againEvery-askedAhead {
		t.Errorf("without jobs the look comes in %v", left)
	}
	if left := renew(10 * time.Second); left > 10*time.Second {
		t.Error("a renewal asks long before the look")
	}
	b.server.Do(t, "HSET", "resque:go:returned", "1:qa", "back")
	stays("with a mark")
	b.server.Do(t, "DEL", "resque:go:returned")
	b.hold("q", "a", time.Hour)
	b.server.Do(t, "DEL", "resque:go:leases")
	stays("with a job without a lease")
	b.server.Do(t, "DEL", "resque:go:leased")
	b.server.Do(t, "SET", "resque:go:leased", "no hash")
	stays("with a key of another type")
	b.server.Do(t, "DEL", "resque:go:leased")
	b.sweep.Answered(true, resque.Due{Leases: time.Minute})
	stays("with leases")
}

// Alone a sweep finds leases by itself, and those that Given announces at their end.
func TestAlone(t *testing.T) {
	b := setup(t)
	b.sweep.Alone = true
	b.hold("q", "a", -time.Hour)
	if err := b.sweep.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = b.sweep.Stop(context.Background()) }()
	redistest.Eventually(t, soon, "the lease that was there has ended", func() bool { return b.server.Int(t, "LLEN", "resque:queue:q") == 1 })
	b.hold("q", "b", 10*time.Millisecond)
	b.sweep.Given(10 * time.Millisecond)
	redistest.Eventually(t, soon, "the lease that was given has ended", func() bool { return b.server.Int(t, "LLEN", "resque:queue:q") == 2 })
}

// A process that does not lead sends nothing but where leases are overdue. Without leases no process has a connection.
func TestFollower(t *testing.T) {
	b := setup(t)
	if err := b.sweep.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = b.sweep.Stop(context.Background()) }()
	clients := b.server.Int(t, "DBSIZE") + len(strings.Split(strings.TrimSpace(b.server.Text(t, "CLIENT", "LIST")), "\n"))
	b.sweep.Answered(false, resque.Due{Leases: resque.Never})
	b.sweep.Answered(true, resque.Due{Leases: resque.Never})
	b.sweep.Answered(false, resque.Due{Leases: -time.Second})
	if now := len(strings.Split(strings.TrimSpace(b.server.Text(t, "CLIENT", "LIST")), "\n")); now != clients {
		t.Errorf("%d connections, and before %d", now, clients)
	}
	b.hold("q", "a", -2*overdue)
	b.sweep.Answered(false, resque.Due{Leases: -2 * overdue})
	redistest.Eventually(t, soon, "it helps", func() bool {
		b.sweep.Answered(false, resque.Due{Leases: -2 * overdue})
		return b.server.Int(t, "LLEN", "resque:queue:q") == 1
	})
}
