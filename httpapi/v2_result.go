package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/goworker/goworker/inspect"
	"github.com/goworker/goworker/internal/resque/leases"
)

const (
	// DefaultCallWait is how long a call waits for its job, unless it says otherwise.
	DefaultCallWait = 30 * time.Second

	// DefaultResultTTL is how long the result of a call is kept, unless it says otherwise.
	DefaultResultTTL = time.Hour
)

// outcome is what a job has ended with.
type outcome struct {
	ID      string          `json:"id"`
	State   inspect.State   `json:"state"`
	Result  json.RawMessage `json:"result"`
	Attempt int             `json:"attempt,omitempty"`
	EndedAt string          `json:"ended_at,omitempty"`
	Left    string          `json:"result_left,omitempty"`
}

// callJob publishes a job and waits for its result.
func (c *v2Call) callJob() (response, error) {
	b, err := c.publications([]string{"wait_ms"})
	if err != nil {
		return response{}, err
	}
	if b.many {
		return response{}, invalid("Content-Type", "a call is one job; publish many jobs with results, and await each by its result")
	}
	q := c.r.URL.Query()
	wait, err := queryWait(q, DefaultCallWait)
	if err != nil {
		return response{}, err
	}
	if b.jobs[0].Result == 0 {
		b.jobs[0].Result = DefaultResultTTL
	}
	ctx, done, refused := c.x.wait(c.r.Context())
	if refused != nil {
		return response{}, refused.problem()
	}
	defer done()
	ids, header, err := c.push(b)
	if err != nil {
		return response{}, err
	}
	a, over, err := c.await(ctx, ids[0], wait)
	var p *problem
	if err != nil && !errors.As(err, &p) {
		p = problemOf(err)
	}
	if p != nil {
		p.with("id", ids[0])
		return response{}, p
	}
	if !over {
		header.Set("Location", "jobs/"+url.PathEscape(ids[0])+"/result")
		a = response{status: http.StatusAccepted, body: published{ID: ids[0]}}
	}
	a.header = header
	return a, nil
}

// result answers what a job has ended with, which it may wait for.
func (c *v2Call) result() (response, error) {
	q, err := c.parameters("wait_ms")
	if err != nil {
		return response{}, err
	}
	wait, err := queryWait(q, 0)
	if err != nil {
		return response{}, err
	}
	ctx := c.r.Context()
	if wait > 0 {
		waiting, done, refused := c.x.wait(ctx)
		if refused != nil {
			return response{}, refused.problem()
		}
		defer done()
		ctx = waiting
	}
	a, over, err := c.await(ctx, c.id(), wait)
	if err == nil && !over {
		a = response{status: http.StatusNoContent}
	}
	return a, err
}

// await waits for the end of a job; over is false if the time is over first. The document of a job is that of its place,
// so that a token reads results of its own queues alone.
func (c *v2Call) await(ctx context.Context, id string, wait time.Duration) (a response, over bool, err error) {
	place := leases.Place(c.in, id)
	client := c.x.Pool.results(c.ctx(), place)
	var s inspect.Status
	if wait > 0 {
		waiting, cancel := context.WithTimeout(ctx, wait)
		end := context.AfterFunc(c.api.drained, cancel)
		s, err = client.Wait(waiting, place)
		ended := waiting.Err() != nil
		end()
		cancel()
		if err != nil && ended {
			if cut := c.x.cut(ctx); cut != nil {
				return a, false, cut.problem()
			}
			wait = 0 // the time may have been too short to learn anything
			c.over()
		}
	}
	if wait <= 0 {
		s, err = client.Status(c.ctx(), place)
	}
	switch {
	case errors.Is(err, inspect.ErrNoResult):
		return a, false, newProblem("no-result", fmt.Sprintf("nothing is known of a result of job %s in queue %s: its id is another, it was published without result_ttl_ms, or the time of its result is over", id, quoted(c.r.PathValue("queue"))))
	case err != nil:
		return a, false, err
	case !s.Over():
		return a, false, nil
	case s.State != inspect.StateDone:
		return a, true, failed(&s, id)
	}
	out := outcome{ID: id, State: s.State, Result: s.Result, Attempt: s.Attempt, Left: s.ResultLeft}
	if out.Result == nil {
		out.Result = json.RawMessage("null")
	}
	if !s.Ended.IsZero() {
		out.EndedAt = stamp(s.Ended.UnixMilli())
	}
	return response{status: http.StatusOK, body: out}, true, nil
}

// failed is the problem of a job that has ended otherwise than done.
func failed(s *inspect.Status, id string) error {
	p := newProblem("job-failed", fmt.Sprintf("job %s is %s; error says why, and the state tells what to do", id, s.State),
		"id", id, "state", s.State, "attempt", s.Attempt)
	if s.Exception != "" || s.Error != "" {
		p.with("exception", s.Exception).with("error", s.Error)
	}
	return p
}
