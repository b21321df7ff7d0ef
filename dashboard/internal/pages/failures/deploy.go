package failures

import (
	"cmp"
	"context"
	"time"

	"github.com/goworker/goworker/dashboard/internal/site"
	"github.com/goworker/goworker/inspect"
)

const (
	// begins is how long after a deploy a group begins that is said to have come with it.
	begins = 10 * time.Minute

	// deploysFor and deploysOf are what the overview asks for too, so both share an answer.
	deploysKey  = "deploys"
	deploysFor  = time.Minute
	deploysBack = 90 * day
)

// deploysOf are the versions that came, the oldest first. Users who see some queues only learn of none. They are left out where Redis refuses the log
// of the fleet.
func deploysOf(ctx context.Context, a *site.Ask) []inspect.Deploy {
	if !a.User.Whole() {
		return nil
	}
	deploys, err := site.Keep(ctx, a.Fleet, deploysKey, deploysFor, func(ctx context.Context) ([]inspect.Deploy, error) {
		return a.In().Deploys(ctx, a.Now().Add(-deploysBack))
	})
	if err != nil {
		return nil
	}
	return deploys
}

// version is how a deploy is called.
func version(d inspect.Deploy) string { return cmp.Or(d.Version, "goworker "+d.Goworker) }

// sinceDeploy is the first version that came within ten minutes before a group's first failure; "": there is none. A failure has whole seconds.
func sinceDeploy(first time.Time, deploys []inspect.Deploy) string {
	for _, d := range deploys {
		if past := first.Sub(d.At); !first.IsZero() && past > -time.Second && past <= begins {
			return version(d)
		}
	}
	return ""
}
