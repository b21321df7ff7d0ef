package httpapi

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/goworker/goworker/inspect"
	"github.com/goworker/goworker/internal/gateway"
	"github.com/goworker/goworker/internal/httpjob"
	"github.com/goworker/goworker/internal/payload"
	"github.com/goworker/goworker/internal/resque/failures"
)

// foundJob is a job as an operator sees it.
type foundJob struct {
	ID    string        `json:"id,omitempty"`
	Queue string        `json:"queue"`
	State gateway.State `json:"state"`
	jobView
	DueAt       string `json:"due_at,omitempty"`        // of a delayed job
	LeaseEndsAt string `json:"lease_ends_at,omitempty"` // of a reserved one

	// Of a dead letter.
	DeadID    string `json:"dead_id,omitempty"`
	Error     string `json:"error,omitempty"`
	Exception string `json:"exception,omitempty"`
	FailedAt  string `json:"failed_at,omitempty"`
	RetriedAt string `json:"retried_at,omitempty"`
}

// foundOf is a job that the gateway found.
func (c *v2Call) foundOf(f *gateway.Found) foundJob {
	job := foundJob{
		ID: f.ID, Queue: c.r.PathValue("queue"), State: f.State, DueAt: stamp(f.DueMs),
		jobView: viewOf(f.Payload, &f.Parsed, f.ID, f.Attempt, f.Tries),
	}
	if ms, err := strconv.ParseFloat(f.Lease, 64); err == nil {
		job.LeaseEndsAt = stamp(int64(ms))
	}
	return job
}

// findJob says where a job is and what it is.
func (c *v2Call) findJob() (response, error) {
	if _, err := c.parameters(); err != nil {
		return response{}, err
	}
	f, err := c.x.gateway().Find(c.ctx(), c.in, c.id())
	if err != nil {
		return response{}, err
	}
	if f.State == "" {
		return response{}, c.noJob()
	}
	if f.State == gateway.Filed {
		record, err := payload.ParseFailure(f.Record)
		return response{status: http.StatusOK, body: c.deadOf(failures.ID(f.Record), &record)}, err
	}
	return response{status: http.StatusOK, body: c.foundOf(&f)}, nil
}

// noJob is the problem of a job that is nowhere.
func (c *v2Call) noJob() error {
	return newProblem("no-job", fmt.Sprintf("queue %s has no job %s that waits, is delayed, is reserved or is a dead letter: it has ended, or its id is another", quoted(c.r.PathValue("queue")), c.id()))
}

// cancelJob ends a job that is not wanted any more.
func (c *v2Call) cancelJob() (response, error) {
	q, err := c.parameters("force")
	if err != nil {
		return response{}, err
	}
	force, err := boolean(q, "force")
	if err != nil {
		return response{}, err
	}
	what, err := c.x.gateway().Cancel(c.ctx(), c.in, c.id(), force)
	switch {
	case err != nil:
		return response{}, err
	case what == gateway.Acked:
		return response{status: http.StatusNoContent}, nil
	case force: // it ends when it is taken
		return response{status: http.StatusAccepted}, nil
	}
	return response{}, c.noJob()
}

// parameters reads the query of a call that takes these parameters alone.
func (c *v2Call) parameters(known ...string) (url.Values, error) {
	q, err := url.ParseQuery(c.r.URL.RawQuery)
	if err != nil {
		return nil, invalid("query", "the query cannot be read; percent-encode its names and values")
	}
	return q, only(q, known)
}

// only returns an error if the query has other parameters.
func only(q url.Values, known []string) error {
	for name, values := range q {
		is := false
		for _, k := range known {
			is = is || k == name
		}
		switch {
		case !is:
			return invalid(printable(name), fmt.Sprintf("the query has a parameter %s that this call does not know; leave it out, or write it as /openapi.json does", quoted(name)))
		case len(values) > 1:
			return invalid(name, fmt.Sprintf("the query has %s more than once; give it once", name))
		}
	}
	return nil
}

