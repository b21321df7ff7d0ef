package producer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/clock"
	"github.com/goworker/goworker/internal/meter"
	"github.com/goworker/goworker/internal/outcome"
	"github.com/goworker/goworker/internal/payload"
	"github.com/goworker/goworker/internal/queues"
	"github.com/goworker/goworker/internal/resque"
)

// Receipt says what became of one job.
type Receipt struct {
	ID       string // "": a plain job has none
	Buffered bool   // it waits in the buffer, because Redis is away
	Replaced string // the id of the job that made room for this one

	// Err is why this job is not in its place although others are: a *Duplicate if another job holds its
	// lock, or what Redis refused about this job alone.
	Err error
}

// Duplicate names the job that holds a lock.
type Duplicate = resque.Duplicate

// Enqueue encodes jobs, has the features of the set add to each, and pushes all of them in one step. It
// changes the jobs. The receipts are those of the jobs, in their order.
//
// The error is one of the whole call: no job was enqueued, or that is unknown, which Unconfirmed reports.
// Only with a *resque.ReplicasError there are receipts too. A job that cannot be encoded keeps all others
// from being sent; its error is that of Unsent.
//
// A job that replaces another of the same call needs a second step, since the other is there only after the
// first. If Redis refuses that one, the job's receipt says so.
func (c *Client) Enqueue(ctx context.Context, set *outcome.Set, jobs []outcome.Push) ([]Receipt, error) {
	call := c.NewCall(set, len(jobs))
	for i := range jobs {
		if err := call.Add(&jobs[i]); err != nil {
			return nil, Unsent(err, i, len(jobs))
		}
	}
	return c.Send(ctx, call)
}

// Call is the jobs that one step is to push. It is for one goroutine.
type Call struct {
	set      *outcome.Set
	bulk     resque.Bulk
	jobs     int    // that are expected
	prefix   string // of the keys of queues
	receipts []Receipt
	queue    string // of the job before, whose name is right
	own      string // a queue of goworker's own that gets a job
	keep     bool   // the classes
	heard    bool   // the Hearer hears of the jobs
	names    []string
	clock    clock.Clock // of a test; nil: the system's
	keeps    bool        // the jobs are kept for Client.Sent
	sent     []Sent

	rider rider // the call while it goes with others

	// Room for one job, which most calls have.
	one     [1]Receipt
	oneName [1]string
}

// NewCall returns an empty call, for about so many jobs, whose payloads have at most so many bytes; 0 is
// resque.MaxPushBytes. The set may be nil.
func NewCall(set *outcome.Set, style payload.Style, most, jobs int) *Call {
	return &Call{set: set, jobs: jobs, bulk: resque.Bulk{Style: style, Most: most}, prefix: resque.New("").KeyOfQueue("")}
}

// NewCall returns an empty call with the client's style and limit.
func (c *Client) NewCall(set *outcome.Set, jobs int) *Call {
	call := c.Spares.take()
	if call == nil {
		call = &Call{prefix: c.Store.KeyOfQueue("")}
	}
	call.set, call.jobs, call.bulk.Style, call.bulk.Most = set, jobs, c.Style, c.MaxPayload
	call.heard = c.Hearer != nil && c.Hearer.Wants()
	call.keep = c.Buffer != nil || call.heard || c.Meter != nil
	call.clock, call.keeps = c.Clock, c.Sent != nil
	call.bulk.Types = c.Types
	return call
}

// Spares keeps calls that are over, whose memory the next calls of the same Client use. It is safe for concurrent use.
type Spares struct{ calls sync.Pool }

// take returns an empty call with its prefix, or nil.
func (s *Spares) take() *Call {
	if s == nil {
		return nil
	}
	call, _ := s.calls.Get().(*Call)
	return call
}

// mostReceipts is for how many jobs a call keeps room once it is over.
const mostReceipts = 1 << 12

// Free takes a call back that was sent without an error. Neither the call nor its receipts may be used after that.
func (c *Client) Free(call *Call) {
	if c.Spares == nil || c.Buffer != nil || call.keeps { // the buffer's goroutine may have it
		return
	}
	done := call.rider.done
	clear(call.receipts)
	clear(call.names)
	call.bulk.Reset()
	call.rider = rider{done: done}
	call.receipts, call.names = call.receipts[:0], call.names[:0]
	if cap(call.receipts) > mostReceipts {
		call.receipts, call.names = nil, nil
	}
	call.set, call.queue, call.own, call.clock = nil, "", "", nil
	c.Spares.calls.Put(call)
}

