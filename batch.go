package goworker

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	step "github.com/goworker/goworker/internal/feature/workflow"
	"github.com/goworker/goworker/internal/outcome"
	"github.com/goworker/goworker/internal/prefix"
	"github.com/goworker/goworker/internal/producer"
	"github.com/goworker/goworker/internal/resque/workflows"
	"github.com/goworker/goworker/internal/setting"
	"github.com/goworker/goworker/internal/workflow"
)

var (
	// ErrEnded matches (errors.Is) the error of a call that adds to a batch which has ended, or which is closed and the
	// caller is none of its members. Nothing was added.
	ErrEnded = workflows.ErrEnded

	// ErrChangedSequence matches (errors.Is) the error of an AddSeq that was run before with other jobs: what was added then
	// stays, and nothing was added now.
	ErrChangedSequence = workflows.ErrChangedSequence

	errBatch     = errors.New("goworker: the context is not that of a step's handler, so there is no batch to which it could add")
	errBatchNode = errors.New("OnError and OnComplete of a Batch are one job each; make them with Step, without handlers of their own")
)

// Batch is jobs that are added one after the other, from any program and from its own members. See Client.NewBatch.
type Batch struct {
	// Name is that of the workflow, by which lists show it; see WorkflowName.
	Name string

	// OnSuccess is sent when all members have ended well and the batch is closed.
	OnSuccess *Node

	// OnError is called, once, when a member has failed for good. It is a Step, and gets a StepFailure behind its arguments.
	OnError *Node

	// OnComplete is called when all members have ended, however they did, and the batch is closed. It is a Step.
	OnComplete *Node

	// StopOnFailure drops members that have not started once one has failed for good. Without it they run: see RunRest.
	StopOnFailure bool

	// Results keeps what the members return. OnSuccess gets it behind its arguments, as a list in the order in which they
	// were added; see Results.
	Results bool
}

// OpenBatch is a batch to which members can be added. It is for one goroutine at a time; each may have one of its own.
type OpenBatch struct {
	client *Client
	at     int // of the client's Redises
	id     string
	old    bool            // a process of an older release may work the queues
	member bool            // it is the batch of a handler's job
	nodes  *producer.Adder // of Add
	jobs   *producer.Adder // of AddSeq; in a member the same
	err    error           // of every call; nil: none
}

// NewBatch begins a batch, which stays open until Close. With the id of one that exists it begins none and returns that one: so a
// program that was killed goes on. The options and errors are those of Start.
//
// Over Shards a batch lies where the queues of its handlers do, and its members must be for queues of that shard. One without
// handlers is made with the Client of the shard's Daemon.
func (c *Client) NewBatch(ctx context.Context, b Batch, opts ...WorkflowOption) (*OpenBatch, error) {
	if b.Name != "" {
		opts = append([]WorkflowOption{WorkflowName(b.Name)}, opts...)
	}
	o, err := workflowOptionsOf("NewBatch", opts)
	if err != nil {
		return nil, err
	}
	o.Open, o.RunRest = true, o.RunRest || !b.StopOnFailure && !o.CancelRunning
	n, err := b.node()
	if err != nil {
		return nil, unstarted(o, err)
	}
	begun, err := c.begin(ctx, n, o)
	if err != nil {
		return nil, err
	}
	return c.openBatch(begun, o), nil
}

// node returns the batch as a node: an open group, and what follows it.
func (b *Batch) node() (*Node, error) {
	members := Group()
	if b.Results {
		members.seq = func(func(Item, error) bool) {}
	}
	n := members
	if b.OnSuccess != nil {
		n = Chain(members, b.OnSuccess)
	}
	for _, h := range []struct {
		of *Node
		to *[]*Node
	}{{b.OnError, &members.onError}, {b.OnComplete, &members.onComplete}} {
		if h.of == nil {
			continue
		}
		if h.of.kind != workflow.OneStep || len(h.of.onError)+len(h.of.onComplete) > 0 {
			return nil, errBatchNode
		}
		*h.to = append(*h.to, h.of)
	}
	return n, nil
}

func (c *Client) openBatch(b begun, o *workflowOptions) *OpenBatch {
	id := b.receipt.ID
	return &OpenBatch{
		client: c, at: b.at, id: id, old: o.old, nodes: b.client.NewAdder(id, NewID(), -1), jobs: b.client.NewAdder(id, "", -1),
	}
}

