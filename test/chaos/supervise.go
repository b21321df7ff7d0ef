package main

import (
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"
)

// supervise keeps n processes at work: it starts one that ended again at once, as an
// orchestrator does. The function it returns ends the supervision, not the processes.
func (a *arena) supervise(n int, flags ...string) (stop func()) {
	quit := make(chan struct{})
	var slots sync.WaitGroup
	for range n {
		first := a.start(flags...)
		slots.Go(func() {
			defer a.report()
			for p := first; ; p = a.launch(flags...) {
				select {
				case <-p.exited:
					a.inject()
				case <-quit:
					return
				}
			}
		})
	}
	return func() {
		close(quit)
		slots.Wait()
	}
}

// report is deferred by a goroutine of a fault: what ends it is a problem of the fault.
func (a *arena) report() {
	if trouble := recover(); trouble != nil {
		f, ok := trouble.(fatal)
		if !ok {
			panic(trouble)
		}
		a.problem("%s", f.text)
	}
}

// A filled queue holds this many jobs, or soon will again. The producer looks more often
// than the workers can empty it.
const (
	filled    = 20_000
	fillBatch = 1000
)

// fill keeps the queue from ever being empty: a producer pushes batches of jobs that do
// nothing. It returns when the queue is full for the first time. In a short run the queue is shorter and each job takes some
// milliseconds, so that the machine does not spend a minute on jobs that do nothing.
func (a *arena) fill() {
	filled, l := filled, load{classes: []string{"Noop"}}
	if a.opts.short {
		filled, l = filled/10, load{classes: []string{"Nap"}, longest: 40, even: true}
	}
	p := a.newProducer("fill")
	full := make(chan struct{})
	go func() {
		defer close(p.done)
		defer p.file.Close()
		c, err := a.dial()
		if err != nil {
			a.problem("%v", err)
			close(full)
			return
		}
		defer c.Close()
		for first := true; ; {
			select {
			case <-p.quit:
				return
			default:
			}
			switch waiting, err := redis.Int(c.Do("LLEN", "resque:queue:work")); {
			case err != nil:
				a.problem("the producer: %v", err)
				return
			case waiting >= filled:
				if first {
					close(full)
					first = false
				}
				time.Sleep(10 * time.Millisecond)
			default:
				batch := make([]job, fillBatch)
				for i := range batch {
					batch[i] = p.pick(l)
				}
				pushBatch(p, batch, c)
			}
		}
	}()
	<-full
}
