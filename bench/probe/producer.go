package probe

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"
)

// Job is a job to push.
type Job struct {
	Queue, Class string
	Args         []interface{}
	At           time.Time // when it is due; zero is at once
	ID           string    // "" leaves it to the contender
}

// Producer pushes jobs as a program that uses the contender does. It may be
// called by several goroutines.
type Producer interface {
	Push(Job) error
}

// BulkProducer pushes many jobs in one call.
type BulkProducer interface {
	PushAll([]Job) error
}

// run pushes the jobs the runner asked for.
func run(c Config, p Producer, r reporter) error {
	switch c.Mode {
	case Stamp:
		return stamps(c, p)
	case Start:
		return starts(c, p, r)
	case Call, Await:
		caller, ok := p.(Caller)
		if !ok {
			return errors.New("has no call that waits for a result")
		}
		if c.Mode == Call {
			return calls(c, caller, r)
		}
		return awaits(c, caller, r)
	}
	if c.Bulk > 0 {
		bulk, ok := p.(BulkProducer)
		if !ok {
			return errors.New("has no call that pushes many jobs")
		}
		return timed(r, func() error { return pushBulk(c, bulk) })
	}
	return timed(r, func() error { return pushEach(c, p) })
}

func timed(r reporter, push func() error) error {
	before, start := now(), time.Now()
	if err := push(); err != nil {
		return err
	}
	took := time.Since(start)
	r.spent(before)
	r.line("pushed", took.Nanoseconds())
	return nil
}

func (c Config) job(i int) Job {
	j := Job{Queue: c.Queues[i%len(c.Queues)], Class: c.Class}
	if c.Class == Far {
		j.Args = []interface{}{fmt.Sprintf("%016d", i)}
	} else if value := Value(c.Class, i); value != nil {
		j.Args = []interface{}{value, i}
	} else {
		filler, number := Args(c.Class, i, c.Size)
		j.Args = []interface{}{filler, number}
	}
	if c.Named {
		j.ID = ID(i)
	}
	if c.Delayed {
		j.At = time.Unix(0, c.At).Add(time.Duration(i) * c.Step)
	}
	return j
}

func pushEach(c Config, p Producer) error {
	return each(c.Producers, 0, c.Jobs, func(i int) error { return p.Push(c.job(i)) })
}

func pushBulk(c Config, p BulkProducer) error {
	for i := 0; i < c.Jobs; {
		jobs := make([]Job, 0, c.Bulk)
		for ; len(jobs) < c.Bulk && i < c.Jobs; i++ {
			jobs = append(jobs, c.job(i))
		}
		if err := p.PushAll(jobs); err != nil {
			return err
		}
	}
	return nil
}

// stamps does not wait until a job has run: when the next one comes has nothing
// to do with what became of the last.
func stamps(c Config, p Producer) error {
	for range c.Jobs {
		time.Sleep(c.GapMin + rand.N(c.GapMax-c.GapMin))
		j := Job{Queue: c.Queues[0], Class: "Stamp"}
		from := time.Now()
		if c.DelayMax > 0 {
			from = from.Add(c.DelayMin + rand.N(c.DelayMax-c.DelayMin)).Truncate(time.Millisecond)
			if c.Whole {
				from = from.Truncate(time.Second).Add(time.Second)
			}
			j.At = from
		}
		j.Args = []interface{}{strconv.FormatInt(from.UnixNano(), 10), 0}
		if err := p.Push(j); err != nil {
			return err
		}
	}
	return nil
}
