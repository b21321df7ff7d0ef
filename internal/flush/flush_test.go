package flush

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/clock"
	"github.com/goworker/goworker/internal/logging"
	"github.com/goworker/goworker/internal/part"
	"github.com/goworker/goworker/internal/redistest"
	"github.com/goworker/goworker/internal/resque"
	"github.com/goworker/goworker/internal/resque/groups"
)

func TestMain(m *testing.M) { redistest.Main(m) }

const soon = 20 * time.Second

// bundle is a Redis with groups, and flushers of one process each.
type bundle struct {
	testing.TB
	server *redistest.Server
	base   part.Base
	mu     sync.Mutex
	log    strings.Builder
}

func (b *bundle) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.log.Write(p)
}

func (b *bundle) said(text string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.Count(b.log.String(), text)
}

type dialer func() (redis.Conn, error)

func (d dialer) Dial(context.Context) (redis.Conn, error) { return d() }

func setup(t *testing.T) *bundle {
	t.Helper()
	b := &bundle{TB: t, server: redistest.Start(t)}
	log := slog.New(slog.NewTextHandler(b, nil))
	b.base = part.Base{
		Log: log, Outages: logging.NewOutages(log, clock.System), Clock: clock.System, Store: resque.New(""),
		Dialer: dialer(func() (redis.Conn, error) { return redis.DialURL(b.server.URI()) }),
	}
	return b
}

// start starts the flusher of a process.
func (b *bundle) start() *Flusher {
	b.Helper()
	f := New(b.base)
	if err := f.Start(context.Background()); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = f.Stop(context.Background()) })
	return f
}

// now is Redis's clock.
func (b *bundle) now() time.Time {
	b.Helper()
	now, err := b.base.Store.Now(b.server.Dial(b))
	if err != nil {
		b.Fatal(err)
	}
	return now
}

// group puts a group with one item into Redis that began a while from now and waits for so long.
func (b *bundle) group(key string, began, wait time.Duration) (id string) {
	b.Helper()
	id = groups.ID("work", "C", []byte(key))
	at := b.now().Add(began).UnixMilli()
	b.server.Do(b, "RPUSH", "resque:go:group:"+id, fmt.Sprintf(`%d %d 0 x {"class":"C","args":[%q,[`, at, wait.Milliseconds(), key), fmt.Sprintf("2 %d 1", at))
	b.server.Do(b, "ZADD", "resque:go:groups", at+wait.Milliseconds(), id)
	return id
}

func (b *bundle) due() resque.Due {
	b.Helper()
	due, err := b.base.Store.Due(b.server.Dial(b), false)
	if err != nil {
		b.Fatal(err)
	}
	return due
}

func (b *bundle) jobs() int { b.Helper(); return b.server.Int(b, "LLEN", "resque:queue:work") }

func (b *bundle) eventually(what string, jobs int) {
	b.Helper()
	redistest.Eventually(b, soon, what, func() bool { return b.jobs() == jobs })
}

// The leader flushes what is due when it begins to lead, and then at the times of which it hears.
func TestLeader(t *testing.T) {
	t.Parallel()
	b := setup(t)
	f := b.start()
	b.group("late", -time.Minute, time.Second)
	f.Answered(true, b.due())
	b.eventually("what is late is flushed", 1)
	b.group("later", 0, time.Hour)
	b.group("soon", 0, 50*time.Millisecond)
	f.Seen(b.due())
	b.eventually("what becomes due is flushed", 2)
	if left := b.server.Int(t, "ZCARD", "resque:go:groups"); left != 1 {
		t.Errorf("%d groups are left", left)
	}
}

// A process that gathered flushes at its time, though no leader does; another one only helps with what is overdue.
func TestOthers(t *testing.T) {
	t.Parallel()
	b := setup(t)
	gatherer, other := b.start(), b.start()
	b.group("a", 0, 50*time.Millisecond)
	b.group("b", 0, 100*time.Millisecond)
	other.Answered(false, b.due())
	other.Seen(b.due())
	gatherer.Gathered(50 * time.Millisecond)
	gatherer.Gathered(100 * time.Millisecond)
	b.eventually("both are flushed", 2)
	if at := other.planned.Load(); at < time.Now().Add(time.Hour).UnixNano() {
		t.Error("another process has planned a turn")
	}
	b.group("c", -time.Minute, time.Second)
	other.Answered(false, b.due())
	b.eventually("it helps with what is overdue", 3)
}

// A group begins when its first item is committed. Where that was late and no leader lives, the process that gathered looks
// at it again.
func TestLateCommit(t *testing.T) {
	t.Parallel()
	b := setup(t)
	f := b.start()
	b.group("a", 300*time.Millisecond, 50*time.Millisecond)
	f.Gathered(50 * time.Millisecond)
	b.eventually("it is flushed", 1)
}

// After Redis's clock went back all groups are looked at, and those that began in the future are flushed.
func TestClockWentBack(t *testing.T) {
	t.Parallel()
	b := setup(t)
	f := b.start()
	due := b.due()
	due.Now = due.Now.Add(time.Hour)
	f.Answered(true, due) // the renewal before
	for n := range 3 * page {
		b.group(fmt.Sprint(n), time.Hour, time.Second)
	}
	b.group("of now", 0, time.Hour)
	f.Answered(true, b.due())
	b.eventually("groups of the future are flushed", 3*page)
	if left := b.server.Int(t, "ZCARD", "resque:go:groups"); left != 1 {
		t.Errorf("%d groups are left", left)
	}
}

// A group that Redis refuses holds up no other, and is logged once.
func TestRefused(t *testing.T) {
	t.Parallel()
	b := setup(t)
	f := b.start()
	broken := b.group("broken", -time.Minute, time.Second)
	b.server.Do(t, "DEL", "resque:go:group:"+broken)
	b.server.Do(t, "SET", "resque:go:group:"+broken, "x")
	b.group("whole", -time.Minute, time.Second)
	f.Answered(true, b.due())
	b.eventually("the other one is flushed", 1)
	b.server.Do(t, "ZADD", "resque:go:groups", 1, broken)
	b.group("another", -time.Minute, time.Second)
	f.Seen(b.due())
	b.eventually("and the next one", 2)
	if n := b.said("a group of jobs waits until a key is repaired"); n != 1 {
		t.Errorf("it was logged %d times:\n%s", n, b.log.String())
	}
}

// A flusher without groups has no connection, and one that lost it goes on.
func TestConnection(t *testing.T) {
	t.Parallel()
	b := setup(t)
	f := b.start()
	f.Answered(true, b.due())
	b.group("a", 0, 50*time.Millisecond)
	f.Seen(b.due())
	b.eventually("it is flushed", 1)
	b.server.Do(t, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
	b.group("b", 0, 50*time.Millisecond)
	f.Seen(b.due())
	b.eventually("the next one too", 2)
}
