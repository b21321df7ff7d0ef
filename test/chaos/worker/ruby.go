package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/gomodule/redigo/redis"
)

// rubyScheduler does what resque-scheduler 5 with redis-rb 4 does, in its steps: it asks
// for the lock, moves delayed jobs while it has it, and fires the schedule "shared". It
// asks more often than each five seconds. With TERM it gives the lock back.
type rubyScheduler struct {
	c     redis.Conn
	self  string
	every int64 // seconds between ticks
}

const (
	rubyLock = "resque:resque:resque_scheduler_master_lock"
	rubyPoll = 100 * time.Millisecond
)

func runRubyScheduler(addr string, every int64) error {
	c, err := redis.Dial("tcp", addr)
	if err != nil {
		return err
	}
	r := rubyScheduler{c: c, self: fmt.Sprintf("localhost:%d", os.Getpid()), every: every}
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM)
	next := time.Unix((time.Now().Unix()/every+1)*every, 0)
	for {
		wait := min(rubyPoll, time.Until(next))
		select {
		case <-stop:
			if r.master() {
				_, err = c.Do("DEL", rubyLock)
			}
			return err
		case <-time.After(wait):
		}
		master := r.master()
		if !time.Now().Before(next) {
			if master {
				r.fire(next)
			}
			next = next.Add(time.Duration(every) * time.Second)
		}
		if master {
			r.move()
		}
		if c.Err() != nil {
			return c.Err()
		}
	}
}

// master takes the lock or keeps it, unless another scheduler has it.
func (r rubyScheduler) master() bool {
	got, _ := redis.Int(r.c.Do("EVAL", `if redis.call('SETNX', KEYS[1], ARGV[1]) == 1 then
  redis.call('EXPIRE', KEYS[1], 180)
  return 1
end
return 0`, 1, rubyLock, r.self))
	if got == 1 {
		return true
	}
	kept, _ := redis.Int(r.c.Do("EVAL", `if redis.call('GET', KEYS[1]) == ARGV[1] then
  redis.call('EXPIRE', KEYS[1], 180)
  if redis.call('GET', KEYS[1]) == ARGV[1] then return 1 end
end
return 0`, 1, rubyLock, r.self))
	return kept == 1
}

func (r rubyScheduler) fire(tick time.Time) {
	_, _ = r.c.Do("SADD", "resque:queues", "ticks")
	_, _ = r.c.Do("RPUSH", "resque:queue:ticks", fmt.Sprintf(`{"class":"Tick","args":["shared","%s"],"by":"ruby"}`, tick.UTC().Format(time.RFC3339Nano)))
	_, _ = r.c.Do("HSET", "resque:delayed:last_enqueued_at", "shared", time.Now().Format("2006-01-02 15:04:05 -0700"))
}

// move enqueues the jobs of each second that is over, up to a hundred in one transaction.
func (r rubyScheduler) move() {
	for {
		due, err := redis.Strings(r.c.Do("ZRANGEBYSCORE", "resque:delayed_queue_schedule", "-inf", time.Now().Unix(), "LIMIT", 0, 1))
		if err != nil || len(due) == 0 {
			return
		}
		for r.moveSome(due[0]) == 100 {
		}
		if r.c.Err() != nil {
			return
		}
	}
}

func (r rubyScheduler) moveSome(second string) int {
	bucket := "resque:delayed:" + second
	items, _ := redis.Strings(r.c.Do("LRANGE", bucket, 0, 99))
	_, _ = r.c.Do("WATCH", bucket)
	_ = r.c.Send("MULTI")
	for _, item := range items {
		var job struct {
			Class, Queue string
			Args         []json.RawMessage
		}
		_ = json.Unmarshal([]byte(item), &job)
		args, _ := json.Marshal(job.Args)
		_ = r.c.Send("SREM", "resque:timestamps:"+item, "delayed:"+second)
		_ = r.c.Send("SADD", "resque:queues", job.Queue)
		_ = r.c.Send("RPUSH", "resque:queue:"+job.Queue, fmt.Sprintf(`{"class":%s,"args":%s}`, strconv.Quote(job.Class), args))
	}
	_ = r.c.Send("LTRIM", bucket, 100, -1)
	if reply, err := r.c.Do("EXEC"); reply == nil && err == nil {
		return 100 // another job was delayed to this second meanwhile: again
	}
	if len(items) < 100 { // clean_up_timestamp
		_, _ = r.c.Do("WATCH", bucket)
		if left, err := redis.Int(r.c.Do("LLEN", bucket)); err != nil || left > 0 {
			_, _ = r.c.Do("UNWATCH")
			return len(items)
		}
		_ = r.c.Send("MULTI")
		_ = r.c.Send("DEL", bucket)
		_ = r.c.Send("ZREM", "resque:delayed_queue_schedule", second)
		_, _ = r.c.Do("EXEC")
	}
	return len(items)
}
