package main

import (
	"encoding/json"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/bench/probe"
)

// produce makes the contender raw: the least that pushing costs.
func produce(c probe.Config) (probe.Producer, error) {
	filler, number := probe.Args(c.Class, c.Jobs, c.Size)
	payload, err := json.Marshal(payload{Class: c.Class, Args: []interface{}{filler, number}})
	pool := &redis.Pool{
		MaxIdle: c.Producers,
		Dial:    func() (redis.Conn, error) { return redis.Dial("tcp", c.Addr) },
	}
	return producer{pool, payload}, err
}

type producer struct {
	pool    *redis.Pool
	payload []byte
}

func (p producer) Push(j probe.Job) error { return p.push(j.Queue, 1) }

func (p producer) PushAll(jobs []probe.Job) error { return p.push(jobs[0].Queue, len(jobs)) }

func (p producer) push(queue string, n int) error {
	conn := p.pool.Get()
	defer conn.Close()
	args := redis.Args{}.Add("resque:queue:" + queue)
	for range n {
		args = args.Add(p.payload)
	}
	_, err := conn.Do("RPUSH", args...)
	return err
}
