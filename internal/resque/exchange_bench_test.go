package resque

import (
	"bytes"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
)

// canned is a connection to a server that always gives the same answer, at once.
type canned struct {
	net.Conn // nil: what is not below is not called
	answer   []byte
	left     []byte
}

func (c *canned) Write(p []byte) (int, error) { c.left = c.answer; return len(p), nil }
func (c *canned) Read(p []byte) (int, error) {
	n := copy(p, c.left)
	c.left = c.left[n:]
	return n, nil
}
func (c *canned) SetReadDeadline(time.Time) error  { return nil }
func (c *canned) SetWriteDeadline(time.Time) error { return nil }

// shortPayload has the size of the jobs that bench/ measures with.
const shortPayload = `{"class":"Hello","args":["world",12,true]}  `

// cannedExchange is a turn under load: n jobs are committed and n reserved. The
// function it returns runs it once.
func cannedExchange(n int) func() error {
	x := &Exchange{Process: "worker-host:4711:0a1b2c3d", Epoch: 1, Last: 100_000, Want: n, Asks: []Ask{{Queue: "default", Quota: n}}}
	x.Handed = HandedOut{UpTo: x.Last}.String()
	var answer bytes.Buffer
	fmt.Fprintf(&answer, "*7\r\n$2\r\nok\r\n$0\r\n\r\n:0\r\n*1\r\n*%d\r\n:1\r\n", n+1)
	for i := range n {
		x.Done = append(x.Done, x.Last-int64(i))
		fmt.Fprintf(&answer, "$%d\r\n%s\r\n", len(shortPayload), shortPayload)
	}
	answer.WriteString("*0\r\n*0\r\n*0\r\n")
	c := redis.NewConn(&canned{answer: answer.Bytes()}, time.Minute, time.Minute)
	s := New("")
	return func() error {
		if err := s.Send(c, x); err != nil {
			return err
		}
		got, err := s.Receive(c, x)
		if err == nil && len(got.Jobs) != n {
			err = fmt.Errorf("an exchange for %d jobs got %d", n, len(got.Jobs))
		}
		return err
	}
}

// BenchmarkExchange is what one exchange costs the worker's side, all jobs together.
func BenchmarkExchange(b *testing.B) {
	for _, n := range []int{1, 25, 100} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			exchange := cannedExchange(n)
			b.ReportAllocs()
			for b.Loop() {
				if err := exchange(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkDigest(b *testing.B) {
	payload := []byte(shortPayload)
	b.ReportAllocs()
	for b.Loop() {
		Digest(payload)
	}
}

// TestAllocations bounds the allocations of the hot path. It allows one more,
// which the race detector makes. A higher count would slow down every job.
func TestAllocations(t *testing.T) {
	must := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	exchange := func(n int) func() {
		run := cannedExchange(n)
		return func() { must(run()) }
	}
	for _, tt := range []struct {
		name string
		want float64
		f    func()
	}{
		{"exchange for 1", 48, exchange(1)},
		{"exchange for 100", 345, exchange(100)},
		{"digest", 1, func() { Digest([]byte(shortPayload)) }},
	} {
		if got := testing.AllocsPerRun(100, tt.f); got > tt.want+1 {
			t.Errorf("%s: %v allocations, and it took %v", tt.name, got, tt.want)
		}
	}
}
