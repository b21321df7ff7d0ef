package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// consumer takes jobs over HTTP, as a program in any language does: it knows no Redis. The body of a job is
// "name ms what". It notes
//
//	D  a job was given to it: attempt and lease
//	B  it begins to say how the job ended
//	K  its ack was answered: the job is done
//	N  so was its nack
//	L  the server says that another consumer has the job, or that it is over
//	U  nothing that it sent was answered
type consumer struct {
	ledger
	servers []string
	queue   string
	ttr     time.Duration
	client  http.Client
}

// leased is a job as a reservation shows it.
type leased struct {
	ID      string `json:"id"`
	Queue   string `json:"queue"`
	Lease   string `json:"lease"`
	Body    string `json:"body"`
	Attempt int    `json:"attempt"`
}

// consume takes jobs with n goroutines until TERM, and ends those it has. order is "queue,ttr in ms,n,server,server…".
func (l ledger) consume(order string) {
	parts := strings.Split(order, ",")
	ms, _ := strconv.Atoi(parts[1])
	n, _ := strconv.Atoi(parts[2])
	c := &consumer{
		ledger: l, queue: parts[0], ttr: time.Duration(ms) * time.Millisecond, servers: parts[3:],
		client: http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: n}},
	}
	stop, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer cancel()
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { c.run(stop, i) })
	}
	all.Wait()
}

func (c *consumer) run(stop context.Context, i int) {
	for at := i; stop.Err() == nil; at++ {
		server := c.servers[at%len(c.servers)]
		jobs, err := c.reserve(server, 1+i%3)
		if err != nil {
			time.Sleep(50 * time.Millisecond) // the server is away, or Redis is
			continue
		}
		for _, j := range jobs {
			c.do(at, j)
		}
	}
}

func (c *consumer) reserve(server string, count int) ([]leased, error) {
	order := fmt.Sprintf(`{"queues":[%q],"count":%d,"ttr_ms":%d,"wait_ms":1000}`, c.queue, count, c.ttr.Milliseconds())
	status, body, err := c.post(server+"/reservations", order)
	if err != nil || status == http.StatusNoContent {
		return nil, err
	}
	if status != http.StatusOK {
		return nil, fmt.Errorf("status %d", status)
	}
	var got struct {
		Jobs []leased `json:"jobs"`
	}
	if err := json.Unmarshal(body, &got); err != nil {
		fmt.Fprintf(os.Stderr, "consumer: an answer is not JSON: %v: %q\n", err, body)
		os.Exit(4)
	}
	for _, j := range got.Jobs {
		name, _, _ := strings.Cut(j.Body, " ")
		c.write('D', name, fmt.Sprintf("\t%d\t%s\t%s\t%d", j.Attempt, j.Lease, j.ID, c.ttr.Milliseconds()))
	}
	return got.Jobs, nil
}

// do handles a job as its body says.
func (c *consumer) do(at int, j leased) {
	words := strings.Fields(j.Body)
	name, what := words[0], words[2]
	ms, _ := strconv.Atoi(words[1])
	pause := time.Duration(ms) * time.Millisecond
	first := j.Attempt <= 1
	switch {
	case what == "fail", what == "again" && first:
		time.Sleep(pause)
		c.end(at, j, name, "nack", 'N')
	case what == "hold" && first: // it ends late
		time.Sleep(c.ttr + pause)
		c.end(at, j, name, "ack", 'K')
	case what == "touch":
		for range 2 {
			time.Sleep(c.ttr / 2)
			if lease, ok := c.touch(at, j); ok {
				c.write('T', name, "\t"+j.Lease+"\t"+lease)
				j.Lease = lease
			}
		}
		c.end(at, j, name, "ack", 'K')
	default:
		time.Sleep(pause)
		c.end(at, j, name, "ack", 'K')
	}
}

// end acks or nacks a job, at one server after the other, until it gets an answer.
func (c *consumer) end(at int, j leased, name, how string, event byte) {
	c.write('B', name, "\t"+how+"\t"+j.Lease)
	unanswered := false
	for try := range 200 {
		server := c.servers[(at+try)%len(c.servers)]
		status, _, err := c.post(fmt.Sprintf("%s/queues/%s/jobs/%s/%s", server, j.Queue, j.ID, how), fmt.Sprintf(`{"lease":%q}`, j.Lease))
		switch {
		case err != nil || status >= 500 || status == http.StatusTooManyRequests:
			unanswered = true
			time.Sleep(50 * time.Millisecond)
			continue
		case status == http.StatusNoContent:
			c.write(event, name, "\t"+j.Lease)
		case unanswered: // one of those that were not answered may have done it
			c.write('U', name, "\t"+j.Lease)
		default:
			c.write('L', name, fmt.Sprintf("\t%s\t%d", j.Lease, status))
		}
		return
	}
	c.write('U', name, "\t"+j.Lease)
}

// touch has the job's lease last longer, and returns the new one.
func (c *consumer) touch(at int, j leased) (lease string, ok bool) {
	server := c.servers[at%len(c.servers)]
	status, body, err := c.post(fmt.Sprintf("%s/queues/%s/jobs/%s/touch", server, j.Queue, j.ID), fmt.Sprintf(`{"lease":%q,"ttr_ms":%d}`, j.Lease, c.ttr.Milliseconds()))
	if err != nil || status != http.StatusOK {
		return "", false
	}
	var got struct {
		Lease string `json:"lease"`
	}
	return got.Lease, json.Unmarshal(body, &got) == nil && got.Lease != ""
}

func (c *consumer) post(url, body string) (status int, answer []byte, err error) {
	request, err := http.NewRequestWithContext(context.Background(), http.MethodPost, url, bytes.NewReader([]byte(body)))
	if err != nil {
		return 0, nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Authorization", "Bearer "+os.Getenv("CHAOS_TOKEN"))
	reply, err := c.client.Do(request)
	if err != nil {
		return 0, nil, err
	}
	defer reply.Body.Close()
	answer, err = io.ReadAll(reply.Body)
	return reply.StatusCode, answer, err
}
