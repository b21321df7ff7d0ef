package inspect

import (
	"time"

	"github.com/goworker/goworker/internal/resque"
)

// Vitals is how a process is. It says so each ten seconds. What is zero is not known: an older release says nothing.
type Vitals struct {
	At           time.Time // when it said so, by Redis's clock
	RSS          int64     // bytes of memory
	Goroutines   int
	Workers      int
	Busy         int           // workers that had a job
	LastExchange time.Time     // when Redis answered its poller last, by its machine's clock
	RTT          time.Duration // of the last renewal of its lease
	CPU          time.Duration // used since its start
	Autoscale    Autoscale     // how it changes its number of workers by itself
	Down         []string      // its parts that do not run, the first twenty; a process that starts or stops has some
}

// Autoscale is between which numbers a process changes by itself how many jobs it runs at a time. A Max of 0: it does not.
type Autoscale struct {
	Min, Max int
	Reason   string // why it has the number of workers that it has
}

// vitals returns what a record says of its process.
func vitals(p resque.LiveProcess, now time.Time) (v Vitals, stuck []StuckJob) {
	from := p.Vitals
	v = Vitals{
		At: resque.Time(from.At), RSS: from.RSS, Goroutines: from.Goroutines, Workers: from.Workers, Busy: from.Busy,
		LastExchange: resque.Time(from.Exchange), RTT: time.Duration(from.RTT) * time.Microsecond, CPU: time.Duration(from.CPU) * time.Millisecond,
		Down: from.Down,
	}
	if a := from.Autoscale; a != nil {
		v.Autoscale = Autoscale{Min: a.Min, Max: a.Max, Reason: a.Reason}
	}
	for _, j := range p.Stuck {
		stuck = append(stuck, StuckJob{
			Process: p.ID, Worker: j.Worker, Queue: j.Queue, Class: j.Class, ID: j.ID,
			For: max(0, now.Sub(resque.Time(j.Started))), Limit: time.Duration(j.Limit) * time.Millisecond,
		})
	}
	return v, stuck
}
