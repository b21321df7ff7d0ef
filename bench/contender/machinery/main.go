// Command machinery is RichardKnop/machinery on Redis with the benchmark's
// handlers; its variant "results" keeps each job's result for an hour. It is a
// module of its own, since machinery brings the clients of four clouds.
package main

import (
	"io"
	stdlog "log"

	"github.com/RichardKnop/machinery/v1"
	"github.com/RichardKnop/machinery/v1/config"
	"github.com/RichardKnop/machinery/v1/log"
	"github.com/RichardKnop/machinery/v1/tasks"

	"github.com/goworker/goworker/bench/probe"
)

func main() {
	log.Set(stdlog.New(io.Discard, "", 0)) // it logs every job
	probe.Main(work, produce)
}

func server(c probe.Config) (*machinery.Server, error) {
	cnf := &config.Config{
		Broker:          "redis://" + c.Addr,
		DefaultQueue:    c.Queues[0],
		ResultBackend:   "null",
		ResultsExpireIn: 3600,
		NoUnixSignals:   true,
		// Its defaults but for the connections: they are to suffice.
		Redis: &config.RedisConfig{
			MaxIdle: 1000, MaxActive: 1000, IdleTimeout: 300, Wait: true,
			ReadTimeout: 15, WriteTimeout: 15, ConnectTimeout: 15,
			NormalTasksPollPeriod: 1000, DelayedTasksPollPeriod: delayedPoll(c),
		},
	}
	if c.Variant == "results" {
		cnf.ResultBackend = cnf.Broker
	}
	return machinery.NewServer(cnf)
}

// delayedPoll is how often it looks for one delayed job, in milliseconds: its default
// where jobs are delayed, and what its documentation's example has where none are.
func delayedPoll(c probe.Config) int {
	if c.Delayed {
		return 500
	}
	return 20
}

func work(c probe.Config, handlers map[string]probe.Handler) error {
	s, err := server(c)
	if err != nil {
		return err
	}
	for class, handler := range handlers {
		perform := func(filler string, number int64) error { return handler(c.Queues[0], filler, number) }
		if err := s.RegisterTask(class, perform); err != nil {
			return err
		}
	}
	return s.NewWorker("bench", c.Workers).Launch()
}

func produce(c probe.Config) (probe.Producer, error) {
	s, err := server(c)
	return producer{s}, err
}

type producer struct{ server *machinery.Server }

func (p producer) Push(j probe.Job) error {
	task := &tasks.Signature{Name: j.Class, RoutingKey: j.Queue, Args: []tasks.Arg{{Type: "string", Value: j.Args[0]}}}
	if len(j.Args) > 1 {
		task.Args = append(task.Args, tasks.Arg{Type: "int64", Value: j.Args[1]})
	}
	if !j.At.IsZero() {
		task.ETA = &j.At
	}
	_, err := p.server.SendTask(task)
	return err
}
