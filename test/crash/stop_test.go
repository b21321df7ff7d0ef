package crash

import (
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/internal/daemontest"
)

func TestIdleStop(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	p := f.start()
	f.push(nap("first", 0))
	f.eventually(soon, "it works", func() bool { return f.stat("processed") == 1 })
	began := time.Now()
	p.stop()
	t.Logf("an idle stop took %v, the end of the process included", time.Since(began))
	if keys := f.left(); len(keys) > 0 {
		t.Errorf("left behind: %q", keys)
	}
}

// QUIT, TERM and INT: no more jobs, those that run end, exit status 0, and nothing
// is left of the process.
func TestStopSignals(t *testing.T) {
	t.Parallel()
	for _, s := range []syscall.Signal{syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGINT} {
		t.Run(s.String(), func(t *testing.T) {
			t.Parallel()
			f := newFleet(t)
			p := f.start("-concurrency=2")
			f.push(job("Hold", "a"), job("Hold", "b"), job("Hold", "c"))
			f.eventually(soon, "two run", func() bool { return len(f.events("start")) == 2 })
			p.signal(s)
			f.eventually(soon, "it stops", func() bool { return strings.Contains(p.output(), "taking no more jobs") })
			f.renewed(1, p) // it holds its lease for as long as the jobs run
			p.mustRun()
			f.open()
			if status := p.wait(); status != 0 {
				t.Errorf("exit status %d", status)
			}
			if ends := f.events("end"); len(ends) != 2 || f.stat("processed") != 2 {
				t.Errorf("ended: %q, %d processed", ids(ends), f.stat("processed"))
			}
			if q := f.queue(); !slices.Equal(q, []string{job("Hold", "c")}) {
				t.Errorf("the queue holds %q", q)
			}
			if keys := f.left(); len(keys) > 0 {
				t.Errorf("left behind: %q", keys)
			}
		})
	}
}

// What does not end in time goes back. A handler that minds its context costs
// nothing more; for one that does not, Work ends the program with status 1.
func TestStopTakesTooLong(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, class string
		flags       []string
		signals     int
		status      int
		says        string
	}{
		{"timeout, a handler that minds", "Hold", []string{"-shutdown-timeout=0.2"}, 1, 0, ""},
		{"timeout, a deaf handler", "Deaf", []string{"-shutdown-timeout=0.2"}, 1, 1, "Deaf of queue work"},
		{"second signal, a handler that minds", "Hold", []string{"-shutdown-timeout=0"}, 2, 0, ""},
		{"second signal, a deaf handler", "Deaf", []string{"-shutdown-timeout=0"}, 2, 1, "Deaf of queue work"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			f := newFleet(t)
			p := f.start(append(test.flags, "-concurrency=1")...)
			running, waiting := job(test.class, "a"), nap("b", 0)
			f.push(running, waiting)
			f.eventually(soon, "one runs", func() bool { return len(f.events("start")) == 1 })
			for n := range test.signals {
				if n > 0 {
					time.Sleep(1500 * time.Millisecond) // sooner it would be the same signal
				}
				p.signal(syscall.SIGTERM)
				f.eventually(soon, "it stops", func() bool { return strings.Contains(p.output(), "taking no more jobs") })
			}
			if status := p.wait(); status != test.status {
				t.Errorf("exit status %d, want %d", status, test.status)
			}
			if !strings.Contains(p.output(), test.says) {
				t.Errorf("the output does not name %q", test.says)
			}
			if test.class == "Hold" {
				if c := f.events("cancel"); len(c) != 1 || c[0].detail != "shutdown" {
					t.Errorf("cancelled: %+v", c)
				}
			}
			if q := f.queue(); !slices.Equal(q, []string{running, waiting}) {
				t.Errorf("the queue holds %q", q)
			}
			if f.stat("processed")+f.stat("failed") != 0 {
				t.Errorf("%d processed, %d failed; want none", f.stat("processed"), f.stat("failed"))
			}
			if keys := f.left(); len(keys) > 0 {
				t.Errorf("left behind: %q", keys)
			}
		})
	}
}

