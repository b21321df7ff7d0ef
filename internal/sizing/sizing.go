// Package sizing predicts what a load of jobs needs: workers, processes, connections, Redis's and the processes' time, bytes on the
// network and in memory. It computes and reads nothing but the figures that the benchmarks have measured.
//
// Each prediction is a formula with few terms. Tests hold them against the recorded benchmarks and against a daemon that runs.
package sizing

import (
	"fmt"
	"math"
	"time"
)

// Load is what comes.
type Load struct {
	// Rate is how many jobs come a second, in the busiest minutes.
	Rate float64
	// Duration is how long a handler runs, in the mean.
	Duration time.Duration
	// Kind is what the jobs use: a name of Kinds. "" is plain.
	Kind string
	// Size is the length of a job in its queue, in bytes. 0 is 200.
	Size int
	// Wait is how long 95 of a hundred jobs may wait for a worker, at most. 0 is a second.
	Wait time.Duration
	// Workers are those of a process. 0 is 25.
	Workers int
	// Processes is how many there are. 0 takes what the wait needs, and one more, which may be away.
	Processes int
	// Trip is the time of a round trip to a Redis that is not busy. 0 is half a millisecond.
	Trip time.Duration
	// Waiting is how many jobs may wait, as in an hour without workers.
	Waiting int
}

// The defaults of a Load.
const (
	DefaultSize    = 200
	DefaultWait    = time.Second
	DefaultWorkers = 25
	DefaultTrip    = 500 * time.Microsecond
)

// Full is how much of a core Redis should use at most. Above it, what comes in bursts waits. Slowest is how long an exchange may take
// before a load needs another Redis.
const (
	Full    = 0.7
	Slowest = 10 * time.Millisecond
)

// Room is how many of the workers should be busy in the mean, at most: no load is what was expected.
const Room = 0.8

// Plan is what a load needs.
type Plan struct {
	Load // with what it left out

	// Busy is how many workers are busy, in the mean. Needed is how many there must be: for the wait, and with Room.
	Busy   float64
	Needed int
	// Late is the part of the jobs that wait longer than Load.Wait, with all processes. Stable says that there are more workers than work.
	Late   float64
	Stable bool

	// Commands are those of processes to Redis for a job, and Woken those of them which find that another process took it.
	Commands, Woken float64
	// RedisTime is Redis's processor time for a job: its push, its commands and what it has besides. WorkerTime is that of the process,
	// without the handler.
	RedisTime, WorkerTime time.Duration
	// Bytes are those that a job takes on the network between Redis and all others.
	Bytes float64

	// Redises is how many Redises the load needs, with an even share of its queues each. RedisBusy is the part of a core that each of
	// them uses. Exchange is how long an exchange takes: it is longer than a round trip where a Redis is busy, and serves more jobs.
	Redises   int
	RedisBusy float64
	Exchange  time.Duration
	// WorkerCores are the cores of all processes together, without handlers.
	WorkerCores float64
	// Connections are those of all processes to a Redis.
	Connections int
	// ProcessBytes are the resident bytes of a process, without what handlers keep. RedisBytes are those of Redis, with the results
	// of an hour.
	ProcessBytes, RedisBytes float64

	workerTime float64 // in µs
}

