package producer

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/prefix"
	"github.com/goworker/goworker/internal/resque/workflows"
	"github.com/goworker/goworker/internal/workflow"
)

// starter is the name of the adder that brings the pieces of a plan.
const starter = "start"

// StartWorkflow starts a workflow. It repeats the call after a lost reply: then New says whether the workflow is new, unless the
// caller chose its id. A plan that is too large for one call is started in pieces, and its jobs are sent after all that they may
// lead to. If that is not done to its end, the same plan goes on with it.
func (c *Client) StartWorkflow(ctx context.Context, p *workflows.Plan, chosen bool) (s workflows.Started, err error) {
	pieces, closes := workflow.Split(p)
	lost, err := c.repeat(ctx, func(on redis.Conn) (err error) {
		s, err = workflows.New(c.Store).Start(on, pieces[0])
		return err
	})
	if err != nil || s.Holder != "" {
		return s, err
	}
	s.New = s.New || lost && !chosen
	if len(pieces) == 1 {
		return s, nil
	}
	begun, err := c.addPieces(ctx, p, pieces)
	if begun == 0 && errors.Is(err, workflows.ErrEnded) && !s.New {
		return s, nil // another call has brought all of it
	}
	if err != nil {
		return s, prefix.Errorf("%w; it was begun and not sent to its end: call Start again with the same nodes and WithID(%q)", err, p.ID)
	}
	if closes {
		err = c.CloseWorkflow(ctx, p.ID)
	}
	return s, err
}

// addPieces adds all but the first piece, from where an earlier call has stopped. begun is how many it has added.
func (c *Client) addPieces(ctx context.Context, of *workflows.Plan, pieces []*workflows.Plan) (begun int, err error) {
	s, who := workflows.New(c.Store), workflows.Adder{Workflow: of.ID, Join: of.OpenJoin, Name: starter, Step: -1}
	hashes := make([]string, len(pieces))
	for i, p := range pieces {
		if i > 0 {
			hashes[i] = hashOf(hashes[i-1], p)
		} else {
			hashes[i] = hashOf("", p)
		}
	}
	for {
		var there workflows.Added
		over := false
		_, err := c.repeat(ctx, func(on redis.Conn) error {
			there, err = s.Reserve(on, who, 0, 0, 0)
			next := there.Count + 1
			if err != nil || next >= len(pieces) {
				over = true
				return err
			}
			if there.Count > 0 && there.Hash != hashes[there.Count] {
				return fmt.Errorf("it was begun with other nodes: %w", workflows.ErrChangedSequence)
			}
			_, err = s.Add(on, who, there, workflows.Added{Count: next, Hash: hashes[next]}, pieces[next])
			return err
		})
		if over || err != nil {
			return begun, err
		}
		begun++
	}
}

func hashOf(before string, p *workflows.Plan) string {
	h := sha256.New()
	fmt.Fprintf(h, "%s %q", before, p.Letters)
	for i := 0; i+1 < len(p.Fields); i += 2 {
		fmt.Fprintf(h, " %q", p.Fields[i])
	}
	for _, j := range p.Jobs {
		fmt.Fprintf(h, " %d %q", j.Step, j.Queue)
	}
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil)[:12])
}
