package retry

import (
	"context"

	"github.com/goworker/goworker/internal/outcome"
	"github.com/goworker/goworker/internal/resque/control"
	"github.com/goworker/goworker/internal/rule"
)

// Ruled is New with the numbers that operators set for classes: they go before that of Register, and a job's own goes before them.
func Ruled(rules *rule.Table) func(outcome.Deps) outcome.Feature {
	return func(d outcome.Deps) outcome.Feature {
		f := New(d)
		bind := f.Bind
		f.Live = rules.Version
		f.Bind = func(c *outcome.Class) outcome.Policy {
			if c == nil {
				return bind(c)
			}
			if _, ruled := rules.All()[control.RuleName(control.RetriesRule, c.Name)]; !ruled {
				return bind(c)
			}
			of, _ := outcome.Get[*Policy](c)
			return ruled{deps: d, rules: rules, class: c.Name, policy: of}
		}
		return f
	}
}

// ByRule returns the policy of a class as the rules have it.
func ByRule(rules *rule.Table, class string, policy *Policy) *Policy {
	n, ok := rules.Retries(class)
	if !ok {
		return policy
	}
	return WithLimit(policy, n)
}

// WithLimit returns the policy with another number of retries. A class without one gets the delays of a Retry without options.
func WithLimit(policy *Policy, n int) *Policy {
	own := byDefault
	if policy != nil {
		own = *policy
	}
	own.Limit = n
	return &own
}

// ruled is the policy of a class that a rule concerns. The rule may end while the policy is in use.
type ruled struct {
	outcome.None
	deps   outcome.Deps
	rules  *rule.Table
	class  string
	policy *Policy
}

func (r ruled) Decide(ctx context.Context, j *outcome.Job, err error) (outcome.Outcome, bool) {
	p := ByRule(r.rules, r.class, r.policy)
	if p == nil { // the rule has ended, and the class has no policy
		p = asked
	}
	return policy{deps: r.deps, policy: p}.Decide(ctx, j, err)
}
