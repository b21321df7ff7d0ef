package fleet

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/clock"
	"github.com/goworker/goworker/internal/conn"
	"github.com/goworker/goworker/internal/depth"
	"github.com/goworker/goworker/internal/duty"
	"github.com/goworker/goworker/internal/meter"
	"github.com/goworker/goworker/internal/part"
	"github.com/goworker/goworker/internal/resque"
)

// Lease keeps this process in the fleet. It renews the lease, which protects the process's jobs.
// It also renews the registration and heartbeats of its workers, which Ruby's tools read. It is
// a part that outlives the workers. All methods but Start and Stop are safe for concurrent use.
type Lease struct {
	*Clock
	*members

	caps atomic.Pointer[Caps]

	// Status is what the workers report to. It is a part of its own.
	Status *Status

	// These are set before Start.
	Owner  Owner
	Slots  Slots
	Riders []Rider
	Heir   Heir
	Ends   Ends
	Buried func(process string) // called when a process was found dead and its jobs are back; nil: nothing hears of it

	base      part.Base
	config    Config
	loop      *part.Loop
	reaper    *reaper
	registrar *registrar
	keeper    *duty.Keeper
	taken     *depth.Count
	depths    *depth.Keeper
	session   atomic.Pointer[Session]
	held      atomic.Int64 // when the lease was last renewed, by our clock, in nanoseconds
	lapsed    atomic.Bool  // Redis may have lost the workers' registration

	// These are for the loop's goroutine, and for Start and Stop while it does not run.
	line   conn.Line
	parent context.Context // of the sessions' contexts
	beaten time.Time       // the last heartbeat; zero: the workers are to be registered
	former []string        // identities of this process that may still be in the fleet
	cargo  Cargo           // what the riders have the next renewal carry
	beats  beats

	releases releases
}

// New returns a lease that is not taken yet.
func New(b part.Base, c Config) *Lease {
	l := &Lease{
		base: b, Clock: NewClock(b.Clock), members: &members{vigil: vigil{store: b.Store}},
		config: c, line: b.Line(0),
	}
	l.SetCaps(c.Caps)
	l.Status = newStatus(b, c.Workers, l.Session)
	l.reaper = newReaper(l)
	l.registrar = newRegistrar(l)
	l.keeper = duty.New(b.Store, resque.Duties, l)
	l.beats.lease, l.releases.lease = l, l
	l.taken, l.depths = depth.NewCount(b), depth.NewKeeper(b, l)
	l.loop = part.NewLoop(b, "lease", l.turn)
	l.loop.Grace = part.Forever // a reply that is not read would leave open whether the lease is held
	return l
}

// Session returns the present session; nil before Start has taken the lease.
func (l *Lease) Session() *Session { return l.session.Load() }

// Process returns as whom this process is in the fleet now.
func (l *Lease) Process() resque.Process { return l.Session().Process }

// Self returns the id of this process in the fleet.
func (l *Lease) Self() string { return l.Session().Process.ID }

// Worker returns the id of this process's first worker.
func (l *Lease) Worker() string { return l.Session().Worker(0) }

// Wake has the lease renewed now.
func (l *Lease) Wake() { l.loop.Wake() }

// RegisterAgain has the workers registered and their status written now, because Redis lost what
// it knew of this process.
func (l *Lease) RegisterAgain() {
	l.lapsed.Store(true)
	l.loop.Wake()
	l.Status.again()
}

// Sweep has the reaper look at all keys as soon as possible, for what is left of dead processes.
func (l *Lease) Sweep() { l.reaper.scanner.sweep() }

// Silent reports whether the lease was not renewed for so long that another process may have
// taken the jobs. This process stood still then, or Redis did.
func (l *Lease) Silent(now time.Time) bool {
	return now.UnixNano()-l.held.Load() >= int64(LeasePeriod)
}

// Renewed returns when the lease was last renewed; zero: it was never taken.
func (l *Lease) Renewed() (at time.Time) {
	if held := l.held.Load(); held != 0 {
		at = time.Unix(0, held)
	}
	return at
}

// Info says when the lease was renewed.
func (l *Lease) Info() any {
	return fmt.Sprintf("renewed %s ago", clock.Since(l.base.Clock, l.Renewed()).Round(time.Millisecond))
}

// Owed returns for how long the loop that renews the lease has owed a turn. It is called after Start.
func (l *Lease) Owed() time.Duration { return l.loop.Owed() }

func (l *Lease) turn(ctx context.Context) (wait time.Duration, err error) {
	return renewEvery, l.beat(ctx)
}