// Of returns what a load needs.
func (f Figures) Of(l Load) (Plan, error) {
	l.fill()
	k, ok := kinds[l.Kind]
	switch {
	case !ok:
		return Plan{}, fmt.Errorf("no kind of job is called %q: it must be one of %v", l.Kind, Kinds())
	case !(l.Rate > 0 && l.Rate <= 1e8):
		return Plan{}, fmt.Errorf("the rate is %v jobs a second: it must be above 0 and at most 100,000,000", l.Rate)
	case l.Duration < 0, l.Wait < 0, l.Trip < 0, l.Size < 0, l.Workers < 0, l.Processes < 0, l.Waiting < 0:
		return Plan{}, fmt.Errorf("no number of a load may be negative")
	}
	p := Plan{Load: l, Busy: l.Rate * l.Duration.Seconds()}
	if p.Busy > 1e7 {
		return Plan{}, fmt.Errorf("%.0f workers would be busy in the mean: the model knows at most 10,000,000", p.Busy)
	}
	p.Needed = max(Workers(p.Busy, l.Duration, l.Wait), int(math.Ceil(p.Busy/Room)))
	if l.Processes == 0 {
		p.Processes = (p.Needed+l.Workers-1)/l.Workers + 1
	}
	all := p.Processes * p.Workers
	p.Stable = float64(all) > p.Busy
	p.Late = Late(all, p.Busy, l.Duration, l.Wait)

	n := float64(p.Processes)
	if n*f.Idle.Redis/1e6 >= Full {
		return Plan{}, fmt.Errorf("%d processes use up a Redis while they wait: start fewer with more workers each", p.Processes)
	}
	p.Redises = 1
	for p.share(f, k, max(l.Trip, Slowest)); p.RedisBusy > Full; p.share(f, k, max(l.Trip, Slowest)) {
		p.Redises++
	}
	p.Exchange = l.Trip
	if p.share(f, k, l.Trip); p.RedisBusy > Full { // its exchanges wait for each other, and so each serves more jobs
		least, most := l.Trip, max(l.Trip, Slowest)
		for most-least > time.Microsecond {
			p.Exchange = (least + most) / 2
			if p.share(f, k, p.Exchange); p.RedisBusy > Full {
				least = p.Exchange
			} else {
				most = p.Exchange
			}
		}
	}
	p.WorkerCores = (l.Rate*p.workerTime + n*f.Idle.Worker) / 1e6
	p.Connections = Connections(p.Processes, l.Kind)
	p.ProcessBytes = f.Process.Bytes + f.Process.Worker*float64(l.Workers)
	p.RedisBytes = n*f.Process.Redis + float64(l.Waiting)*f.Waiting(l.Size)
	if l.Kind == Result {
		p.RedisBytes += l.Rate * time.Hour.Seconds() * f.Memory.Result
	}
	return p, nil
}

// share computes what depends on how many jobs a second come to each Redis, and how long an exchange with it takes.
func (p *Plan) share(f Figures, k kind, exchange time.Duration) {
	kind, n, rate := f.Kinds[p.Kind], float64(p.Processes), p.Rate/float64(p.Redises)
	p.Commands, p.Woken = k.alone*Exchanges(rate/n, p.Workers, exchange)/plainAlone, 0
	if p.Stable { // else no worker waits for a push
		p.Woken = Woken(rate, p.Processes)
	}
	sent := p.Commands + p.Woken
	redis := f.Push.Redis + kind.Redis + f.Exchange.Redis*sent
	p.workerTime = kind.Worker + f.Exchange.Worker*sent
	p.RedisTime, p.WorkerTime = micros(redis), micros(p.workerTime)
	p.Bytes = f.Push.Bytes + kind.Bytes + 2*float64(p.Size-f.Size) + f.Exchange.Bytes*sent
	p.RedisBusy = (rate*redis + n*f.Idle.Redis) / 1e6
}

func (l *Load) fill() {
	if l.Kind == "" {
		l.Kind = Plain
	}
	if l.Size == 0 {
		l.Size = DefaultSize
	}
	if l.Wait == 0 {
		l.Wait = DefaultWait
	}
	if l.Workers == 0 {
		l.Workers = DefaultWorkers
	}
	if l.Trip == 0 {
		l.Trip = DefaultTrip
	}
}

// Waiting is how many bytes of Redis a plain job of a size takes while it waits in a queue.
func (f Figures) Waiting(size int) float64 { return float64(size) + f.Memory.Waiting }

// Connections are those of so many processes to a Redis whose jobs are of a kind: four each, and those of the one that has the duties
// of the fleet. Those of the pools for GetConn and the Client come as they are used.
func Connections(processes int, kind string) int {
	if processes == 0 {
		return 0
	}
	n := each*processes + duties
	if kinds[kind].lanes {
		n += processes
	}
	return n
}

const (
	// each process has connections for exchanges, notifications, its lease and the status of its workers.
	each = 4
	// duties: one process moves delayed jobs, by two connections, and one looks after the schedules.
	duties = 3
)

func micros(v float64) time.Duration { return time.Duration(v * float64(time.Microsecond)) }
