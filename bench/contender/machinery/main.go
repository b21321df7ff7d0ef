// Command machinery is RichardKnop/machinery on Redis with the benchmark's
// handlers; its variant "results" keeps each job's result for an hour, and can wait for
// it. It is a module of its own, since machinery brings the clients of four clouds.
package main

import (
	"io"
	stdlog "log"
	"time"

	"github.com/RichardKnop/machinery/v1"
	"github.com/RichardKnop/machinery/v1/backends/result"
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
		var task any = perform
		if probe.Answers(class) {
			task = func(filler string, number int64) (string, error) {
				err := perform(filler, number)
				return probe.Answer(), err
			}
		}
		if steps := flowTask(class, handler); steps != nil {
			task = steps
		}
		if err := s.RegisterTask(class, task); err != nil {
			return err
		}
	}
	return s.NewWorker("bench", c.Workers).Launch()
}

func produce(c probe.Config) (probe.Producer, error) {
	s, err := server(c)
	return producer{s, c.Queues[0]}, err
}

type producer struct {
	server *machinery.Server
	queue  string
}

func (p producer) Push(j probe.Job) error {
	_, err := p.Call(j)
	return err
}

func (p producer) Call(j probe.Job) (string, error) {
	task := &tasks.Signature{UUID: j.ID, Name: j.Class, RoutingKey: j.Queue}
	for _, arg := range j.Args {
		kind := "int64"
		if _, ok := arg.(string); ok {
			kind = "string"
		}
		task.Args = append(task.Args, tasks.Arg{Type: kind, Value: arg})
	}
	if !j.At.IsZero() {
		task.ETA = &j.At
	}
	sent, err := p.server.SendTask(task)
	if err != nil {
		return "", err
	}
	return sent.Signature.UUID, nil
}

// poll is how long its documentation's examples sleep between two looks for a result.
const poll = 5 * time.Millisecond

func (p producer) Await(id string) (string, error) {
	values, err := result.NewAsyncResult(&tasks.Signature{UUID: id}, p.server.GetBackend()).Get(poll)
	if err != nil {
		return "", err
	}
	return tasks.HumanReadableResults(values), nil
}
