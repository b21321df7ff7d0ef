package inspect_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/goworker/goworker/inspect"
)

// A notice is hidden for a time, with who and why. It is no rule for processes, and what has ended goes with the next change.
func TestHiddenNotices(t *testing.T) {
	i, server, _ := setup(t)
	ctx := t.Context()
	by := i.By("ada", "known")
	server.Do(t, "HSET", "resque:go:rules", "hide:ended", `{"until":1}`, "hide:broken", "no JSON", "timeout:A", `{"value":"5"}`)
	if err := by.HideNotice(ctx, "queue-waits mail: x", time.Hour); err != nil {
		t.Fatal(err)
	}
	hidden, err := i.HiddenNotices(ctx)
	got := ""
	for _, h := range hidden {
		got += fmt.Sprintf("%s %s %s %s %v;", h.Kind, h.About, h.By, h.Why, h.Until.Sub(h.At))
	}
	want(t, "hidden", "hide queue-waits mail: x ada known 1h0m0s;", got, err)
	rules, err := i.Rules(ctx)
	want(t, "rules", 1, len(rules), err)
	if n := server.Int(t, "HLEN", "resque:go:rules"); n != 2 {
		t.Errorf("%d rules are left, of which one has ended and one cannot be read", n)
	}
	for _, err := range []error{by.HideNotice(ctx, "queue-waits mail: x", inspect.MaxHidden), by.ShowNotice(ctx, "queue-waits mail: x")} {
		if err != nil {
			t.Error(err)
		}
	}
	if err := by.ShowNotice(ctx, "queue-waits mail: x"); !errors.Is(err, inspect.ErrNoRule) {
		t.Errorf("shown again: %v", err)
	}
	audit, err := i.Audit(ctx, 10)
	want(t, "audited", 3, len(audit), err)
	for _, refused := range []error{
		by.HideNotice(ctx, "a", 0), by.HideNotice(ctx, "a", inspect.MaxHidden+1), by.HideNotice(ctx, "", time.Hour), by.HideNotice(ctx, strings.Repeat("a", 2000), time.Hour),
		by.HideNotice(ctx, "\xff", time.Hour),
	} {
		if refused == nil {
			t.Error("a notice was hidden that cannot be")
		}
	}
}