// Sent is a job as it was pushed: what became of the Push, its payload, and the id of the job that it replaced.
type Sent struct {
	outcome.Push
	Payload  []byte
	Replaced string
}

// Keep makes the call keep its jobs as they would be pushed, for Kept.
func (c *Call) Keep() { c.keeps = true }

// Kept returns the jobs that were added.
func (c *Call) Kept() []Sent { return c.sent }

// Jobs returns how many jobs were added.
func (c *Call) Jobs() int { return len(c.receipts) }

// Add adds a job behind the others. It changes p and does not keep it. With an error, which names the class, the job is not added.
func (c *Call) Add(p *outcome.Push) error {
	if err := c.check(p); err != nil {
		return err
	}
	if err := c.add(p); err != nil {
		return About(p.Name, err)
	}
	if len(c.receipts) == 0 {
		if cap(c.receipts) == 0 {
			c.receipts = c.one[:0]
		}
		if c.jobs > 1 {
			c.receipts = slices.Grow(c.receipts, c.jobs)
			c.bulk.Grow(c.jobs - 1)
		}
	}
	if c.keep {
		if c.names == nil {
			c.names = c.oneName[:0]
		}
		if len(c.names) == 0 && c.jobs > 1 {
			c.names = slices.Grow(c.names, c.jobs)
		}
		c.names = append(c.names, p.Name)
	}
	c.receipts = append(c.receipts, Receipt{ID: p.ID})
	return nil
}

// check returns why a job cannot be enqueued, whatever it has.
func (c *Call) check(p *outcome.Push) error {
	if p.Queue == "" || p.Name == "" {
		return ErrNoJob
	}
	if p.Queue != c.queue {
		if err := queues.CheckName(p.Queue, c.prefix); err != nil {
			return About(p.Name, err)
		}
		if c.queue = p.Queue; queues.IsOwn(p.Queue) {
			c.own = p.Queue
		}
	}
	return nil
}

func (c *Call) add(p *outcome.Push) error {
	if !p.At.IsZero() {
		c.date(p)
	}
	if err := c.encode(p); err != nil {
		return err
	}
	if p.Lifts != (resque.Key{}) {
		c.bulk.Lift(p.Lifts, p.ID)
	}
	for _, h := range p.Begins {
		c.bulk.Begin(h)
	}
	p.Payload = nil
	guarded := slices.Clip(p.Guarded)
	if len(guarded) == 0 {
		guarded = nil // which is no guarded job
	}
	if c.keeps {
		c.sent = append(c.sent, Sent{Push: p.Keep(), Payload: bytes.Clone(c.bulk.Begun())})
	}
	return c.bulk.Put(resque.Place{Queue: p.Queue, At: p.At, Ruby: p.Ruby, Priority: p.Priority}, guarded...)
}

// encode writes a job as the one that the bulk has begun, with what the features add.
func (c *Call) encode(p *outcome.Push) (err error) {
	p.Style = c.bulk.Style
	if p.List != nil {
		p.Payload = c.bulk.EncodeList(p.Name, p.List)
	} else if p.Payload, err = c.bulk.Encode(p.Name, p.Args); err != nil {
		return err
	}
	if c.set != nil {
		if err := c.set.Enqueue(p); err != nil {
			return err
		}
	}
	switch later := !p.At.IsZero(); {
	case later && p.Ruby && !p.Plain():
		return resque.ErrNotPlain
	case later && !p.Ruby, !p.Plain():
		p.MakeID() // equal members of our schedule are one job
	}
	for _, f := range p.Fields {
		c.bulk.Set(f)
	}
	if p.ExpiresAt != 0 {
		c.bulk.Set(resque.ExpiresAt(p.ExpiresAt))
	}
	if p.ID != "" {
		c.bulk.SetText("id", p.ID)
	}
	return nil
}

// date has a job whose time has come pushed to its queue.
func (c *Call) date(p *outcome.Push) {
	now := clock.System
	if c.clock != nil {
		if now = c.clock; p.In != 0 { // the program added it to the system's time
			p.At = now.Now().Add(p.In)
		}
	}
	if !p.At.After(now.Now()) {
		p.At = time.Time{}
	}
}

