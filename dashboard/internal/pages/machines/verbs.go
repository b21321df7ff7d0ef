package machines

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/control"
	"github.com/goworker/goworker/dashboard/internal/guard"
	"github.com/goworker/goworker/dashboard/internal/look"
	"github.com/goworker/goworker/dashboard/internal/site"
	"github.com/goworker/goworker/internal/pattern"
)

// verb is a command to processes as an action.
type verb struct {
	name     string // of the action, behind process.
	role     guard.Role
	several  bool // a selection may be told so
	question bool // it changes nothing, so the audit has no line of it

	call func(a *site.Ask) (order, error)
	said func(body json.RawMessage) string // what a process does that has answered
}

// order is what is sent.
type order struct {
	verb    string
	args    any
	timeout time.Duration // 0: control.DefaultTimeout
}

var verbs = []*verb{
	{name: "pause", role: guard.Operator, several: true, call: plainly(control.Pause), said: fixed("takes no more jobs; those that run go on")},
	{name: "resume", role: guard.Operator, several: true, call: plainly(control.Resume), said: resumed},
	{name: "log", role: guard.Operator, call: logCall, said: logSaid},
	{name: "stacks", role: guard.Operator, question: true, call: plainly(control.Stacks), said: stacksSaid},
	{name: "shutdown", role: guard.Admin, several: true, call: shutdownCall, said: fixed("stops")},
	{name: "concurrency", role: guard.Admin, call: concurrencyCall, said: concurrencySaid},
	{name: "autoscale", role: guard.Admin, call: autoscaleCall, said: autoscaleSaid},
	{name: "queues", role: guard.Admin, call: queuesCall, said: queuesSaid},
	{name: "profile", role: guard.Admin, call: profileCall, said: fixed("has taken the profile")},
	{name: "verb", role: guard.Admin, call: verbCall, said: fixed("has answered")},
}

func plainly(name string) func(*site.Ask) (order, error) {
	return func(*site.Ask) (order, error) { return order{verb: name}, nil }
}

func fixed(text string) func(json.RawMessage) string {
	return func(json.RawMessage) string { return text }
}

// lasts adds how long a change lasts to its arguments.
func lasts(a *site.Ask, args map[string]any) (map[string]any, error) {
	d, err := a.Duration("for")
	if d > 0 {
		args["for"] = d.Seconds()
	}
	return args, err
}

// until says how long a change lasts.
func until(s float64, otherwise string) string {
	if s <= 0 {
		return otherwise
	}
	return " for " + look.Dur(seconds(s).D())
}

func logCall(a *site.Ask) (order, error) {
	args, err := lasts(a, map[string]any{"level": strings.ToLower(a.Value("level"))})
	return order{verb: control.Log, args: args}, err
}

func logSaid(body json.RawMessage) string {
	var l control.LevelAnswer
	if json.Unmarshal(body, &l) != nil {
		return "logs at another level"
	}
	return "logs at the level " + l.Level + until(l.For, "") + "; before it was " + l.Was
}

func stacksSaid(body json.RawMessage) string {
	var s control.StacksAnswer
	_ = json.Unmarshal(body, &s) // the answer below says what it is
	return "shows where its goroutines are: " + look.Whole(s.Goroutines)
}

func resumed(body json.RawMessage) string {
	var q control.QueuesAnswer
	if json.Unmarshal(body, &q) == nil && !q.Ready && len(q.Reasons) > 0 {
		return "no longer pauses by command, and still takes no jobs: " + strings.Join(q.Reasons, "; ")
	}
	return "takes jobs again"
}

func shutdownCall(a *site.Ask) (order, error) {
	if a.Flag("now") {
		return order{verb: control.Shutdown, args: map[string]any{"now": true}}, nil
	}
	return order{verb: control.Shutdown}, nil
}

var wanted = pattern.New(`^[+-]?[0-9]{1,5}$`)

func concurrencyCall(a *site.Ask) (order, error) {
	workers := strings.TrimSpace(a.Value("workers"))
	if !wanted.MatchString(workers) {
		return order{}, site.Bad("workers %q is no number of workers; write it as 12, +4 or -4", workers)
	}
	args, err := lasts(a, map[string]any{"workers": workers})
	return order{verb: control.Concurrency, args: args}, err
}

