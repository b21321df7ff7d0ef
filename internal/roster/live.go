package roster

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/goworker/goworker/internal/autoscale"
	"github.com/goworker/goworker/internal/control"
	"github.com/goworker/goworker/internal/fleet"
	"github.com/goworker/goworker/internal/part"
	"github.com/goworker/goworker/internal/queues"
)

// Settings are those that a configuration file changes while a daemon runs.
type Settings struct {
	Bounds    autoscale.Bounds // Min is the concurrency; Max 0: it does not change by itself
	Queues    queues.Spec
	Stop      time.Duration // the shutdown timeout; 0: no limit
	Caps      fleet.Caps
	Level     slog.Level
	MaxRSS    int64
	UseNumber bool
}

// Live is what of a run changes with them.
type Live struct {
	Roster    *Roster
	Scale     *autoscale.Scaler
	Lease     *fleet.Lease
	Stops     []*part.Budget
	Common    *control.Common
	MaxRSS    *atomic.Int64
	UseNumber *atomic.Bool
}

// Change changes the setting of one flag, which has another value in s. It waits for Redis where it must. What operators have changed
// meanwhile stays, but for this setting.
func (l Live) Change(ctx context.Context, flag string, s Settings) error {
	l.Roster.Settle(s.Bounds.Min, s.Queues)
	now, _ := l.Scale.Now()
	switch flag {
	case "queues":
		_, err := l.Roster.Set(ctx, s.Queues.String())
		return err
	case "concurrency":
		if s.Bounds.Max > 0 || now.Max > 0 {
			if err := l.Scale.Set(s.Bounds, 0); err != nil || s.Bounds.Max > 0 {
				return err
			}
		}
		_, err := l.Roster.Resize(ctx, s.Bounds.Min)
		return err
	case "scale-age", "scale-up":
		if now.Max > 0 {
			now.Age, now.Fast = s.Bounds.Age, s.Bounds.Fast
			return l.Scale.Set(now, 0)
		}
	case "use-number":
		l.UseNumber.Store(s.UseNumber)
	case "log-level":
		return l.Common.SetLevel(s.Level)
	case "max-rss":
		l.MaxRSS.Store(s.MaxRSS)
	case "shutdown-timeout":
		for _, stop := range l.Stops {
			stop.SetTimeout(s.Stop)
		}
	case "recover-limit", "failed-max-size", "failed-max-age":
		l.Lease.SetCaps(s.Caps)
	}
	return nil
}