// CurrentBatch returns the batch of a handler's job. What a member adds is a member too, and the batch does not end before the
// member has, even if it is closed. The nodes and jobs that a member adds are one sequence: when it runs again, as after its
// process was killed, what it added before is not added again.
//
// Outside of a handler of a workflow it is nil, and what is called on that is an error; so it is in a workflow that is no batch.
func CurrentBatch(ctx context.Context) *OpenBatch {
	run, d := step.Of(ctx), FromContext(ctx)
	if run == nil || d == nil || d.reach == nil {
		return nil
	}
	c, at := d.reach.(reach)()
	client, err := c.redises[at].init(false)
	if err != nil {
		return &OpenBatch{id: run.Workflow, err: err}
	}
	adder := client.NewAdder(run.Workflow, workflows.StepID(run.Workflow, run.Step), run.Step)
	return &OpenBatch{client: c, at: at, id: run.Workflow, old: true, member: true, nodes: adder, jobs: adder}
}

// ID returns the id of the batch: for WithID, Await, Status, Cancel and Workflows.
func (b *OpenBatch) ID() string {
	if b == nil {
		return ""
	}
	return b.id
}

// usable returns why no call can be made.
func (b *OpenBatch) usable() error {
	if b == nil {
		return errBatch
	}
	return b.err
}

// Add adds nodes as members, in one step of Redis: all of them or none. They have at most 1,000 jobs together, and 1 MiB. After
// an ErrUnconfirmed the same call may be made again.
//
// The error matches ErrEnded if the batch has ended or is closed.
func (b *OpenBatch) Add(ctx context.Context, nodes ...*Node) (err error) {
	if err := b.usable(); err != nil {
		return err
	}
	t, err := b.tree(ctx, b.nodes)
	if err != nil {
		return err
	}
	if err := t.collect(nodes...); err != nil {
		return b.about(err)
	}
	if len(t.items) == 0 {
		return nil
	}
	defer b.nodes.Rewind(&err)()
	mark, there, size, err := b.nodes.Pass(pushes(t.items)...)
	switch {
	case err != nil:
		return b.about(err)
	case there:
		return nil
	case len(t.items) > producer.MostAdded || size > producer.MostAddedBytes:
		return b.about(fmt.Errorf("these nodes have %d jobs of about %d bytes, and at most %d of %d bytes are added in one step; add them one by one",
			len(t.items), size, producer.MostAdded, producer.MostAddedBytes))
	}
	return b.add(ctx, b.nodes, mark, t, nodes)
}

// AddOption is a setting of AddSeq:
//
//   - Ahead: how many members may wait
//   - From: where the sequence begins
type AddOption interface{ add(*addOptions) }

type addOptions struct {
	setting.Mistakes
	ahead, from int
}

type addOption func(*addOptions)

func (o addOption) add(to *addOptions) { o(to) }

// Ahead bounds how many members of the batch have not ended while more are added, so that Redis never holds a million jobs. In a
// program AddSeq waits until there are fewer. In a handler it returns an error that the handler must return: it is a Snooze, and
// the handler runs again when about half of them have ended, and goes on behind what it has added. So a daemon with one worker
// does not wait for itself.
//
// Members that add count too, but for the handler itself: n must be greater than the number of those that add at a time.
func Ahead(n int) AddOption {
	return addOption(func(o *addOptions) {
		o.Once("how many members may wait", fmt.Sprintf("Ahead(%d)", n))
		if n < 1 {
			o.Wrong("Ahead(%d): it must be at least 1", n)
		}
		o.ahead = n
	})
}

// From says that the sequence begins behind its first n jobs, which must be as many as Added returns. AddSeq then does not compare
// them with those that were added.
func From(n int) AddOption {
	return addOption(func(o *addOptions) {
		o.Once("where the sequence begins", fmt.Sprintf("From(%d)", n))
		if n < 0 {
			o.Wrong("From(%d): it must not be negative", n)
		}
		o.from = n
	})
}

