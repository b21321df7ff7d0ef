package jobs

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/goworker/goworker"
	"github.com/goworker/goworker/internal/daemontest"
)

const (
	// Both return the second in which the lock was got or kept, or 0.
	rubyAcquire = `if redis.call('TIME')[1] ~= ARGV[2] then return -1 end
		if redis.call('SETNX', KEYS[1], ARGV[1]) == 1 then redis.call('EXPIRE', KEYS[1], 180) return redis.call('TIME')[1] end return 0`
	rubyKeep = `if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('EXPIRE', KEYS[1], 180) return redis.call('TIME')[1] end return 0`
)

// rubyScheduler takes the steps of a resque-scheduler process. It asks for the lock at
// its start and then each five seconds. As the holder it moves delayed jobs and fires
// the schedule "cron" each second. It asks in the middle of a second, and when that second's tick
// is fired, so that no tick comes while it gets the lock and loads its schedule.
type rubyScheduler struct {
	c     redis.Conn
	asked int
	next  time.Time // its next tick; zero: it does not hold the lock
}

func (r *rubyScheduler) script(text string, now time.Time) (second int64) {
	second, _ = redis.Int64(r.c.Do("EVAL", text, 1, daemontest.RubyLock, "ruby:1428", now.Unix()))
	return second
}

// fired reports whether the tick of the current second is.
func (r *rubyScheduler) fired(now time.Time) bool {
	last, _ := redis.String(r.c.Do("LINDEX", "resque:queue:cron", -1))
	return strings.Contains(last, now.UTC().Truncate(time.Second).Format(time.RFC3339))
}

// run takes the steps until the condition holds. The lock must come within some tries.
func (r *rubyScheduler) run(t *testing.T, tries int, until func() bool) {
	t.Helper()
	ask := time.Now().Truncate(time.Second).Add(1500 * time.Millisecond)
	for begun := time.Now(); !until(); {
		now := time.Now()
		if now.Sub(begun) > daemontest.Soon {
			t.Fatal("Ruby's scheduler did not get on")
		}
		if second := int64(-1); !now.Before(ask) && (!r.next.IsZero() || r.fired(now)) {
			if second = r.script(rubyAcquire, now); second < 0 && r.next.IsZero() {
				continue // another second has begun
			}
			if r.asked++; r.asked > tries && r.next.IsZero() && second == 0 {
				t.Fatalf("Ruby's scheduler asked for the lock %d times and did not get it; it is held by %s", tries, r.holder())
			}
			ask = ask.Add(5 * time.Second)
			if second = max(second, r.script(rubyKeep, now)); second <= 0 {
				r.next = time.Time{}
			} else if r.next.IsZero() {
				r.next = time.Unix(second+1, 0)
			}
			if !r.next.IsZero() {
				r.move(now)
			}
		}
		for !r.next.IsZero() && !now.Before(r.next) { // all of them, if this process stood still
			_, _ = r.c.Do("RPUSH", "resque:queue:cron", fmt.Sprintf(`{"class":"Tick","args":["%s"],"by":"ruby"}`, r.next.UTC().Format(time.RFC3339Nano)))
			_, _ = r.c.Do("HSET", "resque:delayed:last_enqueued_at", "cron", now.UTC().Format("2006-01-02 15:04:05 -0700"))
			r.next = r.next.Add(time.Second)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func (r *rubyScheduler) holder() string {
	holder, _ := redis.String(r.c.Do("GET", daemontest.RubyLock))
	return holder
}

// move enqueues the delayed jobs that are due.
func (r *rubyScheduler) move(now time.Time) {
	due, _ := redis.Strings(r.c.Do("ZRANGEBYSCORE", "resque:delayed_queue_schedule", "-inf", now.Unix()))
	for _, second := range due {
		items, _ := redis.Strings(r.c.Do("LRANGE", "resque:delayed:"+second, 0, -1))
		for _, item := range items {
			_, _ = r.c.Do("SREM", "resque:timestamps:"+item, "delayed:"+second)
			_, _ = r.c.Do("RPUSH", "resque:queue:work", strings.Replace(item, `,"queue":"work"`, "", 1))
		}
		_, _ = r.c.Do("DEL", "resque:delayed:"+second)
		_, _ = r.c.Do("ZREM", "resque:delayed_queue_schedule", second)
	}
}

// With LeaveDelayed a Ruby scheduler gets the lock however often shared schedules tick,
// for nothing else moves its delayed jobs. Each tick is fired once, before, while and
// after it has the lock.
func TestLeaveDelayedLeavesTheLock(t *testing.T) {
	t.Parallel()
	b := daemontest.Setup(t, func(s *goworker.WorkerSettings) { s.LeaveDelayed = true })
	cron := goworker.Recurring{Cron: "* * * * * *", Class: "Tick", Queue: "cron", TickArg: true, Shared: true}
	b.Schedule("cron", cron)
	often := daemontest.EverySecond("often")
	often.Shared = true
	b.Schedule("often", often)
	b.Start()
	b.AtLeast(2, "cron")
	b.AtLeast(2, "often")
	if err := b.Daemon.EnqueueAt(time.Now().Add(time.Second), &goworker.Job{Queue: "work", Payload: goworker.Payload{Class: "Mark", Args: []any{"delayed"}}}); err != nil {
		t.Fatal(err)
	}

	ruby := rubyScheduler{c: b.Redis.Dial(t)}
	ruby.run(t, 3, func() bool { return !ruby.next.IsZero() })
	const fires = 4
	fired := func() (n int) {
		for _, text := range b.Queue("cron") {
			if strings.Contains(text, `"by":"ruby"`) {
				n++
			}
		}
		return n
	}
	ruby.run(t, 0, func() bool { return fired() >= fires && b.Runs.Ends("delayed") == 1 })
	ruby.run(t, 0, func() bool { // between its ticks
		now := time.Now()
		return ruby.next.After(now) && ruby.next.Sub(now) > 400*time.Millisecond
	})
	b.Redis.Do(t, "DEL", daemontest.RubyLock)

	last := len(b.Queue("cron"))
	b.AtLeast(last+3, "cron")
	b.AtLeast(last, "often") // the ticks that Ruby's scheduler left out too
	b.Steady(b.TicksIn("cron"), time.Second)
	b.Steady(b.TicksIn("often"), time.Second)
	if holder := ruby.holder(); holder != "" {
		t.Errorf("the lock is held by %s", holder)
	}
	if err := b.Stop(); err != nil {
		t.Error(err)
	}
}
