package overview

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/goworker/goworker/dashboard/internal/look"
	"github.com/goworker/goworker/dashboard/internal/site"
	"github.com/goworker/goworker/inspect"
	"github.com/goworker/goworker/inspect/checks"
)

// Notice is something that needs the operator.
type Notice struct {
	ID       string `json:"id"`
	Check    string `json:"check"`
	Severity string `json:"severity"` // error or warning
	Text     string `json:"text"`
	Remedy   string `json:"remedy,omitempty"`
	Command  string `json:"command,omitempty"`
	Shard    string `json:"shard,omitempty"`
	To       string `json:"-"` // the page that shows it
	Do       string `json:"-"` // what the link says
	Hidden   *Hide  `json:"hidden,omitempty"`
}

// Hide says who has hidden a notice, and for how long.
type Hide struct {
	By    string    `json:"by"`
	Until site.Time `json:"until"`
}

// checkEvery is how often the checks run that ask Redis: some 550 commands where there are 500 processes. A sample answers the others
// each time.
const checkEvery = 2 * time.Minute

// found is what the checks say now, the worst first.
func found(ctx context.Context, a *site.Ask) (all []checks.Finding) {
	day, err := site.Keep(ctx, a.Fleet, "history of a day", 2*time.Minute, func(ctx context.Context) (inspect.History, error) {
		return a.In().History(ctx, inspect.HistoryQuery{Step: 10 * time.Minute, Since: a.Now().Add(-24 * time.Hour)})
	})
	if err != nil {
		day = inspect.History{} // what is usual is not known
	}
	add := func(several []checks.Finding) {
		for _, f := range several {
			if f.State == checks.Found && f.Check.In(checks.Notice) {
				all = append(all, f)
			}
		}
	}
	add(checks.Moving(a.Base.Before, a.Base.Sample, checks.Usually(day)))
	add(checks.Failing(day))
	if x, p, err := a.Fleet.Groups(ctx); err == nil && p.Done {
		add(checks.NewFailures(kinds(x), a.Now()))
	}
	slow, err := site.Keep(ctx, a.Fleet, "checks", checkEvery, func(ctx context.Context) (found []checks.Finding, err error) {
		var numbers []int
		for _, c := range checks.Table {
			if c.In(checks.Notice) && !c.In(checks.Status) && c.Number > 0 {
				numbers = append(numbers, c.Number)
			}
		}
		for f, err := range checks.Run(ctx, a.In(), checks.Options{Only: numbers, ReadOnly: true, Budget: time.Second}) {
			if err != nil {
				return found, err
			}
			found = append(found, f)
		}
		return found, nil
	})
	if err == nil {
		add(slow)
	}
	slices.SortStableFunc(all, func(x, y checks.Finding) int { return int(y.Check.Severity) - int(x.Check.Severity) })
	return all
}

// noticesOf returns what is not hidden, and how many are.
func noticesOf(ctx context.Context, a *site.Ask) (shown []Notice, hidden int, err error) {
	all, err := allNotices(ctx, a)
	for _, n := range all {
		if n.Hidden != nil {
			hidden++
		} else {
			shown = append(shown, n)
		}
	}
	return shown, hidden, err
}

func allNotices(ctx context.Context, a *site.Ask) (all []Notice, err error) {
	rules, err := site.Keep(ctx, a.Fleet, keyHidden, 2*time.Second, func(ctx context.Context) ([]inspect.Rule, error) { return a.In().HiddenNotices(ctx) })
	if err != nil {
		rules = nil // an older Redis user may not read them: nothing is hidden
	}
	for _, f := range found(ctx, a) {
		n := Notice{
			ID: idOf(f), Check: f.Check.Name, Severity: f.Check.Severity.String(), Text: sentence(f.Sentence), Remedy: sentence(f.Remedy.Words),
			Command: f.Remedy.Command, Shard: f.Shard,
		}
		n.To, n.Do = nextStep(a, f)
		for _, r := range rules {
			if r.About == f.Identity() {
				n.Hidden = &Hide{By: r.By, Until: site.Time{Time: r.Until}}
			}
		}
		all = append(all, n)
	}
	return all, nil
}

const keyHidden = "hidden notices"

// idOf names a finding as long as it is wrong.
func idOf(f checks.Finding) string {
	digest := sha256.Sum256([]byte(f.Identity()))
	return hex.EncodeToString(digest[:8])
}

func sentence(text string) string {
	if text == "" {
		return ""
	}
	return strings.ToUpper(text[:1]) + text[1:]
}

// nextStep is the page where a finding is looked at.
func nextStep(a *site.Ask, f checks.Finding) (to, do string) {
	subject := func(names ...string) string {
		for _, name := range names {
			if v := f.Subject[name]; v != "" {
				return v
			}
		}
		return ""
	}
	if queue := subject("queue"); queue != "" {
		return a.URL("queues", queue), "Open queue"
	}
	if class := subject("class"); class != "" {
		switch f.Check.Name {
		case "stuck-job":
			return a.URL("running", "?q", "class:"+class), "Look at it"
		case checks.NewKind:
			return a.URL("failures", "?q", "class:"+class), "Look at them"
		}
		return a.URL("classes", class), "Look at it"
	}
	switch name := f.Check.Name; {
	case strings.HasPrefix(name, "redis"):
		return a.URL("redis"), "How to mend it"
	case strings.Contains(name, "delayed"):
		return a.URL("delayed"), "Look at them"
	case name == "jobs-fail":
		return a.URL("failures"), "Look at them"
	case strings.Contains(name, "stuck"):
		return a.URL("running", "?sort", "over"), "Look at them"
	case strings.Contains(name, "worker"), strings.Contains(name, "exchang"), strings.Contains(name, "heartbeat"):
		return a.URL("processes"), "Look at them"
	case strings.Contains(name, "paused"), strings.Contains(name, "unserved"):
		return a.URL("queues"), "Open queues"
	}
	return a.URL("redis"), "Look at it"
}

// Notices is the page /notices, hidden ones included.
type Notices struct {
	Notices []Notice `json:"notices"`
}

func loadNotices(ctx context.Context, a *site.Ask) (any, error) {
	if !a.User.Whole() {
		return &Notices{}, nil
	}
	all, err := allNotices(ctx, a)
	return &Notices{all}, err
}

// identityOf is the finding that an action names.
func identityOf(ctx context.Context, a *site.Ask) (string, error) {
	for _, f := range found(ctx, a) {
		if idOf(f) == a.Path("id") {
			return f.Identity(), nil
		}
	}
	return "", site.Missing("the checks no longer find this, so there is nothing to hide")
}

func hide(ctx context.Context, a *site.Ask) (site.Outcome, error) {
	d, err := a.Duration("for")
	if err != nil {
		return site.Outcome{}, err
	}
	if d == 0 {
		d = time.Hour
	}
	identity, err := identityOf(ctx, a)
	if err != nil {
		return site.Outcome{}, err
	}
	if err := a.By().HideNotice(ctx, identity, d); err != nil {
		return site.Outcome{}, err
	}
	a.Fleet.Forget(keyHidden)
	return site.Outcome{Said: fmt.Sprintf("The notice is hidden from everybody for %s.", look.Dur(d)), Done: 1}, nil
}

func show(ctx context.Context, a *site.Ask) (site.Outcome, error) {
	identity, err := identityOf(ctx, a)
	if err != nil {
		return site.Outcome{}, err
	}
	if err := a.By().ShowNotice(ctx, identity); err != nil {
		return site.Outcome{}, err
	}
	a.Fleet.Forget(keyHidden)
	return site.Outcome{Said: "The notice shows again.", Done: 1}, nil
}
