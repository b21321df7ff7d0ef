package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/goworker/goworker/internal/gateway"
	"github.com/goworker/goworker/internal/httpjob"
)

func (c *v1Call) consume() {
	refund, refused := c.x.spend(c.r.Context(), rateRead)
	if refused != nil {
		c.turnAway(refused)
		return
	}
	if !c.consumed() {
		refund()
	}
}

// consumed answers with jobs, and reports whether there were some.
func (c *v1Call) consumed() bool {
	s := &c.settings.Defaults
	ttr, ok := c.number("ttr", seconds(s.TTR), 32)
	if !ok || ttr == 0 || ttr > seconds(v1MostTTR) {
		c.refuse(http.StatusBadRequest, "invalid ttr")
		return false
	}
	timeout, ok := c.number("timeout", seconds(s.Timeout), 32)
	if !ok {
		c.refuse(http.StatusBadRequest, "invalid timeout")
		return false
	}
	count, ok := c.number("count", 1, 32)
	if !ok || count == 0 || count > v1MostCount {
		c.refuse(http.StatusBadRequest, "invalid count")
		return false
	}
	names := c.names()
	if len(names) == 0 {
		c.refuse(http.StatusBadRequest, "invalid queue name(s)")
		return false
	}
	if len(names) > v1MostQueues {
		c.refuse(http.StatusBadRequest, "too many queues")
		return false
	}
	for i, name := range names {
		names[i] = c.x.queue(name)
	}
	// The server notices that a client has gone only when the body was read.
	if _, ok := c.body(c.settings.MaxBody, "body too large"); !ok {
		return false
	}
	wait := min(time.Duration(timeout)*time.Second, v1MostWait)
	ctx, within := c.r.Context(), c.ctx()
	if wait > 0 {
		long, end := context.WithTimeout(ctx, wait+v1Within)
		defer end()
		ctx, within = long, long
		waiting, done, refused := c.x.wait(ctx)
		if refused != nil {
			c.turnAway(refused)
			return false
		}
		defer done()
		ctx = waiting
	}
	jobs, err := c.x.gateway().Reserve(ctx, gateway.Ask{
		Queues: names, TTR: time.Duration(ttr) * time.Second, Wait: wait, Count: int(count), Over: within.Done(),
	})
	if err != nil {
		c.notReserved(ctx, err)
		return false
	}
	if len(jobs) == 0 {
		c.answer(http.StatusNotFound, v1Message{"no job available"})
		return false
	}
	return c.deliver(jobs, count > 1)
}

func (c *v1Call) notReserved(ctx context.Context, err error) {
	switch {
	case c.x.cut(ctx) != nil:
		c.refuse(http.StatusUnauthorized, "invalid token")
	case errors.Is(err, gateway.ErrStopping), c.r.Context().Err() != nil: // the client has gone, or has closed its half of the connection
		c.answer(http.StatusNotFound, v1Message{"no job available"})
	default:
		c.fail("jobs could not be reserved", err)
	}
}

// deliver writes the jobs. A client that has gone gets none, and uses up no try of them.
func (c *v1Call) deliver(jobs []gateway.Job, list bool) bool {
	var text []byte
	for i := range jobs {
		job := c.job(&jobs[i], "new job", jobs[i].Tries-jobs[i].Attempt)
		if list {
			text = append(text, "[,"[min(i, 1)])
		}
		text = job.append(text)
	}
	if list {
		text = append(text, ']')
	}
	err := c.r.Context().Err()
	if err == nil {
		c.w.Header()["Content-Type"] = v1Type
		err = deliver(c.w, http.StatusOK, text)
	}
	if err != nil {
		c.x.gateway().Release(jobs...)
		return false
	}
	return true
}

// ack ends a job as done. Any id is fine, as with lmstfy: one that no consumer has is looked for, and not found within
// what a search may cost it stays.
func (c *v1Call) ack() {
	if c.acknowledge(c.id) {
		c.w.WriteHeader(http.StatusNoContent)
	}
}

