// Package msgpack has jobs of MessagePack queues go every way that jobs go.
package msgpack

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/internal/daemontest"
	"github.com/goworker/goworker/internal/redistest"
	"github.com/goworker/goworker/internal/resque"
)

func TestMain(m *testing.M) { daemontest.Main(m) }

// calc is the queue of the tests.
var calc = goworker.MessagePack("calc")

// The keys of calc, and those that a Ruby worker would read.
const (
	list      = "resque:go:queue:calc"
	names     = "resque:go:queues"
	rubysList = "resque:queue:msgpack:calc"
)

func setup(t *testing.T, change ...func(*goworker.WorkerSettings)) (*daemontest.Bundle, *goworker.Client) {
	t.Helper()
	return setupOn(t, redistest.Start(t), change...)
}

func setupOn(t *testing.T, server *redistest.Server, change ...func(*goworker.WorkerSettings)) (*daemontest.Bundle, *goworker.Client) {
	t.Helper()
	change = append([]func(*goworker.WorkerSettings){func(s *goworker.WorkerSettings) { s.QueuesString = "work," + calc }}, change...)
	b := daemontest.SetupOn(t, server, change...)
	t.Cleanup(b.Daemon.Close)
	b.Daemon.Register("Add", func(terms ...int) (int, error) {
		sum := 0
		for _, n := range terms {
			sum += n
		}
		return sum, nil
	})
	return b, b.Daemon.Client()
}

func job(class string, args ...any) *goworker.Job { return goworker.NewJob(calc, class, args...) }

func enqueue(t *testing.T, c *goworker.Client, j *goworker.Job, opts ...goworker.EnqueueOption) goworker.Receipt {
	t.Helper()
	r, err := c.Enqueue(t.Context(), j, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func await[T any](t *testing.T, c *goworker.Client, id string) T {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), daemontest.Soon)
	defer cancel()
	result, err := goworker.Await[T](ctx, c, id)
	if err != nil {
		t.Fatalf("await %s: %v", id, err)
	}
	return result
}

// items are what lies in the queue: MessagePack as hexadecimal digits, JSON as it is.
func items(b *daemontest.Bundle) (all []string) {
	for _, raw := range b.Redis.List(b.T, "LRANGE", list, 0, -1) {
		if !strings.HasPrefix(raw, "{") {
			raw = hex.EncodeToString([]byte(raw))
		}
		all = append(all, raw)
	}
	return all
}

// hidden fails the test if Ruby's workers could find the queue: it is in no set and no list of theirs. Nothing but RemoveQueue and
// a drain takes a name out of the set again, so what is not there at the end never was.
func hidden(b *daemontest.Bundle) {
	b.T.Helper()
	for _, name := range b.Redis.List(b.T, "SMEMBERS", "resque:queues") {
		if strings.HasPrefix(name, "msgpack") || name == "calc" {
			b.T.Errorf("the set of queues has %s", name)
		}
	}
	for _, key := range b.Redis.Keys(b.T) {
		if strings.HasPrefix(key, "resque:queue:msgpack") || key == "resque:queue:calc" {
			b.T.Errorf("there is the list %s", key)
		}
	}
}

// errSome is why a job fails.
var errSome = errors.New("broken")

// older puts a process of a release without MessagePack queues into the fleet. It lives until gone is called.
func older(b *daemontest.Bundle) (id string, gone func()) {
	b.T.Helper()
	p := b.Died(true)
	b.Redis.Do(b.T, "HSET", "resque:go:process:"+p.ID, "knows", "workflows", "version", "1.9")
	b.Redis.Do(b.T, "ZADD", "resque:go:processes", fmt.Sprint(time.Now().Add(time.Hour).UnixMilli()), p.ID)
	return p.ID, func() {
		if left, err := resque.New("").Leave(b.Redis.Dial(b.T), p.ID); err != nil || left != 0 {
			b.T.Fatal(left, err)
		}
	}
}
