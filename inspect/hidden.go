package inspect

import (
	"context"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/goworker/goworker/internal/prefix"
	"github.com/goworker/goworker/internal/resque/control"
)

const (
	// MaxHidden is how long a notice can be hidden at most.
	MaxHidden = 30 * 24 * time.Hour

	// mostIdentity is how many bytes an identity of a finding may have.
	mostIdentity = 1 << 10
)

// HideNotice hides a finding of the checks from the operators of the fleet, for a time of at most MaxHidden. identity is that of the finding:
// checks.Finding.Identity. Hidden again, it has the new end. Nothing but faces for operators obeys it:
// doctor, alerts and webhooks go on. Over shards it is hidden on each.
func (i *Inspector) HideNotice(ctx context.Context, identity string, d time.Duration) error {
	switch {
	case d <= 0 || d > MaxHidden:
		return fmt.Errorf("goworker: a notice cannot be hidden for %s; give a time above 0, and at most %s", d, MaxHidden)
	case identity == "" || len(identity) > mostIdentity || !utf8.ValidString(identity):
		return fmt.Errorf("goworker: %.100q is no identity of a finding; give what Identity returns, in at most %d bytes of UTF-8", identity, mostIdentity)
	}
	_, err := i.hide(ctx, ruling{
		what: "HideNotice", on: "notice " + identity + holds(d), lasts: d, rules: map[string]control.Value{control.RuleName(control.HideRule, identity): {}},
	})
	return err
}

// ShowNotice ends HideNotice. The error is ErrNoRule if the notice is not hidden.
func (i *Inspector) ShowNotice(ctx context.Context, identity string) error {
	n, err := i.hide(ctx, ruling{what: "ShowNotice", on: "notice " + identity, ended: []string{control.RuleName(control.HideRule, identity)}})
	if err == nil && n == 0 {
		err = prefix.Errorf("showing notice %s: %w", identity, ErrNoRule)
	}
	return err
}

func (i *Inspector) hide(ctx context.Context, r ruling) (before int, err error) {
	if err := i.usable(); err != nil {
		return 0, err
	}
	r.clears = true
	err = i.each(func(one *Inspector) error {
		n, err := one.rule(ctx, r)
		before += n
		return err
	})
	return before, err
}

// HiddenNotices returns the notices that are hidden now, sorted by their identities: About is the identity, Until is when it is shown again.
func (i *Inspector) HiddenNotices(ctx context.Context) ([]Rule, error) { return i.rules(ctx, true) }