// Send pushes the jobs of a call in one step, or keeps them in the buffer. Enqueue says what it returns. A
// call is sent once.
func (c *Client) Send(ctx context.Context, call *Call) ([]Receipt, error) {
	if call.Jobs() == 0 {
		return nil, nil
	}
	send := c.sendNow
	if c.Buffer != nil {
		send = c.Buffer.send
	}
	receipts, err := send(ctx, call)
	c.count(call, receipts, err)
	return receipts, err
}

// count counts what became of the jobs of a call. A job that was buffered is counted again when it has left the buffer.
func (c *Client) count(call *Call, receipts []Receipt, err error) {
	if c.Meter == nil {
		return
	}
	for i := range call.Jobs() {
		why, buffered := err, false
		if i < len(receipts) {
			why, buffered = receipts[i].Err, receipts[i].Buffered
		}
		result := meter.Pushed
		switch {
		case why != nil:
			result = failed(why)
		case buffered:
			result = meter.Buffered
		}
		c.Meter.Enqueued(call.bulk.Queue(i), call.names[i], result)
	}
}

// failed is how the Meter names what became of a job that was not pushed.
func failed(why error) string {
	var held *Duplicate
	switch {
	case errors.As(why, &held):
		return meter.Held
	case Unconfirmed(why):
		return meter.Unconfirmed
	}
	return meter.Refused
}

// sendNow is Send without the buffer.
func (c *Client) sendNow(ctx context.Context, call *Call) ([]Receipt, error) {
	var err error
	if c.Coalescer != nil && call.joins() {
		var left bool
		if left, err = c.Coalescer.push(ctx, c, call); left {
			return nil, err
		}
	} else {
		err = c.push(ctx, call)
	}
	receipts, err := c.result(call, err)
	c.tell(call, receipts)
	if c.Sent != nil {
		var sent []Sent
		for i, r := range receipts {
			if r.Err == nil {
				call.sent[i].Replaced = r.Replaced
				sent = append(sent, call.sent[i])
			}
		}
		c.Sent(sent)
	}
	return receipts, err
}

// push pushes the jobs of one call.
func (c *Client) push(ctx context.Context, call *Call) error {
	return c.send(ctx, func(conn redis.Conn) error {
		if err := c.mayPush(conn, call); err != nil {
			return err
		}
		return c.Store.PushBulk(conn, &call.bulk)
	})
}

// tell has the Hearer hear of the jobs of a call that were pushed.
func (c *Client) tell(call *Call, receipts []Receipt) {
	if !call.heard {
		return
	}
	for i := range receipts {
		if r := &receipts[i]; r.Err == nil {
			c.Hearer.Enqueued(call.bulk.Queue(i), call.names[i], r.ID)
		}
	}
}

// mayPush returns why a call cannot be sent beside the processes that live now. It asks on the connection of the push, so
// that a Redis which does not serve is waited for, or has the call buffered, as with any queue.
func (c *Client) mayPush(on redis.Conn, call *Call) error {
	if call.own == "" || c.Releases == nil {
		return nil
	}
	return c.Releases.checkOwn(func() ([]oldProcess, error) { return oldProcesses(on, c.Store) }, call.own)
}

// result returns what Send does, by the error of the push.
func (c *Client) result(call *Call, err error) ([]Receipt, error) {
	if c.Soft != nil {
		for _, e := range call.bulk.Soft() {
			c.Soft(e)
		}
	}
	few := errors.Is(err, resque.ErrFewReplicas)
	if err != nil && !few && call.bulk.InDoubt() {
		err = unconfirmed{err}
	}
	switch {
	case err != nil && !few && !call.bulk.Done():
		return nil, err
	case call.bulk.Plain():
		return call.receipts, err
	}
	for i := range call.receipts {
		r := &call.receipts[i]
		if r.Replaced, r.Err = call.bulk.Result(i); errors.Is(r.Err, resque.ErrWaits) {
			why := "this job was not enqueued with the others"
			if Unconfirmed(err) {
				why = "others were enqueued, and it is unknown whether this job was"
			}
			r.Err = fmt.Errorf("%s: %w", why, err)
		}
	}
	if few {
		return call.receipts, err
	}
	return call.receipts, nil
}
