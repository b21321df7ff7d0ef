package machines

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/goworker/goworker/control"
	"github.com/goworker/goworker/dashboard/internal/look"
	"github.com/goworker/goworker/dashboard/internal/site"
)

// Asked is what a process answered to a question that costs it something: it is asked when a user asks, and not again each tick.
type Asked struct {
	Verb string `json:"verb"`
	Reply

	Settings []control.SettingAnswer `json:"-"`
	Classes  []control.ClassAnswer   `json:"-"`
	Jobs     []control.JobAnswer     `json:"-"`
	Verbs    []Verb                  `json:"-"`
	Report   *control.ReportAnswer   `json:"-"`
	Stats    *control.StatsAnswer    `json:"-"`
	Queues   *control.QueuesAnswer   `json:"-"`
}

// Verb is a verb that the process knows.
type Verb struct {
	control.VerbAnswer
	Own bool // of its program
}

// Seconds is a number of seconds of an answer as a duration.
func (a *Asked) Seconds(s float64) time.Duration { return seconds(s).D() }

const (
	// keepFor is how long an answer serves everyone who asks the same.
	keepFor = 10 * time.Second
	// lasting is how long an answer stays on an open page.
	lasting = 24 * time.Hour
	// asking is how long a question waits for its answer.
	asking = 3 * time.Second
)

// questions are what a page asks a process, and what its links say.
var questions = []struct{ Verb, Name string }{
	{control.Conf, "Settings"}, {control.Registered, "Classes"}, {control.Report, "Parts and system"}, {control.Stats, "Counts"}, {control.Queues, "Queues"},
	{control.Active, "Runs now"}, {control.Reserved, "Prefetched"}, {control.Verbs, "Verbs"},
}

// Questions are the links of the page.
func (p *Page) Questions() []struct{ Verb, Name string } { return questions }

var errNotAsked = errors.New("nobody has asked lately")

func asks(id, verb string) string { return "ask " + verb + " " + id }

// ask asks a process. An open page that is rendered again gets the last answer.
func ask(ctx context.Context, a *site.Ask, id, verb string) (*Asked, error) {
	if !slices.ContainsFunc(questions, func(q struct{ Verb, Name string }) bool { return q.Verb == verb }) {
		return nil, site.Bad("%q is no question; ask conf, registered, report, stats, queues, active, reserved or verbs", verb)
	}
	age := keepFor
	if a.Live() {
		age = lasting
	}
	asked, err := site.Keep(ctx, a.Fleet, asks(id, verb), age, func(ctx context.Context) (*Asked, error) {
		if a.Live() {
			return nil, errNotAsked
		}
		options := append(a.AsUser(), control.To(exact(id)), control.Timeout(asking))
		r, err := control.Gather(a.Control().Inspect(ctx, verb, options...))
		if err != nil && !errors.Is(err, control.ErrNobody) && !errors.Is(err, control.ErrNoMatch) {
			return nil, problem(err)
		}
		replies := repliesOf(a, r)
		if len(replies) == 0 {
			return nil, site.Missing("process %s has left the fleet", id)
		}
		asked := &Asked{Verb: verb, Reply: replies[0]}
		return asked, asked.read(a)
	})
	if errors.Is(err, errNotAsked) {
		return nil, nil
	}
	return asked, err
}

// read makes what the page shows of the answer.
func (a *Asked) read(of *site.Ask) error {
	if len(a.Body) == 0 {
		return nil
	}
	into := map[string]any{
		control.Conf: &a.Settings, control.Registered: &a.Classes, control.Active: &a.Jobs, control.Reserved: &a.Jobs, control.Report: &a.Report,
		control.Stats: &a.Stats, control.Queues: &a.Queues,
	}[a.Verb]
	var known []control.VerbAnswer
	if a.Verb == control.Verbs {
		into = &known
	}
	if err := json.Unmarshal(a.Body, into); err != nil {
		a.Refused = "its answer cannot be read: " + err.Error()
		return nil
	}
	if a.Verb == control.Conf {
		for n := range a.Settings {
			a.Settings[n].Value = of.Masks.Text(a.Settings[n].Value)
		}
		a.Body, _ = json.Marshal(a.Settings)                                     // texts alone
		slices.SortStableFunc(a.Settings, func(x, y control.SettingAnswer) int { // what was set is what differs between processes
			switch {
			case x.Default == y.Default:
				return 0
			case x.Default:
				return 1
			}
			return -1
		})
	}
	for _, v := range known {
		a.Verbs = append(a.Verbs, Verb{v, !slices.Contains(builtIn, v.Name)})
	}
	return nil
}

// builtIn are the verbs that have buttons or questions of their own.
var builtIn = []string{
	control.Ping, control.Stats, control.Active, control.Reserved, control.Registered, control.Conf, control.Queues, control.Report, control.Verbs, control.Stacks,
	control.Log, control.Pause, control.Resume, control.Shutdown, control.Concurrency, control.WorkQueues, control.Autoscale, control.Profile,
}

// exact is an address that only this id has, also where it has characters of patterns.
func exact(id string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(id)
}

// Reply is what a process answered, or why it did not.
type Reply struct {
	Process string          `json:"process"`
	Version string          `json:"version,omitempty"`
	After   site.Span       `json:"after_ms"`
	Body    json.RawMessage `json:"body,omitempty"`
	Refused string          `json:"refused,omitempty"` // the sentence of the process
	Silent  string          `json:"silent,omitempty"`  // why it did not answer
	Said    string          `json:"said,omitempty"`    // for people

	stacks *control.StacksAnswer
}

// Why is why it did not do it; "": it did.
func (r Reply) Why() string {
	if r.Refused != "" {
		return r.Refused
	}
	return r.Silent
}

// Text is the answer as it came.
func (r Reply) Text() string { return string(r.Body) }

// Stacks are the stacks of an answer; nil: it has none.
func (r Reply) Stacks() *control.StacksAnswer { return r.stacks }

// repliesOf are the replies of a call: those who answered first, then those who refused, then the silent ones. Sentences are masked.
func repliesOf(a *site.Ask, r control.Result) (all []Reply) {
	for _, one := range r.Replies {
		all = append(all, Reply{Process: one.Process, Version: one.Version, After: site.Span(one.After), Body: one.Body})
	}
	for _, one := range r.Refused {
		all = append(all, Reply{Process: one.Process, Refused: a.Masks.Text(one.Text)})
	}
	for _, one := range r.Silent {
		all = append(all, Reply{Process: one.Process, Version: one.Version, Silent: "it " + one.Why()})
	}
	return all
}

// sentence is a text of a process as a sentence behind a name.
func sentence(process, text string) string {
	return "Process " + process + ": " + strings.TrimRight(text, ".") + "."
}

// many is a number of processes.
func many(n int64) string { return look.Plural(n, "process", "processes") }
