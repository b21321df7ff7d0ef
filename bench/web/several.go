package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/valyala/fasthttp"
)

const (
	bulk      = 64  // jobs of one publish
	batch     = 100 // that a client takes at a time
	together  = 8   // clients
	bulkCalls = 1_000
)

// listOf returns a list in JSON of so many jobs.
func listOf(n int, job string) string {
	return "[" + strings.TrimSuffix(strings.Repeat(job+",", n), ",") + "]"
}

// several publishes many jobs a call, and takes many a call. goworker acknowledges them in one call, lmstfy one by one.
func (s *setup) several(r *rows) error {
	client := s.clientOf(together)
	defer client.CloseIdleConnections()
	all := listOf(bulk, strconv.Quote(body))
	if err := s.timedMany(r, "web-bulk", together, bulkCalls, bulk, func() error {
		_, err := s.call(client, http.MethodPut, "load/bulk?ttl=86400&tries=3", all, http.StatusCreated)
		return err
	}); err != nil {
		return err
	}
	return s.timedMany(r, "web-batch", together, bulk*bulkCalls/batch, batch, func() error {
		answer, err := s.call(client, http.MethodGet, fmt.Sprintf("load?ttr=120&count=%d", batch), "", http.StatusOK)
		if err != nil {
			return err
		}
		var jobs []struct {
			ID string `json:"job_id"`
		}
		if err := json.Unmarshal(answer, &jobs); err != nil {
			return err
		}
		ids := make([]string, len(jobs))
		for i := range jobs {
			ids[i] = jobs[i].ID
			if s.name == lmstfy {
				if _, err := s.call(client, http.MethodDelete, "load/job/"+ids[i], "", http.StatusNoContent); err != nil {
					return err
				}
			}
		}
		if s.name == lmstfy {
			return nil
		}
		list, _ := json.Marshal(ids)
		_, err = s.call(client, http.MethodPost, "load/acks", string(list), http.StatusOK)
		return err
	})
}

// wake publishes one job after the other while many clients wait, and says how long each took to its client.
func (s *setup) wake(r *rows) error {
	const waiters, jobs = 1_000, 1_000
	client, publisher := s.clientOf(waiters), s.clientOf(1)
	defer client.CloseIdleConnections()
	defer publisher.CloseIdleConnections()
	asked := make(chan struct{}, waiters) // each has a connection of its own until a job comes
	client.Dial = func(address string) (net.Conn, error) {
		c, err := fasthttp.Dial(address)
		if err != nil {
			return nil, err
		}
		return &askingConn{Conn: c, asked: asked}, nil
	}
	came := make(chan time.Time)
	var wg sync.WaitGroup
	var mu sync.Mutex
	var failed error
	waiting := func() error {
		for {
			answer, err := s.call(client, http.MethodGet, "wake?ttr=120&timeout=5", "", http.StatusOK)
			switch {
			case err == nil:
				came <- time.Now()
			case strings.Contains(err.Error(), "no job available") || strings.Contains(string(answer), "no job available"):
				return nil
			default:
				return err
			}
		}
	}
	for range waiters {
		wg.Go(func() {
			if err := waiting(); err != nil {
				mu.Lock()
				failed = errors.Join(failed, err)
				mu.Unlock()
			}
		})
	}
	for range waiters {
		select {
		case <-asked:
		case <-time.After(time.Minute):
			return errors.New("not all that wait have asked")
		}
	}
	took := make([]time.Duration, jobs)
	for i := range took {
		began := time.Now()
		if _, err := s.call(publisher, http.MethodPut, "wake?ttl=86400&tries=1", body, http.StatusCreated); err != nil {
			return err
		}
		select {
		case at := <-came:
			took[i] = at.Sub(began)
		case <-time.After(time.Minute):
			return errors.New("a job came to none of those that wait")
		}
	}
	wg.Wait()
	slices.Sort(took)
	r.add(s.name, "web-wake", waiters, "web_p50_ms", took[jobs/2].Seconds()*1000)
	r.add(s.name, "web-wake", waiters, "web_p99_ms", took[jobs*99/100].Seconds()*1000)
	return failed
}

// askingConn says once that a request was sent over it.
type askingConn struct {
	net.Conn
	once  sync.Once
	asked chan<- struct{}
}

func (c *askingConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	if err == nil {
		c.once.Do(func() { c.asked <- struct{}{} })
	}
	return n, err
}

// delayed publishes jobs that are due in a day, and says what each takes of Redis's memory.
func (s *setup) delayed(r *rows, jobs int) error {
	before, err := s.info("used_memory")
	if err != nil {
		return err
	}
	if err := s.later(jobs, func(client *fasthttp.HostClient) error {
		_, err := s.call(client, http.MethodPut, "later?delay=86400&ttl=172800", "0123456789abcdef", http.StatusCreated)
		return err
	}); err != nil {
		return err
	}
	after, err := s.info("used_memory")
	if err != nil {
		return err
	}
	r.add(s.name, "web-delayed", 1, "redis_bytes_per_job", float64(after-before)/float64(jobs))
	if s.name == lmstfy { // which destroys only what is ready
		return nil
	}
	client := s.clientOf(1)
	defer client.CloseIdleConnections()
	_, err = s.call(client, http.MethodDelete, "later", "", http.StatusNoContent)
	return err
}

// later calls f so often, by fifty clients.
func (s *setup) later(calls int, f func(*fasthttp.HostClient) error) error {
	const clients = 50
	client := s.clientOf(clients)
	defer client.CloseIdleConnections()
	failures := make([]error, clients)
	var wg sync.WaitGroup
	for c := range clients {
		wg.Go(func() {
			for i := c; i < calls && failures[c] == nil; i += clients {
				failures[c] = f(client)
			}
		})
	}
	wg.Wait()
	return errors.Join(failures...)
}

// due publishes jobs that fall due at about the same time, and says how long after that all are in their queue.
func (s *setup) due(r *rows, jobs int) error {
	const delay = 20 * time.Second
	all := listOf(bulk, strconv.Quote(body))
	calls := (jobs + bulk - 1) / bulk
	if err := s.later(calls, func(client *fasthttp.HostClient) error {
		_, err := s.call(client, http.MethodPut, fmt.Sprintf("due/bulk?delay=%d&ttl=86400", int(delay/time.Second)), all, http.StatusCreated)
		return err
	}); err != nil {
		return err
	}
	last := time.Now().Add(delay)
	time.Sleep(time.Until(last))
	client := s.clientOf(1)
	defer client.CloseIdleConnections()
	for {
		text, err := s.call(client, http.MethodGet, "due/size", "", http.StatusOK)
		if err != nil {
			return err
		}
		var queue struct{ Size int }
		if err := json.Unmarshal(text, &queue); err != nil {
			return err
		}
		if queue.Size >= calls*bulk {
			break
		}
		if time.Since(last) > time.Minute {
			return fmt.Errorf("%d of %d jobs are in their queue a minute after all are due", queue.Size, calls*bulk)
		}
		time.Sleep(20 * time.Millisecond)
	}
	r.add(s.name, "web-due", jobs, "behind_ms", time.Since(last).Seconds()*1000)
	_, err := s.call(client, http.MethodDelete, "due", "", http.StatusNoContent)
	return err
}
