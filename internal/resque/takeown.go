package resque

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/gomodule/redigo/redis"
)

// This file sends a turn that takes from lanes by a shorter way. Where no lane that is asked for shares limits with some of the others,
// takeown.lua takes. Where the jobs that have ended need no more than an acknowledgement, the script that takes also acknowledges them.

var takeOwn = script("takeown")

// own is what a turn asks of takeown.lua.
type own struct {
	used  bool  // Send has sent it there
	one   bool  // all lanes are under the first limit
	turns []int // the answer's: for each lane, the place of its last job
}

// frees is the slots that ends free.
type frees struct {
	keys []string // of slots, one or several for the same key
	of   []int    // of each end, which of these
}

// lookBack is how many keys of slots an end is compared with.
const lookBack = 64

// shorten decides by which scripts the exchange goes. Where jobs are taken from lanes, take.lua or takeown.lua does all if nothing else is asked for and the
// jobs that have ended are done and have no effects, or free a slot each.
func (s Store) shorten(x *Exchange) {
	x.brief, x.alone = s.briefly(x), false
	if x.Take == nil {
		return
	}
	_, apart := x.limit()
	x.Take.own, x.Take.frees = own{}, frees{}
	x.Take.own.used = !apart && x.Take.asksOwn()
	x.alone = x.Want == 0 && len(x.Asks)+len(x.Spent) == 0 && x.Handed == "" && !x.Arm && !x.List && x.Sentry == nil && x.onlyFree()
}

// script is the one that takes.
func (t *Take) script() *Script {
	if t.own.used {
		return takeOwn
	}
	return takeScript
}

// asksOwn reports whether takeown.lua can take: all lanes are of the set that is looked at, and have no limits, or one of their own each, or
// all the same one. Of more lanes than jobs take.lua asks no lengths.
func (t *Take) asksOwn() bool {
	if t.Want == 0 || len(t.Lanes) == 0 || len(t.Lanes) > 1 && len(t.Lanes) >= t.Want || len(t.Limits) != 0 || len(t.Look) != 1 || len(t.Queues) != 1 {
		return false
	}
	t.texts = t.texts[:0]
	for i := range t.Lanes {
		if t.Lanes[i].Lanes() != t.Look[0].Lanes {
			return false
		}
		t.texts = t.Lanes[i].AppendLimitTexts(t.texts)
	}
	if len(t.texts) == 0 {
		return true
	}
	first := t.texts[0]
	if len(t.texts) != len(t.Lanes) || ParseLimit(first).putsOff() {
		return false
	}
	same, each := true, true
	for i, text := range t.texts {
		same = same && text == first
		each = each && text == t.Lanes[i].Own && specOf(text) == specOf(first) // what is all of a lane's own is no other lane's
	}
	if same {
		t.own.one, t.texts = true, t.texts[:1]
	}
	return same || each
}

// specOf is Limit.Spec of a limit as text.
func specOf(limit string) string {
	spec, _, _ := strings.Cut(limit, "=")
	return spec
}

// onlyFree reports whether all ends are those of jobs that are done and free one slot each, and keeps which.
func (x *Exchange) onlyFree() bool {
	if len(x.Ended) == 0 {
		return true
	}
	f := frees{of: make([]int, len(x.Ended))}
	var seen []*Effect // of each key
	for i := range x.Ended {
		e := &x.Ended[i]
		if e.Place != "" || e.Counts != CountsDone || len(e.Effects) != 1 || e.Effects[0].verb != "SREM" {
			return false
		}
		if _, slot := e.Effects[0].args[0].(ownSlot); !slot {
			return false
		}
		from := max(0, len(seen)-lookBack)
		at := slices.Index(seen[from:], &e.Effects[0]) // jobs of one limit share their effects
		if at < 0 {
			at = len(seen) - from
			seen, f.keys = append(seen, &e.Effects[0]), append(f.keys, e.Effects[0].keys[0].name)
		}
		f.of[i] = from + at
	}
	x.Take.frees = f
	return true
}

