package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// webTTR is how long a consumer has a job. It is short: what a kill leaves behind comes back after it.
const webTTR = 2 * time.Second

// hands is how many jobs a consumer does at a time. One job in eight takes it two seconds.
const hands = 16

// Which namespace, queue and token the servers of an arena have. The queue's name in Redis is "shop.work".
const (
	webNamespace = "shop"
	webQueue     = "work"
	webToken     = "chaos-token-of-at-least-20-characters"
)

// web is the HTTP side of an arena: servers, consumers, and what was published.
type web struct {
	a         *arena
	addresses []string
	client    http.Client

	mu        sync.Mutex
	servers   []*process // of each address the latest
	consumers []*process
	jobs      map[string]*webJob
	published int
	quit      chan struct{}
	done      sync.WaitGroup

	respawned atomic.Int64 // dead letters that were to run again

	wires   []*wire            // between each server and Redis; nil: there are none
	program string             // of the servers
	setting func(i int) string // of the i-th server, a variable of its environment; nil: none
	query   string             // more options of each job
	undone  map[string]*undone // what Redis lost, by the names of jobs
	keyless map[string]int64   // when Redis lost the idempotency keys of jobs, in ms, by their ids
	losses  losses
}

// newWeb has the addresses of n servers, which serve starts.
func (a *arena) newWeb(n int) *web {
	a.loose = true // what Resque counts is compared by other rows
	w := &web{a: a, program: a.opts.worker, jobs: map[string]*webJob{}, undone: map[string]*undone{}, keyless: map[string]int64{}, quit: make(chan struct{}), client: http.Client{Timeout: 10 * time.Second}, servers: make([]*process, n)}
	for range n {
		w.addresses = append(w.addresses, freeAddress(a))
	}
	return w
}

// web starts two servers, and two consumers.
func (a *arena) web() *web {
	w := a.newWeb(2)
	w.open()
	return w
}

// wired is web with a proxy between each server and Redis.
func (a *arena) wired() *web {
	w := a.newWeb(2)
	w.wires = []*wire{a.wire(), a.wire()}
	w.open()
	return w
}

// open starts the servers, and two consumers.
func (w *web) open() {
	for i := range w.addresses {
		w.serve(i, w.uri(i))
	}
	for i := range w.addresses {
		w.ready(i)
	}
	w.consume(hands)
	w.consume(hands)
}

// uri is the flag that says how the i-th server reaches Redis.
func (w *web) uri(i int) string {
	if w.wires != nil {
		return w.wires[i].uri()
	}
	return "-uri=" + w.a.redis.URI()
}

// hosts counts the servers of this process, which have a loopback address each: a server that is started again must find
// its port free, which another arena's might have by then.
var hosts atomic.Uint32

// freeAddress is one that nothing listens on. A server that is started again has the same.
func freeAddress(a *arena) string {
	pid, n := uint32(os.Getpid()), hosts.Add(1)
	host := net.IPv4(127, byte(1+(pid>>8)%120), byte(pid), byte(1+n%250))
	l, err := net.Listen("tcp", net.JoinHostPort(host.String(), "0"))
	if err != nil {
		a.Fatalf("%v", err)
	}
	defer l.Close()
	return l.Addr().String()
}

// serve starts the i-th server.
func (w *web) serve(i int, uri string) *process {
	environment := []string{"CHAOS_HTTP=" + w.addresses[i], "CHAOS_TOKEN=" + webToken}
	if w.setting != nil {
		environment = append(environment, w.setting(i))
	}
	p := w.a.run("http", exec.Command(w.program, uri), environment...)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.servers[i] = p
	return p
}

func (w *web) ready(i int) {
	w.a.eventually("a server is ready", func() bool {
		if p := w.server(i); !p.alive() {
			w.a.Fatalf("%s ended by itself with status %d; see %s", p.name, p.status, p.output())
		}
		reply, err := w.client.Get("http://" + w.addresses[i] + "/readyz")
		if err != nil {
			return false
		}
		_ = reply.Body.Close()
		return reply.StatusCode == http.StatusOK
	})
}

func (w *web) server(i int) *process {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.servers[i]
}

// consume starts a consumer with n goroutines, who ask all servers in turn.
func (w *web) consume(n int) *process {
	order := []string{webQueue, fmt.Sprint(webTTR.Milliseconds()), fmt.Sprint(n)}
	for _, address := range w.addresses {
		order = append(order, "http://"+address+"/v2/"+webNamespace)
	}
	p := w.a.run("consumer", exec.Command(w.a.opts.worker), "CHAOS_CONSUME="+strings.Join(order, ","), "CHAOS_TOKEN="+webToken)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.consumers = append(w.consumers, p)
	return p
}

