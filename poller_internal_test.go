package goworker

import (
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goworker/goworker/internal/clock"
	"github.com/goworker/goworker/internal/health"
	"github.com/goworker/goworker/internal/part"
	"github.com/goworker/goworker/internal/resque"
	"github.com/goworker/goworker/internal/share"
)

// A poller gives workers that it does not use to others too when an exchange that asks for
// no jobs gets no answer.
func TestPollerWakesWhileItHoldsSpareWorkers(t *testing.T) {
	t.Parallel()
	p := &poller{share: share.NewPool(4).Join(4, func() {}), sent: new(resque.Exchange), sentAt: time.Now()}
	p.slots.Take(0)
	p.share.Acquire(2, 2)
	if at := p.wakeAt(); !at.Equal(p.overdue()) {
		t.Errorf("wakes at %v, want %v", at, p.overdue())
	}
	p.share.Acquire(1, 1)
	if at := p.wakeAt(); !at.IsZero() {
		t.Errorf("wakes at %v with nothing to give", at)
	}
}

// A poller that is late is left behind only if it has not returned when the whole stop is over.
func TestPollerThatIsLate(t *testing.T) {
	t.Parallel()
	d := New(WorkerSettings{QueuesString: "work", Logger: slog.New(slog.DiscardHandler)})
	c, err := d.init(true)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	d.running = new(run)
	d.prepare(t.Context(), c)
	err = d.poller.leftovers(false)
	var late part.Later
	if !errors.As(err, &late) {
		t.Fatalf("it says %v for good", err)
	}
	var left *ShutdownError
	if err := late.Later(); !errors.As(err, &left) || !slices.Equal(left.Parts, []string{"poller"}) {
		t.Errorf("while it goes on: %v", err)
	}
	close(d.poller.ended)
	if err := late.Later(); err != nil {
		t.Errorf("when it has returned with nothing left: %v", err)
	}
}

// A poller that hangs makes a probe of liveness fail: after a minute more than the settings let Redis take,
// and not before.
func TestHungPollerIsNotLive(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := New(WorkerSettings{QueuesString: "work", Logger: slog.New(slog.DiscardHandler)})
		c, err := d.init(true)
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		d.running = new(run)
		d.prepare(t.Context(), c)
		if h := d.Health(); !h.Live || h.Ready {
			t.Errorf("while it starts: %+v", h)
		}
		_, asked := d.poller.inbox.take()
		for _, f := range asked {
			f() // the poller's only sign of life
		}
		wait := func(d time.Duration) { clock.Sleep(clock.System, d) }
		limits := 2 * (c.config.ConnectTimeout + c.config.ReadTimeout + c.config.WriteTimeout)
		if h := d.Health(); !h.Live { // asks, and gets no answer
			t.Errorf("%+v", h)
		}
		wait(limits + health.HungAfter - time.Second)
		if h := d.Health(); !h.Live {
			t.Errorf("while it may wait for Redis: %+v", h)
		}
		wait(2 * time.Second)
		if h := d.Health(); h.Live || h.Ready || !strings.Contains(h.Reasons[0], "seems to hang: restart the process") {
			t.Errorf("when it hangs: %+v", h)
		}
	})
}
