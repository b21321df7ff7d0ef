package events

import (
	"time"

	"github.com/goworker/goworker/internal/resque/events"
	"github.com/goworker/goworker/internal/resque/history"
)

// mostSingly is how many single events a pack has: 500 a second at five packs. The pack counts further ones by queue and class, which
// takes a tenth of the time.
const mostSingly = 100

// roomForSums is how many bytes of a pack are reserved for its sums, and sumBytes how many one takes beside its names. The pack counts
// by kind alone what finds no room. roomForOne is what a single event takes at most: its three names may be control characters, which
// are six bytes each in JSON.
const (
	roomForSums = 8 << 10
	sumBytes    = 80
	roomForOne  = 4 << 10
)

// pack collects events until the loop sends them.
type pack struct {
	singles int
	body    []byte
	sums    map[summed]*sum
	room    int // how many bytes the sums take, about
}

// summed is the key of a sum.
type summed struct{ kind, queue, class string }

func (s summed) event() events.Event {
	return events.Event{Kind: s.kind, Queue: name(s.queue), Class: name(s.class)}
}

// sum counts the events of a kind, a queue and a class.
type sum struct {
	count int64
	took  history.Durations
}

func (p *pack) empty() bool { return len(p.body) == 0 && len(p.sums) == 0 }

// singly reports whether the pack has room for the next event by itself.
func (p *pack) singly() bool {
	return p.singles < mostSingly && len(p.body) < events.PackBytes-roomForSums-roomForOne
}

func (p *pack) add(e *events.Event) {
	p.singles++
	p.body = e.Append(p.body)
}

func (p *pack) sum(what summed, took time.Duration) {
	s := p.sums[what]
	if s == nil {
		if p.sums == nil {
			p.sums = make(map[summed]*sum)
		}
		e := what.event()
		if size := sumBytes + len(e.Append(nil)); p.room+size <= roomForSums {
			p.room += size
		} else {
			what.queue, what.class = "", ""
		}
		if s = p.sums[what]; s == nil {
			s = new(sum)
			p.sums[what] = s
		}
	}
	s.count++
	if took > 0 {
		s.took.Record(took)
	}
}

// take empties the pack and returns its bytes.
func (p *pack) take(now time.Time) []byte {
	body := p.body
	for what, s := range p.sums {
		e := what.event()
		e.At, e.Count = now.UnixMilli(), s.count
		if q, ok := s.took.Quantile(0.95); ok {
			e.P95 = float64(q.Microseconds()) / 1000
		}
		body = e.Append(body)
	}
	*p = pack{}
	return body
}
