package classes

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/goworker/goworker/dashboard/internal/look"
	"github.com/goworker/goworker/dashboard/internal/site"
)

// set sets a rule for the class of the path, for the time of the field for.
func set(ctx context.Context, a *site.Ask, said string, do func(class string, d time.Duration) error) (site.Outcome, error) {
	class := a.Path("class")
	d, err := a.Duration("for")
	if err != nil {
		return site.Outcome{}, err
	}
	if err := do(class, d); err != nil {
		return site.Outcome{}, err
	}
	a.Fleet.Forget(keyRules)
	until := ", until it is taken back."
	if d > 0 {
		until = fmt.Sprintf(", for %s.", look.Dur(d))
	}
	return site.Outcome{Said: "Class " + class + " " + said + until, Done: 1}, nil
}

func pause(ctx context.Context, a *site.Ask) (site.Outcome, error) {
	return set(ctx, a, "is paused: its jobs wait, and other jobs of their queues go on", func(class string, d time.Duration) error {
		return a.By().PauseClass(ctx, class, d)
	})
}

func resume(ctx context.Context, a *site.Ask) (site.Outcome, error) {
	class := a.Path("class")
	if err := a.By().ResumeClass(ctx, class); err != nil {
		return site.Outcome{}, err
	}
	a.Fleet.Forget(keyRules)
	return site.Outcome{Said: "Class " + class + " goes on.", Done: 1}, nil
}

func limit(ctx context.Context, a *site.Ask) (site.Outcome, error) {
	numbers, key := strings.TrimSpace(a.Value("numbers")), strings.TrimSpace(a.Value("key"))
	said := "runs at most " + numbers
	if !strings.Contains(numbers, "/") {
		said += " at a time"
	}
	if key != "" {
		said += " for each value of " + key
	}
	return set(ctx, a, said, func(class string, d time.Duration) error { return a.By().LimitClass(ctx, class, numbers, key, d) })
}

func timeout(ctx context.Context, a *site.Ask) (site.Outcome, error) {
	if strings.TrimSpace(a.Value("timeout")) == "" {
		return site.Outcome{}, site.Bad("give the time that a run may take, such as 30s or 10m, or 0 for no limit")
	}
	most, err := a.Duration("timeout")
	if err != nil {
		return site.Outcome{}, err
	}
	said := "has no time limit"
	if most > 0 {
		said = "may run for " + look.Dur(most)
	}
	return set(ctx, a, said, func(class string, d time.Duration) error { return a.By().SetTimeout(ctx, class, most, d) })
}

func retries(ctx context.Context, a *site.Ask) (site.Outcome, error) {
	n, err := a.Number("retries")
	if err != nil {
		return site.Outcome{}, err
	}
	if n < -1 || n > 1e6 {
		return site.Outcome{}, site.Bad("retries is %d; give a number up to a million, or -1 for no limit", n)
	}
	said := "is retried at most " + look.Plural(n, "time", "times")
	if n < 0 {
		said = "is retried as often as needed"
	}
	return set(ctx, a, said, func(class string, d time.Duration) error { return a.By().SetRetries(ctx, class, int(n), d) })
}

func reset(ctx context.Context, a *site.Ask) (site.Outcome, error) {
	class := a.Path("class")
	if err := a.By().ResetClass(ctx, class); err != nil {
		return site.Outcome{}, err
	}
	a.Fleet.Forget(keyRules)
	return site.Outcome{Said: "Class " + class + " has the limits, the time limit and the retries of its program again. A pause stays.", Done: 1}, nil
}
