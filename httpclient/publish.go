package httpclient

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"time"
	"unicode/utf8"
)

const (
	envelopeType = "application/vnd.goworker.job+json"
	manyType     = "application/x-ndjson"

	// MaxBatch is how many jobs one PublishAll publishes at most.
	MaxBatch = 1000
)

// Message is a job to be published: its body, or its arguments as a JSON list.
type Message struct {
	Body    []byte
	Args    json.RawMessage
	Options []PublishOption
}

// PublishOption is an option of a job.
type PublishOption func(*envelope)

// envelope is a job as the server reads it.
type envelope struct {
	Class      string            `json:"class,omitempty"`
	Args       json.RawMessage   `json:"args,omitempty"`
	Body       *string           `json:"body,omitempty"`
	BodyBase64 string            `json:"body_base64,omitempty"`
	DelayMs    int64             `json:"delay_ms,omitempty"`
	At         *time.Time        `json:"at,omitempty"`
	TTLMs      int64             `json:"ttl_ms,omitempty"`
	Tries      int               `json:"tries,omitempty"`
	TimeoutMs  int64             `json:"timeout_ms,omitempty"`
	Priority   int               `json:"priority,omitempty"`
	Meta       map[string]string `json:"meta,omitempty"`
	Unique     any               `json:"unique,omitempty"`
	ResultMs   int64             `json:"result_ttl_ms,omitempty"`
	ID         string            `json:"id,omitempty"`

	key string
}

// Class sets the class by which workers of Go and Ruby run the job.
func Class(class string) PublishOption { return func(e *envelope) { e.Class = class } }

// Delay has the job due so long from now.
func Delay(d time.Duration) PublishOption { return func(e *envelope) { e.DelayMs = d.Milliseconds() } }

// At has the job due at a time.
func At(t time.Time) PublishOption { return func(e *envelope) { e.At = &t } }

// TTL has the job dropped if nothing takes it for so long.
func TTL(d time.Duration) PublishOption { return func(e *envelope) { e.TTLMs = d.Milliseconds() } }

// Tries sets how often the job is delivered at most. The default is once.
func Tries(n int) PublishOption { return func(e *envelope) { e.Tries = n } }

// RunTimeout bounds a run by a worker.
func RunTimeout(d time.Duration) PublishOption {
	return func(e *envelope) { e.TimeoutMs = d.Milliseconds() }
}

// Priority puts the job in front of those of its queue with a lower one, from 0 to 2.
func Priority(level int) PublishOption { return func(e *envelope) { e.Priority = level } }

// Meta gives the job a text beside its body. It may be repeated.
func Meta(name, value string) PublishOption {
	return func(e *envelope) {
		if e.Meta == nil {
			e.Meta = make(map[string]string)
		}
		e.Meta[name] = value
	}
}

// Unique refuses the job while another one has the lock of this name; "" is class and body. The error is a Problem
// with the name exists.
func Unique(key string) PublishOption {
	return func(e *envelope) {
		if e.Unique = any(true); key != "" {
			e.Unique = map[string]string{"key": key}
		}
	}
}

// Result keeps the job's result for so long after its end.
func Result(ttl time.Duration) PublishOption {
	return func(e *envelope) { e.ResultMs = ttl.Milliseconds() }
}

// ID gives the job an id of the program's own: at most 128 letters, digits and - _ . :
func ID(id string) PublishOption { return func(e *envelope) { e.ID = id } }

// IdempotencyKey has the jobs of a call published once, however often the call is made within a day with the same key and the
// same jobs. So the client repeats a request whose answer was lost, and the program may. With "" the call has a key of its
// own. Each key is one of Redis for a day. Of PublishAll that of the first message counts.
func IdempotencyKey(key string) PublishOption {
	if key == "" {
		key = rand.Text()
	}
	return func(e *envelope) { e.key = key }
}

// envelope makes the message one.
func (m *Message) envelope() *envelope {
	e := &envelope{Args: m.Args}
	switch {
	case m.Args != nil:
	case utf8.Valid(m.Body):
		body := string(m.Body)
		e.Body = &body
	default:
		e.BodyBase64 = base64.StdEncoding.EncodeToString(m.Body)
	}
	for _, opt := range m.Options {
		opt(e)
	}
	return e
}

// publication is the request that publishes one job, or asks for its result too.
func publication(queue, call string, e *envelope) (r request, err error) {
	r = request{method: http.MethodPost, path: path("queues", queue, call), header: http.Header{"Content-Type": {envelopeType}}}
	if r.body, err = json.Marshal(e); err != nil {
		return r, err
	}
	r.keyed(e.key)
	return r, nil
}

