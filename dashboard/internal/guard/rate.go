package guard

import (
	"container/list"
	"sync"
	"time"

	"github.com/goworker/goworker/internal/clock"
)

// maxKeys bounds how many users or addresses a limit remembers. The one that was seen least recently is forgotten first.
const maxKeys = 4096

// rate limits how often something happens, for each of many keys: burst times at once, and then once in each interval.
// It is safe for concurrent use.
type rate struct {
	clock clock.Clock
	every time.Duration
	burst int

	mu     sync.Mutex
	recent *list.List // of *spent, the most recently seen first
	keys   map[string]*list.Element
}

// spent is what a key has spent: it has its whole burst again at full.
type spent struct {
	key  string
	full time.Time
}

func newRate(c clock.Clock, every time.Duration, burst int) *rate {
	return &rate{clock: c, every: every, burst: burst, recent: list.New(), keys: make(map[string]*list.Element)}
}

// take spends one of the key's. Where it has none left, take returns false and how long it is until it has one.
func (r *rate) take(key string) (wait time.Duration, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.clock.Now()
	at := r.keys[key]
	if at == nil {
		if len(r.keys) >= maxKeys {
			oldest := r.recent.Back()
			delete(r.keys, r.recent.Remove(oldest).(*spent).key)
		}
		at = r.recent.PushFront(&spent{key, now})
		r.keys[key] = at
	}
	r.recent.MoveToFront(at)
	s := at.Value.(*spent)
	if wait := r.wait(s, now); wait > 0 {
		return wait, false
	}
	if s.full.Before(now) {
		s.full = now
	}
	s.full = s.full.Add(r.every)
	return 0, true
}

// left returns how long it is until the key has one to spend; 0: it has one now.
func (r *rate) left(key string) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	at := r.keys[key]
	if at == nil {
		return 0
	}
	return r.wait(at.Value.(*spent), r.clock.Now())
}

func (r *rate) wait(s *spent, now time.Time) time.Duration {
	return max(s.full.Sub(now)-time.Duration(r.burst-1)*r.every, 0)
}

// slots limits how many of something a key has at a time. It holds a number for each key that has some, and nothing for
// the others. It is safe for concurrent use.
type slots struct {
	most int
	mu   sync.Mutex
	used map[string]int
}

func newSlots(most int) *slots { return &slots{most: most, used: make(map[string]int)} }

// take occupies a slot of the key's, until release is called. More calls of release do nothing.
func (s *slots) take(key string) (release func(), ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.used[key] >= s.most {
		return func() {}, false
	}
	s.used[key]++
	return sync.OnceFunc(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.used[key]--; s.used[key] == 0 {
			delete(s.used, key)
		}
	}), true
}
