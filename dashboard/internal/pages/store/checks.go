package store

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/goworker/goworker/dashboard/internal/site"
	"github.com/goworker/goworker/inspect"
	"github.com/goworker/goworker/inspect/checks"
)

// looking is how long the checks may wait for Redis.
const looking = 5 * time.Second

const (
	// moment is how long a page waits for the first look.
	moment = 100 * time.Millisecond
	// soon is when the checks look again after they could not.
	soon = 10 * time.Second
)

// alike is how many findings of one check are shown, and mostAlike how many the mending of one looks through.
const (
	alike     = 3
	mostAlike = 1000
)

// Checks are what goworker doctor says.
type Checks struct {
	At    site.Time `json:"looked"`
	Found []Finding `json:"found"` // the worst first
	Rest  []Finding `json:"rest"`  // that found nothing, or could not look
}

// Finding is what one check says.
type Finding struct {
	ID       string  `json:"id"`
	Check    string  `json:"check"`
	Number   int     `json:"number"`
	Title    string  `json:"title"`
	Severity string  `json:"severity"` // error or warning
	State    string  `json:"state"`
	Seen     float64 `json:"seen"` // the share that it has looked at, from 0 to 1
	Text     string  `json:"text,omitempty"`
	Remedy   string  `json:"remedy,omitempty"`
	Command  string  `json:"command,omitempty"` // for a shell
	Rule     string  `json:"rule,omitempty"`    // the ACL rule that the check needs
	Fixable  bool    `json:"fixable"`           // the action redis.fix mends it
	More     int     `json:"more,omitempty"`    // findings like this one
	Shard    string  `json:"shard,omitempty"`
}

// doctor runs the checks of a fleet in the background, and remembers what they found.
type doctor struct {
	mu    sync.Mutex
	found *Checks       // nil: they have not looked yet
	err   error         // why they could not look
	at    time.Time     // when they ended; zero: they are to look again
	runs  chan struct{} // closed when the look under way ends; nil: there is none
}

func doctorOf(a *site.Ask) *doctor { return site.Held(a.Fleet, func() *doctor { return new(doctor) }) }

// checked returns what the checks found last, nil if they have not looked yet, and whether they look now. They look each quarter of an hour, in the
// background, because they send some 35 commands for each process of a large fleet. The page waits a moment for the first look.
func checked(ctx context.Context, a *site.Ask) (*Checks, bool, error) {
	d := doctorOf(a)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.runs == nil && time.Since(d.at) >= examined {
		runs := make(chan struct{})
		if a.Fleet.Go(func(ctx context.Context) { d.look(ctx, a, runs) }) {
			d.runs = runs
		}
	}
	if runs := d.runs; runs != nil && d.at.IsZero() {
		d.mu.Unlock()
		enough := time.NewTimer(moment)
		select {
		case <-runs:
		case <-enough.C:
		case <-ctx.Done():
		}
		enough.Stop()
		d.mu.Lock()
	}
	return d.found, d.runs != nil, d.err
}

// look runs the checks for the doctor.
func (d *doctor) look(ctx context.Context, a *site.Ask, runs chan struct{}) {
	found, err := look(ctx, a)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.runs, d.err, d.at = nil, err, time.Now(); err == nil {
		d.found = found
	} else {
		d.at = d.at.Add(soon - examined)
	}
	close(runs)
}

// mended drops a finding, and has the checks look again.
func (d *doctor) mended(id string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.at = (time.Time{}); d.found == nil {
		return
	}
	rest := *d.found
	rest.Found = slices.DeleteFunc(slices.Clone(rest.Found), func(f Finding) bool { return f.ID == id })
	d.found = &rest
}