// whats are what consumers do with jobs: most are acked at once.
var whats = []string{"ack", "ack", "ack", "ack", "again", "ack", "ack", "hold", "ack", "touch", "ack", "ack", "fail", "ack", "ack", "ack"}

// publish publishes a job at any server and notes what became of it. One job in four has a key, and is published until
// there is an answer: there must be one job then.
func (w *web) publish() {
	w.mu.Lock()
	n := w.published
	w.published++
	j := &webJob{tries: 3 + n%3, push: 'u'}
	name := fmt.Sprint("web-", n)
	w.jobs[name] = j
	w.mu.Unlock()
	body := fmt.Sprintf("%s %d %s", name, w.a.intn(30), whats[n%len(whats)])
	key := ""
	if n%4 == 0 {
		key = name
	}
	server := w.a.intn(len(w.addresses)) // not in turn: producers in step would publish all jobs with keys at one server
	for try := range 100 {
		status, _ := w.send(http.MethodPost, server+try, fmt.Sprintf("queues/%s/jobs?tries=%d%s", webQueue, j.tries, w.query), body, key)
		push := byte('u')
		switch {
		case status == http.StatusCreated:
			push = 'a'
		case status >= 400 && status < 500:
			push = 'r'
			w.a.problem("the publish of job %s was refused with status %d", name, status)
		}
		w.mu.Lock()
		j.push = push
		w.mu.Unlock()
		if push != 'u' || key == "" {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// send sends a request to the i-th server. Status 0: there was no answer.
func (w *web) send(method string, i int, path, body, key string) (status int, answer []byte) {
	url := fmt.Sprintf("http://%s/v2/%s/%s", w.addresses[i%len(w.addresses)], webNamespace, path)
	request, err := http.NewRequestWithContext(context.Background(), method, url, strings.NewReader(body))
	if err != nil {
		w.a.Fatalf("%v", err)
	}
	request.Header.Set("Content-Type", "text/plain")
	request.Header.Set("Authorization", "Bearer "+webToken)
	if key != "" {
		request.Header.Set("Idempotency-Key", key)
	}
	reply, err := w.client.Do(request)
	if err != nil {
		return 0, nil
	}
	defer reply.Body.Close()
	if answer, err = io.ReadAll(reply.Body); err != nil {
		return 0, nil
	}
	return reply.StatusCode, answer
}

// produce publishes rate jobs a second, one after the other, with n goroutines until finish is called.
func (w *web) produce(n, rate int) {
	for range n {
		w.done.Go(func() {
			defer w.a.report()
			tick := time.NewTicker(time.Duration(n) * time.Second / time.Duration(rate))
			defer tick.Stop()
			for {
				select {
				case <-w.quit:
					return
				case <-tick.C:
					w.publish()
				}
			}
		})
	}
}

// finish ends the load, waits until all jobs have ended, and stops consumers and servers. All jobs are counted then.
func (w *web) finish(allowed webLoss) {
	close(w.quit)
	w.done.Wait()
	a := w.a
	a.eventuallyWithin(2*soon, "all jobs of HTTP have ended", func() bool {
		return a.number("LLEN", "resque:queue:"+webNamespace+"."+webQueue)+a.number("ZCARD", "resque:go:leases")+a.number("ZCARD", "resque:go:schedule") == 0
	})
	w.mu.Lock()
	consumers, servers := w.consumers, w.servers
	w.mu.Unlock()
	for _, group := range [][]*process{consumers, servers} { // a consumer needs a server for its last answer
		for _, p := range group {
			p.signal(syscall.SIGTERM)
		}
		for _, p := range group {
			select {
			case <-p.exited:
				if p.status > 0 {
					a.problem("%s exited with status %d; see %s", p.name, p.status, p.output())
				}
			case <-time.After(soon):
				a.problem("%s did not end within %v; see %s", p.name, soon, p.output())
				p.kill()
			}
		}
	}
	a.checks = append(a.checks, w.check(allowed))
}

// killSome kills servers and consumers at random instants, and starts each again.
func (w *web) killSome(times int) {
	a := w.a
	for range times {
		time.Sleep(a.between(200*time.Millisecond, 600*time.Millisecond))
		w.mu.Lock()
		i := len(w.consumers)
		w.mu.Unlock()
		if k := a.intn(len(w.addresses) + i); k < len(w.addresses) {
			w.server(k).kill()
			w.serve(k, w.uri(k))
			w.ready(k)
		} else {
			w.mu.Lock()
			p := w.consumers[k-len(w.addresses)]
			w.consumers = append(w.consumers[:k-len(w.addresses)], w.consumers[k-len(w.addresses)+1:]...)
			w.mu.Unlock()
			p.kill()
			w.consume(hands)
		}
		a.inject()
	}
}
