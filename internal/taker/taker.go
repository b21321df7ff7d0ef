// Package taker keeps a server that takes jobs for clients among those that operators see, and has it do what daemons do
// where none lives: it moves delayed jobs to their queues when they are due.
package taker

import (
	"context"
	"strings"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/clock"
	"github.com/goworker/goworker/internal/conn"
	"github.com/goworker/goworker/internal/depth"
	"github.com/goworker/goworker/internal/fleet"
	"github.com/goworker/goworker/internal/logging"
	"github.com/goworker/goworker/internal/part"
	"github.com/goworker/goworker/internal/record"
	"github.com/goworker/goworker/internal/resque"
	"github.com/goworker/goworker/internal/resque/leases"
	"github.com/goworker/goworker/internal/scheduler"
)

const (
	// renewEvery is how often a server renews its record, and lease how long the record counts.
	renewEvery = 2 * time.Second
	lease      = 8 * time.Second

	// checkEvery is how often the server looks for daemons of releases that do not know leases.
	checkEvery = time.Minute

	// stopWithin is how long a renewal may go on that has begun at the stop.
	stopWithin = 2 * time.Second
)

// Config is what a Taker says of its server.
type Config struct {
	leases.Taker
	Tracking   bool // Redis may be asked to notify of changed keys
	MultiQueue bool // each queue has its own failure list
	NoHistory  bool // the taker counts nothing for the history, and folds nothing

	// Do lends a connection for a renewal; nil: the taker has its own.
	Do func(ctx context.Context, f func(redis.Conn) error) error

	// Now adds what changes: how many requests wait, and for which queues. nil: nothing.
	Now func(*leases.Taker)
}

// Rider gets with each renewal what Redis answered about delayed jobs and leases. It may be a fleet.Carrier.
type Rider interface {
	// Answered does not wait for Redis. leads says whether this server does what no daemon does.
	Answered(leads bool, due resque.Due)
}

// Taker is a part of a server. Its methods are safe for concurrent use.
type Taker struct {
	base   part.Base
	config Config
	store  leases.Store
	time   *fleet.Clock
	riders []Rider
	taken  *depth.Count

	// History counts what becomes of the jobs of this server.
	History *record.History
	lock    *scheduler.Lock
	pump    *scheduler.Pump
	loop    *part.Loop
	leads   atomic.Bool

	// of the loop's goroutine
	line    conn.Line
	renewed time.Time // when the last renewal was sent that was answered
	checked time.Time
	said    logging.Once
	cargo   fleet.Cargo // what the riders have the next renewal carry
}

// New returns a Taker that sets a clock to Redis's with each renewal.
func New(b part.Base, now *fleet.Clock, c Config, riders ...Rider) *Taker {
	t := &Taker{base: b, config: c, store: leases.New(b.Store), time: now, line: b.Line(0)}
	t.lock = scheduler.NewLock(b, scheduler.LockConfig{}, member{t})
	t.pump = scheduler.NewPump(b, scheduler.PumpConfig{
		Tracking: c.Tracking, Interval: renewEvery / 2, MultiQueue: c.MultiQueue,
	}, t.lock, member{t})
	t.taken = depth.NewCount(b)
	t.History = record.New(b, record.Config{
		Off: c.NoHistory, Now: now.Now, Keeps: t.Leads, Steps: true, Do: t.do,
		Taker: func() (id, version string, key resque.Key) { return c.ID, c.Version, t.store.TakerKey(c.ID) },
	})
	t.riders = append(riders, t.pump, t.taken, depth.NewKeeper(b, member{t}), t.History)
	t.loop = part.NewLoop(b, "taker", t.turn)
	t.loop.Grace = stopWithin
	return t
}

// Start renews the record for the first time, so that a server which Redis refuses does not start, and starts the loop.
func (t *Taker) Start(ctx context.Context) error {
	if err := t.renew(ctx); err != nil {
		t.line.Close()
		return err
	}
	if err := t.pump.Start(ctx); err != nil {
		t.line.Close()
		return err
	}
	_ = t.History.Start(ctx)
	t.loop.Start(ctx)
	return nil
}