// acknowledge answers if it fails.
func (c *v1Call) acknowledge(id string) bool {
	if len(id) > v1MostID {
		return true // no job has it
	}
	ctx, g, queue := c.ctx(), c.x.gateway(), c.x.queue(c.queue)
	for range 2 {
		what, err := g.Ack(ctx, gateway.Ack{Queue: queue, ID: id})
		if err != nil {
			c.fail("a job could not be acknowledged", err)
			return false
		}
		if len(what) == 1 && what[0] != gateway.Unknown {
			return true
		}
		err = c.patiently(func() error {
			_, err := g.Cancel(ctx, queue, id, false)
			return err
		})
		switch {
		case err == nil, errors.Is(err, gateway.ErrNotFoundInTime), errors.Is(err, gateway.ErrNoJob):
			return true
		case errors.Is(err, gateway.ErrReserved): // since it was acknowledged
			continue
		}
		c.fail("a job could not be removed", err)
		return false
	}
	return true
}

// v1Patience is how long a call waits until its queue may be searched again.
const v1Patience = time.Second

// patiently looks for a job, again if its queue rests from a search: lmstfy finds each job.
func (c *v1Call) patiently(look func() error) error {
	ctx, ends := c.ctx(), time.Now().Add(v1Patience)
	for pause := 10 * time.Millisecond; ; pause *= 2 {
		err := look()
		if !errors.Is(err, gateway.ErrResting) || time.Until(ends) < pause {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
	}
}

// v1MostID is how many bytes an id in a path has at most. A job of another program may have a longer one, which HTTP
// cannot name.
const v1MostID = 4 * httpjob.MaxID

// ackAll ends several jobs as done. It looks for none.
func (c *v1Call) ackAll() {
	body, ok := c.body(c.settings.MaxBody, "body too large")
	if !ok {
		return
	}
	var ids []string
	switch err := json.Unmarshal(body, &ids); {
	case err != nil:
		c.refuse(http.StatusBadRequest, "request body should be an array of job ids")
		return
	case len(ids) == 0:
		c.refuse(http.StatusBadRequest, "no jobs")
		return
	case len(ids) > v1MostAcks:
		c.refuse(http.StatusBadRequest, "too many jobs")
		return
	}
	queue := c.x.queue(c.queue)
	acks := make([]gateway.Ack, len(ids))
	for i, id := range ids {
		acks[i] = gateway.Ack{Queue: queue, ID: id}
	}
	what, err := c.x.gateway().Ack(c.ctx(), acks...)
	if err != nil {
		c.fail("jobs could not be acknowledged", err)
		return
	}
	results := make([]string, len(what))
	for i, w := range what {
		results[i] = "acked"
		if w == gateway.Unknown {
			results[i] = "unknown"
		}
	}
	c.answer(http.StatusOK, struct {
		Results []string `json:"results"`
	}{results})
}

// nack ends a delivery as failed.
func (c *v1Call) nack() {
	delay, ok := c.number("delay", 0, 32)
	if !ok {
		c.refuse(http.StatusBadRequest, "invalid delay")
		return
	}
	what, err := c.x.gateway().Nack(c.ctx(), c.named(), time.Duration(delay)*time.Second, "the consumer gave the job back")
	c.ended(what, err)
}

// touch has the job's lease end later.
func (c *v1Call) touch() {
	ttr, ok := c.number("ttr", seconds(c.settings.Defaults.TTR), 32)
	if !ok || ttr == 0 || ttr > seconds(v1MostTTR) {
		c.refuse(http.StatusBadRequest, "invalid ttr")
		return
	}
	_, what, err := c.x.gateway().Touch(c.ctx(), c.named(), time.Duration(ttr)*time.Second)
	if err == nil && what != gateway.Acked {
		what = gateway.Unknown
	}
	c.ended(what, err)
}

func (c *v1Call) named() gateway.Ack { return gateway.Ack{Queue: c.x.queue(c.queue), ID: c.id} }

func (c *v1Call) ended(what gateway.What, err error) {
	switch {
	case err != nil:
		c.fail("a reserved job could not be changed", err)
	case what == gateway.Unknown:
		c.refuse(http.StatusNotFound, "job is not reserved")
	default:
		c.w.WriteHeader(http.StatusNoContent)
	}
}
