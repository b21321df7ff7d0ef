package daemon

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/internal/daemontest"
)

// Eight daemons of one queue are paused, resumed, stopped and started at random, so sentries come and go. Every job that is pushed
// meanwhile runs, once. Then eight jobs come that do not end, and each daemon runs one.
func TestSentriesComeAndGo(t *testing.T) {
	t.Parallel()
	b := daemontest.Setup(t, func(s *goworker.WorkerSettings) { s.Concurrency = 1 })
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	type member struct {
		*goworker.Daemon
		stop   func()
		paused bool
	}
	begin := func() *member {
		m := &member{Daemon: goworker.New(b.Settings)}
		b.Register(m.Daemon)
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() { ended <- m.Run(ctx) }()
		stopped := false
		m.stop = func() {
			if stopped {
				return
			}
			stopped = true
			cancel()
			if err := <-ended; err != nil {
				t.Error(err)
			}
			m.Close()
		}
		t.Cleanup(m.stop)
		return m
	}
	all := make([]*member, 8)
	for i := range all {
		all[i] = begin()
	}
	t.Cleanup(b.Open)
	present := func() bool { return b.Redis.Int(t, "ZCARD", "resque:go:processes") == len(all) }
	b.Eventually("all are in the fleet", present)
	pushed := 0
	b.Eventually("four have seats and four wait", func() bool {
		b.Push(daemontest.Job("Mark", fmt.Sprint(pushed)))
		pushed++
		b.Reaches("the job runs", pushed, b.Runs.Finished)
		keys := b.Redis.List(t, "KEYS", "resque:go:sentries:*")
		return len(keys) == 1 && b.Redis.Int(t, "ZCOUNT", keys[0], 0, 0) == 4 && b.Redis.Int(t, "ZCARD", keys[0]) == len(all)
	})
	for range 80 {
		m := all[random.IntN(len(all))]
		switch random.IntN(16) {
		case 0, 1, 2, 3:
			m.Pause()
			m.paused = true
		case 4, 5, 6, 7, 8:
			m.Resume()
			m.paused = false
		case 9:
			if m.stop(); random.IntN(2) == 0 {
				b.Push(daemontest.Job("Mark", fmt.Sprintf("between %d", pushed)))
				pushed++
			}
			*m = *begin()
		}
		var payloads []string
		for range 1 + random.IntN(2)*random.IntN(30) {
			payloads = append(payloads, daemontest.Job("Mark", fmt.Sprint(pushed)))
			pushed++
		}
		b.Push(payloads...)
		paused := 0
		for _, m := range all {
			if m.paused {
				paused++
			}
		}
		if paused < len(all) {
			b.Reaches(fmt.Sprintf("all jobs run (seed %d)", seed), pushed, b.Runs.Finished)
		}
	}
	for _, m := range all {
		m.Resume()
	}
	b.Exactly(pushed)
	b.Eventually("all are in the fleet", present)
	for i := range all {
		b.Push(daemontest.Job("Hold", fmt.Sprint("held ", i)))
	}
	b.Reaches("each daemon has a job", pushed+len(all), b.Runs.Started)
	b.Open()
	b.Exactly(pushed + len(all))
}
