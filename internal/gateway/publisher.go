package gateway

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/clock"
	"github.com/goworker/goworker/internal/conn"
	"github.com/goworker/goworker/internal/part"
	"github.com/goworker/goworker/internal/producer"
	"github.com/goworker/goworker/internal/resque"
	"github.com/goworker/goworker/internal/resque/leases"
)

// Bounds of what the publisher sends at once.
const (
	mostPublished = 1000 // jobs
	mostPushed    = 4 << 20
)

// publisher pushes the jobs of all clients that need no more than to be pushed. Who is at the helm sends at once what has
// come since it sent before: its own goroutine, run, or, while that rests, the goroutine of a request.
type publisher struct {
	g      *Gateway
	signal chan struct{}
	done   chan struct{}

	helm chan struct{} // holds a value while there is one who sends
	line conn.Line     // of who is at the helm

	mu      sync.Mutex
	calls   []*pushCall
	stopped bool
}

// pushCall is some jobs of one request, which are pushed all or none.
type pushCall struct {
	leases.Publish
	bytes int
	done  chan error // has room for one
}

func newPublisher(g *Gateway) *publisher {
	return &publisher{g: g, signal: make(chan struct{}, 1), done: make(chan struct{}), helm: make(chan struct{}, 1), line: g.n.Line(0)}
}

// push pushes jobs and waits for that. If the context ends before, the jobs may be pushed all the same.
func (p *publisher) push(ctx context.Context, jobs leases.Publish) error {
	call := &pushCall{Publish: jobs, done: make(chan error, 1)}
	for _, raw := range jobs.Payloads {
		call.bytes += len(raw)
	}
	p.mu.Lock()
	if p.stopped {
		p.mu.Unlock()
		return ErrStopping
	}
	p.calls = append(p.calls, call)
	p.mu.Unlock()
	p.lead()
	select {
	case err := <-call.done:
		return err
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", producer.ErrUnconfirmed, ctx.Err())
	}
}

// lead sends in the goroutine of a request that has just come, if that is alone and run rests: then it costs no change of
// goroutines. Else it wakes run, which connects, and waits while another server is about to take the writes.
func (p *publisher) lead() {
	if !p.g.alone() {
		p.wake()
		return
	}
	select {
	case p.helm <- struct{}{}:
		defer func() { <-p.helm }() // also after a panic, from which net/http goes on
		if p.line.Live() {
			if calls, _ := p.take(); p.send(calls, false) {
				return
			}
		}
	default:
	}
	p.wake()
}

func (p *publisher) wake() {
	select {
	case p.signal <- struct{}{}:
	default:
	}
}

// stop has run end when all that has come is pushed.
func (p *publisher) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stopped = true
	p.wake()
}

// take returns the calls that are sent next. over says that none will come.
func (p *publisher) take() (calls []*pushCall, over bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	n, jobs, bytes := 0, 0, 0
	for n < len(p.calls) && (n == 0 || jobs+len(p.calls[n].Payloads) <= mostPublished && bytes+p.calls[n].bytes <= mostPushed) {
		jobs += len(p.calls[n].Payloads)
		bytes += p.calls[n].bytes
		n++
	}
	calls = append(calls, p.calls[:n]...)
	p.calls = drop(p.calls, n)
	return calls, p.stopped && n == 0
}

func (p *publisher) run() {
	defer close(p.done)
	p.helm <- struct{}{}
	defer func() { p.line.Close(); <-p.helm }()
	for {
		calls, over := p.take()
		switch {
		case over:
			return
		case len(calls) > 0:
			p.send(calls, true)
		default:
			<-p.helm
			<-p.signal
			p.helm <- struct{}{}
		}
	}
}

// send pushes the jobs of calls. While Redis says that another server is about to take the writes it tries again, if it is
// patient; else it puts the calls back and is false.
func (p *publisher) send(calls []*pushCall, patient bool) bool {
	if len(calls) == 0 {
		return true
	}
	all := make([]leases.Publish, len(calls))
	for i, call := range calls {
		all[i] = call.Publish
	}
	g := p.g
	giveUp := g.n.Clock.Now().Add(g.pusher.Retries)
	var retry part.Backoff
	var out leases.Published
	var err error
	for {
		if out, err = p.publish(all); err == nil || !conn.Elsewhere(err) || errors.Is(err, producer.ErrUnconfirmed) {
			break
		}
		if !patient {
			p.mu.Lock()
			p.calls = append(calls, p.calls...)
			p.mu.Unlock()
			return false
		}
		wait := retry.Next()
		if g.n.Clock.Now().Add(wait).After(giveUp) || g.ctx.Err() != nil {
			break
		}
		clock.Sleep(g.n.Clock, wait)
	}
	if out.Now != 0 {
		g.saw(out.Now)
	}
	few := err != nil && errors.Is(err, resque.ErrFewReplicas)
	for i, call := range calls {
		said := err
		if out.Errors != nil && out.Errors[i] != nil {
			said = out.Errors[i]
		}
		if said == nil || few {
			g.count.published.Add(int64(len(call.Payloads)))
		}
		call.done <- said
	}
	return true
}

// publish pushes jobs once.
func (p *publisher) publish(all []leases.Publish) (out leases.Published, err error) {
	err = p.line.Once(p.g.ctx, func(c redis.Conn) (err error) {
		if out, err = p.g.store.Publish(c, all); err != nil && c.Err() != nil && !errors.Is(err, resque.ErrFewReplicas) {
			err = fmt.Errorf("%w: %w", producer.ErrUnconfirmed, err)
		}
		if err == nil {
			err = elsewhere(out.Errors)
		}
		return err
	})
	return out, err
}

// elsewhere returns why no request was done, where that is because another server is about to take the writes: the script says
// so of each list.
func elsewhere(errs []error) error {
	for _, err := range errs {
		if !conn.Elsewhere(err) {
			return nil
		}
	}
	return errs[0]
}
