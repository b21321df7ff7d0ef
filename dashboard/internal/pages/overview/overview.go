// Package overview is the first page: what needs the operator, how the fleet is, and what it has done lately.
package overview

import (
	"cmp"
	"context"
	"embed"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/goworker/goworker/dashboard/internal/guard"
	"github.com/goworker/goworker/dashboard/internal/look"
	"github.com/goworker/goworker/dashboard/internal/pages/queues"
	"github.com/goworker/goworker/dashboard/internal/site"
	"github.com/goworker/goworker/inspect"
)

//go:embed *.html
var files embed.FS

// short is how many rows the lists of the overview have.
const short = 6

// Pages are the overview.
func Pages() []*site.Page {
	return []*site.Page{
		{Path: "/", Tab: "overview", Title: "Overview", Load: load, Data: (*Overview)(nil), Params: []string{"span"}, Template: "overview.html notice.html", Files: files},
		{Path: "/notices", Tab: "overview", Title: "What needs you", Load: loadNotices, Data: (*Notices)(nil), Template: "notices.html notice.html", Files: files},
		{Path: "/history", Tab: "overview", Title: "History", Whole: true, Load: loadHistory, Data: (*History)(nil), Params: []string{"from", "step", "class", "queue"}, Template: "history.html", Files: files},
	}
}

// Actions are what is done with notices.
func Actions() []*site.Action {
	return []*site.Action{
		{Name: "notice.hide", Path: "/notices/{id}/hide", Role: guard.Operator, Whole: true, Do: hide},
		{Name: "deploy.record", Path: "/deploys", Role: guard.Operator, Whole: true, Do: recordDeploy},
		{Name: "notice.show", Path: "/notices/{id}/show", Role: guard.Operator, Whole: true, Do: show},
	}
}

// Overview is the page /.
type Overview struct {
	Notices []Notice     `json:"notices"`
	Hidden  int          `json:"hidden_notices"`
	Steps   []Step       `json:"first_steps,omitempty"`
	Tiles   Tiles        `json:"tiles"`
	Span    string       `json:"span"`
	Past    *Past        `json:"past"`
	Queues  []queues.Row `json:"queues"`
	All     int          `json:"queues_in_all"`
	Whole   bool         `json:"-"`
	More
}

// Tiles are the numbers of the fleet now.
type Tiles struct {
	Failing   *float64       `json:"failing_share"` // of the jobs that ended lately; null: none did, or it is not known
	FailRate  site.PerSecond `json:"failed_rate"`
	Longest   site.Wait      `json:"longest_wait"`
	LongestIn string         `json:"longest_wait_queue"`
	Waiting   site.Num       `json:"waiting"`
	Growth    float64        `json:"growth"` // jobs a second that wait more
	Done      site.PerSecond `json:"done_rate"`
	Running   site.Num       `json:"running"`
	Slots     site.Num       `json:"slots"`
	Stuck     int            `json:"stuck"`
	Delayed   site.Num       `json:"delayed"`
	Late      site.Wait      `json:"late"`
	Retrying  site.Num       `json:"retrying"`
	Failures  site.Num       `json:"failures"`
	Usual     [2]float64     `json:"usual_done_rate"` // the middle half of the same hour of days before; both 0: not known
}

// FailingText is the share of jobs that fail.
func (t Tiles) FailingText() string {
	if t.Failing == nil {
		return ""
	}
	return fmt.Sprintf("%.1f", *t.Failing)
}

// Step is a step of a first run.
type Step struct {
	Done bool   `json:"done"`
	Text string `json:"text"`
	Copy string `json:"line,omitempty"`
}

func load(ctx context.Context, a *site.Ask) (any, error) {
	o := &Overview{Span: a.Choice("span", "1h", "5m", "24h", "7d", "90d"), Whole: a.User.Whole()}
	o.Tiles = tilesOf(a)
	trail := a.Fleet.Trail()
	all := slices.Clone(a.Queues())
	slices.SortStableFunc(all, func(x, y inspect.SampleQueue) int {
		return cmp.Or(cmp.Compare(y.Oldest.For, x.Oldest.For), cmp.Compare(y.Waiting.N, x.Waiting.N))
	})
	o.All = len(all)
	for _, q := range all {
		if len(o.Queues) == short {
			break
		}
		if q.Waiting.N > 0 || len(all) <= short {
			o.Queues = append(o.Queues, queues.RowOf(a, q, trail))
		}
	}
	if o.Whole {
		if o.Steps = firstSteps(a); o.Steps != nil {
			return o, nil
		}
		past, err := pastOf(ctx, a, o.Span)
		if err != nil {
			return nil, err
		}
		o.Past = past
		o.Tiles.Usual = past.usual
		if o.Notices, o.Hidden, err = noticesOf(ctx, a); err != nil {
			return nil, err
		}
	}
	o.More = moreOf(ctx, a)
	return o, nil
}

func tilesOf(a *site.Ask) (t Tiles) {
	b := a.Base
	t.Waiting = site.Num{Count: a.Waiting()}
	for _, q := range a.Queues() {
		if q.Waiting.N > 0 && (q.Oldest.For > t.Longest.For || !t.Longest.Known()) && q.Oldest.Known() {
			t.Longest, t.LongestIn = site.Wait{Age: q.Oldest}, q.Name
		}
		t.Growth += b.Rates.Queues[q.Name].Growth.PerSecond
	}
	if !a.User.Whole() {
		return t
	}
	t.FailRate = site.PerSecond{Rate: b.Rates.Failed}
	done := b.Rates.Processed
	if done.Known() && b.Rates.Failed.Known() {
		done.PerSecond = max(0, done.PerSecond-b.Rates.Failed.PerSecond)
		if all := done.PerSecond + b.Rates.Failed.PerSecond; all > 0 {
			share := 100 * b.Rates.Failed.PerSecond / all
			t.Failing = &share
		}
	}
	t.Done = site.PerSecond{Rate: done}
	t.Running, t.Slots = site.Num{Count: b.Workers.Busy}, site.Num{Count: b.Workers.All}
	t.Stuck = len(b.Stuck)
	t.Delayed, t.Late, t.Retrying, t.Failures = site.Num{Count: b.Delayed}, site.Wait{Age: b.Late}, site.Num{Count: b.Retrying}, site.Num{Count: b.Failures}
	return t
}

