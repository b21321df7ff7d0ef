package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"
)

// body is that of a job, 100 bytes.
var body = strings.Repeat("0123456789", 10)

// clientOf returns a client with so many connections. It takes less of the processor than net/http's: what it takes, the
// servers that are measured lack.
func (s *setup) clientOf(connections int) *fasthttp.HostClient {
	return &fasthttp.HostClient{Addr: s.address, MaxConns: connections, ReadTimeout: time.Minute, WriteTimeout: time.Minute, MaxIdemponentCallAttempts: 1}
}

// load publishes jobs by so many clients at a time, and then takes and acknowledges each.
func (s *setup) load(r *rows, clients, jobs int) error {
	client := s.clientOf(clients)
	defer client.CloseIdleConnections()
	if err := s.timed(r, "web-publish", clients, jobs, func() error {
		_, err := s.call(client, http.MethodPut, "load?ttl=86400&tries=3", body, http.StatusCreated)
		return err
	}); err != nil {
		return err
	}
	return s.timed(r, "web-consume", clients, jobs, func() error {
		answer, err := s.call(client, http.MethodGet, "load?ttr=120", "", http.StatusOK)
		if err != nil {
			return err
		}
		var job struct {
			ID string `json:"job_id"`
		}
		if err := json.Unmarshal(answer, &job); err != nil {
			return err
		}
		_, err = s.call(client, http.MethodDelete, "load/job/"+job.ID, "", http.StatusNoContent)
		return err
	})
}

// timed calls f so often, by so many clients at a time, and adds what that came to. One call is one job.
func (s *setup) timed(r *rows, work string, clients, calls int, f func() error) error {
	return s.timedMany(r, work, clients, calls, 1, f)
}

// timedMany is timed with calls that each do so many jobs.
func (s *setup) timedMany(r *rows, work string, clients, calls, each int, f func() error) error {
	jobs := calls * each
	serverBefore, _, err1 := used(s.server)
	redisBefore, _, err2 := used(s.store)
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	var next atomic.Int64
	var wg sync.WaitGroup
	took := make([]time.Duration, calls)
	failures := make([]error, clients)
	began := time.Now()
	for c := range clients {
		wg.Go(func() {
			for i := next.Add(1) - 1; i < int64(calls); i = next.Add(1) - 1 {
				from := time.Now()
				if failures[c] = f(); failures[c] != nil {
					return
				}
				took[i] = time.Since(from)
			}
		})
	}
	wg.Wait()
	span := time.Since(began)
	serverAfter, _, err1 := used(s.server)
	redisAfter, _, err2 := used(s.store)
	if err := errors.Join(append(failures, err1, err2)...); err != nil {
		return fmt.Errorf("%s, %d clients: %w", work, clients, err)
	}
	slices.Sort(took)
	ms := func(part float64) float64 { return took[int(part*float64(calls-1))].Seconds() * 1000 }
	r.add(s.name, work, clients, "jobs_per_s", float64(jobs)/span.Seconds())
	r.add(s.name, work, clients, "web_p50_ms", ms(0.5))
	r.add(s.name, work, clients, "web_p99_ms", ms(0.99))
	r.add(s.name, work, clients, "server_cpu_us_per_job", float64(serverAfter-serverBefore)/float64(jobs))
	r.add(s.name, work, clients, "redis_cpu_us_per_job", float64(redisAfter-redisBefore)/float64(jobs))
	return nil
}

func (s *setup) call(client *fasthttp.HostClient, method, path, body string, want int) ([]byte, error) {
	request, reply := fasthttp.AcquireRequest(), fasthttp.AcquireResponse()
	defer fasthttp.ReleaseRequest(request)
	defer fasthttp.ReleaseResponse(reply)
	request.SetRequestURI("http://" + s.address + "/api/" + namespace + "/" + path)
	request.Header.SetMethod(method)
	request.Header.Set("X-Token", s.token)
	request.SetBodyString(body)
	if err := client.Do(request, reply); err != nil {
		return nil, err
	}
	answer := bytes.Clone(reply.Body())
	if reply.StatusCode() != want {
		return answer, fmt.Errorf("%s %s: %d %s", method, path, reply.StatusCode(), answer)
	}
	return answer, nil
}

// idle has many clients wait for jobs that do not come, in a hundred queues, and says what they cost.
func (s *setup) idle(r *rows, waiters int) error {
	_, before, err := used(s.server)
	if err != nil {
		return err
	}
	connections := make([]net.Conn, 0, waiters)
	defer func() {
		for _, c := range connections {
			_ = c.Close()
		}
	}()
	for i := range waiters {
		c, err := net.Dial("tcp", s.address)
		if err != nil {
			return err
		}
		connections = append(connections, c)
		if _, err := fmt.Fprintf(c, "GET /api/%s/idle-%d?timeout=600&ttr=120 HTTP/1.1\r\nHost: bench\r\nX-Token: %s\r\n\r\n", namespace, i%100, s.token); err != nil {
			return err
		}
	}
	waiting := func() error {
		open, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", s.server.Process.Pid))
		if err == nil && len(open) < waiters {
			err = fmt.Errorf("%d descriptors are open, not %d", len(open), waiters)
		}
		return err
	}
	if err := eventually(waiting); err != nil {
		return err
	}
	if err := s.rests(); err != nil { // all are asked for
		return err
	}
	descriptors, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", s.server.Process.Pid))
	if err != nil {
		return err
	}
	commands, err := s.info("total_reads_processed")
	if err != nil {
		return err
	}
	const span = 10 * time.Second
	time.Sleep(span)
	later, err := s.info("total_reads_processed")
	if err != nil {
		return err
	}
	_, after, err := used(s.server)
	if err != nil {
		return err
	}
	clients, err := s.info("connected_clients")
	if err != nil {
		return err
	}
	r.add(s.name, "web-waiters", waiters, "bytes_per_waiter", float64(after-before)/float64(waiters))
	r.add(s.name, "web-waiters", waiters, "descriptors", float64(len(descriptors)))
	r.add(s.name, "web-waiters", waiters, "connections", float64(clients-1)) // but for our own
	r.add(s.name, "web-waiters", waiters, "idle_commands_per_s", float64(later-commands-1)/span.Seconds())
	client := s.clientOf(1)
	defer client.CloseIdleConnections()
	began := time.Now()
	if _, err := s.call(client, http.MethodPut, "idle-0", body, http.StatusCreated); err != nil {
		return err
	}
	reply, err := http.ReadResponse(bufio.NewReader(connections[0]), nil) // who waits longest gets it
	if err != nil || reply.StatusCode != http.StatusOK {
		return fmt.Errorf("the first of those that wait got no job: %v", err)
	}
	_ = reply.Body.Close()
	r.add(s.name, "web-waiters", waiters, "web_p50_ms", time.Since(began).Seconds()*1000)
	return nil
}
