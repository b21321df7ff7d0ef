package jobs

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/goworker/goworker/dashboard/internal/mask"
	"github.com/goworker/goworker/dashboard/internal/site"
	"github.com/goworker/goworker/inspect"
	"github.com/goworker/goworker/internal/payload"
)

const (
	mostArgs  = 64 << 10 // bytes of arguments that JSON has, and that can be edited
	further   = 2 * time.Second
	mostLines = 200
	classAge  = 30 * time.Second
)

func loadJob(ctx context.Context, a *site.Ask) (any, error) {
	within := budget
	if a.Param("after") != "" {
		release, ok := a.Limits.Search(a.User)
		defer release()
		if !ok {
			return nil, busy()
		}
		within = further
	}
	f, err := find(ctx, a, a.Path("id"), mark{queue: a.Param("queue"), place: a.Param("place")}, a.Param("after"), within)
	if err != nil {
		return nil, err
	}
	if f.status != nil && f.status.OfWorkflow || f.none(a) {
		return nil, f.missing(a)
	}
	j := &Job{ID: f.id, Class: f.class(), Queue: f.queue(), Args: site.Args{}}
	j.Blind = f.blind(a)
	known := j.payload(a, f)
	j.place(a, f)
	j.known(f, known)
	if f.next != "" && j.Where.Place == "" && !f.over() {
		j.Search = &Unfinished{Looked: f.seen, Of: f.of, Next: f.next}
		if !a.User.Whole() {
			j.Search.Looked, j.Search.Of = 0, 0
		}
	}
	if err := j.more(ctx, a, f, known); err != nil {
		return nil, err
	}
	now := a.Now()
	if j.Events = happened(j, f, known.Text, now); j.Blind {
		for n := range j.Events {
			j.Events[n].Error = j.Events[n].kind
		}
	}
	if f.status != nil {
		j.Life = lived(j, f.status, now)
	}
	j.links(a)
	j.can(a, f)
	return j, nil
}

// payload reads what the job itself says, and returns what is masked in it.
func (j *Job) payload(a *site.Ask, f *found) *mask.Secrets {
	var raw []byte
	switch {
	case f.entry != nil:
		raw = f.entry.Payload
		e := a.Masks.Entry(*f.entry)
		j.ID, j.Ref, j.Args, j.Known, j.Size = e.ID, e.Ref, e.Args, e.Invalid == nil, len(raw)
		j.Attempt, j.Where.Shard = e.Attempt, e.Shard
		if e.Invalid != nil {
			j.Invalid = e.Invalid.Error()
		}
		if e.Failure != nil {
			fail := *e.Failure
			j.Failure = &Failure{ID: f.entry.Failure.ID, At: fail.FailedAt, Retried: fail.RetriedAt, Text: errorText(fail.Exception, fail.Error), Backtrace: fail.Backtrace, Worker: fail.Worker}
		}
		if id, step, ok := f.entry.Workflow(); ok {
			j.Workflow = &Step{id, step}
		}
		if p, err := payload.Parse(e.Payload); err == nil {
			j.Tries = max(p.Tries(), 1)
			if p.ExpiresAt > 0 {
				j.Expires = site.Time{Time: time.UnixMilli(p.ExpiresAt)}
			}
			j.meta(p.Field("meta"))
		}
	case f.running != nil && !f.running.Cut:
		raw = f.running.Payload
		if p, err := payload.Parse(a.Masks.Payload(raw)); err == nil {
			j.Args, j.Known, j.Size, j.Attempt = p.Args, true, int(f.running.Size), p.Attempt
			j.meta(p.Field("meta"))
		}
	}
	size := 0
	for _, arg := range j.Args {
		size += len(arg)
	}
	if size > mostArgs {
		j.Args, j.ArgsCut, j.Known = site.Args{}, true, false
		text, _ := json.Marshal(a.Masks.Brief(raw, shown))
		j.Args = append(j.Args, text)
	}
	return a.Masks.With(raw)
}

func (j *Job) meta(raw json.RawMessage) {
	var meta map[string]json.RawMessage
	if len(raw) == 0 || json.Unmarshal(raw, &meta) != nil {
		return
	}
	for _, name := range sorted(meta) {
		value := string(meta[name])
		if text := ""; json.Unmarshal(meta[name], &text) == nil {
			value = text
		}
		j.Meta = append(j.Meta, Pair{name, value})
	}
}

