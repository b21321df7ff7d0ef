package gate

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goworker/goworker/internal/clock"
	"github.com/goworker/goworker/internal/logging"
	"github.com/goworker/goworker/internal/part"
)

// door is a member that keeps what it was told.
type door struct{ held, changes atomic.Int64 }

func (d *door) hold(on bool) {
	d.changes.Add(1)
	d.held.Store(map[bool]int64{true: 1}[on])
}

func (d *door) open() bool { return d.held.Load() == 0 }

type book struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *book) Write(p []byte) (int, error) { b.mu.Lock(); defer b.mu.Unlock(); return b.b.Write(p) }

func (b *book) count(text string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.Count(b.b.String(), text)
}

func base() (part.Base, *book) {
	var lines book
	log := slog.New(slog.NewTextHandler(&lines, nil))
	return part.Base{Log: log, Outages: logging.NewOutages(log, clock.System), Clock: clock.System}, &lines
}

func wait(d time.Duration) { clock.Sleep(clock.System, d); synctest.Wait() }

func TestGateOpensAndCloses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, lines := base()
		var asked atomic.Int64
		var answer atomic.Pointer[error]
		down := errors.New("the mail server is down")
		answer.Store(&down)
		var g Gate
		g.Set(func(context.Context) error { asked.Add(1); return *answer.Load() })
		var one, two door
		leave := g.Join(b, one.hold)
		if one.open() {
			t.Error("the gate is open before its first answer")
		}
		synctest.Wait()
		if s := g.State(); asked.Load() != 1 || one.open() || s.Closed == nil || s.Closed.Error() != down.Error() {
			t.Errorf("asked %d times, %+v", asked.Load(), s)
		}
		leaveTwo := g.Join(b, two.hold)
		if two.open() {
			t.Error("the gate is open for a daemon that joins")
		}
		wait(10 * Every)
		if n := asked.Load(); n < 10 || n > 12 {
			t.Errorf("asked %d times in 10 s", n)
		}
		if n := lines.count("the gate is closed"); n != 1 {
			t.Errorf("%d lines say that it is closed:\n%s", n, &lines.b)
		}
		var none error
		answer.Store(&none)
		wait(Every)
		if s := g.State(); !one.open() || !two.open() || s.Closed != nil || lines.count("the gate is open again") != 1 {
			t.Errorf("%+v\n%s", s, &lines.b)
		}
		wait(10 * Every)
		if one.changes.Load() != 3 || lines.count("level=") != 2 {
			t.Errorf("%d changes\n%s", one.changes.Load(), &lines.b)
		}
		leave()
		leaveTwo()
		n := asked.Load()
		wait(10 * Every)
		if asked.Load() != n || g.State() != (State{}) {
			t.Error("the function is asked although no daemon runs")
		}
		leave = g.Join(b, one.hold)
		if one.open() {
			t.Error("the gate is open in another run before its first answer there")
		}
		synctest.Wait()
		if !one.open() {
			t.Error("the gate is closed in another run")
		}
		leave()
	})
}

// What a function does instead of answering closes the gate with a sentence.
func TestGateThatFails(t *testing.T) {
	for name, tt := range map[string]struct {
		f    Func
		want string
	}{
		"panics":         {func(context.Context) error { panic("aua") }, "the gate's function panicked: aua"},
		"ends":           {func(context.Context) error { runtime.Goexit(); return nil }, "ended its goroutine"},
		"gives up":       {func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }, "deadline exceeded"},
		"says very much": {func(context.Context) error { return errors.New(strings.Repeat("x", 1<<20)) }, "(1048576 bytes)"},
	} {
		synctest.Test(t, func(t *testing.T) {
			b, _ := base()
			var g Gate
			g.Set(tt.f)
			var d door
			leave := g.Join(b, d.hold)
			wait(Patience + Every)
			if s := g.State(); d.open() || s.Closed == nil || !strings.Contains(s.Closed.Error(), tt.want) {
				t.Errorf("%s: %+v", name, s)
			}
			leave()
		})
	}
}

// A function that hangs keeps its last answer, is reported once, and is not called a second time
// meanwhile.
func TestGateThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, lines := base()
		var calls atomic.Int64
		release := make(chan struct{})
		var g Gate
		g.Set(func(context.Context) error {
			if calls.Add(1) > 1 {
				<-release // whatever its context says
			}
			return nil
		})
		var d door
		leave := g.Join(b, d.hold)
		wait(30 * Every)
		if s := g.State(); !d.open() || s.Closed != nil || s.Silent < 20*time.Second || calls.Load() != 2 || lines.count("does not answer") != 1 {
			t.Errorf("%d calls, %+v\n%s", calls.Load(), s, &lines.b)
		}
		leave() // does not wait for it
		leave = g.Join(b, d.hold)
		wait(3 * Every)
		if d.open() || calls.Load() != 2 {
			t.Errorf("in another run it is open after %d calls", calls.Load())
		}
		close(release)
		wait(3 * Every)
		if s := g.State(); !d.open() || s.Silent != 0 || calls.Load() < 3 || lines.count("answers again") != 1 {
			t.Errorf("then %d calls, %+v\n%s", calls.Load(), s, &lines.b)
		}
		leave()
	})
}

// Another function takes over at once, even while the former one hangs, whose late answer changes nothing.
func TestGateIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, _ := base()
		release := make(chan struct{})
		var g Gate
		var d door
		leave := g.Join(b, d.hold)
		if !d.open() {
			t.Error("it is closed without a function")
		}
		g.Set(func(context.Context) error { <-release; return errors.New("late") })
		if d.open() {
			t.Error("it is open before the function has answered")
		}
		g.Set(func(context.Context) error { return nil })
		wait(2 * Every)
		close(release)
		synctest.Wait()
		if s := g.State(); !d.open() || s.Closed != nil {
			t.Errorf("%+v", s)
		}
		g.Set(func(context.Context) error { return errors.New("night") })
		wait(2 * Every)
		if d.open() {
			t.Error("it is open although its function says no")
		}
		g.Set(nil)
		if synctest.Wait(); !d.open() || g.State() != (State{}) {
			t.Error("it is closed although it was removed")
		}
		leave()
	})
}
