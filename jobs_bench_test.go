package goworker_test

import (
	"bytes"
	"context"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"runtime"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/internal/daemontest"
	"github.com/goworker/goworker/internal/resque"
)

// scripted is a Redis that holds a number of jobs and answers a daemon from memory,
// each exchange at once, so that what a daemon costs can be counted without Redis.
type scripted struct {
	payload   []byte
	left      int // jobs in the queue
	exchanges int
	scripts   map[string]string // names by SHA-1
}

func newScripted(tb testing.TB, payload string, jobs int) *scripted {
	tb.Helper()
	s := &scripted{payload: []byte(payload), left: jobs, scripts: make(map[string]string)}
	for name, text := range resque.Scripts() {
		sum := sha1.Sum([]byte(text))
		s.scripts[hex.EncodeToString(sum[:])] = name
	}
	return s
}

func (s *scripted) Dial(context.Context) (redis.Conn, error) {
	return redis.NewConn(&scriptedConn{server: s}, time.Minute, time.Minute), nil
}

// scriptedConn is used by one goroutine at a time, and only the poller's asks the
// server for jobs.
type scriptedConn struct {
	net.Conn // nil: what is not below is not called
	server   *scripted
	in, out  []byte
	answer   []byte // the buffer that out is a part of
}

func (c *scriptedConn) Close() error { return nil }

func (c *scriptedConn) SetReadDeadline(time.Time) error { return nil }

func (c *scriptedConn) SetWriteDeadline(time.Time) error { return nil }

func (c *scriptedConn) Write(p []byte) (int, error) {
	c.in = append(c.in, p...)
	return len(p), nil
}

// Read answers all that was written, which is the whole of what the client had to
// say: it reads only after a flush.
func (c *scriptedConn) Read(p []byte) (int, error) {
	if len(c.out) == 0 {
		c.answer = c.answer[:0]
		for rest := c.in; len(rest) > 0; {
			rest = c.command(rest)
		}
		c.in, c.out = c.in[:0], c.answer
	}
	n := copy(p, c.out)
	c.out = c.out[n:]
	return n, nil
}

func (c *scriptedConn) command(in []byte) (rest []byte) {
	n, in := length(in)
	var first [2][]byte
	for i := range n {
		var size int
		size, in = length(in)
		if i < len(first) {
			first[i] = in[:size]
		}
		in = in[size+2:]
		if i == 1 && string(first[0]) == "EVALSHA" && c.server.scripts[string(first[1])] == "exchange" {
			return c.exchange(in, false)
		}
		if i == 1 && string(first[0]) == "EVALSHA" && c.server.scripts[string(first[1])] == "ends" {
			return c.exchange(in, true)
		}
		if i == 1 && string(first[0]) == "EVALSHA" && c.server.scripts[string(first[1])] == "brief" {
			c.brief(in)
			return nil
		}
		if i == 1 && string(first[0]) == "EVALSHA" && c.server.scripts[string(first[1])] == "briefqueues" {
			return c.briefQueues(in)
		}
		if i == 1 && string(first[0]) == "EVALSHA" && c.server.scripts[string(first[1])] == "commit" {
			return c.commit(in, n-2)
		}
	}
	switch name := string(first[0]); {
	case name == "TIME":
		c.answer = append(c.answer, "*2\r\n$10\r\n1795262400\r\n$1\r\n0\r\n"...)
	case name == "EVALSHA" && c.server.scripts[string(first[1])] == "enter":
		c.answer = append(c.answer, "+ok\r\n"...)
	case name == "EVALSHA" && c.server.scripts[string(first[1])] == "renew":
		c.answer = append(c.answer, "*7\r\n$2\r\nok\r\n$10\r\n1795262400\r\n$1\r\n0\r\n$13\r\n1795262400000\r\n$0\r\n\r\n$0\r\n\r\n$0\r\n\r\n"...)
	case name == "EVALSHA" && c.server.scripts[string(first[1])] == "resync":
		c.answer = append(c.answer, "*3\r\n$2\r\nok\r\n$1\r\n1\r\n$7\r\nentered\r\n"...)
	case name == "EVALSHA" && c.server.scripts[string(first[1])] == "prove":
		c.answer = append(c.answer, "*0\r\n"...)
	case name == "SMEMBERS":
		c.answer = append(c.answer, "*0\r\n"...)
	default:
		c.answer = append(c.answer, ":0\r\n"...)
	}
	return in
}

// numberOf reads an argument, which is 0 if it is text, and returns what comes after it.
func numberOf(in []byte) (n int, rest []byte) {
	size, text := length(in)
	n, _ = strconv.Atoi(string(text[:size]))
	return n, text[size+2:]
}

// appendJobs appends as many jobs to an answer.
func (s *scripted) appendJobs(a []byte, n int) []byte {
	for range n {
		a = strconv.AppendInt(append(a, '$'), int64(len(s.payload)), 10)
		a = append(append(append(a, "\r\n"...), s.payload...), "\r\n"...)
	}
	return a
}

// brief is exchange for one in its usual form, behind which nothing comes.
func (c *scriptedConn) brief(in []byte) {
	keys, in := numberOf(in)
	for range keys + 3 { // and process, epoch, prefix
		_, in = numberOf(in)
	}
	runtime.Gosched() // the way to a real server leaves the workers time
	s := c.server
	s.exchanges++
	want, _ := numberOf(in)
	take := min(want, s.left)
	s.left -= take
	c.answer = s.appendJobs(append(strconv.AppendInt(append(c.answer, '*'), int64(take), 10), "\r\n"...), take)
}

