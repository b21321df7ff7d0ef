// Command goworker is benmanns/goworker with the benchmark's handlers: what a
// program looks like before it changes its import path.
package main

import (
	"github.com/benmanns/goworker"

	"github.com/goworker/goworker/bench/probe"
)

func main() { probe.Main(work, produce) }

func configure(c probe.Config) {
	goworker.SetSettings(goworker.WorkerSettings{
		URI:          "redis://" + c.Addr + "/",
		Namespace:    "resque:",
		QueuesString: c.QueueList(),
		Concurrency:  c.Workers,
		// Enough that no worker waits for one.
		Connections:   max(2, c.Producers),
		IntervalFloat: 5, // its default
		UseNumber:     true,
	})
}

func work(c probe.Config, handlers map[string]probe.Handler) error {
	configure(c)
	for class, handler := range handlers {
		goworker.Register(class, handler)
	}
	return goworker.Work()
}

func produce(c probe.Config) (probe.Producer, error) {
	configure(c)
	return producer{}, goworker.Init()
}

// producer's calls return before Redis has answered: goworker does not read replies.
type producer struct{}

func (producer) Push(j probe.Job) error {
	return goworker.Enqueue(&goworker.Job{Queue: j.Queue, Payload: goworker.Payload{Class: j.Class, Args: j.Args}})
}
