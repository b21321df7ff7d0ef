package inspect_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/inspect"
	"github.com/goworker/goworker/internal/redistest"
	"github.com/goworker/goworker/internal/resque"
)

func cancelled(t *testing.T, server *redistest.Server) string {
	t.Helper()
	return strings.Join(server.List(t, "ZRANGE", "resque:go:cancelled", 0, -1), " ")
}

// says checks that an error is the one and says what.
func says(t *testing.T, what string, err, is error, text string) {
	t.Helper()
	if !errors.Is(err, is) || !strings.Contains(fmt.Sprint(err), text) || strings.Count(fmt.Sprint(err), "goworker: ") != 1 {
		t.Errorf("%s: %v; want %v with %q", what, err, is, text)
	}
}

// A job without a document is found in every place, and one that is nowhere leaves no entry.
func TestCancelEverywhere(t *testing.T) {
	i, server, _ := setup(t)
	everywhere(t, server)
	server.Do(t, "RPUSH", "resque:queue:mail", `{"class":"ActiveJob::QueueAdapters::ResqueAdapter::JobWrapper","args":[{"job_class":"R","job_id":"rails","arguments":[]}]}`)
	for _, id := range []string{"later", "mine", "laned", "runs", "odd", "rails"} {
		if err := i.Cancel(t.Context(), id); err != nil {
			t.Error(err)
		}
		want(t, "entries", "j:"+id, cancelled(t, server), nil)
		if err := i.Cancel(t.Context(), id); err != nil {
			t.Error("again:", err)
		}
		if err := i.Lift(t.Context(), id); err != nil {
			t.Error(err)
		}
		says(t, "lifted again", i.Lift(t.Context(), id), inspect.ErrUnknownJob, "lifting the cancel of "+id)
	}
	says(t, "nowhere", i.Cancel(t.Context(), "nobody"), inspect.ErrUnknownJob, "cancelling nobody: ")
	says(t, "in failed", i.Cancel(t.Context(), "x"), inspect.ErrJobEnded, "it has failed")
	if err := i.Cancel(t.Context(), ""); err == nil || !strings.Contains(err.Error(), "no id") {
		t.Error(err)
	}
	want(t, "entries", "", cancelled(t, server), nil)
	if err := i.Cancel(t.Context(), "nobody", inspect.Force(), nil); err != nil {
		t.Error(err)
	}
	want(t, "forced", "j:nobody", cancelled(t, server), nil)

	if err := i.Cancel(t.Context(), "later"); err != nil {
		t.Error(err)
	}
	score, err := redis.Float64(server.Do(t, "ZSCORE", "resque:go:cancelled", "j:later"), nil)
	week := resque.CancelKept.Milliseconds()
	if kept := int64(score); err != nil || kept < 1_900_000_000_000+week || kept > 1_900_000_002_000+week {
		t.Errorf("a job that is due later is cancelled until %d, %v", kept, err)
	}
}

// A document says how a job has ended. Its job is not searched for.
func TestCancelByDocument(t *testing.T) {
	i, server, _ := setup(t)
	server.Do(t, "HSET", "resque:go:result:a", "state", "pending", "ttl", 60_000)
	server.Do(t, "HSET", "resque:go:result:b", "state", "discarded", "ttl", 60_000)
	if err := i.Cancel(t.Context(), "a"); err != nil {
		t.Error(err)
	}
	want(t, "state", []string{"cancelled"}, server.List(t, "HMGET", "resque:go:result:a", "state"), nil)
	says(t, "it has ended", i.Cancel(t.Context(), "b", inspect.Force()), inspect.ErrJobEnded, "cancelling b: the job has ended: discarded")
	if err := i.Lift(t.Context(), "a"); err != nil {
		t.Error(err)
	}
	want(t, "state", []string{"pending"}, server.List(t, "HMGET", "resque:go:result:a", "state"), nil)
	want(t, "entries", "", cancelled(t, server), nil)
}

func TestCancelRunning(t *testing.T) {
	i, server, _ := setup(t)
	everywhere(t, server)
	e := one(t, i, inspect.Query{Class: "B", Places: []inspect.Place{inspect.Running}})
	want(t, "ticket", int64(8), e.Ticket, nil)
	if err := i.By("Ann", "too slow").CancelRunning(t.Context(), e.Process, e.Ticket); err != nil {
		t.Error(err)
	}
	says(t, "another ticket", i.CancelRunning(t.Context(), e.Process, 99), inspect.ErrUnknownJob, "cancelling ticket 99 of process h:1:a")
	want(t, "entries", "t:h:1:a:8", cancelled(t, server), nil)
	by := i.By("Ann", "")
	for _, err := range []error{by.Cancel(t.Context(), "mine"), by.Lift(t.Context(), "mine")} {
		if err != nil {
			t.Error(err)
		}
	}
	_ = by.Cancel(t.Context(), "nobody")
	entries, err := i.Audit(t.Context(), 9)
	var said []string
	for _, e := range entries {
		said = append(said, fmt.Sprint(e.Who, " ", e.What, " ", e.On, " ", e.Changed))
	}
	want(t, "audit", []string{"Ann Lift job mine 1", "Ann Cancel job mine 1", "Ann CancelRunning ticket 8 of process h:1:a 1"}, said, err)
}

// Over shards the job is found on its own, and a shard that is away is named.
func TestCancelOnShards(t *testing.T) {
	i, servers := sharded(t)
	servers[1].Do(t, "SADD", "resque:queues", "q")
	servers[1].Do(t, "RPUSH", "resque:queue:q", `{"class":"A","args":[],"id":"mine"}`)
	servers[2].Do(t, "HSET", "resque:go:result:over", "state", "done")
	if err := i.Cancel(t.Context(), "mine"); err != nil {
		t.Error(err)
	}
	for n, server := range servers {
		want(t, "entries of a shard", map[int]string{1: "j:mine"}[n], cancelled(t, server), nil)
	}
	says(t, "ended", i.Cancel(t.Context(), "over"), inspect.ErrJobEnded, "done")
	says(t, "nowhere", i.Cancel(t.Context(), "nobody"), inspect.ErrUnknownJob, "nobody")
	if err := i.Lift(t.Context(), "mine"); err != nil {
		t.Error(err)
	}
	servers[0].Do(t, "SET", "resque:go:cancelled", "x")
	says(t, "a shard that refuses", i.Cancel(t.Context(), "nobody"), inspect.ErrUnknownJob, "shard redis://shard0: ")
	if err := i.Cancel(t.Context(), "mine"); err != nil {
		t.Error(err)
	}
}

// counted calls a function after some calls.
type counted struct {
	*lender
	calls int
	then  func()
}

func (c *counted) Do(ctx context.Context, f func(s resque.Store, c redis.Conn) error) error {
	defer func() {
		if c.calls--; c.calls == 0 {
			c.then()
		}
	}()
	return c.lender.Do(ctx, f)
}

// A search that does not end takes the cancel back.
func TestCancelCutShort(t *testing.T) {
	_, server, l := setup(t)
	server.Do(t, "SADD", "resque:queues", "q")
	server.Do(t, "EVAL", "for n = 1, 30000 do redis.call('RPUSH', 'resque:queue:q', '{\"class\":\"A\",\"args\":[' .. n .. ']}') end", 0)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	i := inspect.New(&counted{lender: l, calls: 2, then: cancel})
	if err := i.Cancel(ctx, "nobody"); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	want(t, "entries", "", cancelled(t, server), nil)
}