// beat renews the lease and, when it is time, sends the heartbeats.
func (l *Lease) beat(ctx context.Context) error {
	session := l.Session()
	asked := l.base.Clock.Now()
	renewed, err := l.renew(ctx, session.Process.ID, l.keeper.Behind())
	beaten := l.beats.end(&l.cargo.Cargo, renewed.Due.Now)
	switch {
	case errors.Is(err, resque.ErrReaped):
		return l.lost(ctx, session)
	case errors.Is(err, resque.ErrGone):
		l.beaten = time.Time{}
		l.cargo.outlive()
		l.reaper.scanner.sweep() // other processes may have lost their records too
		l.Owner.RecordGone(session)
		return nil
	case err != nil:
		return err
	}
	l.held.Store(asked.UnixNano())
	if l.saw(session.Process.ID, renewed); renewed.All {
		l.keeper.Read()
	}
	l.reaper.observe(l.reaper.withStuck(renewed.Dead(), renewed.Fenced()), renewed.Processes, renewed.Due.Now)
	renewed.Due.Asked = asked
	for _, r := range l.riders() {
		r.Answered(l.Leads(), renewed.Due)
	}
	l.Owner.LeaseHeld(session)
	if l.lapsed.Swap(false) || l.line.Renewed() {
		l.beaten = time.Time{}
	}
	if beaten && !l.beaten.IsZero() {
		l.beaten = asked
	}
	if !l.due(asked) || !l.registrar.sending.TryLock() {
		return nil // the registrar sends ids now: they come with the next renewal
	}
	defer l.registrar.sending.Unlock()
	if err = l.heartbeat(ctx, session, renewed.Due.Now); err != nil {
		l.beaten = time.Time{}
		if out(err) {
			l.loop.Wake() // the next renewal looks after it
			return nil
		}
		return err
	}
	l.beaten = asked
	return nil
}

// due reports whether it is time for the workers' heartbeats.
func (l *Lease) due(now time.Time) bool { return now.Sub(l.beaten) >= HeartbeatEvery }

// renew renews the lease and sets the clock by the answer. It reads the members of the fleet unless another process is one of them.
func (l *Lease) renew(ctx context.Context, process, other string) (renewed resque.Renewed, err error) {
	Load(&l.cargo, l.riders())
	err = l.line.Do(ctx, func(c redis.Conn) (err error) {
		return l.cargo.Send(l.base.Log, func(cargo *resque.Cargo) (err error) {
			if renewed, err = l.base.Store.RenewBehind(c, process, other, LeasePeriod, renewalGap, cargo); err == nil {
				l.Saw(renewed.Due.Now)
			}
			return err
		})
	})
	return renewed, err
}

// Keeps reports whether this process is the keeper of the fleet, which has the duties that older releases do not know: see
// duty.Keeper.
func (l *Lease) Keeps() bool { return l.keeper.Keeps() }

// Took counts jobs that this process took from a queue; negative: they went back. The next renewal says it.
func (l *Lease) Took(queue string, n int) { l.taken.Took(queue, n) }

// riders are all that ride.
func (l *Lease) riders() []Rider {
	return append([]Rider{l.keeper, &l.vigil, &l.beats, &l.releases, l.taken, l.depths}, l.Riders...)
}

// heartbeat sends the workers' heartbeats, while the registrar sends nothing. It registers the workers where that was not done, or
// was undone by another program.
func (l *Lease) heartbeat(ctx context.Context, s *Session, now time.Time) error {
	return l.line.Do(ctx, func(c redis.Conn) error {
		ids := s.names.Load().registered
		if !l.beaten.IsZero() {
			if removed, err := l.base.Store.Heartbeat(c, s.Process.ID, ids, now); removed == 0 {
				return err
			}
		}
		return l.base.Store.Register(c, s.Process.ID, ids, s.Process.Started, now)
	})
}

// lost ends a session whose jobs another process has taken, and begins another session.
func (l *Lease) lost(ctx context.Context, old *Session) error {
	if old.ctx.Err() == nil {
		old.end(l.config.Lost)
		l.former = append(l.former, old.Process.ID)
		l.base.Meter.Add(meter.LeaseLost, 1)
		l.base.Log.Error("this process was silent for so long that others found it dead and took its jobs; "+
			"cancelling them here and starting again under a new identity", "process", old.Process.ID)
	}
	if err := l.enter(ctx); err != nil {
		return fmt.Errorf("taking a new lease: %w", l.nameKey(ctx, err))
	}
	l.keeper.Forget()
	l.cargo.outlive(l.base.Store.ProcessKey(old.Process.ID), l.base.Store.DepthsKey())
	l.Status.again()
	l.Owner.LeaseLost(old)
	return nil
}
