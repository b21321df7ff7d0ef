package goworker

import (
	"slices"
	"time"

	"github.com/goworker/goworker/internal/resque"
)

// laneClasses is what the lanes know of the registry.
type laneClasses struct{ *registry }

func (c laneClasses) Lane(queue string, raw []byte) (resque.Lane, bool) { return c.lane(queue, raw) }
func (c laneClasses) Limits(queue string) bool                          { return c.limitsQueue(queue) }
func (c laneClasses) SortedBy(lanes resque.Lanes) bool                  { return c.sortsBy(lanes) }
func (c laneClasses) Numbers() (map[string]string, error)               { return c.limitNumbers() }
func (c laneClasses) Any() bool                                         { return c.limited.Load() }

// turnToLanes decides what is asked in this turn: the queues themselves or the lanes of
// one that is sorted, whichever is first in the order that was planned. So lanes have
// their part by strict order as by weight.
func (p *poller) turnToLanes(x *resque.Exchange) {
	l := p.watch.lanes
	if l.Len() == 0 || len(x.Asks) == 0 {
		return
	}
	sorted := func(a resque.Ask) bool {
		_, raw := l.Open(a.Queue, p.watch.want > 0)
		return !raw
	}
	if sorted(x.Asks[0]) {
		x.Take = l.Take(x.Asks[0].Queue, p.watch.want)
		x.Asks = nil
		p.promised = p.watch.want
	} else if at := slices.IndexFunc(x.Asks, sorted); at > 0 {
		x.Asks = x.Asks[:at]
	}
}

// lanesAt is when the poller must turn again because of lanes. Zero: never by itself.
func (p *poller) lanesAt() time.Time {
	if p.paused || !p.mayReserve() || p.slots()-p.busy <= len(p.ahead) {
		return time.Time{}
	}
	return p.watch.lanes.Next()
}

// sortQueues names the queues to sort.
func (p *poller) sortQueues() {
	p.watch.lanes.Sort(p.watch.queues, func(queue string) bool {
		return slices.ContainsFunc(p.misplaced, func(o outcome) bool { return o.task.Queue == queue })
	})
}
