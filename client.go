package goworker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/goworker/goworker/inspect"
	"github.com/goworker/goworker/internal/access"
	"github.com/goworker/goworker/internal/outcome"
	"github.com/goworker/goworker/internal/prefix"
	"github.com/goworker/goworker/internal/producer"
	"github.com/goworker/goworker/internal/queues"
)

// Client enqueues jobs and asks about them. It is for programs that are no worker, such as a
// web server: NewClient makes one. A Daemon and Shards have a Client too, on their own
// connections.
//
// Every call takes a context first, and the context's end is the end of the call, whatever
// it waits for: a free connection, a dial or an answer of Redis. An error says what it waited
// for. If the job may be in its queue all the same, the error matches ErrUnconfirmed;
// otherwise nothing was enqueued.
//
// All methods are safe for concurrent use.
type Client struct {
	redises []*endpoint                   // one, or one for each shard
	names   []string                      // of the shards
	routes  func() (queues.Routes, error) // nil: there is one Redis
	own     bool                          // NewClient made it

	registry *registry // the classes' options and the middleware
}

// ClientOption is a setting of NewClient:
//
//   - WithDialer: how to reach Redis, for Sentinel, Cluster and the embedded one
//   - Classes: the defined classes whose options hold for the jobs
//   - Function: a function that is called, with its name and options
//   - WithEnqueueMiddleware: code around the calls that enqueue
//   - WithBuffer: how many jobs to keep in memory while Redis is away
type ClientOption interface{ client(*clientOptions) }

type clientOptions struct {
	endpoint *endpoint
	err      error
}

type clientOption func(*clientOptions)

func (o clientOption) client(to *clientOptions) { o(to) }

// WithDialer makes the Client dial URIs of a scheme with another package, as
// Daemon.RegisterDialer does:
//
//	goworker.NewClient(settings, goworker.WithDialer("redis+sentinel", sentinel.Open))
func WithDialer(scheme string, open Opener) ClientOption {
	return clientOption(func(o *clientOptions) { o.endpoint.register(scheme, opener(open)) })
}

// Classes makes the options of defined classes hold for all jobs of these classes that the
// Client enqueues, also where they are enqueued as a Job: a unique class takes its lock.
func Classes(classes ...Definition) ClientOption {
	return clientOption(func(o *clientOptions) {
		for _, c := range classes {
			if c == nil {
				o.err = errors.New("goworker: Classes was given a nil class; leave it out")
				return
			}
			if err := o.endpoint.registry.declare(c.definition()); err != nil {
				o.err = fmt.Errorf("goworker: Classes: %w", err)
				return
			}
		}
	})
}

// WithEnqueueMiddleware adds middleware around the calls that enqueue; see EnqueueMiddleware.
func WithEnqueueMiddleware(middleware ...EnqueueMiddleware) ClientOption {
	return clientOption(func(o *clientOptions) { o.endpoint.registry.around.add(middleware...) })
}

// WithBuffer is WorkerSettings.EnqueueBuffer: how many jobs to keep while Redis is away.
func WithBuffer(jobs int) ClientOption {
	return clientOption(func(o *clientOptions) { o.endpoint.settings.EnqueueBuffer = jobs })
}

// NewClient returns a Client of one Redis. Of the settings it uses those that say where Redis
// is and how jobs are written: URI, Namespace, TLS, timeouts, Connections, MaxPayload,
// WaitReplicas, EnqueueBuffer, RailsJSON, and the log's. It needs no queues and reads no command line. It
// does not dial before the first call. A mistake in the settings is an error.
func NewClient(settings WorkerSettings, opts ...ClientOption) (*Client, error) {
	o := clientOptions{endpoint: newEndpoint(settings, newRegistry())}
	for i, opt := range opts {
		if opt == nil {
			return nil, fmt.Errorf("goworker: option %d of NewClient is nil; leave it out", i+1)
		}
		opt.client(&o)
	}
	if o.err != nil {
		return nil, o.err
	}
	if _, err := o.endpoint.init(false); err != nil {
		return nil, err
	}
	return &Client{redises: []*endpoint{o.endpoint}, registry: o.endpoint.registry, own: true}, nil
}

// reach returns the Client of the program, and which of its Redises a daemon works.
type reach func() (c *Client, at int)

