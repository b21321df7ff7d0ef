package control

import (
	"context"
	"errors"
	"time"

	"github.com/goworker/goworker/inspect"
)

// The calls of this file write rules. A rule is in Redis, so it holds for processes that start later, and for those that were cut off when
// it was made. A process obeys it before it takes its next job. None of them asks a process, so they need none to be there.

// For ends a rule after this time. By default it holds until it is taken back.
func For(d time.Duration) CallOption { return func(c *call) { c.lasts, c.ends = d, true } }

var errTo = errors.New("goworker: a rule holds for all processes; leave out To and Args")

// rule returns who makes a rule, and how long it lasts.
func (c *Control) rule(opts []CallOption) (*inspect.Inspector, time.Duration, error) {
	var o call
	for _, opt := range opts {
		opt(&o)
	}
	switch {
	case len(o.to) > 0 || o.args != nil:
		return nil, 0, errTo
	case o.ends && o.lasts <= 0:
		return nil, 0, errors.New("goworker: a rule holds for more than no time; give For a time above 0")
	}
	return c.of.Inspect().By(c.who, o.why).Face(c.face), o.lasts, nil
}

// ruled is a rule whose maker and end the options say.
func (c *Control) ruled(opts []CallOption, rule func(i *inspect.Inspector, d time.Duration) error) error {
	i, d, err := c.rule(opts)
	if err != nil {
		return err
	}
	return rule(i, d)
}

// PauseQueue keeps all processes from taking jobs of a queue: see inspect.PauseQueueFor. The options are For and Why.
func (c *Control) PauseQueue(ctx context.Context, queue string, opts ...CallOption) error {
	return c.ruled(opts, func(i *inspect.Inspector, d time.Duration) error { return i.PauseQueueFor(ctx, queue, d) })
}

// ResumeQueue ends PauseQueue.
func (c *Control) ResumeQueue(ctx context.Context, queue string, opts ...CallOption) error {
	return c.ruled(opts, func(i *inspect.Inspector, _ time.Duration) error { return i.ResumeQueue(ctx, queue) })
}

// PauseClass has the jobs of a class wait in a lane of their own, while the others of their queues go on: see inspect.PauseClass. The
// options are For and Why.
func (c *Control) PauseClass(ctx context.Context, class string, opts ...CallOption) error {
	return c.ruled(opts, func(i *inspect.Inspector, d time.Duration) error { return i.PauseClass(ctx, class, d) })
}

// ResumeClass ends PauseClass.
func (c *Control) ResumeClass(ctx context.Context, class string, opts ...CallOption) error {
	return c.ruled(opts, func(i *inspect.Inspector, _ time.Duration) error { return i.ResumeClass(ctx, class) })
}

// Limit gives a limit of a program other numbers, such as "3" or "10/s", which hold whatever programs start: see inspect.SetLimitFor. The
// options are For and Why.
func (c *Control) Limit(ctx context.Context, limit, numbers string, opts ...CallOption) error {
	return c.ruled(opts, func(i *inspect.Inspector, d time.Duration) error {
		_, err := i.SetLimitFor(ctx, limit, numbers, d)
		return err
	})
}

// LimitClass holds the jobs of a class to a limit, whatever its program has registered: see inspect.LimitClass. The options are For, Why
// and Key.
func (c *Control) LimitClass(ctx context.Context, class, numbers string, opts ...CallOption) error {
	var o call
	for _, opt := range opts {
		opt(&o)
	}
	return c.ruled(opts, func(i *inspect.Inspector, d time.Duration) error { return i.LimitClass(ctx, class, numbers, o.key, d) })
}

// Key gives each value at a place in the arguments its own count, for LimitClass: "0.account" is the field account of the first argument.
func Key(place string) CallOption { return func(c *call) { c.key = place } }

// Reset takes back what Limit has set: processes write the numbers of their programs.
func (c *Control) Reset(ctx context.Context, limit string, opts ...CallOption) error {
	return c.ruled(opts, func(i *inspect.Inspector, _ time.Duration) error {
		_, err := i.ResetLimit(ctx, limit)
		return err
	})
}

// ResetClass takes back what LimitClass, Timeout and Retries have set for a class.
func (c *Control) ResetClass(ctx context.Context, class string, opts ...CallOption) error {
	return c.ruled(opts, func(i *inspect.Inspector, _ time.Duration) error { return i.ResetClass(ctx, class) })
}

// Timeout gives the jobs of a class another time limit from their next run on: see inspect.SetTimeout. The options are For and Why.
func (c *Control) Timeout(ctx context.Context, class string, timeout time.Duration, opts ...CallOption) error {
	return c.ruled(opts, func(i *inspect.Inspector, d time.Duration) error { return i.SetTimeout(ctx, class, timeout, d) })
}

// Retries has failed jobs of a class run again at most so often: see inspect.SetRetries. The options are For and Why.
func (c *Control) Retries(ctx context.Context, class string, retries int, opts ...CallOption) error {
	return c.ruled(opts, func(i *inspect.Inspector, d time.Duration) error { return i.SetRetries(ctx, class, retries, d) })
}