// keyed gives a publish its idempotency key, if it has one. Then it may be repeated.
func (r *request) keyed(key string) {
	if key != "" {
		r.header.Set("Idempotency-Key", key)
		r.again = true
	}
}

// Publish publishes a job with a body, and returns its id.
func (c *Client) Publish(ctx context.Context, queue string, body []byte, opts ...PublishOption) (id string, err error) {
	return c.publish(ctx, queue, &Message{Body: body, Options: opts})
}

// PublishJSON publishes a job whose one argument is a value as JSON. A worker of Go or Ruby gets it as such.
func (c *Client) PublishJSON(ctx context.Context, queue string, value any, opts ...PublishOption) (id string, err error) {
	text, err := json.Marshal([]any{value})
	if err != nil {
		return "", err
	}
	return c.publish(ctx, queue, &Message{Args: text, Options: opts})
}

func (c *Client) publish(ctx context.Context, queue string, m *Message) (string, error) {
	r, err := publication(queue, "jobs", m.envelope())
	if err != nil {
		return "", err
	}
	a, err := c.do(ctx, r)
	if err != nil {
		return "", err
	}
	var out struct{ ID string }
	err = a.decode(&out)
	return out.ID, err
}

// PublishAll publishes jobs, all or none, and returns their ids in their order.
func (c *Client) PublishAll(ctx context.Context, queue string, jobs ...Message) (ids []string, err error) {
	if len(jobs) == 0 {
		return nil, nil
	}
	r := request{method: http.MethodPost, path: path("queues", queue, "jobs"), header: http.Header{"Content-Type": {manyType}}}
	var body bytes.Buffer
	lines := json.NewEncoder(&body)
	for i := range jobs {
		e := jobs[i].envelope()
		if i == 0 {
			r.keyed(e.key)
		}
		if err := lines.Encode(e); err != nil {
			return nil, err
		}
	}
	r.body = body.Bytes()
	a, err := c.do(ctx, r)
	if err != nil {
		return nil, err
	}
	var out struct{ IDs []string }
	err = a.decode(&out)
	return out.IDs, err
}

// mostWait is how long one request waits for a result.
const mostWait = time.Minute

// Call publishes a job, waits until it has ended, and decodes its result into what result points to, unless that is nil. The wait
// ends with the context. The error is a *JobError if the job has ended without a result, and a *PendingError if it has not
// ended in time.
func (c *Client) Call(ctx context.Context, queue string, body []byte, result any, opts ...PublishOption) error {
	m := Message{Body: body, Options: opts}
	r, err := publication(queue, "call", m.envelope())
	if err != nil {
		return err
	}
	r.wait = waitFor(ctx)
	r.query = url.Values{"wait_ms": {strconv.FormatInt(r.wait.Milliseconds(), 10)}}
	a, err := c.do(ctx, r)
	if err != nil {
		return jobError(err)
	}
	if a.status == http.StatusOK {
		return a.result(result)
	}
	var pending struct{ ID string }
	if err := a.decode(&pending); err != nil {
		return err
	}
	return c.Result(ctx, queue, pending.ID, result)
}

// Result waits until a job that was published with a result has ended, and decodes the result; see Call.
func (c *Client) Result(ctx context.Context, queue, id string, result any) error {
	for {
		r := request{method: http.MethodGet, path: path("queues", queue, "jobs", id, "result"), again: true, wait: waitFor(ctx)}
		r.query = url.Values{"wait_ms": {strconv.FormatInt(r.wait.Milliseconds(), 10)}}
		a, err := c.do(ctx, r)
		switch {
		case err != nil && ctx.Err() != nil:
			return &PendingError{queue, id}
		case err != nil:
			return jobError(err)
		case a.status == http.StatusOK:
			return a.result(result)
		case ctx.Err() != nil || r.wait == 0:
			return &PendingError{queue, id}
		}
	}
}

// waitFor is how long the server may wait so that it answers before the context ends.
func waitFor(ctx context.Context) time.Duration {
	until, bounded := ctx.Deadline()
	if !bounded {
		return mostWait
	}
	return min(max(0, time.Until(until)-250*time.Millisecond), mostWait)
}

// result decodes what a job returned.
func (a *answer) result(into any) error {
	var out struct {
		ID     string
		Result json.RawMessage
		Left   string `json:"result_left"`
	}
	if err := a.decode(&out); err != nil {
		return err
	}
	if out.Left != "" {
		return &JobError{ID: out.ID, State: "done", Message: "its result was not kept: " + out.Left}
	}
	if into == nil {
		return nil
	}
	return json.Unmarshal(out.Result, into)
}
