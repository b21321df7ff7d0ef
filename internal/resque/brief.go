package resque

import (
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/gomodule/redigo/redis"
)

// This file sends an exchange in its usual form by brief.lua. Of an exchange of two jobs that halves Redis's work. What is unusual
// goes by exchange.lua, which alone knows what to do then.

var briefScript = script("brief")

const (
	// popsAtOnce is how many jobs brief.lua pops at once, as exchange.lua does when it has seen small ones.
	popsAtOnce = 64
	// detour is how many exchanges go by exchange.lua after brief.lua has refused one. It may refuse all for a day: a job was found
	// in a dead process.
	detour = 100
)

// briefs is what a process knows of its brief exchanges.
type briefs struct {
	queue atomic.Pointer[string] // of the jobs that the process saw last
	pops  atomic.Int64           // how many jobs of this queue may be popped before any of their sizes is known
	rest  atomic.Int64           // so many exchanges yet go by exchange.lua
}

// briefly reports whether the exchange goes by brief.lua.
func (s Store) briefly(x *Exchange) bool {
	if x.Want == 0 || len(x.Done) == 0 || len(x.Asks) != 1 || len(x.Ended) > 0 || x.Handed != "" || x.Arm || x.List ||
		x.Policy || x.Take != nil || x.Sorting != nil || x.Sentry != nil || x.Apart > 0 || len(x.Spent) > 0 {
		return false
	}
	b := &s.exchangeKeys(x.Process).briefs
	if b.rest.Load() > 0 {
		b.rest.Add(-1)
		return false
	}
	queue := b.queue.Load()
	return queue != nil && *queue == x.Asks[0].Queue && int64(min(x.Want, popsAtOnce)) <= b.pops.Load()
}

// learn keeps how large the jobs of a queue are: of four times as many the next exchange believes that they are no larger. So
// exchange.lua does within an exchange.
func (b *briefs) learn(jobs []Reserved) {
	if len(jobs) == 0 {
		return
	}
	queue, largest, n := jobs[len(jobs)-1].Queue, 1, 0
	for i := range jobs {
		if jobs[i].Queue == queue {
			largest, n = max(largest, len(jobs[i].Payload)), n+1
		}
	}
	b.pops.Store(int64(min(popsAtOnce, 4*n, MaxExchangeBytes/largest)))
	if last := b.queue.Load(); last == nil || *last != queue {
		b.queue.Store(&queue)
	}
}

// briefArgs is exchangeArgs for brief.lua.
func (s Store) briefArgs(x *Exchange, script string) []any {
	of := s.exchangeKeys(x.Process)
	used := of.used.Swap(nil)
	if used == nil {
		used = new(exchangeArgv)
	}
	ask := &x.Asks[0]
	if used.key == nil || used.queue != ask.Queue {
		used.queue, used.key, used.prefix = ask.Queue, s.KeyOfQueue(ask.Queue), JobPrefix(ask.Queue)
	}
	n := len(of.keys)
	c := Call{argv: make([]any, 0, 2+n+4+max(x.Want, 2)+len(x.Done))}
	c.Arg(script, n)
	c.argv = append(c.argv, of.keys[:n-1]...)
	c.Arg(used.key, of.process, x.Epoch, used.prefix, x.Want)
	for i := range max(x.Want, 2) {
		c.Arg(used.ticket(x.Last + int64(i) + 1))
	}
	for _, ticket := range x.Done {
		c.Arg(used.ticket(ticket))
	}
	of.used.Store(used)
	return c.argv
}

// exchangedBriefly reads the answer of brief.lua.
func (s Store) exchangedBriefly(x *Exchange, reply any) (out Exchanged, err error) {
	r, err := redis.Values(reply, nil)
	if err != nil {
		return Exchanged{}, fmt.Errorf("exchange: unexpected answer %v", reply)
	}
	queue, bytes := x.Asks[0].Queue, 0
	more := slices.IndexFunc(r, func(v any) bool { _, payload := v.([]byte); return !payload })
	if more < 0 {
		more = len(r)
	}
	out.Jobs = slices.Grow(out.Jobs, more)
	for i, v := range r[:more] {
		payload, _ := v.([]byte)
		out.Jobs = append(out.Jobs, Reserved{Ticket: x.Last + int64(i) + 1, Queue: queue, Payload: payload})
		bytes += len(payload)
	}
	if more < x.Want && bytes < MaxExchangeBytes {
		out.Empty = []string{queue}
	}
	if more < len(r) {
		missing, _ := redis.Int(r[more], nil)
		out.Missing, out.Removed = max(missing, -missing), missing < 0
		broken, _ := redis.Strings(r[more+1:], nil)
		for i := 0; i+1 < len(broken); i += 2 {
			out.Broken = append(out.Broken, KeyError{Key: broken[i], Reason: broken[i+1]})
		}
	}
	return out, nil
}