func concurrencySaid(body json.RawMessage) string {
	var r struct {
		goworker.Resized
		For float64 `json:"for"`
	}
	if json.Unmarshal(body, &r) != nil {
		return "has another number of workers"
	}
	text := fmt.Sprintf("runs %s at a time in place of %d%s", look.Plural(r.To, "job", "jobs"), r.From, until(r.For, ", until it ends"))
	if len(r.Busy) > 0 {
		text += "; " + look.Plural(len(r.Busy), "worker ends with its job", "workers end with their jobs")
	}
	return text
}

func autoscaleCall(a *site.Ask) (order, error) {
	bounds := strings.TrimSpace(a.Value("bounds"))
	if bounds == "" {
		if low, high := strings.TrimSpace(a.Value("min")), strings.TrimSpace(a.Value("max")); low != "" && high != "" {
			bounds = low + ".." + high
		}
	}
	if bounds == "" {
		return order{}, site.Bad("the bounds are missing; write them as 5..50, or off")
	}
	args, err := lasts(a, map[string]any{"bounds": bounds})
	return order{verb: control.Autoscale, args: args}, err
}

func autoscaleSaid(body json.RawMessage) string {
	var r control.RescaledAnswer
	if json.Unmarshal(body, &r) != nil {
		return "has other bounds"
	}
	if r.To == "off" {
		return "no longer changes its number of workers by itself, and keeps " + strconv.Itoa(r.Workers)
	}
	return "changes its number of workers by itself between " + strings.Replace(r.To, "..", " and ", 1) + until(r.For, ", until it ends") + "; before it was " + r.From
}

func queuesCall(a *site.Ask) (order, error) {
	change := a.Value("change")
	if !slices.Contains([]string{"set", "add", "remove"}, change) {
		return order{}, site.Bad("change %q is none; give set, add or remove", change)
	}
	var names []string
	for _, text := range a.Values("queues") {
		for name := range strings.FieldsFuncSeq(text, func(r rune) bool { return r == ',' || r == '\n' || r == '\r' }) {
			if name = strings.TrimSpace(name); name != "" {
				names = append(names, name)
			}
		}
	}
	if len(names) == 0 {
		return order{}, site.Bad("no queue is named")
	}
	return order{verb: control.WorkQueues, args: map[string]any{change: names}}, nil
}

func queuesSaid(body json.RawMessage) string {
	var r goworker.Relisted
	if json.Unmarshal(body, &r) != nil {
		return "works other queues"
	}
	return "works " + r.To + " in place of " + r.From + ", until it ends"
}

// longest is the longest profile: a browser and its proxies wait no longer.
const longest = 20 * time.Second

func profileCall(a *site.Ask) (order, error) {
	kind := a.Value("kind")
	args, lasting := map[string]any{"kind": kind}, time.Duration(0)
	switch kind {
	case "cpu", "block", "mutex":
		d, err := a.Duration("for")
		if err != nil {
			return order{}, err
		}
		if lasting = 10 * time.Second; d > 0 {
			lasting = d
		}
		if lasting > longest {
			return order{}, site.Bad("here a profile takes %s at most; goworker control profile takes longer ones", longest)
		}
		args["for"] = lasting.Seconds()
	case "heap", "allocs", "goroutine":
	default:
		return order{}, site.Bad("kind %q is none; there are cpu, block, mutex, heap, allocs and goroutine", kind)
	}
	return order{verb: control.Profile, args: args, timeout: lasting + control.DefaultTimeout}, nil
}

func verbCall(a *site.Ask) (order, error) {
	name, text := strings.TrimSpace(a.Value("verb")), strings.TrimSpace(a.Value("args"))
	switch {
	case name == "":
		return order{}, site.Bad("the verb is missing")
	case slices.Contains(builtIn, name):
		return order{}, site.Bad("%s is a verb of every process; use the action or the question of that name", name)
	case text == "":
		return order{verb: name}, nil
	case !json.Valid([]byte(text)):
		return order{}, site.Bad("the arguments of %s are no JSON", name)
	}
	return order{verb: name, args: json.RawMessage(text)}, nil
}

