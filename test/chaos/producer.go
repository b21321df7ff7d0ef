package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/internal/resque"
)

// load says what is pushed.
type load struct {
	total   int  // by the Go producers; 0: until stopped
	rate    int  // jobs a second
	longest int  // ms a job takes, but for one in 400, which takes ten times as long
	failing int  // of a thousand
	even    bool // no job takes ten times as long
	classes []string
	node    bool // one more producer is node-resque's
	orders  bool // one more enqueues jobs with policies
	delayed bool // all are delayed
}

// backlog is the length of the queue at which the Go producers wait.
const backlog = 3000

// producer pushes jobs and notes each when it knows what became of its push.
type producer struct {
	a    *arena
	file *os.File
	name string
	push func(p *producer, jobs []job, c redis.Conn)
	most int // jobs in one push
	n    int
	node *process

	quit chan struct{}
	once sync.Once
	done chan struct{}
}

// produce starts a producer in each way in which jobs are pushed: one at a time by the
// library, in batches acknowledged as one, and in pipelines in which each push is
// acknowledged for itself. In a short run half as many come.
func (a *arena) produce(l load) {
	if a.opts.short && l.total == 0 {
		l.rate /= 2
	}
	each := l
	each.rate, each.total = max(1, l.rate/3), (l.total+2)/3
	start := func(name string, most int, push func(*producer, []job, redis.Conn)) {
		p := a.newProducer(name)
		p.push, p.most = push, most
		go p.run(each)
	}
	if l.delayed {
		for i := range 3 {
			start(fmt.Sprint("later", i), 40, func(p *producer, jobs []job, _ redis.Conn) { pushDelayed(p, jobs) })
		}
		return
	}
	start("one", 1, pushOne)
	start("batch", 40, pushBatch)
	start("pipe", 100, pushPipeline)
	if l.orders {
		start("told", 5, func(p *producer, jobs []job, _ redis.Conn) { pushOrders(p, jobs) })
	}
	if !l.node {
		return
	}
	if !a.haveNode() {
		a.note("node-resque is not installed; its producer was left out")
		return
	}
	cmd := exec.Command("node", "producer.mjs", a.port(), fmt.Sprint(each.rate), fmt.Sprint(l.longest), fmt.Sprint(each.total/4), fmt.Sprint(a.intn(1<<30)))
	p := &producer{a: a, node: a.run("node", cmd)}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.producers = append(a.producers, p)
}

func (a *arena) haveNode() bool {
	_, err := os.Stat("../interop/node_modules/node-resque")
	return err == nil
}

func (a *arena) newProducer(name string) *producer {
	file, err := os.OpenFile(a.ledger(name), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		a.Fatalf("%v", err)
	}
	p := &producer{a: a, name: name, file: file, quit: make(chan struct{}), done: make(chan struct{})}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.producers = append(a.producers, p)
	return p
}

// stopProducers returns when every push under way was answered or given up.
func (a *arena) stopProducers() {
	for _, p := range a.producers {
		if p.node != nil {
			p.node.term()
			continue
		}
		p.once.Do(func() { close(p.quit) })
	}
	a.waitProducers()
}

// waitProducers returns when all have pushed what they have to.
func (a *arena) waitProducers() {
	for _, p := range a.producers {
		if p.node != nil {
			<-p.node.exited
		} else {
			<-p.done
		}
	}
}

type job struct {
	id, class string
	ms        int
}

// padding makes a payload large enough for a field of its own in the in-flight record.
var padding = strings.Repeat("x", resque.ApartFrom)

// payload is the job's. Two of ten are large.
func (j job) payload() []byte {
	if strings.HasSuffix(j.id, "3") || strings.HasSuffix(j.id, "7") {
		return fmt.Appendf(nil, `{"class":%q,"args":[%q,%d],"padding":%q}`, j.class, j.id, j.ms, padding)
	}
	return fmt.Appendf(nil, `{"class":%q,"args":[%q,%d]}`, j.class, j.id, j.ms)
}

