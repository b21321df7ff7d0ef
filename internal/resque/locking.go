package resque

import (
	"strconv"
	"sync"
)

// Jobs that each have a lock and nothing else are pushed without rows: see scripts/parts/locking.lua.

// lockGroup is such jobs for one queue that hold their locks alike.
type lockGroup struct {
	queue   int
	hold    Hold
	most    int64 // ms
	replace bool
	jobs    int

	placed int // of them
	before int // jobs of the groups before it
	prefix int // how many bytes precede their payloads
	ids    int // where the first id goes among the arguments; the payloads follow the ids
}

// lockScript returns the script that pushes them.
var lockScript = sync.OnceValue(func() *Script { return pushScript.with([]*Verb{lockVerb}) })

var provenFor any = strconv.FormatInt(ProvenFor.Milliseconds(), 10)

// groupLocks sorts the jobs that wait into groups, if each has a lock of its own and nothing else, and all queues have their names in
// one set. It returns how many jobs these are, or 0.
func (b *Bulk) groupLocks() (jobs int) {
	b.locks = b.locks[:0]
	for i := range b.queues {
		b.queues[i].next = 0 // the queue's last group, counted from 1
	}
	for i := range b.units {
		u := &b.units[i]
		if u.over {
			continue
		}
		if !u.justLocked() || isOwn(&b.queues[u.queue]) != isOwn(&b.queues[0]) {
			return 0
		}
		c, at := u.guarded[0].lock, &b.queues[u.queue].next
		if *at > 0 {
			if g := &b.locks[*at-1]; g.hold != c.Hold || g.most != c.most() || g.replace != c.Replace {
				*at = 0
			}
		}
		if *at == 0 {
			b.locks = append(b.locks, lockGroup{queue: u.queue, hold: c.Hold, most: c.most(), replace: c.Replace})
			*at = len(b.locks)
		}
		u.next = *at - 1
		b.locks[u.next].jobs++
		jobs++
	}
	if jobs > 0 && !b.locksDiffer() {
		return 0
	}
	return jobs
}

// justLocked reports whether the job has a lock and nothing else, and goes to the tail of its queue.
func (u *unit) justLocked() bool {
	return len(u.guarded) == 1 && u.guarded[0].takesLock() && u.kind == inQueue && u.ahead == 0
}

// locksDiffer reports whether no two of the jobs that wait, which have just locks, want the same one.
func (b *Bulk) locksDiffer() bool {
	const few = 16 // are compared faster
	var names map[string]bool
	if len(b.units) > few {
		names = make(map[string]bool, len(b.units))
	}
	for i := range b.units {
		if b.units[i].over {
			continue
		}
		name := b.units[i].guarded[0].lock.Name
		if names != nil {
			if names[name] {
				return false
			}
			names[name] = true
			continue
		}
		for j := range i {
			if other := &b.units[j]; !other.over && other.guarded[0].lock.Name == name {
				return false
			}
		}
	}
	return true
}

// lockArgs returns the arguments of a call for so many jobs that groupLocks has sorted, with room for the script, and their units by
// their numbers in the answer.
func (s Store) lockArgs(b *Bulk, jobs int) (args []any, units []*unit) {
	const head = 6 // of a group
	groups, keys := len(b.locks), 1+len(b.locks)+2*jobs
	args, units = b.argsRoom(2+keys+3+head*groups+2*jobs), make([]*unit, jobs)
	args[1], args[2] = keys, s.KeyOfNames(b.queues[b.locks[0].queue].name)
	locks, at, before := 3+groups, 2+keys, 0
	args[at], args[at+1], args[at+2] = "!", groups, provenFor
	at += 3
	for i := range b.locks {
		g := &b.locks[i]
		queue, replace := b.queues[g.queue].name, ""
		if g.replace {
			replace = "1"
		}
		args[3+i] = s.KeyOfQueue(queue)
		prefix := JobPrefix(queue)
		args[at], args[at+1], args[at+2] = g.jobs, queue, prefix
		args[at+3], args[at+4], args[at+5] = string(g.hold), g.most, replace
		g.prefix, g.before, g.ids = len(prefix), before, at+head
		before += g.jobs
		at = g.ids + 2*g.jobs
	}
	start := 0
	for _, j := range b.jobs {
		u, from := &b.units[j.unit], start
		start = j.end
		if u.over {
			continue
		}
		g, c := &b.locks[u.next], u.guarded[0].lock
		n, id := g.before+g.placed, g.ids+g.placed
		lock, refused := c.keys()
		args[locks+n], args[locks+jobs+n] = lock, refused
		args[id], args[id+g.jobs] = c.ID, b.buf[from+g.prefix:j.end:j.end]
		units[n] = u
		g.placed++
	}
	return args, units
}
