// Package groups counts failures that are of one kind: those of one class and one exception whose texts are equal once numbers,
// ids, times, addresses and what stands in quotes are taken out of them. The failures of Ruby's, Node's, PHP's and Go's workers
// are grouped alike.
//
// An Index is in memory and writes nothing. It is built by calls of Refresh, each with a budget, the newest failures first.
// Later calls follow the lists with a few commands.
//
// # How it follows
//
// A failure list grows at its end. Refresh asks for the length of each list, its last known element with what follows it, and its first
// known element. If these two are where they were, what follows is new. If one has moved, failures were removed or put back: Refresh
// looks where, by the ids of elements in between, and reads those stretches again. A retry changes no place, and elements of the same
// bytes look alike. So every five seconds it reads again some of the known elements, one stretch and three elements anywhere; a list
// of less than a thousand is read whole. After a change by your own program call Changed: the next calls read all of it again.
//
// Of an Inspector with a mask the texts of groups are those that the mask leaves, and Filter.Text is compared with these. Groups and their ids are
// the same with and without it.
package groups

import (
	"bytes"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/goworker/goworker/inspect"
	"github.com/goworker/goworker/internal/clock"
	"github.com/goworker/goworker/internal/fingerprint"
	"github.com/goworker/goworker/internal/resque/failures"
)

// Fingerprint returns the group of a failure: its id of 12 hexadecimal digits, and the text of its error without what varies. In
// the text ‹n› stands for a number or an id, ‹text› for what was in quotes, ‹time›, ‹duration›, ‹size›, ‹uuid›, ‹email›, ‹addr› and ‹host› for
// these. The class is an ActiveJob's own. All elements that are no failure records are one group.
func Fingerprint(f inspect.Failure) (gid, pattern string) {
	b := failures.Brief{Class: failures.JobClass(f.Payload), Exception: f.Exception, Error: f.Error, Valid: f.Invalid == nil}
	key, pattern := b.Group()
	return key.String(), pattern
}

// Options are how an Index works. The zero Options are good.
type Options struct {
	MaxIndexed int // at most so many failures are grouped, the newest; 0: 200,000. One takes 24 bytes
	MaxGroups  int // at most so many groups; 0: 10,000. Failures of further ones are in one group, Others

	Query *inspect.Query // only failures that match it are grouped; nil: all. Its Places do not count

	Again time.Duration    // how often known failures are read again; 0: 5 s, negative: in each Refresh
	Now   func() time.Time // the clock, also of budgets; nil: that of this machine
}

// Others is the ID of the group of all failures for whose own group there is no room. No search finds its members.
const Others = "000000000000"

// Index groups failures of one Redis, or of several. It is safe for concurrent use.
type Index struct {
	o      Options
	shards []*shard

	turn    sync.Mutex  // one Refresh at a time; it alone writes what mu guards
	changed atomic.Bool // see Changed

	mu     sync.RWMutex
	kinds  kinds
	queues names
}

// New returns an Index of the failures that an Inspector sees. It is empty until Refresh.
func New(in *inspect.Inspector, o Options) *Index {
	if o.MaxIndexed <= 0 {
		o.MaxIndexed = 200_000
	}
	if o.MaxGroups <= 0 {
		o.MaxGroups = 10_000
	}
	if o.Again == 0 {
		o.Again = 5 * time.Second
	}
	if o.Now == nil {
		o.Now = clock.System.Now
	}
	x := &Index{o: o, kinds: newKinds(o.MaxGroups), queues: newNames()}
	for _, door := range in.Doors() {
		x.shards = append(x.shards, &shard{door: door, number: len(x.shards)})
	}
	return x
}

// Progress is how far an Index is.
type Progress struct {
	Indexed int64 // failures that it knows
	Of      int64 // failures that there are
	Older   int64 // the oldest of them, which it leaves out; see Options.MaxIndexed
	Done    bool  // it knows all others
}

