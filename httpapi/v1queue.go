package httpapi

import (
	"errors"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/goworker/goworker/internal/gateway"
)

type v1Size struct {
	Namespace string `json:"namespace"`
	Queue     string `json:"queue"`
	Size      int    `json:"size"`
}

func (c *v1Call) size() {
	if s, ok := c.sizes(); ok {
		c.answer(http.StatusOK, v1Size{c.namespace, c.queue, s.Ready})
	}
}

func (c *v1Call) deadSize() {
	if s, ok := c.sizes(); ok {
		c.answer(http.StatusOK, v1Size{c.namespace, c.queue, s.Dead})
	}
}

func (c *v1Call) sizes() (s gateway.Sizes, ok bool) {
	all, err := c.x.gateway().Sizes(c.ctx(), c.x.queue(c.queue))
	if err != nil || len(all) != 1 {
		c.fail("a queue's size could not be read", err)
		return s, false
	}
	return all[0], true
}

func (c *v1Call) peek() {
	j, there, err := c.x.gateway().Peek(c.ctx(), c.x.queue(c.queue))
	switch {
	case err != nil:
		c.fail("a queue's head could not be read", err)
	case !there:
		c.refuse(http.StatusNotFound, "the queue is empty")
	default:
		c.answer(http.StatusOK, c.job(&j, "", j.Tries-j.Attempt+1))
	}
}

func (c *v1Call) peekJob() {
	if len(c.id) > v1MostID {
		c.refuse(http.StatusNotFound, "job not found")
		return
	}
	var found gateway.Found
	err := c.patiently(func() (err error) {
		found, err = c.x.gateway().Find(c.ctx(), c.x.queue(c.queue), c.id)
		return err
	})
	switch {
	case errors.Is(err, gateway.ErrNoJob), errors.Is(err, gateway.ErrNotFoundInTime), err == nil && found.State == "":
		c.refuse(http.StatusNotFound, "job not found")
	case err != nil:
		c.fail("a job could not be looked for", err)
	default:
		remain := found.Tries - found.Attempt
		switch found.State {
		case gateway.Ready, gateway.Delayed:
			remain++
		case gateway.Filed: // it does not expire
			remain, found.Parsed.ExpiresAt = 0, 0
		}
		c.answer(http.StatusOK, c.job(&found.Job, "", remain))
	}
}

func (c *v1Call) destroy() {
	if err := c.x.gateway().Destroy(c.ctx(), c.x.queue(c.queue)); err != nil {
		c.fail("a queue could not be destroyed", err)
		return
	}
	c.w.WriteHeader(http.StatusNoContent)
}

func (c *v1Call) deadHead() {
	oldest, size, err := c.x.gateway().DeadPeek(c.ctx(), c.x.queue(c.queue))
	if err != nil {
		c.fail("a queue's dead letters could not be read", err)
		return
	}
	c.answer(http.StatusOK, struct {
		Head      string `json:"deadletter_head"`
		Size      int    `json:"deadletter_size"`
		Namespace string `json:"namespace"`
		Queue     string `json:"queue"`
	}{oldest.ID, size, c.namespace, c.queue})
}

func (c *v1Call) respawn() {
	limit, ok := c.limit()
	if !ok {
		return
	}
	ttl, err := strconv.ParseInt(c.param("ttl", strconv.FormatUint(seconds(c.settings.Defaults.TTL), 10)), 10, 64)
	if err != nil || ttl < 0 {
		c.refuse(http.StatusBadRequest, "invalid ttl")
		return
	}
	ttl = min(ttl, math.MaxUint32) // what a publish may ask for
	count, err := c.x.gateway().Respawn(c.ctx(), c.x.queue(c.queue), limit, time.Duration(ttl)*time.Second)
	if err != nil {
		c.fail("dead letters could not be published again", err)
		return
	}
	c.answer(http.StatusOK, struct {
		Count   int    `json:"count"`
		Message string `json:"msg"`
	}{count, "respawned"})
}

func (c *v1Call) deleteDead() {
	limit, ok := c.limit()
	if !ok {
		return
	}
	if _, err := c.x.gateway().DeleteDead(c.ctx(), c.x.queue(c.queue), limit); err != nil {
		c.fail("dead letters could not be removed", err)
		return
	}
	c.w.WriteHeader(http.StatusNoContent)
}

// limit returns how many dead letters a call is about. It answers if the parameter is wrong.
func (c *v1Call) limit() (int, bool) {
	n, err := strconv.ParseInt(c.param("limit", "1"), 10, 64)
	if err != nil || n <= 0 {
		c.refuse(http.StatusBadRequest, "invalid limit")
		return 0, false
	}
	return int(min(n, math.MaxInt32)), true
}

// queues lists the queues of the namespace that the token may see.
func (c *v1Call) queues() {
	names, _, err := visible(c.ctx(), c.x)
	if err != nil {
		c.fail("the queues could not be read", err)
		return
	}
	c.answer(http.StatusOK, struct {
		Namespace string   `json:"namespace"`
		Queues    []string `json:"queues"`
	}{c.namespace, names})
}