// USR1 cancels what runs; USR2 and CONT pause and resume. The process lives on.
func TestOtherSignals(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	p := f.start("-concurrency=2")
	f.push(job("Hold", "a"), job("Hold", "b"))
	f.eventually(soon, "they run", func() bool { return len(f.events("start")) == 2 })
	p.signal(syscall.SIGUSR1)
	f.eventually(soon, "they are failures", func() bool { return f.stat("failed") == 2 })
	for _, record := range f.redis.List(t, "LRANGE", "resque:failed", 0, -1) {
		if !strings.Contains(record, `"exception":"Resque::DirtyExit"`) {
			t.Errorf("failure %s", record)
		}
	}
	for _, e := range f.events("cancel") {
		if e.detail != "cancelled" {
			t.Errorf("job %s was cancelled because of: %s", e.id, e.detail)
		}
	}

	p.signal(syscall.SIGUSR2)
	f.eventually(soon, "it pauses", func() bool { return strings.Contains(p.output(), "paused=true") })
	f.push(nap("c", 0))
	f.renewed(1, p)
	if n := len(f.events("start")); n != 2 {
		t.Errorf("%d jobs were started while paused", n-2)
	}
	p.signal(syscall.SIGCONT)
	f.eventually(soon, "it resumes", func() bool { return f.stat("processed") == 3 })
	p.stop()
	if keys := f.left(); len(keys) > 0 {
		t.Errorf("left behind: %q", keys)
	}
}

// When Work has returned signals are the program's again: the next one ends it, as
// it does with programs that ask for none.
func TestSignalsAreGivenBack(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	p := f.startWith([]string{lingerVar + "=1"}, "-exit-on-complete")
	f.eventually(soon, "Work returns", func() bool { return len(f.events("returned", p)) == 1 })
	p.signal(syscall.SIGTERM)
	if status := p.wait(); status != -1 {
		t.Errorf("exit status %d, want an end by the signal", status)
	}
}

// A wrapper that signals a process twice stops it once: its jobs keep their time.
func TestSignalThatComesTwice(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	p := f.start("-concurrency=1", "-shutdown-timeout=0")
	f.push(job("Hold", "a"))
	f.eventually(soon, "it runs", func() bool { return len(f.events("start")) == 1 })
	p.signal(syscall.SIGINT)
	p.signal(syscall.SIGTERM)
	f.eventually(soon, "it stops", func() bool { return strings.Contains(p.output(), "taking no more jobs") })
	f.renewed(1, p) // longer than the two seconds after which a job is left
	p.mustRun()
	f.open()
	if status := p.wait(); status != 0 {
		t.Errorf("exit status %d", status)
	}
	if len(f.events("cancel")) > 0 || f.stat("processed") != 1 {
		t.Errorf("cancelled: %v, %d processed", f.events("cancel"), f.stat("processed"))
	}
}

// A process ends within StopTime although Redis stands still, and a handler ignores its context.
func TestStopTimeOfAProcess(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	p := f.start("-concurrency=2", "-shutdown-timeout=0.5")
	f.push(job("Deaf", "a"), job("Hold", "b"))
	f.eventually(soon, "they run", func() bool { return len(f.events("start")) == 2 })
	id := p.id()
	f.redis.Pause()
	defer f.redis.Resume()
	most := goworker.StopTime(goworker.WorkerSettings{ShutdownTimeout: 500 * time.Millisecond})
	began := time.Now()
	p.signal(syscall.SIGTERM)
	if status, took := p.wait(), time.Since(began); status != 1 || took > most+daemontest.Late {
		t.Errorf("exit status %d after %v; want 1 within %v", status, took, most)
	}
	for _, says := range []string{"Deaf of queue work", "Redis confirmed no outcome of 2 jobs, which stay in resque:go:inflight:" + id} {
		if !strings.Contains(p.output(), says) {
			t.Errorf("the output does not say %q", says)
		}
	}
}

// A stop while Redis is away ends, says what it could not deliver, and loses
// nothing: the jobs run again.
func TestStopWithoutRedis(t *testing.T) {
	t.Parallel()
	f := newFleet(t, "--appendonly", "yes", "--appendfsync", "always")
	p := f.start("-concurrency=2", "-shutdown-timeout=0.5")
	f.push(nap("a", 0), job("Hold", "b"), job("Hold", "c"))
	f.eventually(soon, "they run", func() bool { return len(f.events("start")) == 3 && f.stat("processed") == 1 })
	f.redis.Kill()
	f.open()
	f.eventually(soon, "they end", func() bool { return len(f.events("end")) == 3 })
	began := time.Now()
	p.signal(syscall.SIGTERM)
	if status := p.wait(); status != 2 {
		t.Errorf("exit status %d, want that of an error of Work", status)
	}
	t.Logf("the stop took %v", time.Since(began))
	if want := "Redis confirmed no outcome of 2 jobs"; !strings.Contains(p.output(), want) {
		t.Errorf("the output does not say that %s", want)
	}
	f.redis.Restart(t)
	next := f.start("-concurrency=2")
	f.eventually(recovery, "they run again", func() bool { return f.stat("processed") == 3 })
	f.buried()
	next.stop()
	if keys := f.left(); len(keys) > 0 {
		t.Errorf("left behind: %q", keys)
	}
}