// freed adds the jobs that free slots, by key, to those that are done. It returns for each key two bytes, how many there are.
func (f *frees) freed(c *Call, used *exchangeArgv, ended []Ended) []byte {
	next := make([]int, len(f.keys)) // where the next one of each key goes
	for _, of := range f.of {
		next[of]++
	}
	counts, at := make([]byte, 0, 2*len(f.keys)), len(c.argv)
	for i, n := range next {
		counts = append(counts, byte(n>>8), byte(n))
		next[i], at = at, at+n
	}
	c.argv = append(c.argv, make([]any, len(f.of))...)
	for i, of := range f.of {
		c.argv[next[of]] = used.ticket(ended[i].Ticket)
		next[of]++
	}
	return counts
}

// takesAgain reports whether the script that takes has answered that exchange.lua is to do the ends. The exchange then goes the long way.
func (x *Exchange) takesAgain(reply any) bool {
	r, _ := reply.([]any)
	if len(r) != 1 || firstText(r) != "again" {
		return false
	}
	x.alone, x.Take.own, x.Take.frees = false, own{}, frees{}
	x.parted.part(x.Ended)
	return true
}

// takeOwnArgs is takeArgs for takeown.lua.
func (s Store) takeOwnArgs(x *Exchange, used *exchangeArgv, script string) []any {
	t := x.Take
	c := s.takeCall(x, used, 16+len(t.texts)+len(t.Lanes), 48)
	var kind, spec string
	for _, text := range t.texts {
		var key string
		kind, key, spec = s.countedAt(text, x.Process)
		c.Key(key)
	}
	set := t.Look[0].Lanes
	before := s.laneBefore(set)
	c.Key(s.turns(set))
	for i := range t.Lanes {
		c.Key(before + t.Lanes[i].Own)
	}
	c.Arg(kind, spec, t.Numbers[spec], len(t.texts))
	c.Arg(t.own.one, len(t.Lanes), len(before), "+"+JobPrefix(set.Shared), JobPrefix(set.Queue))
	c.Key(s.KeyOfQueue(t.Queues[0]))
	c.Arg(t.Look[0].Show, t.Turns, t.Heads)
	c.keys[0], c.keys[1] = script, len(c.keys)-c.before
	return append(c.keys, c.argv...)
}

// takenInTurn reads the jobs that takeown.lua has taken: one of each lane in turn, as long as the lane has any.
func (x *Exchange) takenInTurn(jobs []any, out *Exchanged) error {
	lanes := x.Take.Lanes
	numbers := make([]int, 2*len(lanes))
	left, turns := numbers[:len(lanes)], numbers[len(lanes):]
	left[0], x.Take.own.turns = len(jobs), turns
	if len(lanes) > 1 && len(jobs) > 0 {
		text, _ := redis.String(jobs[len(jobs)-1], nil)
		jobs = jobs[:len(jobs)-1]
		sum := 0
		for i := range left {
			var of string
			of, text, _ = strings.Cut(text, " ")
			n, _ := strconv.Atoi(of)
			left[i] = max(0, n)
			sum += left[i]
		}
		if sum != len(jobs) || text != "" {
			return fmt.Errorf("take: answer has %d jobs and counts %d", len(jobs), sum)
		}
	}
	out.Jobs = slices.Grow(out.Jobs, len(jobs))
	for n := 0; n < len(jobs); {
		for i := range left {
			if left[i] > 0 {
				payload, _ := jobs[n].([]byte)
				n++
				left[i], turns[i] = left[i]-1, n
				out.Jobs = append(out.Jobs, Reserved{Ticket: x.Last + int64(n), Queue: lanes[i].Queue, Payload: payload, Lane: &lanes[i]})
			}
		}
	}
	return nil
}

// shownInTurn is what takeown.lua does not say where there are no other lanes than those that jobs were taken from: whose turn is next.
func (x *Exchange) shownInTurn(now int64) Shown {
	s := Shown{Lanes: len(x.Take.Lanes), Ready: make([]ReadyLane, len(x.Take.Lanes))}
	for i := range s.Ready {
		s.Ready[i] = ReadyLane{x.Take.Lanes[i].Own, now + int64(x.Take.own.turns[i])}
	}
	slices.SortFunc(s.Ready, func(a, b ReadyLane) int { return cmp.Compare(a.Turn, b.Turn) })
	return s
}
