package goworker_test

import (
	"errors"
	"iter"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/internal/daemontest"
	"github.com/goworker/goworker/internal/outcome"
	"github.com/goworker/goworker/internal/resque"
)

// watcher is a feature that reads a key of its own whenever that has changed. A job whose id
// begins with "write" writes it with its end.
type watcher struct {
	outcome.None
	key  resque.Key
	made chan iter.Seq[*outcome.Job] // of each Set: the client's, and the daemon's

	mu    sync.Mutex
	reads int
	value string
	err   error
}

func watch(b *daemontest.Bundle) *watcher {
	w := &watcher{made: make(chan iter.Seq[*outcome.Job], 2)}
	goworker.AddFeature(b.Daemon, func(d outcome.Deps) outcome.Feature {
		w.key = d.Store.TextKey("watcher")
		w.made <- d.Running
		return outcome.Feature{
			Name: "watcher", Field: "id", Bind: func(*outcome.Class) outcome.Policy { return w },
			Watch: []outcome.Watched{{Key: w.key.String(), Read: w.read}},
		}
	})
	return w
}

func (w *watcher) read(c redis.Conn) error {
	value, err := redis.String(c.Do("GET", w.key.String()))
	if errors.Is(err, redis.ErrNil) {
		err = nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.reads, w.value, w.err = w.reads+1, value, err
	return err
}

func (w *watcher) Settle(j *outcome.Job, o *outcome.Outcome) {
	if j.Readable() && strings.Contains(string(j.Args[0]), "write") {
		o.Effects = append(o.Effects, resque.Command("SET", w.key, string(j.Args[0])))
	}
}

// has reports whether the value that was read last is this one, and how often it was read.
func (w *watcher) has(value string) (has bool, reads int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err == nil && w.value == value, w.reads
}

func (w *watcher) sees(b *daemontest.Bundle, value string) (reads int) {
	b.T.Helper()
	b.Eventually("the feature reads "+value, func() (has bool) { has, reads = w.has(value); return has })
	return reads
}

// A feature reads its key once for each connection, and after each change. That may be one by this
// process, of which Redis does not notify it. While nothing changes, nothing is read.
func TestFeatureWatchesKey(t *testing.T) {
	t.Parallel()
	b := daemontest.Setup(t)
	w := watch(b)
	b.Redis.Do(t, "SET", "resque:go:watcher", "first")
	b.Start()
	b.Idle()
	before := w.sees(b, "first")
	b.Push(daemontest.Jobs("Mark", 50)...)
	b.Eventually("the jobs run", func() bool { return b.Stat("processed") == 50 })
	if reads := w.sees(b, "first"); reads != before {
		t.Errorf("read %d times more although nothing changed", reads-before)
	}
	for _, value := range []string{"second", "third"} {
		b.Redis.Do(t, "SET", "resque:go:watcher", value)
		w.sees(b, value)
	}
	b.Push(daemontest.Job("Mark", "write"))
	w.sees(b, `"write"`)
	b.Redis.Do(t, "SET", "resque:go:watcher", "fourth")
	before = w.sees(b, "fourth")
	b.Redis.Do(t, "CLIENT", "KILL", "TYPE", "normal")
	b.Redis.Do(t, "CLIENT", "KILL", "TYPE", "pubsub")
	b.Eventually("another connection reads it", func() bool { _, reads := w.has(""); return reads > before })
	b.Redis.Do(t, "SET", "resque:go:watcher", "fifth")
	w.sees(b, "fifth")
	b.Redis.Do(t, "FLUSHALL")
	w.sees(b, "")
}

// Without tracking a key is read each second while a job runs, and once an interval while none does.
func TestFeatureWatchesKeyUntracked(t *testing.T) {
	t.Parallel()
	b := daemontest.Setup(t, func(s *goworker.WorkerSettings) { s.DisableTracking, s.PollInterval = true, 3*time.Second })
	w := watch(b)
	b.Redis.Do(t, "SET", "resque:go:watcher", "first")
	b.Start()
	w.sees(b, "first")
	b.Redis.Do(t, "SET", "resque:go:watcher", "idle")
	w.sees(b, "idle")
	b.Push(daemontest.Job("Hold", "1"))
	b.Eventually("the job runs", func() bool { return b.Runs.Starts("1") == 1 })
	began := time.Now()
	_, before := w.has("")
	b.Eventually("it is read while the job runs", func() bool { _, reads := w.has(""); return reads >= before+4 })
	if took := time.Since(began); took < 2*time.Second {
		t.Errorf("read 4 times within %s", took)
	}
}

// A key that Redis refuses is logged once. Jobs go on, and it is read again later.
func TestFeatureWatchesRefusedKey(t *testing.T) {
	t.Parallel()
	b := daemontest.Setup(t, func(s *goworker.WorkerSettings) { s.PollInterval = 200 * time.Millisecond })
	w := watch(b)
	b.Redis.Do(t, "RPUSH", "resque:go:watcher", "a list")
	b.Start()
	b.Eventually("it is read several times", func() bool { _, reads := w.has(""); return reads > 2 })
	b.Push(daemontest.Jobs("Mark", 5)...)
	b.Eventually("jobs run", func() bool { return b.Stat("processed") == 5 })
	if n := b.Log.Count("Redis refuses a key; it is read again"); n != 1 {
		t.Errorf("logged %d times:\n%s", n, b.Log.Text())
	}
	b.Redis.Do(t, "DEL", "resque:go:watcher")
	b.Redis.Do(t, "SET", "resque:go:watcher", "repaired")
	w.sees(b, "repaired")
}

// The jobs that run can be found and cancelled one by one, by any goroutine, while others come and go.
func TestCancelOneJob(t *testing.T) {
	t.Parallel()
	b := daemontest.Setup(t)
	w := watch(b)
	b.Start()
	<-w.made
	running := <-w.made
	payload := func(class, id string) string {
		return `{"class":"` + class + `","args":["` + id + `"],"id":"` + id + `"}`
	}
	cancel := func(id string) (found bool) {
		for j := range running {
			if j.Opened() && j.Parsed.ID == id && strings.Contains(string(j.Payload), id) && j.Process != "" && j.Ticket > 0 {
				found = j.Cancel(goworker.ErrCancelled)
			}
		}
		return found
	}
	b.Push(payload("Hold", "one"), payload("Hold", "two"))
	for n := range 200 {
		b.Push(payload("Mark", "other"))
		cancel("nobody")
		if n == 100 {
			b.Eventually("both wait in their handlers", func() bool { return b.Runs.Starts("one") == 1 && b.Runs.Starts("two") == 1 })
			b.Eventually("it is cancelled", func() bool { return cancel("one") })
		}
	}
	b.Eventually("its handler is cancelled", func() bool { return errors.Is(b.Runs.Cause("one"), goworker.ErrCancelled) })
	b.Eventually("it has failed", func() bool { return len(b.Failures()) == 1 })
	if f := b.Failures()[0]; f.Exception != "Resque::DirtyExit" || b.Runs.Cause("two") != nil {
		t.Errorf("%+v; the other one: %v", f, b.Runs.Cause("two"))
	}
	b.Open()
	b.Eventually("the other jobs are done", func() bool { return b.Runs.Ends("two") == 1 && b.Runs.Ends("other") == 200 })
	b.Eventually("no job is left", func() bool {
		for range running {
			return false
		}
		return true
	})
}
