package producer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/clock"
	"github.com/goworker/goworker/internal/conn"
	"github.com/goworker/goworker/internal/part"
	"github.com/goworker/goworker/internal/prefix"
	"github.com/goworker/goworker/internal/resque"
)

// BufferBytes is how many bytes the calls in a Buffer may have together.
const BufferBytes = 64 << 20

// closingWait is how long Close waits at most between two attempts to reach Redis.
const closingWait = 50 * time.Millisecond

// callBytes is what a call needs in memory beside its payloads.
const callBytes = 1 << 10

// ErrBufferFull is in the chain of an error after which nothing was enqueued: Redis is away, and the buffer
// has no room.
var ErrBufferFull = prefix.New("the buffer of jobs is full")

// Buffer keeps calls in memory while Redis is away. When Redis is back it sends them in the order in which
// they came; until it is empty, new calls queue behind. Each call is still one step: all of it is
// enqueued or nothing.
//
// It takes a call only if nothing of it was sent. It sends a call only once: if Redis had it and did not
// answer, its jobs count as unconfirmed.
//
// It has one goroutine, and that only while a call waits. All methods are safe for concurrent use.
type Buffer struct {
	client *Client
	most   int // jobs
	log    *slog.Logger
	clock  clock.Clock

	ctx    context.Context // of the goroutine
	cancel context.CancelFunc
	run    sync.WaitGroup

	closing chan struct{} // closed by Close

	mu      sync.Mutex
	calls   []*waitingCall
	running bool // the goroutine
	up      bool // Redis took the last call: new ones wait for their turn
	closed  bool
	bytes   int
	why     error // Redis was away for this reason
	stats   BufferStats
	outage  BufferStats // at its beginning
}

// BufferStats counts jobs.
type BufferStats struct {
	Waiting     int // in the buffer now
	Drained     int // enqueued from it
	Refused     int // not taken, because it was full
	Dropped     int // not enqueued: duplicates, jobs that Redis refused, and those that waited at the Close
	Unconfirmed int // may be in their queues: Redis had them and its answer did not come
}

// Add adds the counts of another buffer.
func (s *BufferStats) Add(other BufferStats) {
	s.Waiting += other.Waiting
	s.Drained += other.Drained
	s.Refused += other.Refused
	s.Dropped += other.Dropped
	s.Unconfirmed += other.Unconfirmed
}

// waitingCall is a call in the buffer.
type waitingCall struct {
	*Call
	bytes int

	// Of a caller that waits for its turn. Guarded by the buffer's mutex.
	turn chan struct{} // closed when the call is over or is left to the buffer; nil: no caller waits
	over bool
	done []Receipt
	err  error
}

// KeepsJobs gives the client a buffer for so many jobs, and returns it. For none it is nil.
func (c *Client) KeepsJobs(most int, log *slog.Logger, clock clock.Clock) *Buffer {
	if c.Buffer = nil; most > 0 {
		c.Buffer = &Buffer{client: c, most: most, log: log, clock: clock, closing: make(chan struct{})}
		c.Buffer.ctx, c.Buffer.cancel = context.WithCancel(context.Background())
	}
	return c.Buffer
}

