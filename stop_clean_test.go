package goworker

import (
	"strings"
	"testing"
	"time"

	"github.com/goworker/goworker/internal/resque"
)

// onlyLasting fails the test if go: keys are left other than tombstones, which last
// a day, and what the start tries the permissions on.
func (b *bundle) onlyLasting() {
	b.t.Helper()
	for key, value := range b.redis.Dump(b.t, "resque:go:") {
		if !strings.HasPrefix(key, "resque:go:reaped:") && !strings.HasPrefix(key, "resque:go:probe:") {
			b.t.Errorf("the key %s is left: %v", key, value)
		}
	}
	for _, key := range []string{"resque:workers", "resque:workers:heartbeat"} {
		if b.redis.Int(b.t, "EXISTS", key) == 1 {
			b.t.Errorf("the key %s is left: %v", key, b.redis.Dump(b.t, "")[key])
		}
	}
	if b.t.Failed() {
		b.t.Log(b.log.text())
	}
}

// A clean stop leaves no key of the process behind, whatever was done to its keys while
// it ran.
func TestCleanStopAfterDamage(t *testing.T) {
	t.Parallel()
	for key, held := range map[string]bool{ // whether a job runs meanwhile
		"go:processes": true, "go:process:<p>": true, "go:inflight:<p>": true, "go:recovered": true,
		"workers": true, "workers:heartbeat": true, "queues": true,
		"go:reaped:<p>": false, // it would be the job of another process
	} {
		for _, wrong := range []time.Duration{0, 2 * time.Second} {
			t.Run(key+" "+wrong.String(), func(t *testing.T) {
				t.Parallel()
				b := setup(t)
				b.start()
				b.idle()
				b.push(jobs("Mark", 20)...)
				b.eventually("they are counted", func() bool { return b.stat("processed") == 20 })
				if held {
					b.push(job("Hold", "held"))
					b.eventually("a job is held", func() bool { return b.runs.started() == 22 })
				}
				key := "resque:" + strings.ReplaceAll(key, "<p>", b.process())
				if wrong > 0 {
					b.redis.Do(t, "SET", key, "wrong")
					time.Sleep(wrong)
				}
				b.redis.Do(t, "DEL", key)
				b.push(jobs("Mark", 40)[20:]...)
				b.open()
				b.eventually("all jobs run", func() bool { return b.runs.ends("Mark039") == 1 && b.runs.finished() == b.runs.started() })
				if err := b.stop(); err != nil {
					t.Error(err)
				}
				b.onlyLasting()
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
			b := setup(t)
			b.start()
			b.idle()
			old := b.process()
			lease := b.redis.Text(t, "ZSCORE", "resque:go:processes", old)
			if fenced, err := resque.New("").Fence(b.redis.Dial(t), old, lease); !fenced || err != nil {
				t.Fatal(fenced, err)
			}
			if key != "" {
				key := "resque:" + key
				b.ensure(key)
				b.redis.Do(t, "RENAME", key, "saved")
				b.redis.Do(t, "SET", key, "wrong")
				b.eventually("it tried to come back", func() bool { return b.log.count("taking a new lease")+b.log.count("in the fleet") >= 2 })
				b.redis.Do(t, "RENAME", "saved", key)
			}
			b.eventually("it is back", func() bool { return b.process() != old })
			b.push(jobs("Mark", 20)...)
			b.eventually("all jobs run", func() bool { return b.runs.finished() == 21 })
			if err := b.stop(); err != nil {
				t.Error(err)
			}
			b.redis.Do(t, "HDEL", "resque:go:recovered", "none")
			b.onlyLasting()
		})
	}
}

// Nor does a start that Redis refuses.
func TestRefusedStartLeavesNothing(t *testing.T) {
	t.Parallel()
	for _, key := range []string{"resque:workers", "resque:workers:heartbeat"} {
		t.Run(key, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.redis.Do(t, "SET", key, "wrong")
			b.start()
			if err := b.wait(); err == nil || !strings.Contains(err.Error(), "WRONGTYPE") {
				t.Errorf("the start says %v", err)
			}
			b.redis.Do(t, "DEL", key)
			b.onlyLasting()
		})
	}
}
