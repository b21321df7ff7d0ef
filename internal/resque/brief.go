package resque

import (
	"fmt"
	"slices"
	"sync"

	"github.com/gomodule/redigo/redis"
)

// This file sends an exchange in its usual form by a short script: by brief.lua where one queue has enough jobs, else by briefqueues.lua. Of an
// exchange of two jobs that halves Redis's work. What is unusual goes by exchange.lua, which alone knows what to do then.

var (
	briefScript       = script("brief")
	briefQueuesScript = script("briefqueues")
)

const (
	// popsAtOnce is how many jobs a short script pops at once, as exchange.lua does when it has seen small ones.
	popsAtOnce = 64
	// popsAgain is popsAtOnce for a queue that was found empty.
	popsAgain = 4
	// detour is how many exchanges go by exchange.lua after a short script has refused one. It may refuse all for a day: a job was found
	// in a dead process.
	detour = 100
	// quotaUnit is larger than any quota. Of each queue briefqueues.lua gets one number: quotaUnit times its pops, and its quota.
	quotaUnit = 1024
	// fewOf is of how many jobs that are asked for one has to come, or brief.lua, which gets the tickets of all, is the dearer way.
	fewOf = 4
)

// briefs is what a process knows of its brief exchanges. It is safe for concurrent use.
type briefs struct {
	mu     sync.Mutex
	queues map[string]*briefQueue // that it has asked or seen jobs of
	came   int                    // how many jobs the last exchange that asked for some brought
	rest   int                    // so many exchanges yet go by exchange.lua
}

// briefQueue is a queue, with what asks it as arguments that cost no allocation.
type briefQueue struct {
	key, prefix any
	pops        int // how many of its jobs may be popped before any of their sizes is known; 0: none has been seen
}

// mostQueues is how many queues briefs keeps at most.
const mostQueues = 1024

// of returns what is known of a queue. The lock is held.
func (b *briefs) of(s Store, queue string) *briefQueue {
	q := b.queues[queue]
	if q == nil {
		if b.queues == nil || len(b.queues) == mostQueues {
			b.queues = make(map[string]*briefQueue)
		}
		q = &briefQueue{key: s.KeyOfQueue(queue), prefix: JobPrefix(queue)}
		b.queues[queue] = q
	}
	return q
}

// briefly returns the short script by which the exchange goes; nil: it goes by exchange.lua.
func (s Store) briefly(x *Exchange) *Script {
	if x.Want+len(x.Done)+len(x.Ended) == 0 || x.Want > 0 && len(x.Asks) == 0 || x.Handed != "" || x.List ||
		x.Policy || x.Take != nil || x.Sorting != nil || x.Sentry != nil || x.Apart > 0 || len(x.Spent) > 0 {
		return nil
	}
	b := &s.exchangeKeys(x.Process).briefs
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.rest > 0:
		b.rest--
		return nil
	case !x.onlyUnlocks():
		return nil
	case len(x.Asks) != 1 || x.Want == 0 || x.Arm || len(x.Done)+len(x.Ended) == 0 || b.came*fewOf < x.Want || b.of(s, x.Asks[0].Queue).pops < min(x.Want, popsAtOnce):
		return briefQueuesScript
	}
	return briefScript
}

// refused has the next exchanges go by exchange.lua.
func (b *briefs) refused() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.rest = detour
}

// onlyUnlocks reports whether all ends are those of jobs that are done and release their lock.
func (x *Exchange) onlyUnlocks() bool {
	for i := range x.Ended {
		e := &x.Ended[i]
		if e.Place != "" || e.Counts != CountsDone || len(e.Effects) != 1 {
			return false
		}
		row := &e.Effects[0]
		if row.verb != "HDEL" || len(row.args) != 1 {
			return false
		}
		if _, plain := row.args[0].(string); !plain {
			return false
		}
	}
	return true
}

// learn keeps how large the jobs of queues are: of four times as many the next exchange believes that they are no larger. So
// exchange.lua does within an exchange. What comes into a queue that was empty may be of any size.
func (b *briefs) learn(s Store, x *Exchange, out *Exchanged) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if x.Want > 0 {
		b.came = len(out.Jobs)
	}
	for jobs := out.Jobs; len(jobs) > 0; {
		queue, largest, n := jobs[0].Queue, 1, 0
		for n < len(jobs) && jobs[n].Queue == queue {
			largest, n = max(largest, len(jobs[n].Payload)), n+1
		}
		jobs = jobs[n:]
		b.of(s, queue).pops = min(popsAtOnce, 4*n, MaxExchangeBytes/largest)
	}
	for _, queue := range out.Empty {
		if q := b.queues[queue]; q != nil {
			q.pops = min(q.pops, popsAgain)
		}
	}
}

