package link

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/goworker/goworker/internal/clock"
	"github.com/goworker/goworker/internal/logging"
	"github.com/goworker/goworker/internal/meter"
	"github.com/goworker/goworker/internal/part"
)

// Keeper keeps the poller connected. It dials another Link when one broke, and asks again for
// tracking if a server refused it. It belongs to the poller's goroutine, except for Exchanges.
type Keeper struct {
	// Keys are notified beside those of queues and lanes, once they are watched. They are set before Dial.
	Keys []string

	// Noticed is called, on a goroutine of the link's, when a field of the notice of processes has changed. It does not wait. It
	// is set before Dial; nil: nothing listens.
	Noticed func(field string)

	base     part.Base
	track    bool
	interval time.Duration
	signal   chan<- struct{}
	replies  chan Reply
	dialed   chan Dialed

	link      *Link // nil: there is none now
	dialing   bool  // a goroutine makes one, and sends it on dialed
	retry     part.Backoff
	retrackAt time.Time // when to ask again for tracking; zero: Redis tracks, or we did not ask
	refusals  int       // how often in a row it was refused
	said      logging.Once

	// The poller's goroutine writes these, and others read them.
	served atomic.Int64 // exchanges that Redis has answered
	last   atomic.Int64 // when it answered the last one, in nanoseconds; 0: none
}

// Dialed is the end of an attempt to connect.
type Dialed struct {
	link *Link
	err  error
}

// The keeper asks a server that refused tracking again after a second, then after two, and so on up
// to 17 minutes. The server may have been slow, or its user may have got the permission since.
const (
	retrackFirst     = time.Second
	retrackDoublings = 10
)

// owner is the name under which outages are reported.
const owner = "poller"

// NewKeeper returns a Keeper that is not connected. Track says whether to ask for tracking; without
// it the poller looks at the queues each interval. The signal channel gets a value, if it has room,
// whenever the link has something to take.
func NewKeeper(b part.Base, track bool, interval time.Duration, signal chan<- struct{}) *Keeper {
	return &Keeper{
		base: b.Of(owner), track: track, interval: interval, signal: signal,
		replies: make(chan Reply, 1), dialed: make(chan Dialed, 1),
	}
}

// Link returns the link; nil if there is none now.
func (k *Keeper) Link() *Link { return k.link }

// Replies is where the answers to exchanges arrive.
func (k *Keeper) Replies() <-chan Reply { return k.replies }

// Dialed is where attempts to connect end; see Take.
func (k *Keeper) Dialed() <-chan Dialed { return k.dialed }

// Dial starts to connect, unless an attempt is in progress. It waits first if the last one failed.
func (k *Keeper) Dial(ctx context.Context) {
	if k.dialing {
		return
	}
	k.dialing = true
	wait := k.base.Clock.NewTimer(k.retry.Attempt())
	go func() {
		d := Dialed{err: errDialer}
		defer func() { k.dialed <- d }() // however it ends: Stop waits for it
		defer k.base.Catch(owner)
		defer wait.Stop()
		select {
		case <-wait.C():
		case <-ctx.Done():
			d.err = ctx.Err()
			return
		}
		d.link, d.err = Dial(ctx, k.base, k.track, PingEvery, k.signal, k.replies, k.Noticed, k.Keys...)
	}()
}

// Take takes the end of an attempt, and reports whether there is a link now.
func (k *Keeper) Take(d Dialed) bool {
	k.dialing = false
	if d.err != nil {
		k.base.Outages.Fail(owner, d.err)
		return false
	}
	k.link = d.link
	k.base.Meter.Add(meter.Connected, 1)
	k.base.Meter.Track(k.track && d.link.Untracked == nil)
	if err := d.link.Untracked; err == nil {
		k.retrackAt, k.refusals = time.Time{}, 0
	} else {
		if text := whyUntracked(err, k.interval); k.said.News("tracking", text) {
			k.base.Log.Warn(text)
		}
		k.retrackAt = k.base.Clock.Now().Add(retrackFirst << min(k.refusals, retrackDoublings))
		k.refusals++
	}
	return true
}

// RetrackAt returns when Retrack has something to do; zero if it has nothing.
func (k *Keeper) RetrackAt() time.Time { return k.retrackAt }

// Retrack closes the link, and dials another, when it is time to ask again for tracking.
// It reports whether it did.
func (k *Keeper) Retrack(ctx context.Context, now time.Time) bool {
	if k.retrackAt.IsZero() || now.Before(k.retrackAt) {
		return false
	}
	k.retrackAt = time.Time{}
	k.shut()
	k.Dial(ctx)
	return true
}

// Lose closes a link that broke. An exchange in flight comes back as an error.
func (k *Keeper) Lose(err error) {
	k.base.Outages.Fail(owner, err)
	k.shut()
}

// Served is called after each exchange that Redis has answered: how long that took, and how many jobs it committed and reserved.
func (k *Keeper) Served(now time.Time, took time.Duration, jobs int) {
	k.base.Meter.Exchanged(took, jobs)
	k.served.Add(1)
	k.last.Store(now.UnixNano())
	k.base.Outages.OK(owner)
	k.retry.Reset()
}

// Exchanges returns how many exchanges Redis has answered, and when it answered the last one. Any
// goroutine may call it.
func (k *Keeper) Exchanges() (n int64, last time.Time) {
	if at := k.last.Load(); at != 0 {
		last = time.Unix(0, at)
	}
	return k.served.Load(), last
}

// Info says when Redis answered the last exchange. Any goroutine may call it.
func (k *Keeper) Info() any {
	n, last := k.Exchanges()
	if n == 0 {
		return "no exchange yet"
	}
	return fmt.Sprintf("%d exchanges, the last %s ago", n, clock.Since(k.base.Clock, last).Round(time.Millisecond))
}

func (k *Keeper) shut() {
	if l := k.link; l != nil {
		k.link = nil
		k.base.Meter.Track(false)
		l.Shut()
	}
}

// Stop closes the connections, also those that are being made. The context of Dial has ended.
func (k *Keeper) Stop() {
	if k.dialing {
		k.dialing = false
		if d := <-k.dialed; d.err == nil {
			d.link.Shut()
		}
	}
	k.shut()
}
