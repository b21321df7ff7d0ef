package control

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/goworker/goworker/inspect"
	"github.com/goworker/goworker/internal/resque/control"
)

// The calls of this file write rules. Redis keeps a rule, so it holds for processes that start later, and for processes that were cut off
// when it was made. A process obeys it before it takes its next job. These calls ask no process.

// For ends a rule after this time. Without For a rule holds until it is taken back.
func For(d time.Duration) CallOption { return func(c *call) { c.lasts, c.ends = d, true } }

// Rules returns the rules of the fleet, sorted by kind, and then by the queue, limit or class: see inspect.Rules. It includes queues that
// are paused without an end, of which only the name is known.
func (c *Control) Rules(ctx context.Context) (rules []inspect.Rule, err error) {
	for _, door := range c.of.Inspect().Doors() {
		of, failed := ruled(ctx, door.Inspector())
		if err = errors.Join(err, failed); len(c.of.Inspect().Doors()) > 1 {
			for n := range of {
				of[n].Shard = door.Name()
			}
		}
		rules = append(rules, of...)
	}
	slices.SortStableFunc(rules, func(a, b inspect.Rule) int { return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.About, b.About)) })
	return rules, err
}

// ruled returns the rules and paused queues of one Redis.
func ruled(ctx context.Context, in *inspect.Inspector) ([]inspect.Rule, error) {
	rules, err := in.Rules(ctx)
	if err != nil {
		return nil, err
	}
	paused, err := in.PausedQueues(ctx)
	for _, queue := range paused {
		if !slices.ContainsFunc(rules, func(r inspect.Rule) bool { return r.Kind == control.PauseRule && r.About == queue }) {
			rules = append(rules, inspect.Rule{Kind: control.PauseRule, About: queue})
		}
	}
	return rules, err
}

var errCancel = errors.New("goworker: a cancel holds in the whole fleet and has no end; leave out To, Args, For and Key")

var errTo = errors.New("goworker: a rule holds for all processes; leave out To and Args")

// rule returns the inspector that writes a rule, and how long the rule lasts.
func (c *Control) rule(opts []CallOption) (*inspect.Inspector, time.Duration, error) {
	var o call
	for _, opt := range opts {
		opt(&o)
	}
	switch {
	case len(o.to) > 0 || o.args != nil:
		return nil, 0, errTo
	case o.ends && o.lasts <= 0:
		return nil, 0, errors.New("goworker: For needs a time above 0")
	}
	return c.by(o), o.lasts, nil
}

// change changes a rule as the options say.
func (c *Control) change(opts []CallOption, rule func(i *inspect.Inspector, d time.Duration) error) error {
	i, d, err := c.rule(opts)
	if err != nil {
		return err
	}
	return rule(i, d)
}

// PauseQueue keeps all processes from taking jobs of a queue: see inspect.PauseQueueFor. The options are For and Why.
func (c *Control) PauseQueue(ctx context.Context, queue string, opts ...CallOption) error {
	return c.change(opts, func(i *inspect.Inspector, d time.Duration) error { return i.PauseQueueFor(ctx, queue, d) })
}

// ResumeQueue ends PauseQueue.
func (c *Control) ResumeQueue(ctx context.Context, queue string, opts ...CallOption) error {
	return c.change(opts, func(i *inspect.Inspector, _ time.Duration) error { return i.ResumeQueue(ctx, queue) })
}

// PauseClass makes the jobs of a class wait in a lane of their own, while the other jobs of their queues go on: see inspect.PauseClass.
// The options are For and Why.
func (c *Control) PauseClass(ctx context.Context, class string, opts ...CallOption) error {
	return c.change(opts, func(i *inspect.Inspector, d time.Duration) error { return i.PauseClass(ctx, class, d) })
}

// ResumeClass ends PauseClass.
func (c *Control) ResumeClass(ctx context.Context, class string, opts ...CallOption) error {
	return c.change(opts, func(i *inspect.Inspector, _ time.Duration) error { return i.ResumeClass(ctx, class) })
}

// Limit gives a limit of a program another number, such as "3" or "10/s". Programs that start later do not change it: see
// inspect.SetLimitFor. The options are For and Why.
func (c *Control) Limit(ctx context.Context, limit, numbers string, opts ...CallOption) error {
	return c.change(opts, func(i *inspect.Inspector, d time.Duration) error {
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
	return c.change(opts, func(i *inspect.Inspector, d time.Duration) error { return i.LimitClass(ctx, class, numbers, o.key, d) })
}

// Key makes LimitClass count each value at a place in the arguments separately: "0.account" is the field account of the first argument.
func Key(place string) CallOption { return func(c *call) { c.key = place } }

// Reset takes back what Limit has set: processes write the number of their program again.
func (c *Control) Reset(ctx context.Context, limit string, opts ...CallOption) error {
	return c.change(opts, func(i *inspect.Inspector, _ time.Duration) error {
		_, err := i.ResetLimit(ctx, limit)
		return err
	})
}

// ResetClass takes back what LimitClass, Timeout and Retries have set for a class.
func (c *Control) ResetClass(ctx context.Context, class string, opts ...CallOption) error {
	return c.change(opts, func(i *inspect.Inspector, _ time.Duration) error { return i.ResetClass(ctx, class) })
}

// Timeout gives the jobs of a class another time limit from their next run on: see inspect.SetTimeout. The options are For and Why.
func (c *Control) Timeout(ctx context.Context, class string, timeout time.Duration, opts ...CallOption) error {
	return c.change(opts, func(i *inspect.Inspector, d time.Duration) error { return i.SetTimeout(ctx, class, timeout, d) })
}

// Retries limits how often a failed job of a class runs again: see inspect.SetRetries. The options are For and Why.
func (c *Control) Retries(ctx context.Context, class string, retries int, opts ...CallOption) error {
	return c.change(opts, func(i *inspect.Inspector, d time.Duration) error { return i.SetRetries(ctx, class, retries, d) })
}
