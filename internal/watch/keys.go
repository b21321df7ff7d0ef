package watch

import (
	"slices"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/logging"
	"github.com/goworker/goworker/internal/outcome"
	"github.com/goworker/goworker/internal/part"
	"github.com/goworker/goworker/internal/resque"
)

// keys are what features watch in Redis. It belongs to the poller's goroutine. A key is read when Redis
// has notified that it has changed, and not otherwise. Where there is no tracking, time decides.
type keys struct {
	base     part.Base
	all      []key
	busy     func() bool // a worker has a job
	interval time.Duration
	tracking bool
	due      bool // one of them is
	said     logging.Once
}

type key struct {
	outcome.Watched
	due     bool      // it may have changed
	read    time.Time // when it was read last
	refused bool      // Redis refused that
}

// busyInterval is how often keys are read while a worker has a job, where Redis does not track them.
const busyInterval = time.Second

func newKeys(b part.Base, watched []outcome.Watched, busy func() bool, interval time.Duration) keys {
	k := keys{base: b, busy: busy, interval: interval}
	for _, w := range watched {
		k.all = append(k.all, key{Watched: w})
	}
	k.forget()
	return k
}

// forget has all keys read.
func (k *keys) forget() {
	for i := range k.all {
		k.all[i].due, k.due = true, true
	}
}

// changed takes the names that Redis reported as changed, and returns those that are about no key.
func (k *keys) changed(names []string) (others []string) {
	if len(k.all) == 0 || len(names) == 0 {
		return names
	}
	return slices.DeleteFunc(names, func(name string) bool {
		changed, is := strings.CutPrefix(name, resque.KeyChanged)
		for i := range k.all {
			if is && k.all[i].Key == changed {
				k.all[i].due, k.due = true, true
			}
		}
		return is
	})
}

// committed takes what the poller's own connection has written. Redis does not report that, and
// stops watching the key after it.
func (k *keys) committed(effects []resque.Effect) {
	for i := range k.all {
		if slices.ContainsFunc(effects, func(e resque.Effect) bool { return e.Writes(k.all[i].Key) }) {
			k.all[i].due, k.due = true, true
		}
	}
}

// wrote takes the keys that the answer to a commit names: a verb may write one that is not a key of its effect.
func (k *keys) wrote(names []string) {
	for i := range k.all {
		if slices.Contains(names, k.all[i].Key) {
			k.all[i].due, k.due = true, true
		}
	}
}

// again returns when a key is read although nothing was reported; zero: never.
func (k *keys) again(of *key) time.Time {
	switch {
	case of.refused, !k.tracking && !k.busy():
		return of.read.Add(k.interval)
	case !k.tracking:
		return of.read.Add(min(busyInterval, k.interval))
	}
	return time.Time{}
}

// next returns when the next key is read although nothing was reported; zero: never.
func (k *keys) next() (at time.Time) {
	for i := range k.all {
		if again := k.again(&k.all[i]); at.IsZero() || !again.IsZero() && again.Before(at) {
			at = again
		}
	}
	return at
}

// Read has features read the keys that may have changed. No exchange is under way on the connection. It
// returns an error of the connection. What Redis refuses is logged once, and tried again after an
// interval.
func (o *Order) Read(c redis.Conn, now time.Time) error {
	k := &o.keys
	if at := k.next(); !k.due && (at.IsZero() || now.Before(at)) {
		return nil
	}
	k.due = false
	for i := range k.all {
		of := &k.all[i]
		if at := k.again(of); !of.due && (at.IsZero() || now.Before(at)) {
			continue
		}
		of.due, of.read = false, now
		var err error
		if k.tracking {
			err = k.base.Store.Arm(c)
		}
		if err == nil {
			err = of.Read(c)
		}
		if c.Err() != nil {
			return c.Err()
		}
		if of.refused = err != nil; !of.refused {
			k.said.Over(of.Key)
		} else if why := (resque.KeyError{Key: of.Key, Reason: err.Error()}).Advice(); k.said.News(of.Key, why) {
			k.base.Log.Error("Redis refuses a key; it is read again after an interval", "key", of.Key, "error", why)
		}
	}
	return nil
}
