package goworker

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/goworker/goworker/internal/watch"
)

func TestPauseQueue(t *testing.T) {
	t.Parallel()
	tests := map[string]func(*WorkerSettings){
		"told": func(s *WorkerSettings) { s.QueuesString = "work,other" },
		"polling": func(s *WorkerSettings) {
			s.QueuesString, s.DisableTracking, s.PollInterval = "work,other", true, 50*time.Millisecond
		},
		"wildcard": func(s *WorkerSettings) { s.QueuesString = "*" },
	}
	for name, change := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t, change)
			b.start()
			b.idle()
			if err := b.daemon.PauseQueue("work"); err != nil {
				t.Fatal(err)
			}
			b.eventually("the daemon knows of the pause", func() bool { return b.paused("work") })
			b.push(job("Mark", "a"))
			b.pushTo("other", job("Mark", "b"))
			b.eventually("the other queue's job runs", func() bool { return b.runs.ends("b") == 1 })
			if paused, err := b.daemon.PausedQueues(); err != nil || !slices.Equal(paused, []string{"work"}) {
				t.Errorf("paused are %q, %v", paused, err)
			}
			b.renewed(1)
			if n := len(b.queue("work")); n != 1 || b.runs.starts("a") != 0 {
				t.Errorf("%d jobs are in the paused queue, want 1", n)
			}
			if err := b.daemon.ResumeQueue("work"); err != nil {
				t.Fatal(err)
			}
			b.eventually("the job runs when the pause is over", func() bool { return b.runs.ends("a") == 1 })
		})
	}
}

// paused asks the poller whether it holds a queue for paused.
func (b *bundle) paused(queue string) bool {
	p, answer := b.daemon.currentPoller(), make(chan bool)
	p.ask(func() { answer <- p.source.(*watch.Order).Lanes().Paused(queue) })
	return <-answer
}

// Only single queues can be paused. What an older version put among the paused ones can
// be taken out again.
func TestPauseQueueNeedsAName(t *testing.T) {
	t.Parallel()
	b := setup(t)
	defer b.daemon.Close()
	for _, name := range []string{"", "mail_*", "mail?", "[a-c]", "{a,b}", "!mail"} {
		for what, f := range map[string]func(string) error{"pause": b.daemon.PauseQueue, "resume": b.daemon.ResumeQueue} {
			if err := f(name); err == nil || name != "" && !strings.Contains(err.Error(), strconv.Quote(name)+" is not one queue") {
				t.Errorf("%s %q: %v", what, name, err)
			}
		}
		func() {
			defer func() {
				if v := recover(); !strings.Contains(fmt.Sprint(v), "LimitQueue") {
					t.Errorf("LimitQueue(%q) panics with %v", name, v)
				}
			}()
			b.daemon.LimitQueue(name, Concurrency(1))
		}()
	}
	if paused, err := b.daemon.PausedQueues(); err != nil || len(paused) > 0 {
		t.Errorf("paused are %q, %v", paused, err)
	}
	b.redis.Do(t, "SADD", "resque:go:paused", "mail_*")
	if err := b.daemon.ResumeQueue("mail_*"); err != nil {
		t.Error(err)
	}
	if paused, err := b.daemon.PausedQueues(); err != nil || len(paused) > 0 {
		t.Errorf("paused are %q, %v", paused, err)
	}
	if err := b.daemon.ResumeQueue("mail"); err != nil {
		t.Errorf("a queue that is not paused: %v", err)
	}
}

// A queue that is paused when a daemon starts is not touched.
func TestPauseQueueBeforeTheStart(t *testing.T) {
	t.Parallel()
	b := setup(t, func(s *WorkerSettings) { s.QueuesString = "work,other" })
	b.redis.Do(t, "SADD", "resque:go:paused", "work")
	b.push(job("Mark", "a"))
	b.pushTo("other", job("Mark", "b"))
	b.start()
	b.eventually("the other queue's job runs", func() bool { return b.runs.ends("b") == 1 })
	if b.runs.starts("a") != 0 {
		t.Error("the paused queue's job ran")
	}
	b.redis.Do(t, "SREM", "resque:go:paused", "work")
	b.eventually("the job runs when the pause is over", func() bool { return b.runs.ends("a") == 1 })
}

// A queue of sorted jobs is paused like any other, and a key of another type pauses nobody.
func TestPauseSortedQueue(t *testing.T) {
	t.Parallel()
	b := setup(t, func(s *WorkerSettings) { s.QueuesString = "work,other" })
	b.redis.Do(t, "SET", "resque:go:paused", "what is this")
	b.daemon.Register("One", func(id string) { b.runs.start(id); b.runs.end(id) }, Concurrency(1))
	b.start()
	b.push(job("One", "a"))
	b.eventually("a first job runs", func() bool { return b.runs.ends("a") == 1 })
	b.redis.Do(t, "DEL", "resque:go:paused")
	b.redis.Do(t, "SADD", "resque:go:paused", "work")
	b.eventually("the daemon knows of the pause", func() bool { return b.paused("work") })
	b.push(job("One", "b"))
	b.pushTo("other", job("Mark", "c"))
	b.eventually("the other queue's job runs", func() bool { return b.runs.ends("c") == 1 })
	if b.runs.starts("b") != 0 {
		t.Error("the paused queue's job ran")
	}
	b.redis.Do(t, "DEL", "resque:go:paused")
	b.eventually("the job runs when the pause is over", func() bool { return b.runs.ends("b") == 1 })
}
