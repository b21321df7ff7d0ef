package probe

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"time"
)

// warmUp is how many calls go before those that are timed.
const warmUp = 20

// Answers reports whether the handler of a class returns a value, which is an Answer.
func Answers(class string) bool { return strings.HasPrefix(class, "Answer") }

// Answer is what the handlers of such classes return: the time at their end in Unix
// nanoseconds, as text, so that no JSON decoder rounds it.
func Answer() string { return strconv.FormatInt(time.Now().UnixNano(), 10) }

// ID is the id of pushed job number i, where the jobs are Named.
func ID(i int) string { return "job-" + strconv.Itoa(i) }

// Caller waits for what jobs return, as a program that uses the contender does. Await may
// be called by many goroutines.
type Caller interface {
	Call(Job) (id string, err error) // pushes a job whose result is kept
	Await(id string) (answer string, err error)
}

// calls pushes one job after another and waits for each, as a request that needs the
// answer does. Several producers do so at the same time, without gaps.
func calls(c Config, caller Caller, r reporter) error {
	if c.Producers > 1 {
		return callsAtOnce(c, caller, r)
	}
	begin := time.Now()
	took := make([]time.Duration, 0, c.Jobs)
	for i := range warmUp + c.Jobs {
		time.Sleep(c.GapMin + rand.N(c.GapMax-c.GapMin))
		start := time.Now()
		id, err := caller.Call(c.job(i))
		if err != nil {
			return err
		}
		if _, err := caller.Await(id); err != nil {
			return err
		}
		if i >= warmUp {
			took = append(took, time.Since(start))
		}
	}
	r.awaited(took, time.Since(begin))
	return nil
}

func callsAtOnce(c Config, caller Caller, r reporter) error {
	call := func(i int) error {
		id, err := caller.Call(c.job(i))
		if err != nil {
			return err
		}
		_, err = caller.Await(id)
		return err
	}
	if err := each(c.Producers, 0, c.Producers, call); err != nil { // so that the connections are there
		return err
	}
	took := make([]time.Duration, c.Jobs)
	begin := time.Now()
	err := each(c.Producers, 0, c.Jobs, func(i int) error {
		start := time.Now()
		err := call(c.Producers + i)
		took[i] = time.Since(start)
		return err
	})
	if err != nil {
		return err
	}
	r.awaited(took, time.Since(begin))
	return nil
}

// awaits waits for all jobs at the same time. Each wait is timed from the end of its job's
// handler.
func awaits(c Config, caller Caller, r reporter) error {
	took, failures := make([]time.Duration, c.Jobs), make([]error, c.Jobs)
	var group sync.WaitGroup
	begin := time.Now()
	for i := range c.Jobs {
		group.Go(func() {
			answer, err := caller.Await(ID(i))
			now := time.Now().UnixNano()
			if err != nil {
				failures[i] = err
				return
			}
			ended, err := strconv.ParseInt(answer, 10, 64)
			if err != nil {
				failures[i] = fmt.Errorf("the answer of job %s is %q, which is no time", ID(i), answer)
			}
			took[i] = time.Duration(now - ended)
		})
	}
	r.line("waiting", c.Jobs)
	group.Wait()
	for _, err := range failures {
		if err != nil {
			return err
		}
	}
	r.awaited(took, time.Since(begin))
	return nil
}

// awaited reports only when all is over, so that reports delay no wait.
func (r reporter) awaited(took []time.Duration, all time.Duration) {
	for _, d := range took {
		r.line("latency", d.Nanoseconds())
	}
	r.line("rss", peakRSS())
	r.line("took", all.Nanoseconds())
	r.line("awaited", len(took))
}
