package httpapi

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/goworker/goworker/internal/feature/results"
	"github.com/goworker/goworker/internal/gateway"
	"github.com/goworker/goworker/internal/httpjob"
	"github.com/goworker/goworker/internal/payload"
)

const (
	// MaxAcks is how many jobs one request acknowledges at most.
	MaxAcks = 1000

	maxErrorText = 8 << 10
	maxLease     = 32
)

// What became of a job that a batch acknowledged.
const (
	wordAcked   = "acked"
	wordUnknown = "unknown"
	wordLost    = "lease-lost"
)

// ack ends a job as done.
func (c *v2Call) ack() (response, error) {
	var ask struct {
		Lease  string          `json:"lease"`
		Result json.RawMessage `json:"result"`
	}
	if err := c.readEnd(&ask, results.MaxResult+1024); err != nil {
		return response{}, err
	}
	a, err := c.named(ask.Lease)
	if err != nil {
		return response{}, err
	}
	var what gateway.What
	if ask.Result == nil {
		all, err := c.x.gateway().Ack(c.ctx(), a)
		if err != nil {
			return response{}, err
		}
		what = all[0]
	} else {
		if len(ask.Result) > results.MaxResult {
			return response{}, newProblem("body-too-large", fmt.Sprintf("the result has %d bytes, and %d are allowed; keep it elsewhere and give where it is", len(ask.Result), results.MaxResult), "most", results.MaxResult)
		}
		if !payload.WellFormed(ask.Result, httpjob.MaxDepth) {
			return response{}, newProblem("too-deep", fmt.Sprintf("the result is nested deeper than %d levels; flatten it", httpjob.MaxDepth), "most", httpjob.MaxDepth)
		}
		if what, err = c.x.gateway().AckResult(c.ctx(), a, ask.Result); err != nil {
			return response{}, err
		}
	}
	return c.ended(what, ask.Lease, true)
}

// readEnd reads the body of a call that ends a job. It takes no query.
func (c *v2Call) readEnd(into any, most int) error {
	body, refused := readBody(c.w, c.r, most)
	if refused != nil {
		return refused.problem()
	}
	if c.r.URL.RawQuery != "" {
		return invalid("query", "this call takes no query; put what it says into the body")
	}
	return decode(body, into)
}

// named is the reserved job of the path.
func (c *v2Call) named(lease string) (gateway.Ack, error) {
	return gateway.Ack{Queue: c.in, ID: c.id(), Lease: lease}, checkLease(lease)
}

// checkLease returns why a text is no lease.
func checkLease(lease string) error {
	if len(lease) > maxLease || strings.Trim(lease, "0123456789.") != "" {
		return invalid("lease", fmt.Sprintf("the lease %s is none; give the text that the reservation or the touch answered", quoted(lease)))
	}
	return nil
}

// ended is the answer to the end of a reserved job. late says that the end counts also where the lease has run out.
func (c *v2Call) ended(what gateway.What, lease string, late bool) (response, error) {
	switch {
	case what == gateway.Acked, late && (what == gateway.Back || what == gateway.Late || what == gateway.Dead):
		return response{status: http.StatusNoContent}, nil
	case what == gateway.Unknown:
		return response{}, newProblem("no-job", fmt.Sprintf("no consumer has job %s of queue %s: it has ended, or its lease ran out and it was taken again; nothing is to be done", c.id(), quoted(c.r.PathValue("queue"))))
	case what == gateway.Changed:
		return response{}, newProblem("lease-lost", fmt.Sprintf("job %s has another lease than %s: it ran out, and another consumer has the job; stop working on it, and touch jobs that take longer than their ttr_ms", c.id(), lease))
	}
	return response{}, newProblem("lease-lost", fmt.Sprintf("job %s is not reserved any more: its lease ran out, and it went back to its queue or to the dead letters; touch jobs that take longer than their ttr_ms", c.id()))
}

// nack ends a delivery as failed: the job is delivered again while it has tries.
func (c *v2Call) nack() (response, error) {
	var ask struct {
		Lease   string `json:"lease"`
		DelayMs *int64 `json:"delay_ms"`
		Error   string `json:"error"`
	}
	if err := c.readEnd(&ask, maxAsk); err != nil {
		return response{}, err
	}
	delay, err := millis("delay_ms", ask.DelayMs, 0, maxDelay)
	if err != nil {
		return response{}, err
	}
	return c.end(ask.Lease, ask.Error, func(a gateway.Ack, why string) (gateway.What, error) {
		return c.x.gateway().Nack(c.ctx(), a, delay, why)
	})
}

