package producer

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/clock"
	"github.com/goworker/goworker/internal/outcome"
	"github.com/goworker/goworker/internal/part"
	"github.com/goworker/goworker/internal/prefix"
	"github.com/goworker/goworker/internal/resque"
	"github.com/goworker/goworker/internal/resque/workflows"
	"github.com/goworker/goworker/internal/workflow"
)

// Limits of what an Adder adds in one step of Redis.
const (
	MostAdded      = workflows.MostSent
	MostAddedBytes = workflows.MostBytes * 3 / 4 // Redis is sent more than jobs

	stepBytes = 256 // about what a step has beside its class and arguments
)

// Mark is a place in a sequence: how many elements are before it, and their hash.
type Mark struct {
	count int
	hash  string
}

// Adder adds a sequence of elements to an open workflow: each is some jobs. A sequence that is added again, by another run of a job
// or by another program, goes on behind the elements that were added. It is for one goroutine.
type Adder struct {
	client *Client
	who    workflows.Adder
	into   workflow.Into
	meta   map[string]string // of the workflow
	call   *Call             // encodes the elements for the hash

	known  bool // what follows was read
	there  Mark // what Redis has of the sequence
	passed Mark // what this run has passed
}

// NewAdder returns what adds to a workflow. The name is that of the sequence. step is the number of the job that adds, -1 of a
// client.
func (c *Client) NewAdder(id, name string, step int) *Adder {
	return &Adder{
		client: c, who: workflows.Adder{Workflow: id, Name: name, Step: step}, call: NewCall(nil, c.Style, c.MaxPayload, 1),
	}
}

// ErrNoBatch is why nothing can be added to a workflow.
var ErrNoBatch = errors.New("it is no batch, so nothing can be added to it")

// Open reads where the workflow is open, and how far the sequence is. It returns the workflow's metadata.
func (a *Adder) Open(ctx context.Context) (meta map[string]string, err error) {
	if a.known {
		return a.meta, nil
	}
	s := workflows.New(a.client.Store)
	_, err = a.client.repeat(ctx, func(on redis.Conn) error {
		o, err := s.ReadOpen(on, a.who.Workflow)
		if err != nil {
			return err
		}
		if o.Into == "" {
			return ErrNoBatch
		}
		if a.into, err = workflow.ParseInto(o.Into); err != nil {
			return err
		}
		a.meta, a.into.Workflow, a.who.Join = o.Meta, a.who.Workflow, a.into.Open
		there, err := s.Reserve(on, a.who, 0, 0, 0)
		a.there = Mark{there.Count, there.Hash}
		return err
	})
	a.known = err == nil
	return a.meta, err
}

// Added returns how many elements of the sequence were added, in all runs.
func (a *Adder) Added(ctx context.Context) (int, error) {
	_, err := a.Open(ctx)
	return a.there.count, err
}

// From lets the run begin behind the elements that were added, which must be as many. They are not compared.
func (a *Adder) From(ctx context.Context, n int) error {
	if _, err := a.Open(ctx); err != nil {
		return err
	}
	if n != a.there.count {
		return fmt.Errorf("the sequence begins behind %s, but %d were added; begin there, as Added says", resque.Plural(n, "element"), a.there.count)
	}
	a.passed = a.there
	return nil
}

// Pass passes the next element. The mark is the place behind it, and there says that an earlier run has added it. size is about how
// many bytes its jobs have. Open must have been called.
func (a *Adder) Pass(jobs ...outcome.Push) (m Mark, there bool, size int, err error) {
	h := sha256.New()
	h.Write([]byte(a.passed.hash))
	for i := range jobs {
		p := &jobs[i]
		text, err := a.call.bulk.Encode(p.Name, p.Args)
		if err != nil {
			return m, false, 0, About(p.Name, err)
		}
		fmt.Fprintf(h, " %q %d ", p.Queue, len(text))
		h.Write(text)
		size += len(text) + stepBytes
	}
	a.passed = Mark{a.passed.count + 1, base64.RawURLEncoding.EncodeToString(h.Sum(nil)[:12])}
	if a.passed.count == a.there.count && a.passed.hash != a.there.hash {
		return m, false, 0, fmt.Errorf("%s were added before: %w", resque.Plural(a.there.count, "element"), workflows.ErrChangedSequence)
	}
	return a.passed, a.passed.count <= a.there.count, size, nil
}