func (p *producer) run(l load) {
	defer close(p.done)
	defer p.file.Close()
	var c redis.Conn
	defer func() {
		if c != nil {
			c.Close()
		}
	}()
	began := time.Now()
	for l.total == 0 || p.n < l.total {
		select {
		case <-p.quit:
			return
		case <-time.After(time.Until(began.Add(time.Duration(p.n) * time.Second / time.Duration(l.rate)))):
		}
		if c == nil || c.Err() != nil {
			var err error
			if c, err = p.a.dial(); err != nil {
				c = nil
				time.Sleep(20 * time.Millisecond)
				continue
			}
		}
		if waiting, err := redis.Int(c.Do("LLEN", "resque:queue:work")); err != nil || waiting > backlog {
			time.Sleep(20 * time.Millisecond)
			continue
		}
		size := 1 + p.a.intn(p.most)
		if l.total > 0 {
			size = min(size, l.total-p.n)
		}
		batch := make([]job, size)
		for k := range batch {
			batch[k] = p.pick(l)
		}
		p.push(p, batch, c)
	}
}

func (p *producer) pick(l load) job {
	p.n++
	j := job{id: fmt.Sprintf("%s-%d", p.name, p.n), class: "Nap", ms: p.a.intn(l.longest + 1)}
	switch n := p.a.intn(1000); {
	case n < l.failing:
		j.class = "Fail"
	case n%4 == 0:
		j.class = "Wait"
	}
	if p.a.intn(400) == 0 && !l.even {
		j.ms = 10 * l.longest
	}
	if len(l.classes) > 0 {
		j.class = l.classes[p.a.intn(len(l.classes))]
	}
	return j
}

// verdict is what an answer says about a push.
func verdict(err error) byte {
	var refusal redis.Error
	var duplicate *goworker.DuplicateError
	switch {
	case err == nil:
		return 'a'
	case errors.As(err, &refusal), errors.As(err, &duplicate):
		return 'r'
	}
	return 'u'
}

// note appends the verdict on some pushes, with one write.
func (p *producer) note(verdict byte, jobs ...job) {
	var text []byte
	now := time.Now().UnixNano()
	for _, j := range jobs {
		text = fmt.Appendf(text, "%c\t%s\t%d\n", verdict, j.id, now)
	}
	if _, err := p.file.Write(text); err != nil {
		panic(err)
	}
}

func pushOne(p *producer, jobs []job, _ redis.Conn) {
	for _, j := range jobs {
		err := p.a.client.Enqueue(&goworker.Job{Queue: "work",
			Payload: goworker.Payload{Class: j.class, Args: []interface{}{j.id, j.ms}}})
		p.note(verdict(err), j)
	}
}

func pushBatch(p *producer, jobs []job, c redis.Conn) {
	payloads := make([][]byte, len(jobs))
	for i, j := range jobs {
		payloads[i] = j.payload()
	}
	p.note(verdict(resque.New("").Push(c, "work", payloads...)), jobs...)
}

func pushPipeline(p *producer, jobs []job, c redis.Conn) {
	_ = c.Send("SADD", "resque:queues", "work")
	for _, j := range jobs {
		_ = c.Send("RPUSH", "resque:queue:work", j.payload())
	}
	_ = c.Flush()
	_, _ = c.Receive()
	for _, j := range jobs {
		_, err := c.Receive()
		p.note(verdict(err), j)
	}
}

// pushJobs pushes some jobs at once.
func (a *arena) pushJobs(jobs ...job) {
	args := []any{"resque:queue:work"}
	for _, j := range jobs {
		args = append(args, j.payload())
	}
	a.must("SADD", "resque:queues", "work")
	a.must("RPUSH", args...)
	a.acknowledged(jobs...)
}

// acknowledged notes that jobs are where they were put.
func (a *arena) acknowledged(jobs ...job) {
	a.mu.Lock()
	name := fmt.Sprint("direct", len(a.producers))
	a.mu.Unlock()
	p := a.newProducer(name)
	defer close(p.done)
	defer p.file.Close()
	p.note('a', jobs...)
}
