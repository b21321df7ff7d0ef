package await

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/goworker/goworker/internal/clock"
	"github.com/goworker/goworker/internal/conn"
	"github.com/goworker/goworker/internal/link"
	"github.com/goworker/goworker/internal/part"
	"github.com/goworker/goworker/internal/resque"
)

const (
	// pingEvery is how often an idle connection is tried. A server that stopped to track is noticed so.
	pingEvery = 2 * time.Second

	// readMost is how many documents are read in one go, and readBytes is about how large their results may be
	// together.
	readMost  = 512
	readBytes = 4 << 20

	// retrackAfter is when a server that refused to track is asked again.
	retrackAfter = time.Minute

	// owner is the name under which outages are reported.
	owner = "await"
)

// run serves the waiters until there is none for a while. After an outage it reads all documents again.
func (w *Watcher) run() {
	var retry part.Backoff
	for {
		wait := w.base.Clock.NewTimer(retry.Attempt())
		select {
		case <-wait.C():
		case <-w.ctx.Done():
			wait.Stop()
			return
		}
		if w.idle() {
			return
		}
		s, err := w.dial()
		served := err == nil
		if served {
			err = s.serve(&retry)
			s.pair.Shut()
		}
		switch {
		case errors.Is(err, errIdle), w.ctx.Err() != nil:
			return
		case err != nil:
			w.attempted(err, !served)
			w.base.Outages.Fail(owner, err)
		default: // it is time to ask for tracking again
			retry.Reset()
		}
	}
}

// session is one life of the pair of connections.
type session struct {
	*Watcher
	pair    *link.Pair
	poll    time.Duration // how often all documents are read; 0: Redis notifies us
	retrack time.Time     // when the session ends because tracking is asked for again; zero: never
	most    int           // documents to read in one go
}

// dial connects, and begins by reading all documents.
func (w *Watcher) dial() (*session, error) {
	poll, known := conn.PollInterval(w.base.Dialer)
	var tracking *link.Tracking
	if w.track && !known {
		tracking = &link.Tracking{Start: w.base.Store.TrackReads, Receive: w.base.Store.ReceiveDocuments}
	}
	pair, err := link.DialPair(w.ctx, w.base, tracking, pingEvery, w.signal)
	if err != nil {
		return nil, err
	}
	s := &session{Watcher: w, pair: pair, most: readMost}
	switch {
	case known:
		s.poll = min(poll, PollEvery)
	case pair.Wake == nil:
		s.poll = PollEvery
	}
	if err := pair.Untracked; err != nil {
		s.retrack = w.base.Clock.Now().Add(retrackAfter)
		text := fmt.Sprintf("Redis cannot tell when a job is over, so those that are waited for are read every %s: %s", s.poll, link.WhyUntracked(err))
		if w.said.News("tracking", text) {
			w.base.Log.Warn(text)
		}
	}
	w.changed(nil, true)
	return s, nil
}

// serve reads what is to be read until a connection breaks or there is no waiter.
func (s *session) serve(retry *part.Backoff) error {
	timer := s.base.Clock.NewTimer(part.Never)
	defer timer.Stop()
	var pollAt, idleAt time.Time
	for {
		if asks := s.take(s.most); len(asks) > 0 {
			if err := s.read(asks); err != nil {
				return err
			}
			retry.Reset()
			s.attempted(nil, false)
			s.base.Outages.OK(owner)
		}
		now := s.base.Clock.Now()
		jobs, due := s.waiters()
		wait := part.Never
		sooner := func(at time.Time) { wait = min(wait, clock.Until(s.base.Clock, at)) }
		if jobs > 0 {
			idleAt = time.Time{}
		} else if idleAt.IsZero() {
			idleAt = now.Add(s.linger)
		}
		switch {
		case due:
			wait = 0
		case jobs == 0:
			sooner(idleAt)
		case s.poll > 0:
			if pollAt.IsZero() {
				pollAt = now.Add(s.poll)
			}
			sooner(pollAt)
		}
		if wait > 0 {
			timer.Reset(wait)
			select {
			case <-s.signal:
			case <-timer.C():
			case <-s.ctx.Done():
				return context.Cause(s.ctx)
			}
		}
		now = s.base.Clock.Now()
		polled := !pollAt.IsZero() && !now.Before(pollAt)
		if polled {
			pollAt = time.Time{}
		}
		changed, all, broken := s.pair.Take()
		if broken != nil {
			return broken
		}
		s.changed(changed, all || polled)
		switch {
		case !idleAt.IsZero() && !now.Before(idleAt) && s.idle():
			return errIdle
		case !s.retrack.IsZero() && !now.Before(s.retrack):
			return nil
		case s.pair.Prove():
			if _, err := s.pair.Conn.Do("PING"); conn.MustRedial(err) {
				return err
			}
		}
	}
}

// read reads documents and gives them to their waiters.
func (s *session) read(asks []resque.DocumentAsk) error {
	s.pair.Used()
	size := 1
	err := s.base.Store.ReadDocuments(s.pair.Conn, asks, func(i int, r resque.DocumentRead) {
		size += len(r.Result)
		s.give(asks[i].ID, r)
	})
	s.most = max(1, min(readMost, 2*s.most, len(asks)*readBytes/size+1))
	return err
}