// Progress returns how far the Index is, without asking Redis.
func (x *Index) Progress() (p Progress) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	p.Done = true
	for _, s := range x.shards {
		p.Done = p.Done && s.seen
		for _, l := range s.lists {
			p.Indexed += int64(l.count())
			p.Of += max(l.length, l.end())
			p.Done = p.Done && l.end() >= l.length
		}
	}
	p.Older = max(0, p.Of-int64(x.o.MaxIndexed))
	p.Done = p.Done && p.Indexed+p.Older >= p.Of
	return p
}

// Changed has the next calls of Refresh read all known failures again. It is for a program that has retried failures itself.
func (x *Index) Changed() { x.changed.Store(true) }

// all are the lists of all shards. Refresh calls it, or a reader with mu.
func (x *Index) all() (all []*list) {
	for _, s := range x.shards {
		all = append(all, s.lists...)
	}
	return all
}

// indexed is how many elements are known.
func (x *Index) indexed() (n int) {
	for _, l := range x.all() {
		n += l.count()
	}
	return n
}

// entryOf makes an entry of an element. mu is locked.
func (x *Index) entryOf(s *shard, raw []byte) entry {
	b := failures.BriefOf(raw)
	e := entry{id: b.ID, kind: hidden}
	if len(raw) == 0 || s.fits != nil && !s.fits(raw) {
		return e
	}
	key, pattern := b.Group()
	e.kind = x.kinds.of(key, func() kind {
		if shown := s.door.Shown(raw); !bytes.Equal(shown, raw) {
			b = failures.BriefOf(shown)
			_, pattern = b.Group()
		}
		return kind{key: key, class: b.Class, exception: b.Exception, pattern: pattern, example: shortened(b.Error)}
	})
	e.queue = x.queues.number(b.Queue)
	if b.Retried {
		e.kind |= retried
	}
	if unix := b.At.Unix(); !b.At.IsZero() && unix > 0 && unix <= maxUnix {
		e.at = uint32(unix)
	}
	return e
}

// kinds are the groups by their numbers. 0 is Others.
type kinds struct {
	all  []kind
	free []uint32
	by   map[fingerprint.Key]uint32
	most int
}

// kind is a group, as long as an entry is in it.
type kind struct {
	key                                fingerprint.Key
	class, exception, pattern, example string
	entries                            int
}

func newKinds(most int) kinds {
	return kinds{all: []kind{{pattern: "‹further texts›"}}, by: make(map[fingerprint.Key]uint32), most: most}
}

// of returns the number of a group, and makes the group if it is not there.
func (k *kinds) of(key fingerprint.Key, make func() kind) uint32 {
	if n, ok := k.by[key]; ok {
		return n
	}
	if len(k.by) >= k.most {
		return 0
	}
	n := uint32(len(k.all))
	if last := len(k.free) - 1; last >= 0 {
		n, k.free = k.free[last], k.free[:last]
		k.all[n] = make()
	} else {
		k.all = append(k.all, make())
	}
	k.by[key] = n
	return n
}

// keep counts entries in their groups, and drop takes them out. A group without entries goes.
func (k *kinds) keep(entries []entry) {
	for _, e := range entries {
		if n, ok := e.group(); ok {
			k.all[n].entries++
		}
	}
}

func (k *kinds) drop(entries []entry) {
	for _, e := range entries {
		n, ok := e.group()
		if !ok {
			continue
		}
		if k.all[n].entries--; k.all[n].entries == 0 && n > 0 {
			delete(k.by, k.all[n].key)
			k.all[n] = kind{}
			k.free = append(k.free, n)
		}
	}
}

// number returns the group of an id.
func (k *kinds) number(gid string) (uint32, bool) {
	if gid == Others {
		return 0, true
	}
	n := slices.IndexFunc(k.all, func(one kind) bool { return one.entries > 0 && one.key.String() == gid })
	return uint32(max(0, n)), n > 0
}

// names are the names of queues by numbers. 0 is no name, and those for which there is no number.
type names struct {
	all []string
	by  map[string]uint16
}

func newNames() names { return names{all: []string{""}, by: map[string]uint16{"": 0}} }

func (n *names) number(name string) uint16 {
	at, ok := n.by[name]
	if !ok && len(n.all) <= 1<<16-1 {
		at = uint16(len(n.all))
		n.all, n.by[name] = append(n.all, name), at
	}
	return at
}
