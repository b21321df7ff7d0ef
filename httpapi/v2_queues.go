package httpapi

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/goworker/goworker/internal/gateway"
)

// queueCounts are the counts of a queue as clients see them.
type queueCounts struct {
	Ready    int  `json:"ready"`
	Delayed  *int `json:"delayed"` // null: they were not counted yet
	Reserved int  `json:"reserved"`
	Dead     int  `json:"dead"`
	Paused   bool `json:"paused"`
	Limited  bool `json:"limited"`

	OldestReadyMs *int64 `json:"oldest_ready_ms"` // how long the first job has been due; null: none, or its id does not say
	NextDueMs     *int64 `json:"next_due_ms"`     // until the first delayed job is due
	AsOf          string `json:"as_of,omitempty"` // when the delayed jobs were counted

	TakenBy []string `json:"taken_by,omitempty"` // workers that take its jobs beside HTTP
}

// queueView is a queue with its name.
type queueView struct {
	Name string `json:"name"`
	queueCounts
	Delays *delays `json:"delays,omitempty"`
}

// delays is how many delayed jobs are due within some times.
type delays struct {
	Within   []within `json:"within"`
	Later    int      `json:"later"`
	Complete bool     `json:"complete"` // false: there are more delayed jobs than were read
}

type within struct {
	Ms   int64 `json:"ms"`
	Jobs int   `json:"jobs"`
}

// countsOf are the counts for a client, at a time in ms.
func countsOf(s gateway.Sizes, now int64, takenBy []string) queueCounts {
	c := queueCounts{Ready: s.Ready, Reserved: s.Reserved, Dead: s.Dead, Paused: s.Paused, Limited: s.Limited, TakenBy: takenBy}
	if s.AsOf > 0 {
		c.Delayed, c.AsOf = &s.Delayed, stamp(s.AsOf)
	}
	if s.OldestReadyMs > 0 {
		age := max(0, now-s.OldestReadyMs)
		c.OldestReadyMs = &age
	}
	if s.NextDueMs > 0 {
		left := max(0, s.NextDueMs-now)
		c.NextDueMs = &left
	}
	return c
}

// maxListed is how many queues a list has at most.
const maxListed = 1000

// visible are the queues of the namespace that the token may see, by both their names, in order.
func visible(ctx context.Context, x access) (names, in []string, err error) {
	all, err := x.gateway().Queues(ctx)
	if err != nil {
		return nil, nil, err
	}
	names = []string{}
	for _, q := range all {
		if name, ok := x.short(q); ok {
			names, in = append(names, name), append(in, q)
		}
	}
	return names, in, nil
}

// listQueues lists the queues that the token may see, with their counts, in pages in the order of their names.
func (c *v2Call) listQueues() (response, error) {
	q, err := c.parameters("limit", "after")
	if err != nil {
		return response{}, err
	}
	limit, err := whole(q, "limit", defaultPage, 1, maxListed)
	if err != nil {
		return response{}, err
	}
	names, in, err := visible(c.ctx(), c.x)
	if err != nil {
		return response{}, err
	}
	first := 0
	if q.Has("after") {
		at, found := slices.BinarySearch(names, q.Get("after"))
		if first = at; found {
			first++
		}
	}
	last, next := min(first+int(limit), len(names)), ""
	if last < len(names) {
		next = names[last-1]
	}
	names, in = names[first:last], in[first:last]
	views := make([]queueView, len(names))
	if len(in) > 0 {
		sizes, err := c.x.gateway().Sizes(c.ctx(), in...)
		if err != nil {
			return response{}, err
		}
		now := c.x.gateway().Now()
		for i := range views {
			views[i] = queueView{Name: names[i], queueCounts: countsOf(sizes[i], now, c.x.Pool.lookout.takenBy(in[i]))}
		}
	}
	return response{status: http.StatusOK, body: struct {
		Queues []queueView `json:"queues"`
		Next   string      `json:"next,omitempty"`
	}{views, next}}, nil
}