// Close closes the connections of a Client that NewClient made. From then on its calls return
// ErrClosed. Calls that wait for a connection return it too; any other call under way ends as
// usual. The Client of a Daemon or of Shards is closed with that: here Close does nothing.
// First it waits until the buffer is empty, at most BufferGrace; see CloseContext.
func (c *Client) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), BufferGrace)
	defer cancel()
	_ = c.CloseContext(ctx)
}

const BufferGrace = 5 * time.Second // of Client.Close

// CloseContext is Close with another limit for the wait: the context's end. The jobs that are in
// the buffer then are lost. The error and the log say how many.
func (c *Client) CloseContext(ctx context.Context) error {
	if c.own {
		return prefix.Of(c.redises[0].closeWithin(ctx))
	}
	return nil
}

// BufferStats counts jobs: Waiting, Drained, Refused, Dropped and Unconfirmed.
type BufferStats = producer.BufferStats

// Buffered counts the jobs of the buffer, after Close too. All Clients of a Daemon have one.
func (c *Client) Buffered() (sum BufferStats) {
	for _, e := range c.redises {
		sum.Add(e.buffered())
	}
	return sum
}

// Namespace returns the prefix of all keys, its colon included.
func (c *Client) Namespace() string { return c.redises[0].namespace() }

// Inspect returns what answers questions about queues, jobs, failures and workers, of all shards if
// there are several.
func (c *Client) Inspect() *inspect.Inspector {
	redises := make([]access.Redis, len(c.redises))
	for i, e := range c.redises {
		redises[i] = lender{e}
	}
	return inspect.New(redises...)
}

// Enqueue enqueues a job with options. Without an option, of the call or of the class, the
// payload has class and args only, as Resque.enqueue writes it. Otherwise the job also has an
// id, a random one unless WithID gives one. The id stands in the payload beside class and
// args, where Ruby's workers ignore it.
//
// Options of the call go before those of the class.
//
// The error is a *DuplicateError, which matches ErrDuplicate, for a job that Unique refuses.
// With ErrTooFewReplicas the job is there, and the receipt has its ID. With ErrUnconfirmed it
// may be there.
func (c *Client) Enqueue(ctx context.Context, job *Job, opts ...EnqueueOption) (Receipt, error) {
	var one [1]Receipt
	receipts, err := c.enqueue(ctx, []Item{{job, opts}}, one[:])
	if len(receipts) == 0 {
		return Receipt{}, err
	}
	if d := receipts[0].Duplicate; d != nil && err == nil {
		err = d
	}
	return receipts[0], err
}

// EnqueueMany enqueues any number of jobs, for any queues, in one step: no worker sees some of
// them without the others. Jobs of one queue keep their order. The receipts are in the order
// of the items.
//
// With an error about Redis, or about an item that cannot be encoded, none is enqueued. A job
// whose lock another one holds is no such error: only that job is left out, and its
// receipt has Duplicate. With ErrUnconfirmed it is unknown whether they are in their queues.
//
// Redis does nothing else meanwhile: about half a millisecond for 1,000 jobs of 100 bytes,
// fifty for 100,000. Larger batches are not faster, so divide what need not be one. More than
// 1,000,000 jobs or 256 MiB are refused.
//
// Over Shards each shard takes its part of the jobs, or none of its part, and the shards do not
// depend on each other. The error joins a *ShardError for each shard that took none; the
// receipts of its jobs are empty.
func (c *Client) EnqueueMany(ctx context.Context, items ...Item) ([]Receipt, error) {
	return c.enqueue(ctx, items, nil)
}

// enqueue enqueues items, with room for their receipts.
func (c *Client) enqueue(ctx context.Context, items []Item, room []Receipt) ([]Receipt, error) {
	if c.registry.around.all.Load() == nil {
		return c.send(ctx, items, room)
	}
	return c.registry.around.enqueue(ctx, slices.Clone(items), func(ctx context.Context, items []Item) ([]Receipt, error) { return c.send(ctx, items, nil) })
}

// send is enqueue after the middleware.
func (c *Client) send(ctx context.Context, items []Item, receipts []Receipt) ([]Receipt, error) {
	find, err := c.finder()
	if err != nil {
		return nil, err
	}
	in, _ := c.registry.rooms.Get().(*room)
	if in == nil {
		in = new(room)
	}
	defer c.registry.giveBack(in)
	p, loads := &in.push, in.load[:]
	if n := len(c.redises); n > 1 {
		loads = make([]load, n)
	} else if err := producer.CheckMany(len(items)); err != nil {
		return nil, err
	}
	for n := range items {
		err := push(c.registry.Class, &items[n], p, &in.options)
		i := 0
		if err == nil && find != nil {
			i, err = find(p.Queue)
		}
		if err == nil {
			if err := loads[i].open(c.redises[i], len(items)/len(loads)); err != nil {
				return nil, err
			}
			err = loads[i].add(p, n, len(loads) > 1)
		}
		if err != nil {
			return nil, producer.Unsent(err, n, len(items))
		}
	}
	if len(loads) == 1 {
		return loads[0].send(ctx, items, receipts)
	}
	return c.sendAll(ctx, loads, slices.Clone(items))
}