// place says where the job lies.
func (j *Job) place(a *site.Ask, f *found) {
	w := &j.Where
	if e := f.entry; e != nil && !(e.Place == inspect.Failed && f.over()) {
		w.Place = string(e.Place)
		switch e.Place {
		case inspect.Queued:
			w.Text, j.State = "waits in its queue", "waiting"
		case inspect.InLane:
			w.Text, w.Held, j.State = "waits in a lane of its queue, because of limits or turns", a.Masks.Entry(*e).Limits, "held"
		case inspect.Delayed:
			w.Text, w.Until, j.State = "delayed, in goworker's schedule", site.Time{Time: e.At}, "delayed"
			if e.Plain {
				w.Text = "delayed, in resque-scheduler's schedule"
			}
			if e.Attempt > 1 {
				j.State = "retrying"
			}
		case inspect.Running:
			w.Text, w.Process, w.Began, j.State = "runs", e.Process, site.Time{Time: e.Began}, "running"
		case inspect.Leased:
			w.Text, w.Until, j.State = "a client has it over HTTP", site.Time{Time: e.Lease}, "leased"
		case inspect.Failed:
			w.Text, j.State = "among the failures", "failed"
			if e.Failure.RetriedAt != "" {
				w.Text = "retried; the record of its failure is kept"
			}
		}
	}
	if r := f.running; r != nil {
		w.Place, w.Text, j.State = string(inspect.Running), "runs", "running"
		w.Process, w.Worker, w.Host, w.Began, w.Limit = r.Process, r.Worker, r.Host, site.Time{Time: r.Began}, site.Span(r.Limit)
		if !r.LeaseEnds.IsZero() {
			w.Place, w.Text, w.Until, j.State = string(inspect.Leased), "a client has it over HTTP", site.Time{Time: r.LeaseEnds}, "leased"
		}
		j.Attempt = max(j.Attempt, r.Attempt)
	}
	if w.Text == "" {
		w.Text = "nowhere: it has ended"
		if !f.over() {
			w.Text = "not found where it should be"
		}
	}
}

// known adds what its result says.
func (j *Job) known(f *found, known *mask.Secrets) {
	s := f.status
	if s == nil {
		if r := f.running; r != nil {
			j.progress(r.Progress, known)
		}
		return
	}
	j.Kept, j.Left, j.Attempt = true, s.ResultLeft, max(j.Attempt, s.Attempt)
	if j.State != "leased" || s.Over() {
		j.State = string(s.State)
	}
	j.Ended = site.Time{Time: s.Ended}
	if s.Over() && s.TTL > 0 && !s.Ended.IsZero() {
		j.Forgets = site.Time{Time: s.Ended.Add(s.TTL)}
	}
	if len(s.Result) > 0 {
		j.Result, _ = cutJSON(known.JSON(s.Result), mostArgs)
	}
	if s.State == inspect.StateRunning && j.Where.Process == "" {
		j.Where.Process, j.Where.Worker = s.Process, s.Worker
	}
	if j.State == "running" && j.Where.Began.IsZero() {
		j.Where.Began = site.Time{Time: s.Began}
	}
	if j.progress(s.Progress, known); j.Progress != nil && j.Blind {
		j.Progress.Note = ""
	}
}

func (j *Job) progress(p *inspect.ProgressInfo, known *mask.Secrets) {
	if p != nil {
		j.Progress = &Progress{p.Done, p.Total, known.Text(p.Note), site.Time{Time: p.At}}
	}
}

