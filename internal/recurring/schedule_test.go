package recurring

import (
	"testing"
	"time"
)

func TestMissed(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	hourly := Recurring{Cron: "0 * * * *", Location: time.UTC}
	each := Recurring{Every: time.Second}
	for _, tt := range []struct {
		name    string
		r       Recurring
		missed  string
		away    time.Duration // since the last tick
		want    int
		wantLst time.Duration // when the last one is, from at
	}{
		{"nothing is due", hourly, MissedOnce, 30 * time.Minute, 0, 0},
		{"on time", hourly, MissedSkip, time.Hour, 1, time.Hour},
		{"late, but not too late", hourly, MissedSkip, time.Hour + 50*time.Second, 1, time.Hour},
		{"too late", hourly, MissedSkip, time.Hour + 2*time.Minute, 0, time.Hour},
		{"too late", hourly, MissedOnce, time.Hour + 2*time.Minute, 1, time.Hour},
		{"too late", hourly, MissedAll, time.Hour + 2*time.Minute, 1, time.Hour},
		{"many", hourly, MissedSkip, 72*time.Hour + 2*time.Minute, 0, 72 * time.Hour},
		{"many", hourly, MissedOnce, 72*time.Hour + 2*time.Minute, 1, 72 * time.Hour},
		{"many", hourly, MissedAll, 72*time.Hour + 2*time.Minute, 72, 72 * time.Hour},
		{"many and one on time", hourly, MissedOnce, 72 * time.Hour, 1, 72 * time.Hour},
		{"a few within the grace", each, MissedSkip, 10 * time.Second, 10, 10 * time.Second},
		{"the grace", each, MissedSkip, time.Hour, 60, time.Hour},
		{"the grace", each, MissedOnce, time.Hour, 60, time.Hour},
		{"the bound", each, MissedAll, 10 * 365 * 24 * time.Hour, MaxMissed, 10 * 365 * 24 * time.Hour},
		{"a year", Recurring{Cron: "* * * * * *", Location: time.UTC}, MissedAll, 365 * 24 * time.Hour, MaxMissed, 365 * 24 * time.Hour},
	} {
		r := tt.r
		r.Queue, r.Missed = "q", tt.missed
		d, err := Check("n", r)
		if err != nil {
			t.Fatal(err)
		}
		fire, last := d.Due(at, at.Add(tt.away))
		if len(fire) != tt.want {
			t.Errorf("%s, %s: %d ticks are fired, want %d", tt.name, tt.missed, len(fire), tt.want)
		}
		if want := at.Add(tt.wantLst); tt.wantLst > 0 && !last.Equal(want) || tt.wantLst == 0 && !last.IsZero() {
			t.Errorf("%s, %s: done with up to %v, want %v", tt.name, tt.missed, last, want)
		}
	}
}
