package daemon

import (
	"strings"
	"testing"
	"time"

	"github.com/goworker/goworker/internal/daemontest"
	"github.com/goworker/goworker/internal/resque"
)

// A clean stop leaves no key of the process behind, whatever was done to its keys while
// it ran.
func TestCleanStopAfterDamage(t *testing.T) {
	t.Parallel()
	for damaged, held := range map[string]bool{ // whether a job runs meanwhile
		"go:processes": true, "go:process:<p>": true, "go:inflight:<p>": true, "go:recovered": true,
		"workers": true, "workers:heartbeat": true, "queues": true,
		"go:reaped:<p>": false, // it would be the job of another process
	} {
		for _, wrong := range []time.Duration{0, 2 * time.Second} {
			t.Run(damaged+" "+wrong.String(), func(t *testing.T) {
				t.Parallel()
				b := daemontest.Setup(t)
				b.Start()
				b.Idle()
				b.Push(daemontest.Jobs("Mark", 20)...)
				b.Eventually("they are counted", func() bool { return b.Stat("processed") == 20 })
				if held {
					b.Push(daemontest.Job("Hold", "held"))
					b.Eventually("a job is held", func() bool { return b.Runs.Started() == 22 })
				}
				old := b.Process()
				key := "resque:" + strings.ReplaceAll(damaged, "<p>", old)
				if wrong > 0 {
					b.Redis.Do(t, "SET", key, "wrong")
					time.Sleep(wrong)
					if strings.HasPrefix(damaged, "go:reaped:") { // a job that it reserves meanwhile is one for another process
						b.Eventually("it has another name", func() bool { return b.Process() != old })
					}
				}
				b.Redis.Do(t, "DEL", key)
				b.Push(daemontest.Jobs("Mark", 40)[20:]...)
				b.Open()
				b.Eventually("all jobs run", func() bool { return b.Runs.Ends("Mark039") == 1 && b.Runs.Finished() == b.Runs.Started() })
				if err := b.Stop(); err != nil {
					t.Error(err)
				}
				b.OnlyLasting()
			})
		}
	}
}

// Nor does one that comes soon after the process was found dead, which took several tries
// to come back because a key was of the wrong type.
func TestCleanStopAfterLostLease(t *testing.T) {
	t.Parallel()
	for _, key := range []string{"", "workers", "workers:heartbeat", "go:processes", "go:recovered", "queues"} {
		t.Run(key, func(t *testing.T) {
			t.Parallel()
			b := daemontest.Setup(t)
			b.Start()
			b.Idle()
			old := b.Process()
			c := b.Redis.Dial(t)
			b.Eventually("it is found dead", func() bool { // between two renewals
				fenced, err := resque.New("").Fence(c, old, b.Redis.Text(t, "ZSCORE", "resque:go:processes", old))
				if err != nil {
					t.Fatal(err)
				}
				return fenced
			})
			if key != "" {
				key := "resque:" + key
				b.Ensure(key)
				b.Redis.Do(t, "RENAME", key, "saved")
				b.Redis.Do(t, "SET", key, "wrong")
				b.Eventually("it tried to come back", func() bool { return b.Log.Count("taking a new lease")+b.Log.Count("in the fleet again") >= 1 })
				b.Redis.Do(t, "RENAME", "saved", key)
			}
			b.Eventually("it is back", func() bool { return b.Process() != old })
			b.Push(daemontest.Jobs("Mark", 20)...)
			b.Eventually("all jobs run", func() bool { return b.Runs.Finished() == 21 })
			if err := b.Stop(); err != nil {
				t.Error(err)
			}
			b.Redis.Do(t, "HDEL", "resque:go:recovered", "none")
			b.OnlyLasting()
		})
	}
}

// Nor does a start that Redis refuses.
func TestRefusedStartLeavesNothing(t *testing.T) {
	t.Parallel()
	for _, key := range []string{"resque:workers", "resque:workers:heartbeat"} {
		t.Run(key, func(t *testing.T) {
			t.Parallel()
			b := daemontest.Setup(t)
			b.Redis.Do(t, "SET", key, "wrong")
			b.Start()
			if err := b.Wait(); err == nil || !strings.Contains(err.Error(), "the key "+key+" is not a") {
				t.Errorf("the start says %v", err)
			}
			b.Redis.Do(t, "DEL", key)
			b.OnlyLasting()
		})
	}
}
