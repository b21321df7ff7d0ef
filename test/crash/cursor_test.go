package crash

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/goworker/goworker"
)

// registerLong registers jobs that leave something for their next run:
//
//	Count id       notes where it is, then says 1, 2, 3, … and notes each number, until its context ends
//	CountDeaf id   goes on after that until it is killed
//	Keep id        does something once, waits for the gate, and notes what becomes of its calls then
//	KeepApart id   does so in a child process
func registerLong(note func(event, id, detail string), wait func(<-chan struct{}) bool) {
	count := func(deaf bool) func(ctx context.Context, id string) error {
		return func(ctx context.Context, id string) error {
			cur := goworker.Cursor[int](ctx)
			at, _, err := cur.Get()
			if err != nil {
				return err
			}
			note("at", id, strconv.Itoa(at))
			for tick := time.NewTicker(2 * time.Millisecond); ; <-tick.C {
				if err := cur.Set(ctx, at+1); err != nil {
					note("refused", id, err.Error())
					return err
				}
				at++
				note("said", id, fmt.Sprint(at, " ", time.Now().UnixMilli()))
				if ctx.Err() != nil && !deaf {
					return ctx.Err()
				}
			}
		}
	}
	goworker.Register("Count", count(false))
	goworker.Register("CountDeaf", count(true))
	keep := func(ctx context.Context, id string) error {
		cur := goworker.Cursor[int](ctx)
		at, _, err := cur.Get()
		if err != nil {
			return err
		}
		pid := os.Getpid()
		if err := cur.Set(ctx, pid); err != nil {
			return err
		}
		_, err = goworker.Once(ctx, "charge", func(context.Context) (int, error) {
			note("charge", id, "")
			return pid, nil
		})
		note("start", id, fmt.Sprint(at, " ", err))
		wait(nil)
		var set error
		for range 2 { // the first may only find out by its write
			set = cur.Set(ctx, -pid)
			if _, err := goworker.Once(ctx, "late", func(context.Context) (int, error) { note("late", id, ""); return 1, nil }); set == nil {
				set = err
			}
		}
		note("end", id, fmt.Sprint(set != nil, " ", set == nil || errors.Is(set, goworker.ErrNotHeld)))
		return set
	}
	goworker.Register("Keep", keep)
	goworker.Register("KeepApart", keep, goworker.Isolated(goworker.KillGrace(time.Minute)))
}

// longJob is a job that can have a cursor.
func longJob(class, id string) string {
	return fmt.Sprintf(`{"class":%q,"args":[%q],"id":%q}`, class, id, id)
}

// said returns the last number that a job said, and when.
func (f *fleet) said(id string) (n int, ms int64) {
	for _, e := range f.events("said") {
		if e.id == id {
			_, _ = fmt.Sscan(e.detail, &n, &ms)
		}
	}
	return n, ms
}

// cursor returns what a job has left.
func (f *fleet) cursor(id string) string {
	f.t.Helper()
	return f.redis.Text(f.t, "HGET", "resque:go:cursor:"+id, "cursor")
}

// A job whose process is killed goes on where it was about a second before. What was written by then is not lost.
func TestCursorOutlivesAKill(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.start("-queues=rare", "-concurrency=1")
	victim := f.start("-concurrency=1")
	f.push(longJob("Count", "a"))
	for before, n := "", 0; n < 4; n++ {
		f.eventually(soon, "it is written", func() bool { return f.cursor("a") != before })
		before = f.cursor("a")
	}
	victim.kill()
	written, _ := strconv.Atoi(f.cursor("a"))
	last, ms := f.said("a")
	heir := f.start("-concurrency=1")
	f.eventually(recovery, "it runs again", func() bool { return len(f.events("at", heir)) == 1 })
	if at := f.events("at", heir)[0].detail; at != strconv.Itoa(written) || written == 0 {
		t.Errorf("it goes on at %s; %d was written, and %d said", at, written, last)
	}
	for _, e := range f.events("said", victim) {
		if n, when, _ := strings.Cut(e.detail, " "); n == strconv.Itoa(written) {
			then, _ := strconv.ParseInt(when, 10, 64)
			t.Logf("the kill lost %d of %d numbers, said within %d ms", last-written, last, ms-then)
		}
	}
	heir.signal(syscall.SIGTERM)
	f.eventually(soon, "it is back", func() bool { return len(f.queue()) == 1 })
}

