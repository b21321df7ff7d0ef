package probe

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// The shapes of workflows. Their members are of class Member, which returns its number, or of class Step, which
// returns one more than it was given. What comes last is of class Callback: it gets the number of the workflow, and
// behind it the results before it.
const (
	Plain = "plain" // the same members without a workflow, pushed in bulk with ids; nothing comes last
	Chord = "chord" // Members members side by side, then the callback
	Chain = "chain" // Members jobs one after the other: steps, and the callback as the last
	Batch = "batch" // Members members that are streamed in, then the callback, which gets no results
)

// warming is how many members the workflow has that comes before those that are timed: enough for each worker to
// have run some.
const warming = 200

// bulkSize is how many plain jobs a call pushes.
const bulkSize = 1000

// Flow is a workflow to start.
type Flow struct {
	Shape   string
	Number  int           // -1 comes before those that are timed
	From    int           // the number of its first member
	Members int           // of a chain all jobs
	Keep    time.Duration // how long it is kept after its end; 0 is the contender's default
}

// Starter starts workflows as a program that uses the contender does. Start may be called by several goroutines.
type Starter interface {
	Start(Flow) error
}

// flow is number i of the workflows that the runner asks for.
func (c Config) flow(i int) Flow {
	f := Flow{Shape: c.Shape, Number: i, From: i * c.Members, Members: c.Members, Keep: c.Keep}
	if c.Warm {
		f.Number = -1
		if f.Members = warming; c.Flows == 1 {
			f.Members = min(c.Members, warming)
		}
		f.From = -f.Members
	}
	return f
}

// starts starts the workflows and reports when it began. With a Rate it starts so many a second for the time of For,
// fewer where they are not as fast, and else all at once.
func starts(c Config, p Producer, r reporter) error {
	starter, ok := p.(Starter)
	if !ok && c.Shape != Plain {
		return errors.New("has no call that starts workflows")
	}
	began, before := time.Now(), now()
	r.line("began", began.UnixNano())
	started := c.Flows
	var err error
	switch {
	case c.Warm && c.Shape == Plain:
		err = p.Push(Job{Queue: c.Queues[0], Class: "Member", Args: []interface{}{-1}})
	case c.Warm:
		err = starter.Start(c.flow(0))
	case c.Shape == Plain:
		err = c.plain(p)
	case c.Rate > 0:
		started, err = paced(c, starter)
	default:
		err = each(c.Producers, 0, c.Flows, func(i int) error { return starter.Start(c.flow(i)) })
	}
	if err != nil {
		return err
	}
	took := time.Since(began)
	r.spent(before)
	r.line("took", took.Nanoseconds())
	r.line("started", started)
	return nil
}

// plain pushes the members of one workflow as jobs with ids, in the fastest way the contender has.
func (c Config) plain(p Producer) error {
	jobs := make([]Job, c.Members)
	for i := range jobs {
		jobs[i] = Job{Queue: c.Queues[0], Class: "Member", Args: []interface{}{i}, ID: ID(i)}
	}
	bulk, ok := p.(BulkProducer)
	if !ok {
		return each(c.Producers, 0, len(jobs), func(i int) error { return p.Push(jobs[i]) })
	}
	for some := range slices.Chunk(jobs, bulkSize) {
		if err := bulk.PushAll(some); err != nil {
			return err
		}
	}
	return nil
}

// tick is how often a pace is kept.
const tick = 10 * time.Millisecond

// paced returns how many it has started, which is a multiple of Config.Every.
func paced(c Config, starter Starter) (int, error) {
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	done := 0
	for begin := time.Now(); time.Since(begin) < c.For && done < c.Flows; <-ticker.C {
		due := min(int(time.Since(begin).Seconds()*float64(c.Rate)), c.Flows)
		for ; done+c.Every <= due; done += c.Every {
			if err := each(c.Producers, done, done+c.Every, func(i int) error { return starter.Start(c.flow(i)) }); err != nil {
				return done, err
			}
		}
	}
	return done, nil
}

// each calls do for every number from one up to the other, from several goroutines, up to the first error.
func each(goroutines, from, to int, do func(i int) error) error {
	var next atomic.Int64
	next.Store(int64(from))
	var group sync.WaitGroup
	failures := make(chan error, goroutines)
	for range goroutines {
		group.Go(func() {
			for i := int(next.Add(1)) - 1; i < to; i = int(next.Add(1)) - 1 {
				if err := do(i); err != nil {
					failures <- err
					return
				}
			}
		})
	}
	group.Wait()
	close(failures)
	return <-failures
}

// flowCounter holds the handlers of workflows and what they counted. They run in any number of goroutines.
type flowCounter struct {
	reporter
	c        Config
	ran, sum atomic.Int64
	called   atomic.Int64

	mu   sync.Mutex
	seen []uint64 // a bit for each workflow whose callback has run
}

func newFlowCounter(c Config, r reporter) *flowCounter {
	return &flowCounter{reporter: r, c: c, seen: make([]uint64, (c.Flows+63)/64)}
}

func (c *flowCounter) handlers() map[string]Handler {
	return map[string]Handler{"Member": c.member, "Step": c.member, "Callback": c.callback}
}

// member counts one that runs. Those of a workflow that only warms up have numbers below zero.
func (c *flowCounter) member(_ string, args ...interface{}) error {
	number := toInt(args[0])
	if number < 0 {
		if c.c.Shape == Plain {
			c.warm()
		}
		return nil
	}
	c.sum.Add(number)
	if n := c.ran.Add(1); c.c.Shape == Plain && n == int64(c.c.Members) {
		c.ended()
	}
	return nil
}

// callback checks that it has the results of its own workflow, and that it runs for the first time.
func (c *flowCounter) callback(_ string, args ...interface{}) error {
	flow := int(toInt(args[0]))
	if flow < 0 {
		c.warm()
		return nil
	}
	if got, want := values(args[1:]), c.want(flow); got != want {
		c.line("wrong", flow)
		return fmt.Errorf("the callback of workflow %d has %d results with the sum %d, not %d with %d", flow, got.n, got.sum, want.n, want.sum)
	}
	c.mu.Lock()
	word, bit := flow/64, uint64(1)<<(flow%64)
	again := c.seen[word]&bit != 0
	c.seen[word] |= bit
	c.mu.Unlock()
	if again {
		c.line("extra", flow)
		return nil
	}
	n := c.called.Add(1)
	if c.c.Every > 0 && n%int64(c.c.Every) == 0 {
		c.line("flows", n)
	} else if c.c.Every == 0 && n == int64(c.c.Flows) {
		c.ended()
	}
	return nil
}

func (c *flowCounter) warm() { c.line("warm", time.Now().UnixNano()) }

func (c *flowCounter) ended() {
	at := time.Now().UnixNano()
	c.line("sum", c.sum.Load())
	c.line("ran", c.ran.Load())
	c.line("called", at) // last of all: the runner waits for it
}

// results are how many there are, and their sum.
type results struct{ n, sum int64 }

func values(args []interface{}) (r results) {
	for _, v := range args {
		r.n++
		r.sum += toInt(v)
	}
	return r
}

// want is what the callback of a workflow gets.
func (c *flowCounter) want(flow int) results {
	f := c.c.flow(flow)
	n, from := int64(f.Members), int64(f.From)
	switch f.Shape {
	case Chord:
		return results{n, n*from + n*(n-1)/2}
	case Chain:
		return results{1, from + n - 1}
	}
	return results{}
}