// briefQueues is exchange for one in its usual form that asks one queue or none.
func (c *scriptedConn) briefQueues(in []byte) (rest []byte) {
	if at := bytes.Index(in, []byte("*2\r\n$8\r\nSMEMBERS")); at >= 0 {
		rest = in[at:]
	}
	keys, in := numberOf(in)
	for range keys + 3 { // and process, epoch, last ticket
		_, in = numberOf(in)
	}
	runtime.Gosched() // the way to a real server leaves the workers time
	s := c.server
	s.exchanges++
	want, in := numberOf(in)
	if queues, _ := numberOf(in); queues == 0 {
		c.answer = append(c.answer, "*0\r\n"...)
		return rest
	}
	take := min(want, s.left)
	s.left -= take
	gave := take
	if take < want {
		gave = -1 - take
	}
	c.answer = s.appendJobs(append(strconv.AppendInt(append(c.answer, '*'), int64(take+1), 10), "\r\n"...), take)
	c.answer = append(strconv.AppendInt(append(c.answer, ':'), int64(gave), 10), "\r\n"...)
	return rest
}

// exchange reads no more of an exchange than it must, for its own work is counted too.
// It returns what comes after it: the first asks for the policy, and for no jobs. With ends it commits failures, too.
func (c *scriptedConn) exchange(in []byte, ends bool) (rest []byte) {
	if at := bytes.Index(in, []byte("*2\r\n$8\r\nSMEMBERS")); at >= 0 && c.server.exchanges == 0 {
		rest = in[at:]
	}
	number := func() (n int) {
		n, in = numberOf(in)
		return n
	}
	keys := number()
	for range keys + 3 { // and process, epoch, last ticket
		number()
	}
	runtime.Gosched() // the way to a real server leaves the workers time
	s := c.server
	s.exchanges++
	want := number()
	skip := func(n int) {
		for range n {
			number()
		}
	}
	skip(4)
	skip(number()) // done
	take := min(want, s.left)
	s.left -= take
	parts := "*7"
	if ends {
		parts = "*8"
	}
	a := append(append(c.answer, parts...), "\r\n$2\r\nok\r\n$0\r\n\r\n:0\r\n"...)
	if take == 0 {
		a = append(a, "*0\r\n"...)
	} else {
		a = strconv.AppendInt(append(a, "*1\r\n*"...), int64(take+1), 10)
		a = s.appendJobs(append(a, "\r\n:1\r\n"...), take)
	}
	if s.left == 0 && keys > 8 {
		a = append(a, "*1\r\n:1\r\n"...)
	} else {
		a = append(a, "*0\r\n"...)
	}
	if a = append(a, "*0\r\n*0\r\n"...); ends {
		a = append(a, committed...)
	}
	c.answer = a
	return rest
}

// commit takes failures, and jobs that were given back, which it offers again.
func (c *scriptedConn) commit(in []byte, args int) (rest []byte) {
	text := func() []byte {
		size, left := length(in)
		in = left[size+2:]
		args--
		return left[:size]
	}
	number := func() int { // 0 for what is text
		n, _ := strconv.Atoi(string(text()))
		return n
	}
	for range number() + 3 { // keys, and the guard, its value, the types of the keys
		text()
	}
	for args > 0 {
		text() // ticket
		if counts := text(); len(counts) == 0 {
			c.server.left++
		}
		for range number() {
			text()
		}
	}
	c.answer = append(c.answer, committed...)
	return in
}

// committed is the answer to ends that Redis has written.
const committed = "*4\r\n$2\r\nok\r\n:0\r\n:0\r\n:0\r\n"

// length reads the head of an array or a string, "*12\r\n" or "$12\r\n".
func length(in []byte) (int, []byte) {
	end := bytes.IndexByte(in, '\r')
	n, _ := strconv.Atoi(string(in[1:end]))
	return n, in[end+2:]
}

const benchPayload = `{"class":"Hello","args":["world",12,true]}  `

// drain runs a daemon until its queue is empty and returns how many exchanges it took. Every
// job ends with the error given.
func drain(tb testing.TB, workers, jobs int, lookAhead bool, failure error) (exchanges int) {
	tb.Helper()
	server := newScripted(tb, benchPayload, jobs)
	d := goworker.New(goworker.WorkerSettings{
		URI: "scripted://", QueuesString: "default", Concurrency: workers, ExitOnComplete: true, Logger: daemontest.Quiet,
		DisableSignals: true, DisableTracking: true, DisableLookAhead: !lookAhead, PollInterval: time.Hour,
	})
	defer d.Close()
	d.RegisterDialer("scripted", func(context.Context, string, goworker.DialOptions) (goworker.Dialer, error) { return server, nil })
	var ran atomic.Int64
	d.Register("Hello", func(_ context.Context, name string, n int, yes bool) error { ran.Add(1); return failure })
	if err := d.Run(tb.Context()); err != nil {
		tb.Fatal(err)
	}
	if n := ran.Load(); n != int64(jobs) {
		tb.Fatalf("%d of %d jobs ran", n, jobs)
	}
	return server.exchanges
}

// BenchmarkDaemon is one job's whole way, reserved, run and committed, in a daemon on
// a scripted Redis. A failing job is committed with its failure record.
func BenchmarkDaemon(b *testing.B) {
	errFailing := errors.New("no customer 12 in the table of customers")
	for _, workers := range []int{1, 25, 100} {
		for _, way := range []struct {
			name    string
			ahead   bool
			failure error
		}{{"lockstep", false, nil}, {"ahead", true, nil}, {"failing", false, errFailing}} {
			b.Run(fmt.Sprintf("%s/%d", way.name, workers), func(b *testing.B) {
				b.ReportAllocs()
				exchanges := drain(b, workers, b.N, way.ahead, way.failure)
				b.ReportMetric(float64(exchanges)/float64(b.N), "exchanges/op")
			})
		}
	}
}
