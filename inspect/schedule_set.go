package inspect

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/prefix"
	"github.com/goworker/goworker/internal/queues"
	"github.com/goworker/goworker/internal/recurring"
	"github.com/goworker/goworker/internal/resque"
)

// ErrSchedule is in the error for a schedule that cannot be kept in Redis: it is no entry of resque-scheduler, or Ruby's schedulers would not read
// it as goworker does.
var ErrSchedule = prefix.New("the schedule cannot be kept in Redis")

// SetSchedule keeps a recurring schedule in Redis, as resque-scheduler's set_schedule does with persist: daemons with DynamicSchedule and Ruby's
// schedulers in dynamic mode have it within seconds. config is an entry of a schedule.yml as JSON. Its cron is written in a form that Ruby reads too,
// and fields that only Ruby knows stay. It replaces the one of that name, and returns what that was; nil: there was none. The error matches
// ErrSchedule if the config cannot be kept; nothing was changed then.
//
// Over shards the schedule stays where it is. A new one goes to the first shard.
func (i *Inspector) SetSchedule(ctx context.Context, name string, config json.RawMessage) (was json.RawMessage, err error) {
	if err := i.usable(); err != nil {
		return nil, err
	}
	text, err := keepable(name, config)
	if err != nil {
		return nil, prefix.Errorf("%w: %w", ErrSchedule, err)
	}
	one := i.all()[0]
	switch s, err := i.Schedule(ctx, name); {
	case err != nil && !errors.Is(err, ErrUnknownSchedule):
		return nil, err
	case err == nil && s.Kept:
		one, was = i.at(s.shard), s.Config
	}
	err = one.do(ctx, func(s resque.Store, c redis.Conn) error { return s.SaveSchedule(c, name, text) })
	return was, one.recordOld(ctx, "SetSchedule", "schedule "+name, string(was), once(err == nil), err)
}

// keepable is the config as it is kept.
func keepable(name string, config json.RawMessage) ([]byte, error) {
	s, err := recurring.Read(name, string(config))
	if err != nil {
		return nil, err
	}
	if err := queues.CheckName(s.Queue, resque.New("").KeyOfQueue("")); err != nil {
		return nil, s.About(err)
	}
	text, err := s.Persistent()
	if err != nil {
		return nil, err
	}
	var all, own map[string]json.RawMessage
	if err := json.Unmarshal(config, &all); err != nil {
		return nil, s.About(err)
	}
	if err := json.Unmarshal(text, &own); err != nil {
		return nil, s.About(err)
	}
	further := false
	for field, value := range all {
		if !slices.Contains(recurring.Fields, field) {
			own[field], further = value, true
		}
	}
	if !further {
		return text, nil
	}
	return json.Marshal(own)
}

// SchedulerLock is the lock of the schedulers of Ruby and of node-resque: its holder moves the delayed jobs of their schedule and fires the schedules that they
// share with daemons.
type SchedulerLock struct {
	Key    string
	Holder string        // "host:pid"; of a daemon too
	Left   time.Duration // until it ends by itself; 0: it does not

	Shard string // of several Redises, the one where it is
}

// SchedulerLocks returns the locks of schedulers that are held. Ruby's prefix of its key is not known to Redis: a lock with one is not seen.
func (i *Inspector) SchedulerLocks(ctx context.Context) (locks []SchedulerLock, err error) {
	err = i.each(func(one *Inspector) error {
		held, err := query(ctx, one, func(s resque.Store, c redis.Conn) ([]resque.HeldKey, error) { return s.SchedulerLocks(c) })
		for _, l := range held {
			if l.Holder == "" {
				continue
			}
			lock := SchedulerLock{Key: l.Key, Holder: l.Holder, Left: l.Left, Shard: one.shard()}
			if l.Left == resque.Never {
				lock.Left = 0
			}
			locks = append(locks, lock)
		}
		return err
	})
	return locks, err
}

// RubyRetry is what the plugin resque-retry keeps of a delayed job: of all jobs that are equal to it.
type RubyRetry struct {
	Attempt   int // which run the job waits for; 0: the plugin knows nothing of it
	Exception string
	Error     string // why the run before failed; "" where the plugin does not keep it
}

// RubyRetries returns what resque-retry keeps of jobs that were found in resque-scheduler's schedule, in their order. That of others is zero. It sends
// two commands to each Redis, for at most MaxPage jobs.
func (i *Inspector) RubyRetries(ctx context.Context, jobs []Entry) ([]RubyRetry, error) {
	if len(jobs) > MaxPage {
		return nil, fmt.Errorf("goworker: %d jobs; ask for at most %d", len(jobs), MaxPage)
	}
	out := make([]RubyRetry, len(jobs))
	err := i.each(func(one *Inspector) error {
		var at []int
		var of []resque.RetryOf
		for n, e := range jobs {
			if e.Plain && e.Invalid == nil && e.shard == one.number {
				at, of = append(at, n), append(of, resque.RetryOf{Class: e.Class, Args: e.Args})
			}
		}
		if len(of) == 0 {
			return nil
		}
		kept, err := query(ctx, one, func(s resque.Store, c redis.Conn) ([]resque.KeptRetry, error) { return s.ReadRetries(c, of) })
		for n, k := range kept {
			out[at[n]] = RubyRetry{Attempt: k.Attempt, Exception: k.Exception, Error: k.Error}
		}
		return err
	})
	return out, err
}
