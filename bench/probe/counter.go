package probe

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// counter holds the handlers of one process and what they counted. Its handlers
// run in any number of goroutines.
type counter struct {
	reporter
	expect   int64
	once     sync.Once
	before   usage
	ran, sum atomic.Int64
}

func newCounter(c Config, r reporter) *counter {
	return &counter{reporter: r, expect: int64(c.Jobs)}
}

// handlers are the benchmark's job classes. All but Begin, Stamp and Hold are counted.
// Begin is for programs whose jobs do something before they are counted: it starts
// the clock.
func (c *counter) handlers() map[string]Handler {
	return map[string]Handler{
		"Noop":     c.counted(func(int64) error { return nil }),
		"Tenth":    c.counted(tenth),
		"Sleep1":   c.counted(sleep(time.Millisecond)),
		"Sleep100": c.counted(sleep(100 * time.Millisecond)),
		"Answer":   c.counted(func(int64) error { return nil }),
		"Answer10": c.counted(sleep(10 * time.Millisecond)),
		Item:       c.counted(func(int64) error { return nil }),
		OneKey:     c.counted(func(int64) error { return nil }),
		Small:      c.counted(func(int64) error { return nil }),
		Thing:      c.counted(func(int64) error { return nil }),
		Numbers:    c.counted(func(int64) error { return nil }),
		"Begin":    c.begin,
		"Stamp":    c.stamp,
		"Hold":     c.hold,
	}
}

var errTenth = errors.New("every tenth job fails")

func tenth(number int64) error {
	if number%10 == 0 {
		return errTenth
	}
	return nil
}

func sleep(d time.Duration) func(int64) error {
	return func(int64) error {
		time.Sleep(d)
		return nil
	}
}

// counted costs two atomic additions a job, the same for every contender, and
// asks the clock and the system only twice in a run.
func (c *counter) counted(do func(number int64) error) Handler {
	return func(_ string, args ...interface{}) error {
		c.once.Do(c.first)
		if len(args) != 2 {
			return fmt.Errorf("%d arguments, not 2", len(args))
		}
		number := toInt(args[1])
		err := do(number)
		c.sum.Add(number)
		if n := c.ran.Add(1); n == c.expect {
			c.last()
		} else if n > c.expect {
			c.line("extra", n)
		}
		return err
	}
}

func (c *counter) begin(string, ...interface{}) error {
	c.once.Do(c.first)
	return nil
}

func (c *counter) first() {
	c.line("first", time.Now().UnixNano())
	c.before = now()
}

func (c *counter) last() {
	ended := time.Now().UnixNano()
	c.spent(c.before)
	c.line("sum", c.sum.Load())
	c.line("ran", c.ran.Load())
	c.line("last", ended) // last of all: the runner waits for it
}

// toInt takes what the decoders of different contenders make of a number.
func toInt(v any) int64 {
	switch n := v.(type) {
	case json.Number:
		i, _ := n.Int64()
		return i
	case float64:
		return int64(n)
	case int64:
		return n
	}
	return 0
}

// stamp's argument is the sender's clock in nanoseconds, as a string so that no
// JSON decoder rounds it. Sender and receiver are on one machine.
func (c *counter) stamp(_ string, args ...interface{}) error {
	now := time.Now().UnixNano()
	text, _ := args[0].(string)
	sent, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return fmt.Errorf("stamp: %q is not a time in nanoseconds", text)
	}
	c.line("latency", now-sent)
	return nil
}

// hold never returns: the job is running until its process is killed.
func (c *counter) hold(_ string, args ...interface{}) error {
	c.line("hold", args[0])
	select {}
}