// look runs the checks. It writes nothing.
func look(ctx context.Context, a *site.Ask) (*Checks, error) {
	ctx, cancel := context.WithTimeout(ctx, seldom)
	defer cancel()
	c := &Checks{At: site.Time{Time: a.Now()}}
	for f, err := range checks.Run(ctx, a.In(), checks.Options{Budget: looking, Most: alike, ReadOnly: true}) {
		if err != nil {
			return nil, err
		}
		one := Finding{
			ID: idOf(f), Check: f.Check.Name, Number: f.Check.Number, Title: f.Check.Title, Severity: f.Check.Severity.String(), State: f.State.String(), Seen: f.Seen,
			Text: sentence(a.Masks.Text(f.Sentence)), Remedy: sentence(f.Remedy.Words), Command: f.Remedy.Command, Rule: f.Rule, Fixable: f.Fixable(), More: f.More, Shard: f.Shard,
		}
		if f.State == checks.OK {
			one.Text = "" // it says what the title says
		}
		if f.State == checks.Found {
			c.Found = append(c.Found, one)
		} else {
			c.Rest = append(c.Rest, one)
		}
	}
	slices.SortStableFunc(c.Found, func(x, y Finding) int { return strings.Compare(x.Severity, y.Severity) }) // error, warning
	return c, nil
}

// Well are the checks that find nothing.
func (c *Checks) Well() []Finding { return c.rest(true) }

// Unsure are the checks of the rest that do not say that all is well.
func (c *Checks) Unsure() []Finding { return c.rest(false) }

func (c *Checks) rest(ok bool) (some []Finding) {
	for _, f := range c.Rest {
		if (f.State == checks.OK.String()) == ok {
			some = append(some, f)
		}
	}
	return some
}

// idOf names a finding as long as it is wrong.
func idOf(f checks.Finding) string {
	digest := sha256.Sum256([]byte(f.Identity() + "\x00" + f.Shard))
	return hex.EncodeToString(digest[:8])
}

func sentence(text string) string {
	if text == "" {
		return ""
	}
	return strings.ToUpper(text[:1]) + text[1:]
}

// fix mends a finding. It looks for it again first.
func fix(ctx context.Context, a *site.Ask) (site.Outcome, error) {
	seen, _, err := checked(ctx, a)
	if seen == nil && err == nil {
		seen, err = look(ctx, a)
	}
	if err != nil {
		return site.Outcome{}, err
	}
	id := a.Path("id")
	at := slices.IndexFunc(seen.Found, func(f Finding) bool { return f.ID == id })
	if at < 0 {
		return site.Outcome{}, site.Missing("the checks no longer find this")
	}
	in := a.By()
	found, err := again(ctx, in, seen.Found[at])
	if err != nil {
		return site.Outcome{}, err
	}
	doctorOf(a).mended(id)
	if found == nil {
		return site.Outcome{Said: "Nothing was changed: it is no longer wrong."}, nil
	}
	changed, err := checks.Fix(ctx, in, *found)
	switch {
	case err != nil:
		return site.Outcome{}, fmt.Errorf("mending what check %d found: %w", found.Check.Number, err)
	case !changed:
		return site.Outcome{Said: "Nothing was changed: it is no longer wrong."}, nil
	}
	return site.Outcome{Said: "It is mended: " + seen.Found[at].Text, Done: 1}, nil
}

// again runs the check of a finding once more, and returns what it finds now; nil: nothing is wrong any more. A check that did not see all
// says neither.
func again(ctx context.Context, in *inspect.Inspector, f Finding) (*checks.Finding, error) {
	var unsure error
	for now, err := range checks.Run(ctx, in, checks.Options{Only: []int{f.Number}, Most: mostAlike, Budget: looking}) {
		if err != nil {
			return nil, err
		}
		if now.State == checks.NotAllSeen || now.State == checks.CouldNotLook {
			unsure = &site.Problem{Status: http.StatusServiceUnavailable, Title: "The check could not look again, so nothing is changed", Err: errors.New(now.Sentence)}
		}
		if now.State == checks.Found && idOf(now) == f.ID {
			if !now.Fixable() {
				return nil, site.Bad("nothing but the remedy in words mends this")
			}
			return &now, nil
		}
	}
	return nil, unsure
}