// showQueue answers the counts of a queue, and how many delayed jobs are due within some times if the request asks for that.
func (c *v2Call) showQueue() (response, error) {
	q, err := c.parameters("delays")
	if err != nil {
		return response{}, err
	}
	bounds, err := boundsOf(q.Get("delays"))
	if err != nil {
		return response{}, err
	}
	sizes, err := c.x.gateway().Sizes(c.ctx(), c.in)
	if err != nil {
		return response{}, err
	}
	s := sizes[0]
	if s.Ready+s.Reserved+s.Dead+s.Delayed == 0 && !s.Paused {
		all, err := c.x.gateway().Queues(c.ctx())
		if err != nil {
			return response{}, err
		}
		if !slices.Contains(all, c.in) {
			return response{}, newProblem("no-queue", fmt.Sprintf("there is no queue %s: nothing was published to it, or it was destroyed", quoted(c.r.PathValue("queue"))))
		}
	}
	v := queueView{Name: c.r.PathValue("queue"), queueCounts: countsOf(s, c.x.gateway().Now(), c.x.Pool.lookout.takenBy(c.in))}
	if bounds != nil {
		if v.Delays, err = c.histogram(bounds); err != nil {
			return response{}, err
		}
	}
	return response{status: http.StatusOK, body: v}, nil
}

const (
	maxBounds = 20

	// maxCounted is how many delayed jobs a histogram reads at most.
	maxCounted = 10_000
)

// boundsOf reads the bounds of a histogram: durations such as 1m,1h,1d, each longer than the one before.
func boundsOf(text string) (bounds []int64, err error) {
	if text == "" {
		return nil, nil
	}
	parts := strings.Split(text, ",")
	if len(parts) > maxBounds {
		return nil, invalid("delays", fmt.Sprintf("delays has %d bounds, and %d are allowed", len(parts), maxBounds))
	}
	for _, part := range parts {
		days, isDays := strings.CutSuffix(part, "d")
		if isDays {
			part = days + "h"
		}
		d, err := time.ParseDuration(part)
		if isDays {
			d *= 24
		}
		switch ms := d.Milliseconds(); {
		case err != nil || ms <= 0 || d > maxDelay:
			return nil, invalid("delays", fmt.Sprintf("delays has the bound %s; write durations as in 30s,1m,1h,1d", quoted(part)))
		case len(bounds) > 0 && ms <= bounds[len(bounds)-1]:
			return nil, invalid("delays", "the bounds of delays do not rise; write the shortest first")
		default:
			bounds = append(bounds, ms)
		}
	}
	return bounds, nil
}

// histogram counts the delayed jobs of the queue by when they are due.
func (c *v2Call) histogram(bounds []int64) (*delays, error) {
	out := &delays{Within: make([]within, len(bounds)), Complete: true}
	for i, ms := range bounds {
		out.Within[i].Ms = ms
	}
	read, after := 0, ""
	for {
		page, err := c.x.gateway().Jobs(c.ctx(), c.in, gateway.Delayed, maxPage, after)
		if err != nil {
			return nil, err
		}
		for i := range page.Jobs {
			left := page.Jobs[i].DueMs - page.AsOf
			at, _ := slices.BinarySearch(bounds, left)
			if at == len(bounds) {
				out.Later++
				continue
			}
			for ; at < len(bounds); at++ {
				out.Within[at].Jobs++
			}
		}
		if read, after = read+len(page.Jobs), page.Next; after == "" {
			return out, nil
		}
		if read >= maxCounted {
			out.Complete = false
			return out, nil
		}
	}
}

// pauseQueue has no job taken from a queue.
func (c *v2Call) pauseQueue() (response, error) { return c.change(c.x.gateway().Pause) }

// resumeQueue has jobs taken again.
func (c *v2Call) resumeQueue() (response, error) { return c.change(c.x.gateway().Resume) }

// destroyQueue ends all jobs of a queue but its dead letters.
func (c *v2Call) destroyQueue() (response, error) { return c.change(c.x.gateway().Destroy) }

// change does something with the queue that needs no more than its name.
func (c *v2Call) change(do func(ctx context.Context, queue string) error) (response, error) {
	if _, err := c.parameters(); err != nil {
		return response{}, err
	}
	if _, refused := readBody(c.w, c.r, maxAsk); refused != nil {
		return response{}, refused.problem()
	}
	if err := do(c.ctx(), c.in); err != nil {
		return response{}, err
	}
	return response{status: http.StatusNoContent}, nil
}
