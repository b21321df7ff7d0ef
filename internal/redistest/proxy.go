package redistest

import (
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Proxy stands between clients and a server, and delays or holds what passes.
type Proxy struct {
	Addr string // host:port

	delay    atomic.Int64
	answers  sync.RWMutex // locked while answers are held
	mu       sync.Mutex
	open     map[net.Conn]bool
	refusing bool
}

// StartProxy starts a proxy for the server. The test's end stops it.
func (s *Server) StartProxy(t testing.TB) *Proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("redistest: a proxy cannot listen: %v", err)
	}
	p := &Proxy{Addr: l.Addr().String(), open: make(map[net.Conn]bool)}
	var wg sync.WaitGroup
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
			if !p.keep(c, to) {
				continue
			}
			wg.Go(func() { p.pass(c, to, new(sync.RWMutex)) })
			wg.Go(func() { p.pass(to, c, &p.answers) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		p.Refuse(true)
		wg.Wait()
	})
	return p
}

// Delay makes all that passes from now on take this long, in each direction.
func (p *Proxy) Delay(d time.Duration) { p.delay.Store(int64(d)) }

// Hold keeps what the server says from its clients until release is called.
func (p *Proxy) Hold() (release func()) {
	p.answers.Lock()
	return p.answers.Unlock
}

// Refuse closes all connections, and those that are made from now on at once, or lets new ones pass again.
func (p *Proxy) Refuse(refuse bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refusing = refuse
	for c := range p.open {
		_ = c.Close()
	}
	clear(p.open)
}

func (p *Proxy) keep(conns ...net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range conns {
		if p.refusing {
			_ = c.Close()
			continue
		}
		p.open[c] = true
	}
	return !p.refusing
}

func (p *Proxy) pass(from, to net.Conn, held *sync.RWMutex) {
	defer func() { _ = from.Close(); _ = to.Close() }()
	buf := make([]byte, 1<<16)
	for {
		n, err := from.Read(buf)
		if err != nil {
			return
		}
		if d := time.Duration(p.delay.Load()); d > 0 {
			time.Sleep(d)
		}
		held.RLock()
		_, err = to.Write(buf[:n])
		held.RUnlock()
		if err != nil {
			return
		}
	}
}
