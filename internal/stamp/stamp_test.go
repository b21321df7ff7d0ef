package stamp

import (
	"strings"
	"testing"
	"time"

	"github.com/goworker/goworker/internal/httpjob"
	"github.com/goworker/goworker/internal/payload"
)

func TestEnqueuedAt(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	stamped, err := payload.SetFields([]byte(`{"class":"A","args":[1]}`), Of(at))
	if err != nil {
		t.Fatal(err)
	}
	rails := func(fields string) string {
		return `{"class":"ActiveJob::QueueAdapters::ResqueAdapter::JobWrapper","args":[{"job_class":"Mail","arguments":[]` + fields + `}]}`
	}
	for name, tt := range map[string]struct {
		payload string
		want    time.Time // zero: it does not say
	}{
		"plain":                     {`{"class":"A","args":[1]}`, time.Time{}},
		"stamped":                   {string(stamped), at},
		"stamped, run again":        {`{"class":"A","args":[],"queued_at":1795262400000,"attempt":2}`, time.Time{}},
		"stamped with a text":       {`{"class":"A","args":[],"queued_at":"noon"}`, time.Time{}},
		"stamped before Resque was": {`{"class":"A","args":[],"queued_at":7}`, time.Time{}},
		"php-resque":                {`{"class":"A","args":[{}],"id":"ab","prefix":"","queue_time":1795262400.25}`, at.Add(250 * time.Millisecond)},
		"no time of PHP":            {`{"class":"A","args":[],"queue_time":1e300}`, time.Time{}},
		"HTTP":                      {`{"class":"A","args":[],"id":"` + httpjob.NewID(at.UnixMilli(), 0) + `"}`, at},
		"HTTP, delayed":             {`{"class":"A","args":[],"id":"` + httpjob.NewID(at.UnixMilli(), 90) + `"}`, at.Add(90 * time.Second)},
		"an id of a program":        {`{"class":"A","args":[],"id":"order-7"}`, time.Time{}},
		"Rails":                     {rails(`,"enqueued_at":"2026-11-21T12:00:00.000000000Z"`), at},
		"Rails, scheduled":          {rails(`,"enqueued_at":"2026-11-21T11:00:00Z","scheduled_at":"2026-11-21T12:00:00.000000000Z"`), at},
		"Rails, of old":             {rails(``), time.Time{}},
		"Rails, large":              {rails(`,"enqueued_at":"2026-11-21T12:00:00Z","locale":"` + strings.Repeat("x", largeArgument) + `"`), time.Time{}},
		"Rails, another form":       {`{"class":"ActiveJob::QueueAdapters::ResqueAdapter::JobWrapper","args":["x"]}`, time.Time{}},
		"another class's argument":  {`{"class":"A","args":[{"enqueued_at":"2026-11-21T12:00:00Z"}]}`, time.Time{}},
	} {
		p, err := payload.Parse([]byte(tt.payload))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got, ok := EnqueuedAt(&p); ok != !tt.want.IsZero() || ok && !got.Equal(tt.want) {
			t.Errorf("%s: %v %v", name, got, ok)
		}
	}
}
