package gateway

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/conn"
	"github.com/goworker/goworker/internal/leased"
	"github.com/goworker/goworker/internal/link"
	"github.com/goworker/goworker/internal/neighbor"
	"github.com/goworker/goworker/internal/outcome"
	"github.com/goworker/goworker/internal/resque"
	"github.com/goworker/goworker/internal/resque/leases"
)

const (
	// readEvery is how often the keys are read that the features watch, where Redis does not notify of them.
	readEvery = time.Second

	// retrackFirst is when a server is asked again that refused to track, and then after twice as long, and so on.
	retrackFirst     = time.Second
	retrackDoublings = 10
)

// dialer makes the desk's connections. It belongs to the desk's goroutine.
type dialer struct {
	n        *neighbor.Neighbor
	store    leases.Store
	signal   chan<- struct{}
	count    *counts
	refusals int // how often in a row tracking was refused
	said     bool
}

// redisSide is a pair of connections: turns go over one, and Redis notifies of keys over the other.
type redisSide struct {
	*dialer
	pair      *link.Pair
	hangUp    context.CancelFunc
	watched   map[string]outcome.Watched // by key: what is read when it changes
	readAt    time.Time                  // when to read them, where Redis does not notify
	retrackAt time.Time                  // when to ask for tracking again; zero: it is on, or never
}

var errLate = fmt.Errorf("connecting to Redis took longer than %s; the server or this machine is overloaded", dialWithin)

// dial connects. The connection lives as long as the context, or until Close.
func (d *dialer) dial(ctx context.Context) (side, error) {
	ctx, hangUp := context.WithCancel(ctx)
	_, never := conn.PollInterval(d.n.Dialer)
	track := d.n.Tracking && !never
	s := &redisSide{dialer: d, hangUp: hangUp, watched: make(map[string]outcome.Watched)}
	var keys []string
	for _, w := range d.n.Features.Watched() {
		s.watched[w.Key] = w
		keys = append(keys, w.Key)
	}
	var tracking *link.Tracking
	if track {
		tracking = &link.Tracking{Start: d.store.Track, Receive: func(wake redis.Conn, timeout time.Duration) ([]string, bool, error) {
			return d.store.ReceiveChanges(wake, timeout, keys...)
		}}
	}
	late := d.n.Clock.AfterFunc(dialWithin, hangUp)
	pair, err := link.DialPair(ctx, d.n.Base, tracking, link.PingEvery, d.signal)
	if intime := late.Stop(); err != nil || !intime {
		if err == nil {
			pair.Shut()
		}
		hangUp()
		if !intime {
			err = errLate
		}
		return nil, err
	}
	s.pair = pair
	switch {
	case pair.Wake != nil:
		d.refusals = 0
	case !d.said:
		d.said = true
		d.n.Log.Warn("Redis cannot tell the HTTP server when a queue fills, so queues with waiting requests are looked at every "+lookEvery.String(), "why", whyUntracked(pair, track))
	}
	if pair.Wake == nil && track {
		s.retrackAt = d.n.Clock.Now().Add(retrackFirst << min(d.refusals, retrackDoublings))
		d.refusals++
	}
	d.count.connected(pair.Wake != nil)
	for _, w := range s.watched {
		if err := s.read(w); err != nil {
			s.Close()
			return nil, err
		}
	}
	return s, nil
}

func whyUntracked(p *link.Pair, asked bool) string {
	switch {
	case p.Untracked != nil:
		return link.WhyUntracked(p.Untracked)
	case asked:
		return "it does not track keys"
	default:
		return "tracking is off in the settings, or this Redis has none"
	}
}

func (s *redisSide) Turn(t *leases.Turn) (leases.Answer, error) {
	s.pair.Used()
	return s.store.Turn(s.pair.Conn, t)
}

func (s *redisSide) Served(server string, number int64) (int64, []leases.Job, error) {
	s.pair.Used()
	return s.store.Served(s.pair.Conn, server, number)
}

func (s *redisSide) Tracks() bool { return s.pair.Wake != nil }

func (s *redisSide) Broken() bool { return s.pair.Conn.Err() != nil }

func (s *redisSide) Close() {
	s.pair.Shut()
	s.hangUp()
}

// errRetrack has the desk connect again, to ask for tracking.
var errRetrack = errors.New("it is time to ask Redis again whether it tracks keys")

// Heed takes what Redis has notified of. It reads the watched keys that have changed.
func (s *redisSide) Heed() (queues []string, all bool, err error) {
	names, all, err := s.pair.Take()
	if err != nil {
		return nil, false, err
	}
	var stale []outcome.Watched
	now := s.n.Clock.Now()
	if !s.Tracks() {
		if !s.retrackAt.IsZero() && !now.Before(s.retrackAt) {
			return nil, false, errRetrack
		}
		if now.Before(s.readAt) {
			return nil, false, nil
		}
		s.readAt = now.Add(readEvery)
	}
	for _, name := range names {
		switch key, about := strings.CutPrefix(name, resque.KeyChanged); {
		case about:
			stale = append(stale, s.watched[key])
		case name == resque.PauseChanged, name == resque.PolicyChanged:
			all = true
		case !strings.HasPrefix(name, "\x00"):
			queues = append(queues, name)
		}
	}
	if all || !s.Tracks() {
		stale = stale[:0]
		for _, w := range s.watched {
			stale = append(stale, w)
		}
	}
	for _, w := range stale {
		if err := s.read(w); err != nil {
			return nil, false, err
		}
	}
	if s.pair.Prove() {
		s.pair.Used()
		if _, err := s.store.Now(s.pair.Conn); err != nil {
			return nil, false, err
		}
	}
	return queues, all, nil
}

// read reads a watched key. What Redis refuses of it is logged, and holds nothing up.
func (s *redisSide) read(w outcome.Watched) error {
	s.pair.Used()
	if s.Tracks() {
		if err := s.store.Arm(s.pair.Conn); err != nil {
			return err
		}
	}
	err := w.Read(s.pair.Conn)
	if err != nil && s.pair.Conn.Err() == nil {
		s.n.Log.Error("a key that says which jobs are cancelled could not be read", "key", w.Key, "error", err)
		return nil
	}
	return err
}

// Unwanted returns the ends of those jobs that were cancelled.
func (s *redisSide) Unwanted(ctx context.Context, jobs []leases.Job) (ends []leased.End) {
	live := s.n.Features.Dropping()
	for i := range jobs {
		if j := &jobs[i]; j.Fate == leases.Given && (live || j.Effects) {
			of := &outcome.Job{Reserved: resque.Reserved{Queue: j.Queue, Payload: j.Payload}}
			if o, dropped := s.n.Features.Unwanted(ctx, of); dropped {
				end := endOf(*j, leased.Cancelled)
				end.Err = o.Err
				ends = append(ends, end)
			}
		}
	}
	return ends
}
