package leased

import (
	"testing"
	"time"
)

func TestJumps(t *testing.T) {
	t.Parallel()
	const hour = time.Hour
	for name, tt := range map[string]struct {
		redis, local, wall time.Duration // how far the clocks went between two comparisons; wall is the local one's wall clock
		travel             time.Duration // how long the second answer was on its way
		want               time.Duration
	}{
		"together":                      {redis: hour, local: hour, wall: hour},
		"Redis a little ahead":          {redis: hour + 2*time.Second, local: hour, wall: hour},
		"Redis jumps":                   {redis: hour + time.Minute, local: time.Minute, wall: time.Minute, want: hour},
		"Redis goes back":               {redis: -hour, local: time.Minute, wall: time.Minute},
		"this machine slept":            {redis: hour, local: time.Second, wall: hour},
		"it slept, and Redis jumps":     {redis: 3 * hour, local: time.Second, wall: hour, want: 2 * hour},
		"its wall clock was set":        {redis: time.Minute, local: time.Minute, wall: hour},
		"the answer was long":           {redis: time.Minute, local: time.Minute, wall: time.Minute, travel: hour},
		"its wall clock was set back":   {redis: time.Minute, local: time.Minute, wall: -hour},
		"Redis jumps, and it goes back": {redis: hour + time.Minute, local: time.Minute, wall: -hour, want: hour},
	} {
		var j jumps
		start := time.Unix(1_800_000_000, 0)
		if got := j.passed(start, clocks{}, clocks{}); got != 0 {
			t.Errorf("%s: the first comparison says %v", name, got)
		}
		asked := clocks{tt.local, tt.wall}
		now := clocks{tt.local + tt.travel, tt.wall + tt.travel}
		if got := j.passed(start.Add(tt.redis), asked, now); got != tt.want {
			t.Errorf("%s: %v, want %v", name, got, tt.want)
		}
	}
}
