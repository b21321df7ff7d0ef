package httpclient

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"time"
)

// Job is a job that a consumer has.
type Job struct {
	ID    string
	Queue string
	Lease string // names this reservation

	Class   string
	Args    json.RawMessage // the list of the arguments
	Body    []byte
	Meta    map[string]string
	Attempt int // which delivery this is; the first is 1
	Tries   int // how many there are at most

	PublishedAt time.Time // zero: its id does not say
	ExpiresAt   time.Time // zero: never

	result json.RawMessage
}

// SetResult has a value be the result of the job, if the Consumer's handler returns no error. It is kept if the job was
// published with a result.
func (j *Job) SetResult(value any) error {
	text, err := json.Marshal(value)
	if err == nil {
		j.result = text
	}
	return err
}

// Reservation says which jobs to reserve.
type Reservation struct {
	Queues []string      // in their order: the first that has a job gives it
	Count  int           // most jobs; 0 is one
	TTR    time.Duration // the lease of each job; 0 is two minutes
	Wait   time.Duration // how long to wait for the first job
}

// Reserve takes jobs, each with a lease: until it ends the job is to be acknowledged or touched, else it is delivered again.
// Without an error and without jobs there were none.
//
// A request that failed is not repeated: if jobs were on their way their leases run out.
func (c *Client) Reserve(ctx context.Context, r Reservation) ([]*Job, error) {
	body, err := json.Marshal(struct {
		Queues []string `json:"queues"`
		Count  int      `json:"count,omitempty"`
		TTRMs  int64    `json:"ttr_ms,omitempty"`
		WaitMs int64    `json:"wait_ms,omitempty"`
	}{r.Queues, r.Count, r.TTR.Milliseconds(), r.Wait.Milliseconds()})
	if err != nil {
		return nil, err
	}
	a, err := c.do(ctx, request{method: http.MethodPost, path: "/reservations", header: jsonHeader(), body: body, wait: r.Wait})
	if err != nil || a.status == http.StatusNoContent {
		return nil, err
	}
	var out struct {
		Jobs []struct {
			ID          string            `json:"id"`
			Queue       string            `json:"queue"`
			Lease       string            `json:"lease"`
			Class       string            `json:"class"`
			Args        json.RawMessage   `json:"args"`
			Body        string            `json:"body"`
			BodyBase64  string            `json:"body_base64"`
			Meta        map[string]string `json:"meta"`
			Attempt     int               `json:"attempt"`
			Tries       int               `json:"tries"`
			PublishedAt time.Time         `json:"published_at"`
			ExpiresAt   time.Time         `json:"expires_at"`
		} `json:"jobs"`
	}
	if err := a.decode(&out); err != nil {
		return nil, err
	}
	jobs := make([]*Job, len(out.Jobs))
	for i, j := range out.Jobs {
		jobs[i] = &Job{
			ID: j.ID, Queue: j.Queue, Lease: j.Lease, Class: j.Class, Args: j.Args, Body: []byte(j.Body), Meta: j.Meta,
			Attempt: j.Attempt, Tries: j.Tries, PublishedAt: j.PublishedAt, ExpiresAt: j.ExpiresAt,
		}
		if j.BodyBase64 != "" {
			if jobs[i].Body, err = base64.StdEncoding.DecodeString(j.BodyBase64); err != nil {
				return nil, fmt.Errorf("httpclient: the body of job %s is not in base 64: %w", j.ID, err)
			}
		}
	}
	return jobs, nil
}

func jsonHeader() http.Header { return http.Header{"Content-Type": {"application/json"}} }

// What became of a job that Acks acknowledged.
const (
	Acked     = "acked"
	Unknown   = "unknown"    // no consumer has it, and it has not gone back to its queue: it was acknowledged before, perhaps
	LeaseLost = "lease-lost" // another consumer has it
)

// Acks ends jobs as done, at most a thousand, and returns what became of each.
func (c *Client) Acks(ctx context.Context, jobs ...*Job) ([]string, error) {
	type named struct {
		Queue string `json:"queue"`
		ID    string `json:"id"`
		Lease string `json:"lease,omitempty"`
	}
	all := make([]named, len(jobs))
	for i, j := range jobs {
		all[i] = named{j.Queue, j.ID, j.Lease}
	}
	body, err := json.Marshal(map[string]any{"jobs": all})
	if err != nil {
		return nil, err
	}
	a, err := c.do(ctx, request{method: http.MethodPost, path: "/acks", header: jsonHeader(), body: body, again: true})
	if err != nil {
		return nil, err
	}
	var out struct{ Results []string }
	if err := a.decode(&out); err != nil {
		return nil, err
	}
	if len(out.Results) != len(jobs) {
		return nil, fmt.Errorf("httpclient: the server answered %d results to %d acknowledgements", len(out.Results), len(jobs))
	}
	return out.Results, nil
}

// end ends a reservation in one of the server's ways.
func (c *Client) end(ctx context.Context, j *Job, how string, more map[string]any) (*answer, error) {
	if more == nil {
		more = make(map[string]any)
	}
	if j.Lease != "" {
		more["lease"] = j.Lease
	}
	body, err := json.Marshal(more)
	if err != nil {
		return nil, err
	}
	return c.do(ctx, request{
		method: http.MethodPost, path: path("queues", j.Queue, "jobs", j.ID, how), header: jsonHeader(), body: body,
		// With the lease it changes nothing once it was done. A touch gives another lease.
		again: j.Lease != "" && how != "touch" || how == "ack", gone: how == "ack",
	})
}

// Ack ends a job as done. A result, which may be nil, is kept if the job was published with one.
func (c *Client) Ack(ctx context.Context, j *Job, result any) error {
	var more map[string]any
	if result != nil {
		more = map[string]any{"result": result}
	}
	_, err := c.end(ctx, j, "ack", more)
	return err
}

// Nack ends a delivery as failed: after the delay the job is delivered again, and without tries left it is a dead letter. why is
// the text of the error.
func (c *Client) Nack(ctx context.Context, j *Job, delay time.Duration, why string) error {
	_, err := c.end(ctx, j, "nack", map[string]any{"delay_ms": delay.Milliseconds(), "error": shorten(why)})
	return err
}

// Fail makes a job a dead letter, whatever tries it has left.
func (c *Client) Fail(ctx context.Context, j *Job, why string) error {
	_, err := c.end(ctx, j, "fail", map[string]any{"error": shorten(why)})
	return err
}

// Release gives a job back to the head of its queue. It uses up no try.
func (c *Client) Release(ctx context.Context, j *Job) error {
	_, err := c.end(ctx, j, "release", nil)
	return err
}

// Touch has the lease of a job end so long from now. The job gets the new lease.
func (c *Client) Touch(ctx context.Context, j *Job, ttr time.Duration) error {
	a, err := c.end(ctx, j, "touch", map[string]any{"ttr_ms": ttr.Milliseconds()})
	if err != nil {
		return err
	}
	var out struct{ Lease string }
	if err := a.decode(&out); err != nil {
		return err
	}
	j.Lease = out.Lease
	return nil
}

// shorten bounds the text of an error as the server does.
func shorten(text string) string {
	const most = 8 << 10
	if len(text) <= most {
		return text
	}
	cut := most - len("…")
	for cut > 0 && text[cut]&0xC0 == 0x80 {
		cut--
	}
	return text[:cut] + "…"
}
