package part

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/goworker/goworker/internal/clock"
	"github.com/goworker/goworker/internal/logging"
)

// Group runs several daemons at once. A daemon that cannot be started is tried again until it
// can; the others work meanwhile.
//
//   - Start returns when the goroutines run. It is called once.
//   - Stop ends all members and waits for them.
//   - Ended is closed when all members have ended. Then Errs are theirs.
//   - Failed is closed when a member cannot be started and waiting will not help, or when one has
//     ended with a fatal error.
type Group struct {
	Ended  chan struct{}
	Failed chan struct{}
	Errs   []error // by member; nil: it ended without one

	members []*Member
	passes  func(error) bool
	fatal   func(error) bool
	clock   clock.Clock
	cancel  context.CancelFunc
	once    sync.Once // closes Failed
	wg      sync.WaitGroup
}

// Member is one daemon of a Group.
type Member struct {
	// Name is what errors call the member.
	Name string

	// Run works until the context is cancelled. Once it has started it calls Began.
	Run func(context.Context) error

	// Outages logs once that the member cannot be started.
	Outages *logging.Outages

	began atomic.Bool
}

// Began says that the member has started. An error of its Run is final from then on.
func (m *Member) Began() {
	m.began.Store(true)
	m.Outages.OK("start")
}

// NewGroup returns a group. passes reports whether what keeps a member from starting may pass
// by itself. fatal reports whether the error of a member that had started is a reason to end all.
func NewGroup(c clock.Clock, members []*Member, passes, fatal func(error) bool) *Group {
	return &Group{
		Ended: make(chan struct{}), Failed: make(chan struct{}), Errs: make([]error, len(members)),
		members: members, passes: passes, fatal: fatal, clock: c,
	}
}

// Start runs the members until Stop is called or all have ended by themselves.
func (g *Group) Start(ctx context.Context) {
	ctx, g.cancel = context.WithCancel(ctx)
	for i, m := range g.members {
		g.wg.Go(func() {
			if err := g.keep(ctx, m); err != nil {
				g.Errs[i] = fmt.Errorf("%s: %w", m.Name, err)
			}
		})
	}
	go func() {
		g.wg.Wait()
		g.cancel()
		close(g.Ended)
	}()
}

// Stop ends the members and returns when all have ended.
func (g *Group) Stop() {
	g.cancel()
	<-g.Ended
}

// keep runs a member, and runs it again if it could not be started.
func (g *Group) keep(ctx context.Context, m *Member) error {
	var retry Backoff
	for {
		m.began.Store(false)
		err := m.Run(ctx)
		began := m.began.Load()
		switch {
		case err == nil, !began && ctx.Err() != nil:
			return nil
		case began:
			if g.fatal(err) {
				g.once.Do(func() { close(g.Failed) })
			}
			return err
		case !g.passes(err):
			g.once.Do(func() { close(g.Failed) })
			return err
		}
		m.Outages.Fail("start", err)
		timer := g.clock.NewTimer(retry.Next())
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-timer.C():
		}
	}
}