// AddSeq adds jobs as members, 1,000 or 1 MiB at a time, and holds no more of them in memory. If it is called again with the same
// sequence, by a handler that runs again or by a program for the same batch, it goes on behind the jobs that were added.
// Other jobs are ErrChangedSequence, and fewer are it at Close: a loader that reads what is pending must mark what it has added, or remember
// where it was; see Added and From. Jobs are compared by queue, class and arguments.
//
// An error of the sequence ends it. What was added stays.
func (b *OpenBatch) AddSeq(ctx context.Context, jobs iter.Seq2[Item, error], opts ...AddOption) (err error) {
	if err := b.usable(); err != nil {
		return err
	}
	var o addOptions
	for i, opt := range opts {
		if opt == nil {
			return b.about(fmt.Errorf("option %d of AddSeq is nil; leave it out", i+1))
		}
		opt.add(&o)
	}
	if o.First != nil {
		return b.about(o.First)
	}
	t, err := b.tree(ctx, b.jobs)
	if err != nil {
		return err
	}
	defer b.jobs.Rewind(&err)()
	if o.from > 0 {
		if err := b.jobs.From(ctx, o.from); err != nil {
			return b.about(err)
		}
	}
	if o.ahead > 0 && b.member { // it does not go through what was added for a few more
		if added, err := b.jobs.Added(ctx); err != nil {
			return b.about(err)
		} else if added > 0 {
			if err := b.wait(ctx, o.ahead/2+1); err != nil {
				return err
			}
		}
	}
	most := producer.MostAdded
	if o.ahead > 0 {
		most = min(most, o.ahead)
	}
	var nodes []*Node
	var last producer.Mark
	bytes := 0
	flush := func() error {
		if len(nodes) == 0 {
			return nil
		}
		if err := b.wait(ctx, o.ahead); err != nil {
			return err
		}
		piece := newTree(t.client, t.find, t.meta)
		piece.first, piece.at = t.first, t.at
		if err := piece.collect(nodes...); err != nil {
			return b.about(err)
		}
		err := b.add(ctx, b.jobs, last, piece, nodes)
		nodes, bytes = nodes[:0], 0
		return err
	}
	for item, err := range jobs {
		if err != nil {
			return err
		}
		mark, there, size, err := b.jobs.Pass(pushes([]Item{item})...)
		if err != nil {
			return b.about(err)
		}
		if there {
			continue
		}
		if len(nodes) == most || bytes+size > producer.MostAddedBytes {
			if err := flush(); err != nil {
				return err
			}
		}
		nodes, last, bytes = append(nodes, Step(item.Job, item.Options...)), mark, bytes+size
	}
	return flush()
}

// aheadAgain is how long a handler snoozes whose AddSeq has reached its bound.
const aheadAgain = time.Second

// wait waits until fewer members have not ended, or in a handler returns what makes it run again later.
func (b *OpenBatch) wait(ctx context.Context, ahead int) error {
	switch {
	case ahead == 0:
		return nil
	case !b.member:
		return b.about(b.jobs.Ahead(ctx, ahead))
	}
	full, err := b.jobs.Full(ctx, ahead+1) // the handler's own job has not ended
	if err == nil && full {
		return Snooze(aheadAgain)
	}
	return b.about(err)
}

// Added returns how many jobs of the sequence of AddSeq were added, in all runs; in a member also how many calls of Add.
func (b *OpenBatch) Added(ctx context.Context) (int, error) {
	if err := b.usable(); err != nil {
		return 0, err
	}
	n, err := b.jobs.Added(ctx)
	return n, b.about(err)
}

// Close says that no program adds anything more: when all members have ended, what follows is sent, and the batch ends. A batch
// without members ends at once. Closing it again does nothing.
func (b *OpenBatch) Close(ctx context.Context) error {
	if err := b.usable(); err != nil {
		return err
	}
	if err := b.jobs.End(); err != nil {
		return b.about(err)
	}
	client, err := b.client.redises[b.at].init(false)
	if err != nil {
		return err
	}
	return b.about(client.CloseWorkflow(ctx, b.id))
}

// about names the batch in an error.
func (b *OpenBatch) about(err error) error {
	if err == nil {
		return nil
	}
	return prefix.Errorf("batch %s: %w", b.id, err)
}

// tree returns what makes nodes of the batch.
func (b *OpenBatch) tree(ctx context.Context, adder *producer.Adder) (*tree, error) {
	meta, err := adder.Open(ctx)
	if err != nil {
		return nil, b.about(err)
	}
	find, err := b.client.finder()
	if err != nil {
		return nil, err
	}
	t := newTree(b.client, find, meta)
	t.at, t.lies = b.at, true
	return t, nil
}

// add adds nodes whose items the tree has, as the elements up to a mark.
func (b *OpenBatch) add(ctx context.Context, adder *producer.Adder, to producer.Mark, t *tree, nodes []*Node) error {
	return t.pass(ctx, func(ctx context.Context) error {
		made := make([]*workflow.Node, len(nodes))
		for i, n := range nodes {
			var err error
			if made[i], err = t.root(n); err != nil {
				return b.about(err)
			}
		}
		client, err := t.redis(ctx, b.old)
		if err != nil {
			return b.about(err)
		}
		return b.about(adder.Add(ctx, to, made, t.encoder(client)))
	})
}

// pushes returns what of jobs says whether a sequence is the one that was added before.
func pushes(items []Item) []outcome.Push {
	all := make([]outcome.Push, len(items))
	for i, item := range items {
		if item.Job != nil {
			all[i] = outcome.Push{Queue: item.Job.Queue, Name: item.Job.Payload.Class, Args: item.Job.Payload.Args}
		}
	}
	return all
}
