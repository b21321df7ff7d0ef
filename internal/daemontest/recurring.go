package daemontest

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/goworker/goworker"
)

const MasterKey = "resque:resque:resque_scheduler_master_lock"

const RubyLock = "resque:resque:resque_scheduler_master_lock"

// EverySecond is a schedule whose ticks can be told apart.
func EverySecond(queue string) goworker.Recurring {
	return goworker.Recurring{Every: time.Second, Class: "Tick", Queue: queue, TickArg: true}
}

// TicksIn are the ticks whose jobs lie in a queue.
func (b *Bundle) TicksIn(queue string) (ticks []time.Time) {
	b.T.Helper()
	for _, text := range b.Queue(queue) {
		var p struct {
			Args []time.Time `json:"args"`
		}
		if err := json.Unmarshal([]byte(text), &p); err != nil || len(p.Args) != 1 {
			b.T.Fatalf("job %s: %v", text, err)
		}
		ticks = append(ticks, p.Args[0])
	}
	return ticks
}

// Steady fails unless the ticks are one period apart.
func (b *Bundle) Steady(ticks []time.Time, period time.Duration) {
	b.T.Helper()
	for i := 1; i < len(ticks); i++ {
		if d := ticks[i].Sub(ticks[i-1]); d != period {
			b.T.Errorf("tick %d of %d comes %v after the one before: %v", i, len(ticks), d, ticks)
		}
	}
}

func (b *Bundle) Schedule(name string, r goworker.Recurring) {
	b.T.Helper()
	if err := b.Daemon.Schedule(name, r); err != nil {
		b.T.Fatal(err)
	}
}

func (b *Bundle) AtLeast(n int, queue string) {
	b.T.Helper()
	b.Eventually(fmt.Sprintf("queue %s has %d jobs", queue, n), func() bool { return len(b.Queue(queue)) >= n })
}

// Removed waits until the process that fired a schedule has noted that it has it no more.
func (b *Bundle) Removed(schedule string) {
	b.T.Helper()
	b.Eventually(schedule+" is left to others", func() bool {
		return strings.Contains(b.Redis.Text(b.T, "HGET", "resque:go:ticks", schedule), " -")
	})
}

func (b *Bundle) Unschedule(name string) {
	b.T.Helper()
	if was, err := b.Daemon.Unschedule(name); !was || err != nil {
		b.T.Fatalf("%s is unscheduled: %v, %v", name, was, err)
	}
}
