package httpapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/goworker/goworker/inspect"
	"github.com/goworker/goworker/internal/pattern"
)

// maxDead is how many dead letters one request names or changes at most.
const maxDead = 1000

// maxSteps bounds how much of a long list one request goes through: each step looks at some 10,000.
const maxSteps = 10

var deadID = pattern.New(`^[0-9a-f]{28}$`)

// deadChoice says which dead letters a request means: those of the ids, or those that fit.
type deadChoice struct {
	IDs   []string `json:"ids"`
	Class string   `json:"class"`
	Text  string   `json:"text"`
	Until *moment  `json:"until"`
	Limit *int64   `json:"limit"`
	All   bool     `json:"all"`
	After string   `json:"after"`
}

// deadChange is the answer: how many were changed. Next is where a repeated call goes on; without it no other fits.
type deadChange struct {
	Changed int    `json:"changed"`
	Next    string `json:"next,omitempty"`
}

// retryDead has dead letters run again: their jobs go to the tails of their queues, and their records say so.
func (c *v2Call) retryDead() (response, error) {
	return c.recorded("RetryDead")(c.changeDead(deadList.RetryID, deadList.RetryStep, true))
}

// removeDead removes dead letters for good.
func (c *v2Call) removeDead() (response, error) {
	return c.recorded("RemoveDead")(c.changeDead(deadList.RemoveID, deadList.RemoveStep, false))
}

// recorded has the audit name a change of dead letters.
func (c *v2Call) recorded(what string) func(response, error) (response, error) {
	return func(r response, err error) (response, error) {
		if out, ok := r.body.(deadChange); ok {
			(&counted{jobs: c.x.Pool.jobs, x: &c.x}).record(c.ctx(), what, c.in, out.Changed, err)
		}
		return r, err
	}
}

func (c *v2Call) changeDead(
	byID func(l deadList, ctx context.Context, ids ...string) (int, error),
	step func(l deadList, ctx context.Context, filter inspect.FailureFilter, after string) (inspect.Done, error),
	unretried bool,
) (response, error) {
	var ask deadChoice
	if err := c.readAsk(&ask); err != nil {
		return response{}, err
	}
	limit, err := bounded("limit", ask.Limit, 1, maxDead)
	if err != nil {
		return response{}, err
	}
	filter := inspect.FailureFilter{Class: ask.Class, Text: ask.Text, Unretried: unretried}
	if filter.Until, err = ask.Until.of("until"); err != nil {
		return response{}, err
	}
	chosen := ask.Class != "" || ask.Text != "" || ask.Until != nil || ask.Limit != nil || ask.All
	switch {
	case ask.IDs != nil && chosen:
		return response{}, invalid("ids", "ids names the dead letters, so class, text, until, limit and all say nothing; leave them out")
	case ask.IDs == nil && !chosen:
		return response{}, invalid("ids", `nothing says which dead letters; give ids, class, text, until or limit, or {"all":true}`)
	case len(ask.IDs) > maxDead:
		return response{}, newProblem("too-many-jobs", fmt.Sprintf("the request names %d dead letters, and %d are allowed; send several", len(ask.IDs), maxDead), "most", maxDead)
	}
	for i, id := range ask.IDs {
		if !deadID.MatchString(id) {
			return response{}, inList(invalid("id", fmt.Sprintf("%s is no id of a dead letter; use dead_id of the list of jobs in state dead", quoted(id))), "ids", i)
		}
	}
	if ask.IDs != nil {
		n, err := byID(c.dead(), c.ctx(), ask.IDs...)
		if err != nil && !(n > 0 && (errors.Is(err, inspect.ErrNoFailure) || errors.Is(err, inspect.ErrRetried))) {
			return response{}, err
		}
		return response{status: http.StatusOK, body: deadChange{Changed: n}}, nil
	}
	if limit > 0 {
		return c.changeSome(byID, filter, limit, ask.After)
	}
	out := deadChange{Next: ask.After}
	for range maxSteps {
		done, err := step(c.dead(), c.ctx(), filter, out.Next)
		if err != nil {
			return response{}, ofPage(err, out.Next)
		}
		out.Changed += done.Changed
		if out.Next = done.Next; out.Next == "" || out.Changed >= maxDead {
			break
		}
	}
	return response{status: http.StatusOK, body: out}, nil
}

// changeSome changes so many of those that fit, the latest first.
func (c *v2Call) changeSome(byID func(l deadList, ctx context.Context, ids ...string) (int, error), filter inspect.FailureFilter, limit int, after string) (response, error) {
	var ids []string
	for range maxSteps {
		found, next, err := c.dead().Search(c.ctx(), filter, after, limit-len(ids))
		if err != nil {
			return response{}, ofPage(err, after)
		}
		for i := range found {
			ids = append(ids, found[i].ID)
		}
		if after = next; after == "" || len(ids) == limit {
			break
		}
	}
	out := deadChange{Next: after}
	if len(ids) > 0 {
		var err error
		out.Changed, err = byID(c.dead(), c.ctx(), ids...)
		if err != nil && !errors.Is(err, inspect.ErrNoFailure) && !errors.Is(err, inspect.ErrRetried) {
			return response{}, err
		}
	}
	return response{status: http.StatusOK, body: out}, nil
}