// A job that a stop interrupts goes on exactly where it was, whether or not its handler minds the stop.
func TestCursorOutlivesAStop(t *testing.T) {
	t.Parallel()
	for class, status := range map[string]int{"Count": 0, "CountDeaf": 1} {
		t.Run(class, func(t *testing.T) {
			t.Parallel()
			f := newFleet(t)
			victim := f.start("-concurrency=1", "-shutdown-timeout=0.2")
			f.push(longJob(class, "a"))
			f.eventually(soon, "it runs", func() bool { return len(f.events("said")) > 100 })
			victim.signal(syscall.SIGTERM)
			if got := victim.wait(); got != status {
				t.Errorf("it exits with %d", got)
			}
			last, _ := f.said("a")
			heir := f.start("-concurrency=1")
			f.eventually(recovery, "it runs again", func() bool { return len(f.events("at", heir)) == 1 })
			at, _ := strconv.Atoi(f.events("at", heir)[0].detail)
			if at != last && (class == "Count" || at != last+1) { // a deaf one may end between its call and its note
				t.Errorf("it goes on at %d, and it said %d", at, last)
			}
			heir.kill()
		})
	}
}

// A process that stood still while its job was given to another writes nothing when it is back, and runs no block; both calls say
// so. The same holds for a child process.
func TestCursorOfAZombie(t *testing.T) {
	t.Parallel()
	for _, class := range []string{"Keep", "KeepApart"} {
		t.Run(class, func(t *testing.T) {
			t.Parallel()
			f := newFleet(t)
			f.start("-queues=rare", "-concurrency=1")
			victim := f.start("-concurrency=1")
			f.push(longJob(class, "a"))
			f.eventually(soon, "it runs", func() bool { return len(f.events("start")) == 1 })
			pid := f.events("start")[0].pid // of the child, if there is one
			f.eventually(soon, "it is written", func() bool { return f.cursor("a") == strconv.Itoa(pid) })
			dead := victim.id()
			victim.signal(syscall.SIGSTOP)
			_ = syscall.Kill(pid, syscall.SIGSTOP)
			f.eventually(recovery, "it is back", func() bool { return len(f.queue()) == 1 })
			heir := f.start("-concurrency=1")
			f.eventually(soon, "it runs again", func() bool { return len(f.events("start")) == 2 })
			second := f.events("start")[1]
			if want := fmt.Sprint(pid, " <nil>"); second.detail != want {
				t.Errorf("the second run is at %s, want %s", second.detail, want)
			}
			f.eventually(soon, "it is written", func() bool { return f.cursor("a") == strconv.Itoa(second.pid) })
			if err := os.WriteFile(fmt.Sprintf("%s.gate.%d", f.ledger, pid), nil, 0o600); err != nil {
				t.Fatal(err)
			}
			_ = syscall.Kill(pid, syscall.SIGCONT)
			victim.signal(syscall.SIGCONT)
			f.eventually(soon, "the zombie's calls end", func() bool { return len(f.events("end")) == 1 })
			if e := f.events("end")[0]; e.pid != pid || e.detail != "true true" {
				t.Errorf("the zombie %d noted %+v", pid, e)
			}
			f.eventually(soon, "the zombie is back under another name", func() bool { return victim.id() != dead })
			if f.cursor("a") != strconv.Itoa(second.pid) || len(f.events("charge")) != 1 || len(f.events("late")) != 0 {
				t.Errorf("it is at %s; charged %d times", f.cursor("a"), len(f.events("charge")))
			}
			f.open()
			f.eventually(soon, "it is done", func() bool { return f.stat("processed") == 1 })
			if f.redis.Int(t, "EXISTS", "resque:go:cursor:a") != 0 || f.events("end")[1].detail != "false true" || f.stat("failed") != 0 {
				t.Errorf("the second run noted %+v, %d failed", f.events("end")[1], f.stat("failed"))
			}
			for _, p := range []*process{victim, heir} {
				p.stop()
			}
		})
	}
}