// send sends a command to processes, and waits for their answers.
func (v *verb) send(ctx context.Context, a *site.Ask, ids []string) (control.Result, order, error) {
	o, err := v.call(a)
	if err != nil {
		return control.Result{}, o, err
	}
	options := a.AsUser()
	for _, id := range ids {
		options = append(options, control.To(exact(id)))
	}
	if o.args != nil {
		options = append(options, control.Args(o.args))
	}
	if o.timeout > 0 {
		options = append(options, control.Timeout(o.timeout))
	}
	send := a.Control().Do
	if v.question {
		send = a.Control().Inspect
	}
	r, err := control.Gather(send(ctx, o.verb, options...))
	if errors.Is(err, control.ErrNobody) || errors.Is(err, control.ErrNoMatch) {
		return r, o, nil // they have left
	}
	for _, id := range ids {
		for _, q := range questions {
			a.Fleet.Forget(asks(id, q.Verb))
		}
	}
	return r, o, problem(err)
}

// problem gives the error of a call its status.
func problem(err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return &site.Problem{Status: http.StatusConflict, Title: "The key cannot be read", Err: err}
	}
	return err
}

// replies are the replies of a call, with what each does.
func (v *verb) replies(a *site.Ask, r control.Result) []Reply {
	all := repliesOf(a, r)
	for n := range r.Replies {
		all[n].Said = v.said(r.Replies[n].Body)
		if v.name == "verb" { // what the program says may have anything in it
			all[n].Body = a.Masks.JSON(all[n].Body)
		}
		if v.name == "stacks" {
			_ = json.Unmarshal(r.Replies[n].Body, &all[n].stacks) // nil: the answer is shown as it came
		}
	}
	return all
}

// one tells one process.
func (v *verb) one(ctx context.Context, a *site.Ask) (out site.Outcome, err error) {
	id := a.Path("process")
	if _, err := processNow(ctx, a, id); err != nil {
		return out, err
	}
	r, o, err := v.send(ctx, a, []string{id})
	if err != nil {
		return out, err
	}
	if v.name == "profile" && len(r.Replies) == 1 {
		return profiled(id, r.Replies[0])
	}
	replies := v.replies(a, r)
	if len(replies) == 0 {
		return out, site.Missing("process %s has left the fleet", id)
	}
	answer := &Answer{Verb: o.verb, At: site.Time{Time: a.Now()}, Replies: replies}
	out.Data = answer
	if one := replies[0]; one.Why() == "" {
		out.Said, out.Done = "Process "+id+" "+one.Said+".", 1
	} else {
		out.Said = fmt.Sprintf("%s was not done.", o.verb)
		out.Refused = []string{sentence(id, one.Why())}
		if out.Status = http.StatusConflict; one.Silent != "" {
			out.Status = http.StatusGatewayTimeout
		}
	}
	if back, _, _ := strings.Cut(a.Value("back"), "?"); back != "/processes" || v.name == "stacks" {
		to := a.URL("processes", id, "?answer", answersOf(a.Fleet).put(a.User.Name, answer))
		out.To = "/" + strings.TrimPrefix(to, a.URL())
	}
	return out, nil
}

// profiled is a profile as a file.
func profiled(id string, r control.Reply) (out site.Outcome, err error) {
	var p control.ProfileAnswer
	if err := r.Decode(&p); err != nil {
		return out, err
	}
	name := strings.Map(func(c rune) rune {
		if c < 0x80 && (c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '.') {
			return c
		}
		return '-'
	}, p.Kind+"-"+id)
	return site.Outcome{
		Said: fmt.Sprintf("Process %s has taken a profile of %s.", id, p.Kind), Done: 1, Data: p,
		File: &site.File{Name: name + ".pprof", Type: "application/octet-stream", Body: p.Profile},
	}, nil
}

// selected tells several processes.
func (v *verb) selected(ctx context.Context, a *site.Ask) (out site.Outcome, err error) {
	ids, err := chosen(a)
	if err != nil {
		return out, err
	}
	for _, id := range ids {
		if err := a.Permit("process."+v.name, guard.Target{Process: id}); err != nil {
			return out, err
		}
	}
	r, o, err := v.send(ctx, a, ids)
	if err != nil {
		return out, err
	}
	replies := v.replies(a, r)
	out.Data = &Answer{Verb: o.verb, At: site.Time{Time: a.Now()}, Replies: replies}
	out.Done, out.Missing = int64(len(r.Replies)), int64(len(ids)-len(replies))
	for _, one := range replies {
		if why := one.Why(); why != "" {
			out.Refused = append(out.Refused, sentence(one.Process, why))
		}
	}
	out.Said = fmt.Sprintf("%s: %d of %s did it.", o.verb, out.Done, many(int64(len(ids))))
	if out.Missing > 0 {
		out.Said += " " + many(out.Missing) + " left the fleet before."
	}
	return out, nil
}