// room is what a call that enqueues needs while it encodes jobs, and sends them to one Redis, as most do.
type room struct {
	push    outcome.Push
	options enqueueOptions
	load    [1]load
}

// giveBack keeps the room of a call that is over, without what it has of the program, for another call.
func (r *registry) giveBack(of *room) {
	of.options.Reset()
	of.push.Reset()
	*of = room{push: of.push, options: enqueueOptions{Mistakes: of.options.Mistakes}}
	r.rooms.Put(of)
}

// finder returns what finds the Redis of a queue, or nil if there is but one. It returns an error after Close.
func (c *Client) finder() (func(queue string) (int, error), error) {
	if c.routes == nil {
		return nil, c.redises[0].usable()
	}
	routes, err := c.routes()
	if err != nil {
		return nil, err
	}
	return routes.Finder(), nil
}

// sendAll sends the loads of several shards at the same time.
func (c *Client) sendAll(ctx context.Context, loads []load, items []Item) ([]Receipt, error) {
	var wg sync.WaitGroup
	all, errs := make([]Receipt, len(items)), make([]error, len(loads))
	for i := range loads {
		if loads[i].call == nil {
			continue
		}
		wg.Go(func() {
			receipts, err := loads[i].send(ctx, items, nil)
			for n, r := range receipts {
				all[loads[i].places[n]] = r
			}
			if err != nil {
				errs[i] = &ShardError{URI: c.names[i], Jobs: loads[i].jobs(items), Err: err}
			}
		})
	}
	wg.Wait()
	return all, errors.Join(errs...)
}

// load is the jobs of a call that go to one Redis.
type load struct {
	client *client
	call   *producer.Call
	places []int // of the jobs among all items; nil: it has all items
}

// open prepares the load for about so many jobs.
func (l *load) open(to *endpoint, about int) (err error) {
	if l.call != nil {
		return nil
	}
	if l.client, err = to.init(false); err != nil {
		return err
	}
	l.call = l.client.NewCall(l.client.set, about)
	return nil
}

// add adds a job. The load keeps its place if it is one of several.
func (l *load) add(p *outcome.Push, place int, several bool) error {
	if several {
		l.places = append(l.places, place)
	}
	return l.call.Add(p)
}

// send pushes the jobs. It returns receipts in the room given, if that is enough.
func (l *load) send(ctx context.Context, items []Item, receipts []Receipt) ([]Receipt, error) {
	if l.call == nil {
		return nil, nil
	}
	pushed, err := l.client.Send(ctx, l.call)
	if errors.Is(err, ErrClosed) && len(pushed) == 0 {
		return nil, err
	} else if len(pushed) == 0 {
		return nil, producer.Explain(err, l.call.Jobs())
	}
	receipts = slices.Grow(receipts[:0], len(pushed))[:len(pushed)]
	for i, r := range pushed {
		if r.Err == nil {
			receipts[i] = Receipt{ID: r.ID, Replaced: r.Replaced, Buffered: r.Buffered}
			continue
		}
		class := l.job(items, i).Payload.Class
		if held := new(producer.Duplicate); errors.As(r.Err, &held) {
			receipts[i].Duplicate = &DuplicateError{Class: class, Holder: held.ID, Queue: held.Queue, Since: held.Since}
		} else {
			err = errors.Join(err, producer.About(class, r.Err))
		}
	}
	if err == nil {
		l.client.Free(l.call)
		return receipts, nil
	}
	return receipts, prefix.Of(err)
}

// job returns the i-th job of the load.
func (l *load) job(items []Item, i int) *Job {
	if l.places != nil {
		i = l.places[i]
	}
	return items[i].Job
}

// jobs returns the jobs of the load.
func (l *load) jobs(items []Item) []*Job {
	jobs := make([]*Job, l.call.Jobs())
	for i := range jobs {
		jobs[i] = l.job(items, i)
	}
	return jobs
}
