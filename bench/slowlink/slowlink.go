// Package slowlink is a TCP proxy that delays every byte by a fixed time in each
// direction, as a longer cable does: the bandwidth is not limited, and what is
// sent together arrives together.
package slowlink

import (
	"net"
	"sync"
	"time"
)

// Link is a running proxy.
type Link struct {
	listener net.Listener
	target   string
	delay    time.Duration
	// In the order in which the bytes came; since all wait for the same time, this
	// is also the order in which they are due.
	line chan parcel

	mu     sync.Mutex
	closed bool
	conns  map[net.Conn]struct{}
	group  sync.WaitGroup
}

// parcel is some bytes on their way, or the end of a direction if data is nil.
type parcel struct {
	to   *net.TCPConn
	data []byte
	due  time.Time
}

// Start makes a link to the target, delay long each way.
func Start(target string, delay time.Duration) (*Link, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	l := &Link{
		listener: listener, target: target, delay: delay,
		line: make(chan parcel, 1<<16), conns: map[net.Conn]struct{}{},
	}
	l.group.Add(1)
	go l.accept()
	go l.deliver()
	return l, nil
}

// Addr is where the near end listens.
func (l *Link) Addr() string { return l.listener.Addr().String() }

// Close cuts all connections.
func (l *Link) Close() {
	l.mu.Lock()
	l.closed = true
	for conn := range l.conns {
		conn.Close()
	}
	l.mu.Unlock()
	l.listener.Close()
	l.group.Wait() // no goroutine sends into the line any more
	close(l.line)
}

func (l *Link) accept() {
	defer l.group.Done()
	for {
		near, err := l.listener.Accept()
		if err != nil {
			return
		}
		l.group.Add(1)
		go func() {
			defer l.group.Done()
			far, err := net.Dial("tcp", l.target)
			if err != nil {
				near.Close()
				return
			}
			if !l.keep(near, far) {
				return
			}
			l.group.Add(2)
			go l.read(near.(*net.TCPConn), far.(*net.TCPConn))
			go l.read(far.(*net.TCPConn), near.(*net.TCPConn))
		}()
	}
}

func (l *Link) keep(conns ...net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, conn := range conns {
		if l.closed {
			conn.Close()
		} else {
			l.conns[conn] = struct{}{}
		}
	}
	return !l.closed
}

func (l *Link) read(from, to *net.TCPConn) {
	defer l.group.Done()
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		now := time.Now()
		if n > 0 {
			l.line <- parcel{to, append([]byte(nil), buffer[:n]...), now.Add(l.delay)}
		}
		if err != nil {
			l.line <- parcel{to: to, due: now.Add(l.delay)}
			return
		}
	}
}

// deliver writes each parcel when it is due. It has a thread of its own, whose
// sleeps are as exact as the system can make them: the runtime's timers may be a
// millisecond late, which is as much as the whole way and back.
func (l *Link) deliver() {
	exactSleeps()
	for p := range l.line {
		if wait := time.Until(p.due); wait > 0 {
			exactSleep(wait)
		}
		if p.data == nil {
			p.to.CloseWrite()
		} else if _, err := p.to.Write(p.data); err != nil {
			p.to.Close()
		}
	}
}
