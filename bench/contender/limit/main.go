// Command limit is the least an at-least-once worker can do: take jobs and
// acknowledge them in one script on one connection, decode each, call its
// function. It has no statistics, no worker records, no lease, no failures and
// no recovery, and it takes only what an idle worker can have at once. What a
// contender loses against it is what its bookkeeping costs. What it pushes, as the
// contender raw, is bytes that were made beforehand.
package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"strings"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/bench/probe"
)

//go:embed exchange.lua
var exchangeSource string

// take is the most one exchange asks for: Lua's unpack must hold its fields.
const take = 1000

type job struct {
	ticket  int64
	payload []byte
}

type payload struct {
	Class string        `json:"class"`
	Args  []interface{} `json:"args"`
}

func main() { probe.Main(work, produce) }

func work(c probe.Config, handlers map[string]probe.Handler) error {
	conn, err := redis.Dial("tcp", c.Addr)
	if err != nil {
		return err
	}
	// A value of over 64 bytes has Redis keep the hash as a table: of a listpack each command would go through all fields.
	const inflight = "resque:limit:inflight"
	if _, err := conn.Do("HSET", inflight, "table", strings.Repeat("-", 65)); err != nil {
		return err
	}
	l := &loop{
		conn:           conn,
		exchangeScript: redis.NewScript(2, exchangeSource),
		queue:          "resque:queue:" + c.Queues[0],
		inflight:       inflight,
		handlers:       handlers,
		jobs:           make(chan job),
		done:           make(chan int64, c.Workers),
	}
	return l.run(c.Workers)
}

// loop is one poller and its workers. Only the poller uses conn.
type loop struct {
	conn            redis.Conn
	exchangeScript  *redis.Script
	queue, inflight string
	handlers        map[string]probe.Handler
	jobs            chan job   // unbuffered: a job handed over has a worker
	done            chan int64 // tickets of finished jobs, room for one a worker
	ticket          int64      // the last one given
}

func (l *loop) run(workers int) error {
	for range workers {
		go l.work()
	}
	idle, empty := workers, false
	var finished []int64
	for {
		if idle == 0 || (empty && idle < workers) {
			finished = append(finished, <-l.done)
			// Let those that are about to finish do so: otherwise every other
			// exchange carries a single straggler.
			runtime.Gosched()
		}
		finished = l.drain(finished)
		idle += len(finished)

		taken, err := l.exchange(finished, min(idle, take))
		if err != nil {
			return err
		}
		finished = finished[:0]
		for _, payload := range taken {
			l.ticket++
			l.jobs <- job{l.ticket, payload}
		}
		idle -= len(taken)

		empty = len(taken) == 0
		if empty && idle == workers {
			// Sleep in Redis until the queue has something, and leave it there:
			// the head of the list moves to where it is.
			if _, err := l.conn.Do("BLMOVE", l.queue, l.queue, "LEFT", "LEFT", 0); err != nil {
				return err
			}
		}
	}
}

// drain adds what finished meanwhile, without waiting.
func (l *loop) drain(finished []int64) []int64 {
	for {
		select {
		case ticket := <-l.done:
			finished = append(finished, ticket)
		default:
			return finished
		}
	}
}

func (l *loop) exchange(finished []int64, n int) ([][]byte, error) {
	args := redis.Args{}.Add(l.inflight, l.queue, n, l.ticket+1).AddFlat(finished)
	return redis.ByteSlices(l.exchangeScript.DoContext(context.Background(), l.conn, args...))
}

func (l *loop) work() {
	for j := range l.jobs {
		var p payload
		if err := json.Unmarshal(j.payload, &p); err != nil {
			fmt.Fprintln(os.Stderr, err)
		} else if handler, ok := l.handlers[p.Class]; ok {
			if err := handler(l.queue, p.Args...); err != nil {
				fmt.Fprintln(os.Stderr, err)
			}
		}
		l.done <- j.ticket
	}
}