// Stats returns the counts. A nil Buffer has none.
func (b *Buffer) Stats() BufferStats {
	if b == nil {
		return BufferStats{}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.stats
}

// send sends a call, or keeps it.
func (b *Buffer) send(ctx context.Context, call *Call) ([]Receipt, error) {
	b.mu.Lock()
	behind := len(b.calls) > 0
	b.mu.Unlock()
	if behind {
		if err := conn.Over(ctx); err != nil {
			return nil, prefix.Of(err)
		}
		return b.put(ctx, call, nil)
	}
	over := ctx.Err() != nil
	receipts, err := b.client.sendNow(ctx, call)
	if len(receipts) > 0 || over || errors.Is(ctx.Err(), context.Canceled) || Unconfirmed(err) || !conn.Away(err) {
		return receipts, err
	}
	return b.put(ctx, call, err)
}

// put keeps a call. While Redis takes the calls before it, put waits for its turn, so that programs do not
// fill the buffer faster than it drains.
func (b *Buffer) put(ctx context.Context, call *Call, why error) ([]Receipt, error) {
	n, size, kept := call.Jobs(), callBytes+call.bulk.Size(), call.kept()
	b.mu.Lock()
	if why == nil {
		why = b.why
	}
	switch {
	case b.closed:
		b.mu.Unlock()
		return nil, why
	case b.stats.Waiting+n > b.most || b.bytes+size > BufferBytes:
		b.stats.Refused += n
		err := fmt.Errorf("%w: it has %d of at most %d jobs, with %d of at most %d bytes, and this call brings %d more, with %d; Redis is away: %w",
			ErrBufferFull, b.stats.Waiting, b.most, b.bytes, BufferBytes, n, size, why)
		b.mu.Unlock()
		return nil, prefix.Of(err)
	}
	w := &waitingCall{Call: call, bytes: size}
	b.calls = append(b.calls, w)
	b.stats.Waiting += n
	b.bytes += size
	if !b.running {
		b.running, b.why, b.outage = true, why, b.stats
		b.log.Warn("redis unavailable, buffering the jobs that are enqueued", "error", why)
		b.run.Go(b.drain)
	}
	if !b.up {
		b.mu.Unlock()
		return kept, nil
	}
	turn := make(chan struct{})
	w.turn = turn
	b.mu.Unlock()
	select {
	case <-turn:
	case <-ctx.Done():
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if w.over {
		return w.done, w.err
	}
	w.turn = nil
	return kept, nil
}

// drain sends the calls until none waits, or until Close has waited long enough.
func (b *Buffer) drain() {
	var retry part.Backoff
	for b.sleep(retry.Next()) {
		err := b.client.Pool.Do(b.ctx, func(c redis.Conn) error { return b.session(c, &retry) })
		if err == nil {
			return
		}
		b.mu.Lock()
		b.up, b.why = false, prefix.Of(err)
		for _, w := range b.calls { // these callers have waited for their turn
			w.release()
		}
		b.mu.Unlock()
	}
}

// sleep waits before an attempt, not for long once Close waits too. It reports whether there is to be one.
func (b *Buffer) sleep(d time.Duration) bool {
	t := b.clock.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C():
		return b.ctx.Err() == nil
	case <-b.ctx.Done():
		return false
	case <-b.closing:
	}
	soon := b.clock.NewTimer(min(d, closingWait))
	defer soon.Stop()
	select {
	case <-soon.C():
		return b.ctx.Err() == nil
	case <-b.ctx.Done():
		return false
	}
}

// next returns the first call. If none waits it is nil, and the goroutine is over.
func (b *Buffer) next() *waitingCall {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.calls) > 0 {
		return b.calls[0]
	}
	b.running, b.up = false, false
	s := b.stats
	b.log.Info("redis available again, the buffer of jobs is empty", "enqueued", s.Drained-b.outage.Drained,
		"dropped", s.Dropped-b.outage.Dropped, "unconfirmed", s.Unconfirmed-b.outage.Unconfirmed)
	return nil
}

// session sends the calls on one connection, until none waits. The connection may be of before the outage and
// lead nowhere, so a PING goes first.
func (b *Buffer) session(c redis.Conn, retry *part.Backoff) error {
	if _, err := c.Do("PING"); err != nil && conn.Classify(err) != conn.KindNoPerm {
		return err
	}
	for w := b.next(); w != nil; w = b.next() {
		if err := c.Err(); err != nil {
			return err
		}
		receipts, err := b.client.result(w.Call, b.client.Store.PushBulk(c, &w.bulk))
		if len(receipts) == 0 && !Unconfirmed(err) && conn.MayServe(err) {
			return err
		}
		retry.Reset()
		b.client.tell(w.Call, receipts)
		b.settle(w, receipts, prefix.Of(err))
	}
	return nil
}