// more reads what is kept of the job beside itself. Where Redis refuses a part, that is left out.
func (j *Job) more(ctx context.Context, a *site.Ask, f *found, known *mask.Secrets) error {
	if j.ID != "" {
		lines, err := a.In().JobLogs(ctx, j.ID)
		if err != nil && !errors.Is(err, inspect.ErrNoResult) {
			return err
		}
		for _, l := range lines[max(0, len(lines)-mostLines):] {
			line := logLine(l, known)
			if j.Blind {
				line.Text, line.Attrs = "", nil
			}
			j.Logs = append(j.Logs, line)
		}
		c, err := a.In().Cursor(ctx, j.ID)
		if err != nil {
			return err
		}
		if len(c.Value) > 0 && !j.Blind {
			j.Cursor = brief(known.JSON(c.Value), shown)
		}
		for _, name := range sorted(c.Once) {
			if j.Blind {
				break
			}
			j.Once = append(j.Once, Pair{name, brief(known.JSON(c.Once[name]), shown)})
		}
	}
	if f.entry != nil {
		if name := f.entry.LockName(); name != "" {
			l, err := a.In().Lock(ctx, name)
			switch {
			case err == nil:
				j.Lock = &Lock{Name: name, Hold: l.Hold, Mine: l.ID == j.ID, Holder: l.ID, Since: site.Time{Time: l.Since}, Refused: l.Refused}
				if !a.Sees(l.Queue) {
					j.Lock.Holder = ""
				}
			case !errors.Is(err, inspect.ErrNoLock):
				return err
			}
		}
	}
	limits, err := site.Keep(ctx, a.Fleet, "limits", listed, a.In().Limits)
	if err != nil {
		return err
	}
	for _, l := range limits {
		if l.Name == j.Class || l.Name == "queue/"+j.Queue {
			j.Limits = append(j.Limits, Limit{l.Name, l.Numbers(), l.Most, l.Running, l.Waiting})
		}
	}
	if !a.User.Whole() || j.Class == "" {
		return nil
	}
	h, err := site.Keep(ctx, a.Fleet, "class-hour\x00"+j.Class, classAge, func(ctx context.Context) (inspect.History, error) {
		return a.In().History(ctx, inspect.HistoryQuery{Since: a.Now().Add(-time.Hour), Class: j.Class})
	})
	if err != nil {
		return err
	}
	if c := h.Total().Jobs(); c.Done+c.Failed+c.Retried > 0 {
		j.Like = &Like{Done: c.Done, Failed: c.Failed + c.Retried, Runs: c.Runs.Count(), P50: site.Span(c.Runs.Quantile(.5)), P95: site.Span(c.Runs.Quantile(.95))}
	}
	return nil
}

func logLine(l inspect.LogLine, known *mask.Secrets) LogLine {
	line := LogLine{At: site.Time{Time: l.Time}, Level: l.Level.String(), Text: known.Text(l.Message)}
	if len(l.Attrs) == 0 {
		return line
	}
	all, _ := json.Marshal(l.Attrs)
	var attrs map[string]json.RawMessage
	if json.Unmarshal(known.JSON(all), &attrs) != nil {
		return line
	}
	for _, name := range sorted(attrs) {
		line.Attrs = append(line.Attrs, Pair{name, brief(attrs[name], shown)})
	}
	return line
}

// links are those of the options, with what is known filled in.
func (j *Job) links(a *site.Ask) {
	host := j.Where.Host
	if host == "" {
		host, _, _ = strings.Cut(j.Where.Process, ":")
	}
	values := map[string]string{"{id}": j.ID, "{class}": j.Class, "{queue}": j.Queue, "{process}": j.Where.Process, "{host}": host}
	for _, l := range a.Config.Links {
		to, whole := l.URL, true
		for name, value := range values {
			if strings.Contains(to, name) {
				whole = whole && value != ""
				to = strings.ReplaceAll(to, name, url.QueryEscape(value))
			}
		}
		if whole {
			j.Links = append(j.Links, site.Link{Name: l.Name, URL: to})
		}
	}
}

// can says which buttons the page has.
func (j *Job) can(a *site.Ask, f *found) {
	may := func(action string) bool { return a.May(action, "queue", j.Queue, "class", j.Class, "id", f.id) }
	lies := inspect.Place(j.Where.Place)
	waits := lies == inspect.Delayed || lies == inspect.Queued || lies == inspect.InLane
	cancelled := f.status != nil && f.status.State == inspect.StateCancelled
	j.Can = Can{
		Run: waits && may("job.run"), Edit: (waits || lies == inspect.Failed) && j.Known && may("job.edit-run"), Reschedule: waits && may("job.reschedule"),
		Cancel: (waits || lies == inspect.Running || lies == inspect.Leased) && !cancelled && may("job.cancel"),
		Lift:   cancelled && waits && may("job.lift"),
		Retry:  lies == inspect.Failed && j.Failure != nil && j.Failure.Retried == "" && may("job.retry"),
		Forget: f.status != nil && f.status.Over() && may("job.forget"), Again: f.entry != nil && j.Known && may("job.again"),
		Reveal: (j.Known || j.ArgsCut || j.Blind) && may("job.reveal"),
	}
}

func busy() error {
	return &site.Problem{Status: 429, Title: "Two searches run already", Err: errors.New("you have two searches or operations that run; wait until one has ended")}
}

// sorted are the names of a map in their order.
func sorted(of map[string]json.RawMessage) []string { return slices.Sorted(maps.Keys(of)) }