func boolean(q url.Values, name string) (bool, error) {
	switch v := q.Get(name); {
	case !q.Has(name), v == "false":
		return false, nil
	case v == "true":
		return true, nil
	default:
		return false, invalid(name, fmt.Sprintf("%s is %s and has to be true or false", name, quoted(v)))
	}
}

// whole reads a number of the query; otherwise it is the default.
func whole(q url.Values, name string, otherwise, least, most int64) (int64, error) {
	if !q.Has(name) {
		return otherwise, nil
	}
	var n *int64
	if err := number(name, q.Get(name), &n); err != nil {
		return 0, err
	}
	if *n < least || *n > most {
		return 0, invalid(name, fmt.Sprintf("%s is %d and has to be from %d to %d", name, *n, least, most))
	}
	return *n, nil
}

// Bounds of a page of jobs.
const (
	defaultPage = 100
	maxPage     = 1000
)

// jobPage is a page of jobs.
type jobPage struct {
	Jobs []foundJob `json:"jobs"`
	Next string     `json:"next,omitempty"`
	AsOf string     `json:"as_of,omitempty"`
}

// listJobs lists the jobs of a queue that are in a state.
func (c *v2Call) listJobs() (response, error) {
	q, err := c.parameters("state", "limit", "after")
	if err != nil {
		return response{}, err
	}
	limit, err := whole(q, "limit", defaultPage, 1, maxPage)
	if err != nil {
		return response{}, err
	}
	state := gateway.State(q.Get("state"))
	switch state {
	case "":
		state = gateway.Ready
	case gateway.Ready, gateway.Delayed, gateway.Reserved:
	case gateway.Filed:
		return c.listDead(int(limit), q.Get("after"))
	default:
		return response{}, invalid("state", fmt.Sprintf("state is %s and has to be ready, delayed, reserved or dead", quoted(string(state))))
	}
	page, err := c.x.gateway().Jobs(c.ctx(), c.in, state, int(limit), q.Get("after"))
	if err != nil {
		return response{}, ofPage(err, q.Get("after"))
	}
	out := jobPage{Jobs: make([]foundJob, len(page.Jobs)), Next: page.Next, AsOf: stamp(page.AsOf)}
	for i := range page.Jobs {
		out.Jobs[i] = c.foundOf(&page.Jobs[i])
	}
	return response{status: http.StatusOK, body: out}, nil
}

// listDead lists the dead letters of a queue, the newest first.
func (c *v2Call) listDead(limit int, after string) (response, error) {
	found, next, err := c.dead().Search(c.ctx(), inspect.FailureFilter{}, after, limit)
	if err != nil {
		return response{}, ofPage(err, after)
	}
	out := jobPage{Jobs: make([]foundJob, 0, len(found)), Next: next}
	for _, f := range found {
		out.Jobs = append(out.Jobs, c.deadOf(f.ID, &payload.Failure{
			Payload: f.Payload, Error: f.Error, Exception: f.Exception, FailedAt: f.FailedAt, RetriedAt: f.RetriedAt,
		}))
	}
	return response{status: http.StatusOK, body: out}, nil
}

// deadOf is a dead letter with its name.
func (c *v2Call) deadOf(id string, f *payload.Failure) foundJob {
	job := foundJob{
		DeadID: id, Queue: c.r.PathValue("queue"), State: gateway.Filed,
		Error: f.Error, Exception: f.Exception, FailedAt: f.FailedAt, RetriedAt: f.RetriedAt,
	}
	p, _ := payload.Parse(f.Payload) // of one that cannot be read it is empty
	tries, attempt := httpjob.Tries(&p)
	job.ID, job.jobView = p.ID, viewOf(f.Payload, &p, p.ID, attempt, tries)
	return job
}

// dead is the list of the queue's dead letters.
func (c *v2Call) dead() deadList { return c.x.Pool.dead(c.in) }

// queryWait reads the parameter wait_ms.
func queryWait(q url.Values, otherwise time.Duration) (time.Duration, error) {
	ms, err := whole(q, "wait_ms", otherwise.Milliseconds(), 0, MaxWait.Milliseconds())
	return time.Duration(ms) * time.Millisecond, err
}