// firstSteps are what to do on a Redis that nothing has used; nil once the first job has run.
func firstSteps(a *site.Ask) []Step {
	b := a.Base
	if b.Processed.N > 0 || b.Waiting.N > 0 || b.Failures.N > 0 || b.Delayed.N > 0 {
		return nil
	}
	ns := b.Namespace
	worker := b.Workers.All.N > 0 || len(b.Processes) > 0
	return []Step{
		{Done: true, Text: "Redis answers."},
		{Done: worker, Text: "A worker is there.", Copy: "QUEUE=* bundle exec rake resque:work   # or a Go program that calls goworker.Work()"},
		{Done: false, Text: "The first job runs.", Copy: "redis-cli SADD " + ns + "queues mail; redis-cli RPUSH " + ns + `queue:mail '{"class":"SendMail","args":["ann"]}'`},
	}
}

// Past is what the fleet did within a span of time.
type Past struct {
	Since   site.Time   `json:"since"`
	Step    site.Span   `json:"step_ms"`
	Done    site.Values `json:"done_rate"` // a second
	Failed  site.Values `json:"failed"`    // in a step
	Waiting site.Values `json:"waiting"`   // the most, in a step
	Seen    bool        `json:"seen_only"` // nobody records the history: these are what this dashboard saw
	Marks   []Mark      `json:"deploys"`
	usual   [2]float64
}

// Mark is a deploy.
type Mark struct {
	At   site.Time `json:"at"`
	Text string    `json:"version"`
}

// spans are how far the plots reach back, in steps of the history.
var spans = map[string]struct{ span, step time.Duration }{
	"5m": {5 * time.Minute, time.Minute}, "1h": {time.Hour, time.Minute}, "24h": {24 * time.Hour, 10 * time.Minute},
	"7d": {7 * 24 * time.Hour, time.Hour}, "90d": {90 * 24 * time.Hour, 24 * time.Hour},
}

// pastOf reads the history, or returns what the dashboard saw itself.
func pastOf(ctx context.Context, a *site.Ask, span string) (*Past, error) {
	s := spans[span]
	h, err := site.Keep(ctx, a.Fleet, "history "+span, min(s.step/2, 30*time.Second), func(ctx context.Context) (inspect.History, error) {
		return a.In().History(ctx, inspect.HistoryQuery{Since: a.Now().Add(-s.span), Step: s.step})
	})
	if err != nil && len(h.Rows) == 0 {
		h = inspect.History{} // an older Redis user may not read it: what was seen is shown
	}
	p := &Past{Step: site.Span(s.step), Marks: marksOf(ctx, a, s.span)}
	for _, row := range h.Rows {
		if row.Jobs().Processed > 0 || row.Fleet.Present > 0 {
			p.usual = usualOf(ctx, a)
			return p.recorded(a, h, s.span, s.step), nil
		}
	}
	return p.seen(a), nil
}

func (p *Past) recorded(a *site.Ask, h inspect.History, span, step time.Duration) *Past {
	from := a.Now().Add(-span).Truncate(step)
	n := int(span/step) + 1
	p.Since = site.Time{Time: from}
	p.Done, p.Failed, p.Waiting = make(site.Values, n), make(site.Values, n), make(site.Values, n)
	for _, row := range h.Rows {
		at := int(row.At.Sub(from) / step)
		if at < 0 || at >= n {
			continue
		}
		jobs := row.Jobs()
		over := step
		if row.Open {
			over = max(10*time.Second, min(step, a.Now().Sub(row.At)))
		}
		p.Done[at] += float64(jobs.Done) / over.Seconds()
		p.Failed[at] += float64(jobs.Failed)
		p.Waiting[at] = max(p.Waiting[at], float64(row.Fleet.Waiting.Most))
	}
	return p
}

// seen is what the dashboard's own looks saw.
func (p *Past) seen(a *site.Ask) *Past {
	trail := a.Fleet.Trail()
	p.Seen = true
	p.Step = site.Span(time.Minute)
	for n, at := range trail {
		if n == 0 {
			p.Since = site.Time{Time: at.At}
		}
		done, failed := math.NaN(), math.NaN()
		if n > 0 {
			before := trail[n-1]
			if over := at.At.Sub(before.At).Seconds(); over > 0 {
				failed = float64(at.Failed - before.Failed)
				done = max(0, float64(at.Processed-before.Processed)-failed) / over
			}
		}
		if n > 0 {
			p.Done, p.Failed, p.Waiting = append(p.Done, done), append(p.Failed, failed), append(p.Waiting, float64(at.Waiting))
		}
	}
	return p
}

// Plot is the past as a picture.
func (p *Past) Plot(t look.Times) look.Series {
	s := look.Series{
		Start: p.Since.In(t.Loc), Step: p.Step.D(), Values: p.Done, Below: p.Failed, Name: "done", Unit: "/s", BelowName: "failed", BelowUnit: "",
		Label: "Jobs done a second, and jobs failed beneath",
	}
	for _, m := range p.Marks {
		s.Marks = append(s.Marks, look.Mark{At: m.At.Time, Text: m.Text + " deployed"})
	}
	return s
}
