package expiry_test

import (
	"testing"
	"time"

	"github.com/goworker/goworker/internal/clock"
	"github.com/goworker/goworker/internal/feature/expiry"
	"github.com/goworker/goworker/internal/outcome"
	"github.com/goworker/goworker/internal/part"
	"github.com/goworker/goworker/internal/resque"
)

type stopped struct{ time.Time }

func (s stopped) Now() time.Time { return s.Time }

func TestEnqueue(t *testing.T) {
	t.Parallel()
	now := time.UnixMilli(1_800_000_000_000)
	s := outcome.New(outcome.Deps{Base: part.Base{Store: resque.New(""), Clock: clock.System}, Time: stopped{now}}, nil, expiry.New)
	hour := &expiry.Limit{After: time.Hour}
	for name, tt := range map[string]struct {
		of, ofClass *expiry.Limit
		at          time.Time
		want        time.Duration // after now; 0: never
	}{
		"none":                  {},
		"of the job":            {of: hour, want: time.Hour},
		"of the class":          {ofClass: hour, want: time.Hour},
		"the job's goes before": {of: &expiry.Limit{After: time.Minute}, ofClass: hour, want: time.Minute},
		"none where one is":     {of: &expiry.Limit{}, ofClass: hour},
		"a time":                {of: &expiry.Limit{At: now.Add(5)}, want: time.Nanosecond * 5},
		"from when it is due":   {of: hour, at: now.Add(time.Minute), want: time.Hour + time.Minute},
		"a time, and due later": {of: &expiry.Limit{At: now.Add(time.Second)}, at: now.Add(time.Minute), want: time.Second},
	} {
		p := &outcome.Push{Queue: "q", Name: "C", At: tt.at, Class: &outcome.Class{Name: "C"}}
		if tt.of != nil {
			p.Options = new(outcome.Options)
			outcome.Put(p.Options, *tt.of)
		}
		if tt.ofClass != nil {
			outcome.Put(p.Class, *tt.ofClass)
		}
		if err := s.Enqueue(p); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		want := int64(0)
		if tt.want > 0 {
			want = now.Add(tt.want).UnixMilli()
		}
		if p.ExpiresAt != want || p.Plain() != (want == 0) {
			t.Errorf("%s: expires at %d, want %d", name, p.ExpiresAt, want)
		}
	}
}
