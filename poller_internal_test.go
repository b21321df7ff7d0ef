package goworker

import (
	"testing"
	"time"

	"github.com/goworker/goworker/internal/resque"
	"github.com/goworker/goworker/internal/share"
)

// A poller gives workers that it does not use to others too when an exchange that asks for
// no jobs gets no answer.
func TestPollerWakesWhileItHoldsSpareWorkers(t *testing.T) {
	t.Parallel()
	p := &poller{share: share.NewPool(4).Join(4, func() {}), sent: new(resque.Exchange), sentAt: time.Now(), busy: 1}
	p.share.Acquire(2, 2)
	if at := p.wakeAt(); !at.Equal(p.overdue()) {
		t.Errorf("wakes at %v, want %v", at, p.overdue())
	}
	p.share.Acquire(1, 1)
	if at := p.wakeAt(); !at.IsZero() {
		t.Errorf("wakes at %v with nothing to give", at)
	}
}
