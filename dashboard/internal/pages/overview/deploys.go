package overview

import (
	"context"
	"slices"
	"time"

	"github.com/goworker/goworker/dashboard/internal/site"
	"github.com/goworker/goworker/inspect"
)

// keyDeploys is the kept answer of Deploys.
const keyDeploys = "deploys"

// marksOf are the deploys within a span. They are left out where Redis refuses the log of the fleet.
func marksOf(ctx context.Context, a *site.Ask, span time.Duration) (marks []Mark) {
	deploys, err := site.Keep(ctx, a.Fleet, keyDeploys, time.Minute, func(ctx context.Context) ([]inspect.Deploy, error) {
		return a.In().Deploys(ctx, a.Now().Add(-90*24*time.Hour))
	})
	if err != nil {
		return nil
	}
	from := a.Now().Add(-span)
	for _, d := range deploys {
		if d.At.After(from) && d.Version != "" {
			marks = append(marks, Mark{At: site.Time{Time: d.At}, Text: d.Version})
		}
	}
	return marks[max(0, len(marks)-mostMarks):]
}

// mostMarks is how many deploys a plot shows.
const mostMarks = 10

// recordDeploy says in the log of the fleet that a version is deployed now.
func recordDeploy(ctx context.Context, a *site.Ask) (site.Outcome, error) {
	version := a.Value("version")
	if err := a.By().RecordDeploy(ctx, version, a.Value("text")); err != nil {
		return site.Outcome{}, err
	}
	a.Fleet.Forget(keyDeploys)
	return site.Outcome{Said: "Version " + version + " stands in the log as deployed now.", Done: 1}, nil
}

// usualDays is how many days a usual value needs, and usualMost how many it looks at.
const (
	usualDays = 3
	usualMost = 14
)

// usualOf is the middle half of how many jobs were done a second in the same hour of the last days.
func usualOf(ctx context.Context, a *site.Ask) (usual [2]float64) {
	h, err := site.Keep(ctx, a.Fleet, "history of two weeks", 5*time.Minute, func(ctx context.Context) (inspect.History, error) {
		return a.In().History(ctx, inspect.HistoryQuery{Step: time.Hour, Since: a.Now().Add(-usualMost * 24 * time.Hour)})
	})
	if err != nil {
		return usual
	}
	var rates []float64
	for _, row := range h.Rows {
		if row.At.UTC().Hour() == a.Now().UTC().Hour() && !row.Open {
			rates = append(rates, float64(row.Jobs().Done)/time.Hour.Seconds())
		}
	}
	if len(rates) < usualDays {
		return usual
	}
	slices.Sort(rates)
	return [2]float64{rates[len(rates)/4], rates[len(rates)*3/4]}
}
