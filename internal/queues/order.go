package queues

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"sort"
)

// Ask says how many jobs to take from a queue in a first pass over the
// queues. A quota of zero keeps the queue's place for the second pass, which
// fills the slots still free in the same order and without quotas.
type Ask struct {
	Queue string
	Quota int
}

// Asker decides in what order the queues are asked and for how many jobs each.
// Only the poller uses it: it is not safe for concurrent use, and a plan is
// valid until the next one.
type Asker struct {
	order string
	rng   *rand.Rand
	asks  []Ask

	// Scratch space of the weighted order, by the queue's place in the list.
	sums  []int // weights added up to and including this queue
	drawn []int // slots drawn for this queue
	rest  []lot // the queues no slot was drawn for

	// What the round-robin order remembers of its last plan, which is asks.
	taken  []int // jobs taken from each ask
	latest int   // the ask that was served last; the reports come in order
}

// lot is a queue's arrival in a race in which a queue twice as heavy arrives
// in half the time on average: an order drawn by weight, without repetition.
type lot struct {
	queue   string
	arrival float64
}

// Few is how many queues are asked while they have enough jobs. Naming 200 in
// each exchange costs Redis four times as much as the jobs.
const Few = 8

// The orders in which queues are asked.
const (
	Strict     = "strict"
	Weighted   = "weighted"
	RoundRobin = "round-robin"
)

// NewAsker returns an asker for one of the orders.
func NewAsker(order string) *Asker {
	return &Asker{order: order, rng: rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))}
}

// Order is the order in which it asks.
func (a *Asker) Order() string { return a.order }

// Plan decides how to fill n slots from the queues: all of them or, if many have
// enough jobs, from a few. The cost is one step a queue if the order is strict or
// round-robin; if it is weighted, one draw a slot and a sort besides.
func (a *Asker) Plan(queues []Queue, n int, few bool) []Ask {
	if len(queues) == 0 || n <= 0 {
		return nil
	}
	switch a.order {
	case Weighted:
		a.planWeighted(queues, n, few)
	case RoundRobin:
		a.planRoundRobin(queues, n, few)
	default:
		a.asks = a.asks[:0]
		if few {
			queues = queues[:min(Few, len(queues))]
		}
		for _, q := range queues {
			a.asks = append(a.asks, Ask{q.Name, n})
		}
	}
	return a.asks
}

// planWeighted draws a queue for every slot or, if few are to be asked, for an eighth of
// the slots at a time. Over many jobs each queue is served by its weight, however
// many slots a plan has.
func (a *Asker) planWeighted(queues []Queue, n int, few bool) {
	sum := 0
	a.asks, a.sums, a.drawn, a.rest = a.asks[:0], a.sums[:0], a.drawn[:0], a.rest[:0]
	for _, q := range queues {
		sum += q.weight
		a.sums = append(a.sums, sum)
		a.drawn = append(a.drawn, -1) // no place among the asks yet
	}
	draws := n
	if few {
		draws = min(n, Few)
	}
	for draw := range draws {
		i := sort.SearchInts(a.sums, a.rng.IntN(sum)+1)
		if a.drawn[i] < 0 {
			a.drawn[i] = len(a.asks)
			a.asks = append(a.asks, Ask{Queue: queues[i].Name})
		}
		a.asks[a.drawn[i]].Quota += (n + draw) / draws // n in all
	}
	if few || len(a.asks) == len(queues) {
		return
	}
	for i, q := range queues {
		if a.drawn[i] < 0 {
			a.rest = append(a.rest, lot{q.Name, a.rng.ExpFloat64() / float64(q.weight)})
		}
	}
	slices.SortFunc(a.rest, func(x, y lot) int { return cmp.Compare(x.arrival, y.arrival) })
	for _, l := range a.rest {
		a.asks = append(a.asks, Ask{Queue: l.queue})
	}
}

// planRoundRobin deals the slots to the queues like cards, beginning behind
// the queue that was served last.
func (a *Asker) planRoundRobin(queues []Queue, n int, few bool) {
	start := a.next(queues)
	a.asks, a.taken, a.latest = a.asks[:0], a.taken[:0], 0
	each, more := n/len(queues), n%len(queues)
	for i := range queues {
		quota := each
		if i < more {
			quota++
		}
		if few && quota == 0 && i >= Few {
			break
		}
		a.asks = append(a.asks, Ask{queues[(start+i)%len(queues)].Name, quota})
		a.taken = append(a.taken, 0)
	}
}

// next is the place in the list of the queue whose turn it is. One job at a time is dealt from
// each queue in turn, so the last job came from the queue that gave most; of
// several such, from the last. Its successor is next. If that queue is no
// longer listed (it was deleted, or is known to be empty), the plan it was
// served by says which queue follows.
func (a *Asker) next(queues []Queue) int {
	place := func(name string) int {
		return slices.IndexFunc(queues, func(q Queue) bool { return q.Name == name })
	}
	last := -1
	for i, n := range a.taken {
		if n > 0 && (last < 0 || n >= a.taken[last]) {
			last = i
		}
	}
	if last >= 0 {
		if at := place(a.asks[last].Queue); at >= 0 {
			return (at + 1) % len(queues)
		}
	}
	for i := range a.asks {
		if at := place(a.asks[(last+1+i)%len(a.asks)].Queue); at >= 0 {
			return at
		}
	}
	return 0
}

// Took reports that a queue of the current plan gave that many jobs. It may be
// called several times for a queue; going through the plan in order is
// cheapest. Only the round-robin order needs to know.
func (a *Asker) Took(queue string, jobs int) {
	if a.order != RoundRobin {
		return
	}
	for i := range a.asks {
		at := (a.latest + i) % len(a.asks)
		if a.asks[at].Queue == queue {
			a.taken[at] += jobs
			a.latest = at
			return
		}
	}
}
