package sig

import (
	"os"
	"slices"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goworker/goworker/internal/clock"
)

// acts is a Controlled that writes down what is done with it.
type acts []string

func (a *acts) Pause()      { *a = append(*a, "pause") }
func (a *acts) Resume()     { *a = append(*a, "resume") }
func (a *acts) CancelJobs() { *a = append(*a, "cancel") }
func (a *acts) StopNow()    { *a = append(*a, "now") }

// A second signal to stop within a second of the first is the same signal.
func TestSignalsWithinASecond(t *testing.T) {
	t.Parallel()
	type at struct {
		after time.Duration // since the signal before
		s     os.Signal
	}
	for name, tc := range map[string]struct {
		signals []at
		want    []string
	}{
		"one":                      {[]at{{0, syscall.SIGTERM}}, []string{"stop"}},
		"twice at once":            {[]at{{0, syscall.SIGTERM}, {0, syscall.SIGTERM}}, []string{"stop"}},
		"another one at once":      {[]at{{0, syscall.SIGINT}, {999 * time.Millisecond, syscall.SIGTERM}}, []string{"stop"}},
		"a second later":           {[]at{{0, syscall.SIGTERM}, {time.Second, syscall.SIGTERM}}, []string{"stop", "now"}},
		"at once, and again later": {[]at{{0, syscall.SIGTERM}, {time.Millisecond, syscall.SIGTERM}, {time.Second, syscall.SIGQUIT}}, []string{"stop", "now"}},
		"of another kind before":   {[]at{{0, Pause}, {0, Cancel}, {0, syscall.SIGTERM}, {0, Resume}}, []string{"pause", "cancel", "stop", "resume"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var got acts
				r := receiver{on: &got, stop: func() { got = append(got, "stop") }, clock: clock.System}
				for _, s := range tc.signals {
					clock.Sleep(clock.System, s.after)
					r.receive(s.s)
				}
				if !slices.Equal(got, tc.want) {
					t.Errorf("%q, want %q", got, tc.want)
				}
			})
		})
	}
}