// briefArgs is exchangeArgs for a short script.
func (s Store) briefArgs(x *Exchange, script string) []any {
	of := s.exchangeKeys(x.Process)
	used := of.used.Swap(nil)
	if used == nil {
		used = new(exchangeArgv)
	}
	n := len(of.keys) - 1 // the last one is the set of queues
	names := 0
	if x.brief == briefScript {
		names = max(x.Want, 2)
	}
	c := Call{argv: make([]any, 0, 2+n+6+3*len(x.Asks)+names+len(x.Done)+3*len(x.Ended))}
	c.Arg(script, n+len(x.Asks)+len(x.Ended))
	c.argv = append(c.argv, of.keys[:n]...)
	b := &of.briefs
	b.mu.Lock()
	for i := range x.Asks {
		c.Arg(b.of(s, x.Asks[i].Queue).key)
	}
	for i := range x.Ended {
		c.Arg(x.Ended[i].Effects[0].keys[0].name)
	}
	c.Arg(of.process, x.Epoch)
	if x.brief == briefScript {
		c.Arg(b.of(s, x.Asks[0].Queue).prefix, x.Want)
	} else {
		c.Arg(x.Last, x.Want, len(x.Asks), x.Arm)
		for i := range x.Asks {
			q := b.of(s, x.Asks[i].Queue)
			c.Arg(q.prefix, quotaUnit*q.pops+min(x.Asks[i].Quota, x.Want, quotaUnit-1))
		}
	}
	b.mu.Unlock()
	for i := range names {
		c.Arg(used.ticket(x.Last + int64(i) + 1))
	}
	for _, ticket := range x.Done {
		c.Arg(used.ticket(ticket))
	}
	for i := range x.Ended {
		c.Arg(used.ticket(x.Ended[i].Ticket))
	}
	for i := range x.Ended {
		c.Arg(x.Ended[i].Effects[0].args[0])
	}
	of.used.Store(used)
	return c.argv
}

// exchangedBriefly reads the answer of a short script.
func (s Store) exchangedBriefly(x *Exchange, reply any) (out Exchanged, err error) {
	r, err := redis.Values(reply, nil)
	if err != nil {
		return Exchanged{}, fmt.Errorf("exchange: unexpected answer %v", reply)
	}
	jobs, bytes := r, 0
	if at := slices.IndexFunc(r, func(v any) bool { _, payload := v.([]byte); return !payload }); at >= 0 {
		jobs = r[:at]
	}
	r = r[len(jobs):]
	gave := []int{len(jobs)}
	if x.brief == briefQueuesScript {
		if gave, err = x.counted(r, len(jobs), &out); err != nil {
			return Exchanged{}, err
		}
		r = r[len(gave):]
	}
	out.Jobs = slices.Grow(out.Jobs, len(jobs))
	for ask, n := range gave {
		for range n {
			at := len(out.Jobs)
			payload, _ := jobs[at].([]byte)
			out.Jobs = append(out.Jobs, Reserved{Ticket: x.Last + int64(at) + 1, Queue: x.Asks[ask].Queue, Payload: payload})
			bytes += len(payload)
		}
	}
	if x.brief == briefScript && len(jobs) < x.Want && bytes < MaxExchangeBytes {
		out.Empty = []string{x.Asks[0].Queue}
	}
	if len(r) > 0 {
		missing, _ := redis.Int(r[0], nil)
		if out.Missing = missing; missing < 0 {
			out.Missing, out.Removed = -1-missing, true
		}
		for of := range slices.Chunk(r[1:], 2) {
			reason, _ := redis.String(of[len(of)-1], nil)
			if lock, ok := of[0].(int64); ok && lock >= 1 && int(lock) <= len(x.Ended) {
				e := &x.Ended[lock-1]
				out.Refused = append(out.Refused, Refusal{Ticket: e.Ticket, KeyError: KeyError{e.Effects[0].keys[0].name, reason}})
				continue
			}
			key, _ := redis.String(of[0], nil)
			out.Broken = append(out.Broken, KeyError{key, reason})
		}
	}
	return out, nil
}

// counted reads how many of the jobs each queue gave, and which of them had no more.
func (x *Exchange) counted(r []any, jobs int, out *Exchanged) (gave []int, err error) {
	gave = make([]int, len(x.Asks))
	for i := range gave {
		n := int64(-1)
		if i < len(r) {
			n, _ = r[i].(int64)
		}
		if n < 0 {
			n = -1 - n
			out.Empty = append(out.Empty, x.Asks[i].Queue)
		}
		gave[i] = int(n)
		jobs -= gave[i]
	}
	if len(r) < len(gave) || jobs != 0 {
		return nil, fmt.Errorf("exchange: answer has %d jobs less than its %d queues say", -jobs, len(gave))
	}
	return gave, nil
}
