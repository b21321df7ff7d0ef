package httpapi

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"
	"unicode/utf8"

	"github.com/goworker/goworker/internal/gateway"
	"github.com/goworker/goworker/internal/httpjob"
	"github.com/goworker/goworker/internal/payload"
)

// Bounds of a reservation.
const (
	MaxReserved = 500 // jobs of one request
	maxQueues   = 100 // queues of one request
	minTTR      = time.Second
	MaxTTR      = 12 * time.Hour
	DefaultTTR  = 2 * time.Minute
	MaxWait     = 10 * time.Minute

	// maxAsk is how long the body of a request is that names jobs and does not bring any.
	maxAsk = 1 << 20
)

// reservation is what a consumer asks for.
type reservation struct {
	Queues []string `json:"queues"`
	Count  *int64   `json:"count"`
	TTRMs  *int64   `json:"ttr_ms"`
	WaitMs *int64   `json:"wait_ms"`
}

// reservedJob is a job as a consumer gets it.
type reservedJob struct {
	ID    string `json:"id"`
	Queue string `json:"queue"`
	Lease string `json:"lease,omitempty"`
	jobView
}

// jobView is what a payload says, for an answer.
type jobView struct {
	Class       string            `json:"class"`
	Args        json.RawMessage   `json:"args"`
	Body        *string           `json:"body,omitempty"`
	BodyBase64  string            `json:"body_base64,omitempty"`
	Meta        map[string]string `json:"meta,omitempty"`
	Attempt     int               `json:"attempt"`
	Tries       int               `json:"tries"`
	PublishedAt string            `json:"published_at,omitempty"`
	ExpiresAt   string            `json:"expires_at,omitempty"`
}

// viewOf reads a payload for an answer. Bytes that are no job have nothing but a body.
func viewOf(raw []byte, p *payload.Payload, id string, attempt, tries int) jobView {
	v := jobView{Class: p.Class, Args: httpjob.List(p.Args), Meta: httpjob.Meta(p), Attempt: max(attempt, 1), Tries: max(tries, 1), ExpiresAt: stamp(p.ExpiresAt)}
	if published, _, ok := httpjob.ParseID(id); ok {
		v.PublishedAt = stamp(published)
	}
	body := httpjob.BodyOf(raw, p)
	if utf8.Valid(body) {
		text := string(body)
		v.Body = &text
	} else {
		v.BodyBase64 = base64.StdEncoding.EncodeToString(body)
	}
	return v
}

// readAsk reads the JSON of a request that brings no job. It reads the body to its end: only then the server notices that
// the client has gone.
func (c *v2Call) readAsk(into any) error {
	body, refused := readBody(c.w, c.r, maxAsk)
	if refused != nil {
		return refused.problem()
	}
	if c.r.URL.RawQuery != "" {
		return invalid("query", "this call takes no query; put what it says into the body")
	}
	return decode(body, into)
}

// reserve gives a consumer jobs, each with a lease.
func (c *v2Call) reserve() (response, error) {
	var ask reservation
	if err := c.readAsk(&ask); err != nil {
		return response{}, err
	}
	a, names, err := c.ask(&ask)
	if err != nil {
		return response{}, err
	}
	refund, refused := c.x.spend(c.ctx(), rateRead)
	if refused != nil {
		return response{}, refused.problem()
	}
	ctx := c.r.Context()
	if a.Wait > 0 {
		waiting, done, refused := c.x.wait(ctx)
		if refused != nil {
			refund()
			return response{}, refused.problem()
		}
		defer done()
		ctx = waiting
	}
	jobs, err := c.x.gateway().Reserve(ctx, a)
	if err != nil {
		refund()
		if cut := c.x.cut(ctx); cut != nil {
			return response{}, cut.problem()
		}
		if c.r.Context().Err() != nil || errors.Is(err, gateway.ErrStopping) {
			return response{status: http.StatusNoContent}, nil
		}
		return response{}, err
	}
	if len(jobs) == 0 {
		refund()
		return response{status: http.StatusNoContent}, nil
	}
	given := make([]reservedJob, len(jobs))
	for i := range jobs {
		j := &jobs[i]
		given[i] = reservedJob{j.ID, names[j.Queue], j.Lease, viewOf(j.Payload, &j.Parsed, j.ID, j.Attempt, j.Tries)}
	}
	return response{
		status: http.StatusOK, body: map[string]any{"jobs": given},
		undo: func() { c.x.gateway().Release(jobs...) },
	}, nil
}

// ask checks a reservation. names are the queues' names for the client.
func (c *v2Call) ask(r *reservation) (a gateway.Ask, names map[string]string, err error) {
	switch n := len(r.Queues); {
	case n == 0:
		return a, nil, invalid("queues", "queues names no queue; name those that jobs are to be taken from, in their order")
	case n > maxQueues:
		return a, nil, invalid("queues", fmt.Sprintf("queues names %d queues, and %d are allowed in a request; ask for fewer", n, maxQueues))
	}
	for _, q := range r.Queues {
		if err := checkQueue(q); err != nil {
			return a, nil, err
		}
	}
	if err := c.admit(scopeConsume, r.Queues); err != nil {
		return a, nil, err
	}
	names = make(map[string]string, len(r.Queues))
	for _, q := range r.Queues {
		in := c.x.queue(q)
		if names[in] == "" {
			names[in] = q
			a.Queues = append(a.Queues, in)
		}
	}
	if a.Count, err = bounded("count", r.Count, 1, MaxReserved); err != nil {
		return a, nil, err
	}
	if a.TTR, err = millis("ttr_ms", r.TTRMs, minTTR, MaxTTR); err != nil {
		return a, nil, err
	}
	if a.Wait, err = millis("wait_ms", r.WaitMs, 0, MaxWait); err != nil {
		return a, nil, err
	}
	if r.TTRMs == nil {
		a.TTR = DefaultTTR
	}
	a.Count = max(a.Count, 1)
	return a, names, nil
}