// fail makes a job a dead letter.
func (c *v2Call) fail() (response, error) {
	var ask struct {
		Lease string `json:"lease"`
		Error string `json:"error"`
	}
	if err := c.readEnd(&ask, maxAsk); err != nil {
		return response{}, err
	}
	return c.end(ask.Lease, ask.Error, func(a gateway.Ack, why string) (gateway.What, error) {
		return c.x.gateway().Fail(c.ctx(), a, why)
	})
}

// release puts a job back to the head of its queue. It uses up no try.
func (c *v2Call) release() (response, error) {
	var ask struct {
		Lease string `json:"lease"`
	}
	if err := c.readEnd(&ask, maxAsk); err != nil {
		return response{}, err
	}
	return c.end(ask.Lease, "", func(a gateway.Ack, _ string) (gateway.What, error) {
		return c.x.gateway().GiveBack(c.ctx(), a)
	})
}

// end ends a reserved job otherwise than done.
func (c *v2Call) end(lease, why string, end func(a gateway.Ack, why string) (gateway.What, error)) (response, error) {
	a, err := c.named(lease)
	if err != nil {
		return response{}, err
	}
	if len(why) > maxErrorText {
		return response{}, invalid("error", fmt.Sprintf("error has %d bytes, and %d are allowed; shorten the text", len(why), maxErrorText))
	}
	what, err := end(a, why)
	if err != nil {
		return response{}, err
	}
	return c.ended(what, lease, false)
}

// touch has the lease of a job end later, so long from now.
func (c *v2Call) touch() (response, error) {
	var ask struct {
		Lease string `json:"lease"`
		TTRMs *int64 `json:"ttr_ms"`
	}
	if err := c.readEnd(&ask, maxAsk); err != nil {
		return response{}, err
	}
	a, err := c.named(ask.Lease)
	if err != nil {
		return response{}, err
	}
	ttr, err := millis("ttr_ms", ask.TTRMs, minTTR, MaxTTR)
	if err != nil {
		return response{}, err
	}
	if ask.TTRMs == nil {
		ttr = DefaultTTR
	}
	lease, what, err := c.x.gateway().Touch(c.ctx(), a, ttr)
	if err != nil {
		return response{}, err
	}
	if lease == "" {
		return c.ended(what, ask.Lease, false)
	}
	return response{status: http.StatusOK, body: map[string]string{"lease": lease}}, nil
}

// acks ends many jobs as done.
func (c *v2Call) acks() (response, error) {
	var ask struct {
		Jobs []struct {
			Queue string `json:"queue"`
			ID    string `json:"id"`
			Lease string `json:"lease"`
		} `json:"jobs"`
	}
	if err := c.readAsk(&ask); err != nil {
		return response{}, err
	}
	if len(ask.Jobs) > MaxAcks {
		return response{}, newProblem("too-many-jobs", fmt.Sprintf("the request acknowledges %d jobs, and %d are allowed; send several", len(ask.Jobs), MaxAcks), "most", MaxAcks)
	}
	if len(ask.Jobs) == 0 {
		return response{}, invalid("jobs", "jobs names no job; name those that are done")
	}
	var queues []string
	known := make(map[string]bool)
	for i, j := range ask.Jobs {
		err := checkQueue(j.Queue)
		if err == nil {
			err = checkID(j.ID)
		}
		if err == nil {
			err = checkLease(j.Lease)
		}
		if err != nil {
			return response{}, inList(err, "jobs", i)
		}
		if !known[j.Queue] {
			known[j.Queue] = true
			queues = append(queues, j.Queue)
		}
	}
	if err := c.admit(scopeAck, queues); err != nil {
		return response{}, err
	}
	acks := make([]gateway.Ack, len(ask.Jobs))
	for i, j := range ask.Jobs {
		acks[i] = gateway.Ack{Queue: c.x.queue(j.Queue), ID: j.ID, Lease: j.Lease}
	}
	all, err := c.x.gateway().Ack(c.ctx(), acks...)
	if err != nil {
		return response{}, err
	}
	words := make([]string, len(all))
	for i, what := range all {
		switch what {
		case gateway.Unknown:
			words[i] = wordUnknown
		case gateway.Changed:
			words[i] = wordLost
		default:
			words[i] = wordAcked
		}
	}
	return response{status: http.StatusOK, body: map[string][]string{"results": words}}, nil
}

// inList names the member of a list in its problem.
func inList(err error, list string, i int) error {
	if p, ok := err.(*problem); ok {
		if name, ok := p.members["parameter"].(string); ok {
			p.with("parameter", fmt.Sprintf("%s.%d.%s", list, i, name))
		}
	}
	return err
}
