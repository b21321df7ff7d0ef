package producer

import (
	"context"
	"fmt"
	"strings"
	"time"
	"unicode"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/clock"
	"github.com/goworker/goworker/internal/conn"
	"github.com/goworker/goworker/internal/outcome"
	"github.com/goworker/goworker/internal/part"
	"github.com/goworker/goworker/internal/payload"
	"github.com/goworker/goworker/internal/prefix"
	"github.com/goworker/goworker/internal/workflow"
)

// StepJob is the job of a workflow.Step: a Push, and what counts from when the step is sent.
type StepJob struct {
	outcome.Push
	Delay   time.Duration // in place of At
	Expires time.Duration // in place of an option of the Push; 0: not
}

// CheckWorkflowName returns why a text cannot be what an option says: the name of a workflow, or that of a lock.
func CheckWorkflowName(option, name string) error {
	switch {
	case name == "":
		return fmt.Errorf("%s(%q): the name is empty; give one, or leave it out", option, name)
	case len(name) > 256:
		return fmt.Errorf("%s: the name has at most 256 bytes, and this one has %d", option, len(name))
	case strings.ContainsFunc(name, unicode.IsControl):
		return fmt.Errorf("%s(%q): the name has a control character; leave it out", option, name)
	}
	return nil
}

// EncodeStep encodes the job of a step, with what the features add. The same step may be encoded again.
func (c *Call) EncodeStep(s *workflow.Step, id, token string) (e workflow.Encoded, err error) {
	job := s.Job.(*StepJob)
	p := job.Push
	if err := c.check(&p); err != nil {
		return e, err
	}
	if token != "" {
		p.Args = append(p.Args[:len(p.Args):len(p.Args)], token)
	}
	if !p.At.IsZero() {
		c.date(&p)
	}
	at := p.At
	p.ID, p.At = id, time.Time{}
	if err := c.encode(&p); err != nil {
		return e, err
	}
	raw := c.bulk.Begun()
	if p.Priority > 0 {
		raw = append([]byte("{"+payload.Priority(p.Priority)), raw[1:]...)
	} else {
		raw = append([]byte(nil), raw...)
	}
	if most := c.bulk.Most; most > 0 && len(raw) > most {
		return e, &payload.SizeError{Size: len(raw), Most: most}
	}
	return workflow.Encoded{
		Payload: raw, Queue: p.Queue, At: at, Delay: job.Delay, Expires: job.Expires, Priority: p.Priority, Hashes: p.Begins,
	}, nil
}

// repeat runs f, which may be repeated, until Redis has answered or the client's Retries are over. They begin again with the
// first reply that is lost: that may have taken as long as a read does, and the reply is still to be asked for. lost says that
// there was one. If no answer came after that, the error is one that Unconfirmed reports.
func (c *Client) repeat(ctx context.Context, f func(redis.Conn) error) (lost bool, err error) {
	within := max(c.Retries, time.Second)
	giveUp := clock.System.Now().Add(within)
	var retry part.Backoff
	for {
		sent := false
		err = c.Pool.Do(ctx, func(on redis.Conn) error {
			sent = true
			return f(on)
		})
		silent := conn.Classify(err) == conn.KindConn
		if sent && silent && !lost {
			lost, giveUp = true, clock.System.Now().Add(within)
		}
		wait := retry.Next()
		switch {
		case err == nil:
			return lost, nil
		case !(silent && lost) && !conn.Elsewhere(err), clock.System.Now().Add(wait).After(giveUp), !sleep(ctx, wait):
			if silent && lost {
				err = unconfirmed{err}
			}
			return lost, prefix.Of(err)
		}
	}
}