// settle removes the first call, which is over.
func (b *Buffer) settle(w *waitingCall, receipts []Receipt, err error) {
	failure := func(i int) error {
		if i < len(receipts) {
			return receipts[i].Err
		}
		return err
	}
	enqueued, dropped, unconfirmed := 0, 0, 0
	for i := range w.Jobs() {
		switch why := failure(i); {
		case i < len(receipts) && why == nil:
			enqueued++
		case Unconfirmed(why):
			unconfirmed++
		default:
			dropped++
		}
	}
	b.mu.Lock()
	b.up = true
	b.calls[0], b.calls = nil, b.calls[1:]
	b.stats.Waiting -= w.Jobs()
	b.bytes -= w.bytes
	b.stats.Drained += enqueued
	reported := w.turn != nil
	if !reported {
		b.stats.Dropped += dropped
		b.stats.Unconfirmed += unconfirmed
	}
	w.finish(receipts, err)
	b.mu.Unlock()
	if reported { // the caller learns of it
		return
	}
	b.client.count(w.Call, receipts, err)
	if enqueued == w.Jobs() && err != nil { // on fewer replicas than wanted
		b.log.Warn("buffered jobs were enqueued", "jobs", enqueued, "error", err)
	}
	for i := range w.Jobs() {
		switch why := failure(i); {
		case i < len(receipts) && why == nil:
		case Unconfirmed(why):
			b.log.Error("a buffered job may be in its queue or not", "class", w.names[i], "queue", w.bulk.Queue(i), "job", w.receipts[i].ID, "error", why)
		default:
			b.log.Error("a buffered job was dropped", "class", w.names[i], "queue", w.bulk.Queue(i), "job", w.receipts[i].ID, "error", why)
		}
	}
}

// Drop is Close without a wait.
func (b *Buffer) Drop() {
	over, cancel := context.WithCancel(context.Background())
	cancel()
	_ = b.Close(over)
}

// Close waits until the buffer is empty, as long as the context lasts. It drops the jobs that wait then, and
// returns an error that says how many these are. The buffer takes no more jobs. A second Close does nothing.
func (b *Buffer) Close(ctx context.Context) error {
	if b == nil {
		return nil
	}
	b.mu.Lock()
	if b.closed {
		b.mu.Unlock()
		return nil
	}
	b.closed = true
	close(b.closing)
	b.mu.Unlock()
	stop := context.AfterFunc(ctx, b.cancel)
	b.run.Wait()
	stop()
	b.cancel()
	b.mu.Lock()
	defer b.mu.Unlock()
	lost := b.stats.Waiting
	if lost == 0 {
		return nil
	}
	err := fmt.Errorf("the client was closed while Redis was away: %w", b.why)
	for _, w := range b.calls {
		w.finish(nil, err)
	}
	b.log.Error("buffered jobs are lost, because the client was closed while redis was unavailable", "jobs", lost, "error", b.why)
	b.calls, b.bytes, b.stats.Waiting = nil, 0, 0
	b.stats.Dropped += lost
	return fmt.Errorf("%s in the buffer are lost, because the client was closed while Redis was away; "+
		"give the Close more time, or enqueue them again", resque.Plural(lost, "job"))
}

// finish tells a caller that waits for its turn what became of the call.
func (w *waitingCall) finish(receipts []Receipt, err error) {
	w.over, w.done, w.err = true, receipts, err
	w.release()
}

// release lets a caller that waits for its turn go on.
func (w *waitingCall) release() {
	if w.turn != nil {
		close(w.turn)
		w.turn = nil
	}
}

// kept returns the receipts of a call that waits in the buffer.
func (c *Call) kept() []Receipt {
	kept := slices.Clone(c.receipts)
	for i := range kept {
		kept[i].Buffered = true
	}
	return kept
}