// Stop stops it and removes the record.
func (t *Taker) Stop(ctx context.Context) error {
	_ = t.History.Stop(ctx)
	t.loop.Stop(ctx)
	err := t.pump.Stop(ctx)
	if err := fleet.Unload(ctx, &t.cargo, t.riders, func(ctx context.Context) error {
		return t.do(ctx, func(c redis.Conn) error {
			_, _, err := t.send(c, t.about())
			return err
		})
	}); err != nil {
		t.base.Log.Debug("what this server counted last was not written at the stop", "server", t.config.ID, "error", err)
	}
	if left := t.do(ctx, func(c redis.Conn) error {
		if err := t.lock.Leaving(c); err != nil {
			return err
		}
		return t.store.LeaveTaker(c, t.config.ID)
	}); left != nil {
		t.base.Log.Debug("the record of this server was not removed at the stop; it goes in some seconds", "server", t.config.ID, "error", left)
	}
	t.line.Close()
	return err
}

// do runs f on a connection.
func (t *Taker) do(ctx context.Context, f func(redis.Conn) error) error {
	if t.config.Do != nil {
		return t.config.Do(ctx, f)
	}
	return t.line.Do(ctx, f)
}

// Took counts jobs that clients of this server were given of a queue; negative: they went back. The next renewal says it.
func (t *Taker) Took(queue string, n int) { t.taken.Took(queue, n) }

// Leads reports whether this server does what no daemon does.
func (t *Taker) Leads() bool { return t.leads.Load() }

func (t *Taker) turn(ctx context.Context) (time.Duration, error) {
	if err := t.renew(ctx); err != nil {
		return 0, err
	}
	return renewEvery, nil
}

// about is what the server says of itself now.
func (t *Taker) about() leases.Taker {
	about := t.config.Taker
	if t.config.Now != nil {
		t.config.Now(&about)
	}
	return about
}

func (t *Taker) renew(ctx context.Context) error {
	about := t.about()
	fleet.Load(&t.cargo, t.riders)
	return t.do(ctx, func(c redis.Conn) error {
		leads, due, err := t.send(c, about)
		if err != nil {
			return err
		}
		t.time.Saw(due.Now)
		t.leads.Store(leads)
		for _, r := range t.riders {
			r.Answered(leads, due)
		}
		return t.check(c)
	})
}

// send renews the record with what is to be carried.
func (t *Taker) send(c redis.Conn, about leases.Taker) (leads bool, due resque.Due, err error) {
	asked := t.base.Clock.Now()
	if t.cargo.Unsure() && asked.Sub(t.renewed) >= lease {
		t.cargo.Clear() // the record may be gone that says whether the writes were done
	}
	err = t.cargo.Send(t.base.Log, func(cargo *resque.Cargo) (err error) {
		leads, due, err = t.store.RenewTaker(c, about, lease, cargo)
		return err
	})
	if err == nil {
		t.renewed, due.Asked = asked, asked
	}
	return leads, due, err
}

// check warns of daemons whose releases do not know leases: they give the locks of jobs that clients hold to other jobs,
// run jobs more often than they have tries, and do not end leases.
func (t *Taker) check(c redis.Conn) error {
	if !t.checked.IsZero() && clock.Since(t.base.Clock, t.checked) < checkEvery {
		return nil
	}
	t.checked = t.base.Clock.Now()
	unaware, err := t.store.Unaware(c, resque.KnowsLeases)
	if conn.Classify(err) == conn.KindNoPerm {
		return nil
	}
	if err != nil {
		return err
	}
	var old []string
	for _, p := range unaware {
		old = append(old, p.ID)
	}
	if len(old) > 0 && t.said.News("releases", strings.Join(old, " ")) {
		t.base.Log.Warn("daemons of an older release do not know that clients hold jobs: they may run a unique job or a step a second time; update them",
			"processes", old)
	}
	return nil
}

// member is the server as the schedulers of a fleet know it.
type member struct{ *Taker }

func (m member) Self() string      { return m.config.ID }
func (m member) Worker() string    { return m.config.ID }
func (m member) Alive(string) bool { return true }

// Keeps and Members are for the ages of queues: a server follows them where no daemon does.
func (m member) Keeps() bool       { return m.Leads() }
func (m member) Members() []string { return nil }
