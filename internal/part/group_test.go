package part

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/goworker/goworker/internal/clock"
)

var errAway, errBug = errors.New("away"), errors.New("bug")

// member returns a member that fails to start so often, with err, and then runs until it is
// cancelled and returns end.
func member(name string, fails int, err, end error) *Member {
	m := &Member{Name: name, Outages: base().Outages}
	m.Run = func(ctx context.Context) error {
		if fails--; fails >= 0 {
			return err
		}
		m.Began()
		<-ctx.Done()
		return end
	}
	return m
}

func group(members ...*Member) *Group {
	return NewGroup(clock.System, members, func(err error) bool { return errors.Is(err, errAway) }, func(err error) bool { return errors.Is(err, errBug) })
}

func ended(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func TestGroupTriesAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		late, soon := member("late", 5, errAway, nil), member("soon", 0, nil, errors.New("broken"))
		g := group(late, soon)
		g.Start(t.Context())
		synctest.Wait()
		if !soon.began.Load() || late.began.Load() {
			t.Error("the members wait for each other")
		}
		for range 5 {
			if ended(g.Failed) || ended(g.Ended) {
				t.Fatal("the group ended")
			}
			wait := clock.System.NewTimer(BackoffMost)
			<-wait.C()
		}
		if !late.began.Load() {
			t.Error("the late member was not tried again")
		}
		g.Stop()
		if g.Errs[0] != nil || g.Errs[1] == nil || g.Errs[1].Error() != "soon: broken" {
			t.Errorf("the errors are %v", g.Errs)
		}
	})
}

func TestGroupFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := group(member("one", 0, nil, nil), member("other", 1, errors.New("wrong password"), nil))
		g.Start(t.Context())
		<-g.Failed
		if ended(g.Ended) {
			t.Error("the other member was stopped")
		}
		g.Stop()
		if g.Errs[0] != nil || g.Errs[1] == nil || g.Errs[1].Error() != "other: wrong password" {
			t.Errorf("the errors are %v", g.Errs)
		}
	})
}

// A member that ends with a fatal error is a reason to end the others.
func TestGroupFailsWhileItRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bad := &Member{Name: "bad", Outages: base().Outages}
		bad.Run = func(context.Context) error { bad.Began(); return errBug }
		g := group(member("good", 0, nil, nil), bad)
		g.Start(t.Context())
		<-g.Failed
		if ended(g.Ended) {
			t.Error("the group did not leave the end of the others to its parts")
		}
		g.Stop()
	})
}

// A stop while a member cannot be started is no error, and does not wait.
func TestGroupStopsWhileItWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := group(member("away", 1<<30, errAway, nil))
		g.Start(t.Context())
		synctest.Wait()
		before := clock.System.Now()
		g.Stop()
		if waited := clock.Since(clock.System, before); g.Errs[0] != nil || waited > 0 {
			t.Errorf("the stop took %v and returned %v", waited, g.Errs[0])
		}
	})
}
