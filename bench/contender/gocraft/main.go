// Command gocraft is gocraft/work with the benchmark's handlers. Its queues are
// its job names, so a job's class travels with the arguments.
package main

import (
	"time"

	"github.com/gocraft/work"
	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/bench/probe"
)

func main() { probe.Main(run, produce) }

const namespace = "bench"

// pool has a connection for each worker at hand: each of them talks to Redis for
// itself. Beyond a thousand they wait for each other.
func pool(c probe.Config) *redis.Pool {
	most := min(max(c.Workers, c.Producers)+10, 1000)
	return &redis.Pool{
		MaxActive: most, MaxIdle: most, Wait: true,
		Dial: func() (redis.Conn, error) { return redis.Dial("tcp", c.Addr) },
	}
}

type context struct{}

func run(c probe.Config, handlers map[string]probe.Handler) error {
	p := work.NewWorkerPool(context{}, uint(c.Workers), namespace, pool(c))
	perform := func(j *work.Job) error {
		args, _ := j.Args["args"].([]interface{})
		return handlers[j.ArgString("class")](j.Name, args...)
	}
	for i, name := range c.Queues {
		// MaxFails 1: what fails is dead at once, as in Resque.
		options := work.JobOptions{MaxFails: 1, Priority: 1}
		if c.Order == probe.Weighted {
			options.Priority = uint(c.Weight(i))
		}
		p.JobWithOptions(name, options, perform)
	}
	p.Start()
	select {}
}

func produce(c probe.Config) (probe.Producer, error) {
	return producer{work.NewEnqueuer(namespace, pool(c)), c.Variant == "unique"}, nil
}

type producer struct {
	enqueuer *work.Enqueuer
	unique   bool
}

func (p producer) Push(j probe.Job) error {
	args := work.Q{"class": j.Class, "args": j.Args}
	switch {
	case p.unique:
		_, err := p.enqueuer.EnqueueUnique(j.Queue, args)
		return err
	case j.At.IsZero():
		_, err := p.enqueuer.Enqueue(j.Queue, args)
		return err
	}
	// It adds whole seconds to a clock that it reads itself, which may by then show the
	// next one: a second less is never late.
	_, err := p.enqueuer.EnqueueIn(j.Queue, j.At.Unix()-time.Now().Unix()-1, args)
	return err
}