// Rewind returns what goes back to where the run is now, if there is an error then: the same elements are passed again.
func (a *Adder) Rewind(err *error) func() {
	m := a.passed
	return func() {
		if *err != nil {
			a.passed, a.known = m, false
		}
	}
}

// End returns an error if a run has passed fewer elements than were added before.
func (a *Adder) End() error {
	if a.passed.count > 0 && a.passed.count < a.there.count {
		return fmt.Errorf("its sequence has %s, and %d were added before: %w", resque.Plural(a.passed.count, "element"), a.there.count, workflows.ErrChangedSequence)
	}
	return nil
}

// Add adds the elements behind those that Redis has, up to a mark. These are their nodes.
func (a *Adder) Add(ctx context.Context, to Mark, nodes []*workflow.Node, encode workflow.Encoder) error {
	letters, joins, scopes := workflow.Needs(nodes)
	s := workflows.New(a.client.Store)
	_, err := a.client.repeat(ctx, func(on redis.Conn) error {
		before, err := s.Reserve(on, a.who, letters, joins, scopes)
		if err != nil {
			return err
		}
		switch there := (Mark{before.Count, before.Hash}); {
		case there == to: // the reply was lost
			return nil
		case there.count < a.there.count:
			return workflows.ErrBehind
		case there != a.there:
			return fmt.Errorf("another run adds the same sequence at this time: %w", workflows.ErrChangedSequence)
		}
		into := a.into
		into.Letter, into.Join, into.Scope, into.Now = before.First, before.FirstJoin, before.FirstScope, clock.System.Now()
		plan, err := workflow.Add(nodes, into, encode)
		if err != nil {
			return err
		}
		_, err = s.Add(on, a.who, before, workflows.Added{Count: to.count, Hash: to.hash}, plan)
		return err
	})
	if err == nil {
		a.there = to
	}
	return err
}

// aheadWait is how long Ahead waits at most between two looks.
const aheadWait = time.Second

// Ahead waits until fewer than so many members of the batch have not ended. It looks again with growing pauses.
func (a *Adder) Ahead(ctx context.Context, most int) error {
	var retry part.Backoff
	for {
		full, err := a.Full(ctx, most)
		if err != nil || !full {
			return err
		}
		if !sleep(ctx, min(retry.Next(), aheadWait)) {
			return prefix.Errorf("waiting until fewer than %d members of workflow %s have not ended: %w", most, a.who.Workflow, context.Cause(ctx))
		}
	}
}

// Full reports whether so many members of the batch have not ended.
func (a *Adder) Full(ctx context.Context, most int) (bool, error) {
	var left int
	_, err := a.client.repeat(ctx, func(on redis.Conn) error {
		o, err := workflows.New(a.client.Store).ReadOpen(on, a.who.Workflow)
		left = o.Left
		return err
	})
	return left >= most, err
}

// CloseWorkflow closes a batch.
func (c *Client) CloseWorkflow(ctx context.Context, id string) error {
	_, err := c.repeat(ctx, func(on redis.Conn) error {
		_, err := workflows.New(c.Store).Close(on, id)
		return err
	})
	return err
}

// WorkflowResult returns the result of a workflow that lies with its steps: at most so many bytes. there is false if this Redis does
// not have the workflow.
func (c *Client) WorkflowResult(ctx context.Context, id string, v workflows.Values, most int) (result json.RawMessage, there bool, err error) {
	s := workflows.New(c.Store)
	err = c.Pool.Do(ctx, func(on redis.Conn) error {
		if _, err := s.ReadOpen(on, id); err != nil {
			return err
		}
		there = true
		all, err := s.ReadValues(on, id, v, most)
		if err == nil && len(all) > 0 {
			result = all[0]
		}
		return err
	})
	if errors.Is(err, workflows.ErrNoWorkflow) {
		return nil, false, nil
	}
	return result, there, err
}
