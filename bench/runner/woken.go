package main

import (
	"bufio"
	"context"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/goworker/goworker/bench/result"
)

const (
	// wokenPushes are the pushes whose wake-ups are counted.
	wokenPushes = 20
	// wokenWithin is how long a process may wait after a push before it looks.
	wokenWithin = 300 * time.Millisecond
)

// woken counts the processes that look at a queue because of one push. A process also looks once an interval without any push. So
// as many windows without a push are counted too, and their median is subtracted from that of the others: processes that started together
// look together, and a mean would have that in some of the windows. It uses MONITOR, which slows Redis, so nothing
// is timed meanwhile.
func (b *bench) woken(ctx context.Context, s *server, queues []string) (float64, error) {
	conn, err := net.Dial("tcp", s.addr)
	if err != nil {
		return 0, err
	}
	w := lookers{seen: make(map[string]bool)}
	var reading sync.WaitGroup
	reading.Go(func() { w.read(bufio.NewReaderSize(conn, 1<<20), `"resque:queue:`+queues[0]+`"`) })
	defer reading.Wait()
	defer conn.Close()
	if _, err := conn.Write([]byte("*1\r\n$7\r\nMONITOR\r\n")); err != nil {
		return 0, err
	}
	var with, without []float64
	for range wokenPushes {
		w.take()
		if err := sendStamps(ctx, s, queues[:1], 1, time.Millisecond, 2*time.Millisecond); err != nil {
			return 0, err
		}
		if err := sleep(ctx, wokenWithin); err != nil {
			return 0, err
		}
		with = append(with, float64(w.take()))
		if err := sleep(ctx, wokenWithin); err != nil {
			return 0, err
		}
		without = append(without, float64(w.take()))
	}
	slices.Sort(with)
	slices.Sort(without)
	return result.Percentile(with, 50) - result.Percentile(without, 50), nil
}

// lookers are the clients that have sent a script which names a queue.
type lookers struct {
	mu   sync.Mutex
	seen map[string]bool
}

// take returns how many there were since the last call.
func (w *lookers) take() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := len(w.seen)
	clear(w.seen)
	return n
}

// read reads the lines of MONITOR; see classify.
func (w *lookers) read(lines *bufio.Reader, queue string) {
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			return
		}
		_, rest, _ := strings.Cut(line, " [")
		who, command, _ := strings.Cut(rest, "] ")
		if !strings.HasSuffix(who, " lua") && strings.HasPrefix(command, `"EVAL`) && strings.Contains(command, queue) {
			w.mu.Lock()
			w.seen[who] = true
			w.mu.Unlock()
		}
	}
}
