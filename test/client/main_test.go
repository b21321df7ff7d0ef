// Package client tests the Client of programs that enqueue, with Redis away, refusing, or cut off.
package client

import (
	"bytes"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/internal/daemontest"
	"github.com/goworker/goworker/internal/redistest"
)

func TestMain(m *testing.M) { daemontest.Main(m) }

// newClient returns a client of a Redis, and what it logs.
func newClient(t testing.TB, uri string, settings goworker.WorkerSettings, opts ...goworker.ClientOption) (*goworker.Client, *logged) {
	t.Helper()
	log := new(logged)
	settings.URI, settings.Logger = uri, slog.New(slog.NewTextHandler(log, nil))
	client, err := goworker.NewClient(settings, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client, log
}

// logged is a log. It is safe for concurrent use.
type logged struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// job is a job that is told from others by its argument.
func job(n int) *goworker.Job { return goworker.NewJob("q", "C", n) }

// payloads are those of plain jobs that job made.
func payloads(numbers ...int) (all []string) {
	for _, n := range numbers {
		all = append(all, fmt.Sprintf(`{"class":"C","args":[%d]}`, n))
	}
	return all
}

func queued(t testing.TB, s *redistest.Server) []string {
	t.Helper()
	return s.List(t, "LRANGE", "resque:queue:q", 0, -1)
}

// proxy stands between a client and Redis. It breaks the connection of the next push.
type proxy struct {
	addr string
	cut  atomic.Int32 // what becomes of the next push
	cuts atomic.Int32 // pushes that it broke
	last atomic.Int32 // how many pushes it still passes; the client ends with the answer to the last one. 0: all
	end  func()       // ends the client
}

const (
	pass      int32 = iota
	before          // it does not reach Redis
	halfway         // Redis gets the first half of it
	after           // Redis gets it, and its answer is lost
	afterText       // the same for a push with the script's text, as after a restart
)

func newProxy(t testing.TB, s *redistest.Server) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{addr: l.Addr().String()}
	var wg sync.WaitGroup
	var mu sync.Mutex
	open := make(map[net.Conn]bool)
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			to, err := net.Dial("tcp", s.Addr)
			if err != nil {
				_ = c.Close()
				continue
			}
			mu.Lock()
			open[c], open[to] = true, true
			mu.Unlock()
			w := new(way)
			wg.Go(func() { p.forth(c, to, w) })
			wg.Go(func() { p.back(c, to, w) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		mu.Lock()
		for c := range open {
			_ = c.Close()
		}
		mu.Unlock()
		wg.Wait()
	})
	return p
}

// way is one connection through the proxy.
type way struct {
	deaf        atomic.Bool // the answer to the push is lost
	transaction atomic.Bool // the push is one: Redis answers its MULTI before all of it is there
	last        atomic.Bool
}

func (p *proxy) uri() string { return "redis://" + p.addr }

// back passes what Redis answers. The answer to a push that is to be cut off is lost, and the connection with it. With that of
// the last push the client ends: Redis has run it then, and not in what the test does next.
func (p *proxy) back(c, to net.Conn, w *way) {
	defer func() { _ = c.Close(); _ = to.Close() }()
	buf := make([]byte, 1<<16)
	for {
		n, err := to.Read(buf)
		if err == nil && w.transaction.Load() && !bytes.Contains(buf[:n], []byte("*")) { // not yet what EXEC returns
			continue
		}
		if w.last.Load() {
			p.end()
		}
		if err != nil || w.deaf.Load() {
			return
		}
		if _, err := c.Write(buf[:n]); err != nil {
			return
		}
	}
}

// forth passes what the client says.
func (p *proxy) forth(c, to net.Conn, w *way) {
	defer func() { _ = c.Close(); _ = to.Close() }()
	buf := make([]byte, 1<<20)
	for {
		n, err := c.Read(buf)
		if err != nil {
			return
		}
		said := buf[:n]
		cut := pass
		push := bytes.Contains(said, []byte("EVAL")) || bytes.Contains(said, []byte("\r\nRPUSH\r\n"))
		if push && (p.cut.Load() != afterText || bytes.Contains(said, []byte("\r\nEVAL\r\n"))) {
			if cut = p.cut.Swap(pass); cut != pass {
				p.cuts.Add(1)
			}
		}
		if push && p.last.Load() > 0 && p.last.Add(-1) == 0 {
			cut = after
			w.last.Store(true)
		}
		switch cut {
		case before:
			return
		case halfway:
			_, _ = to.Write(said[:n/2])
			return
		case after, afterText:
			w.transaction.Store(!bytes.Contains(said, []byte("EVAL")))
			w.deaf.Store(true)
		}
		if _, err := to.Write(said); err != nil {
			return
		}
	}
}
