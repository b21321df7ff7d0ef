package daemon

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/goworker/goworker"
	"github.com/goworker/goworker/internal/daemontest"
)

// stopsInTime stops the daemon and fails the test if that takes longer than StopTime says.
func stopsInTime(b *daemontest.Bundle) (*goworker.ShutdownError, error) {
	b.T.Helper()
	began := time.Now()
	err := b.Stop()
	took, most := time.Since(began), goworker.StopTime(b.Settings)
	b.T.Logf("the stop took %v and returned: %v", took, err)
	if took > most+daemontest.Late {
		b.T.Errorf("the stop took %v, more than StopTime, which is %v\n%s", took, most, b.Log.Text())
	}
	var left *goworker.ShutdownError
	errors.As(err, &left)
	return left, err
}

// A stop is over in its time, whatever does not end, and says what it left where.
func TestStopTime(t *testing.T) {
	t.Parallel()
	quick := func(s *goworker.WorkerSettings) { s.ShutdownTimeout = 300 * time.Millisecond }
	deaf := func(b *daemontest.Bundle) func(context.Context) error {
		return func(context.Context) error { <-b.Gate; return nil }
	}
	above := []string{"poller"}
	for name, tc := range map[string]struct {
		set    func(*daemontest.Bundle) // before the start
		before func(*daemontest.Bundle) // before the stop
		jobs   []string                 // that run at the stop
		want   goworker.ShutdownError
		says   []string // in the error; R is the key of the record
		logs   string
		never  string // in the log
	}{
		"a deaf job": {
			jobs: []string{daemontest.Job("Deaf", "d"), daemontest.Job("Hold", "h")},
			want: goworker.ShutdownError{Unfinished: []string{"Deaf of queue work"}},
			says: []string{"1 job did not stop in time and went back to the queue: Deaf of queue work"},
			logs: "cancelling the jobs that still run jobs=2",
		},
		"a deaf job, and Redis stands still": {
			before: func(b *daemontest.Bundle) { b.Redis.Pause() },
			jobs:   []string{daemontest.Job("Deaf", "d"), daemontest.Job("Hold", "h")},
			want: goworker.ShutdownError{
				Unfinished: []string{"Deaf of queue work"}, Undelivered: 2,
				Remaining: []string{"Deaf of queue work", "Hold of queue work"},
			},
			says: []string{
				"1 job did not stop in time: Deaf of queue work",
				"Redis confirmed no outcome of 2 jobs, which stay in R and run again when another process finds this one dead, in about 8s: Deaf of queue work, Hold of queue work",
			},
		},
		"an outcome that Redis refuses": {
			before: func(b *daemontest.Bundle) {
				b.Redis.Do(b.T, "SET", "resque:failed", "of the wrong type")
				b.Push(daemontest.Job("Fail", "f"))
				b.Eventually("Redis refuses the failure", func() bool { return b.Log.Count("Redis refuses a key") == 1 })
			},
			want:  goworker.ShutdownError{Undelivered: 1, Remaining: []string{"Fail of queue work"}},
			says:  []string{"Redis confirmed no outcome of 1 job, which stays in R and runs again when another process finds this one dead, in about 8s: Fail of queue work"},
			logs:  "waiting for Redis to take 1 outcome",
			never: "cancelling",
		},
		"an idle daemon, and Redis stands still": {
			before: func(b *daemontest.Bundle) { b.Redis.Pause() },
			never:  "cancelling",
		},
		"a deaf part above the poller, and one below": {
			set: func(b *daemontest.Bundle) {
				b.Daemon.AddPart(goworker.Part{Name: "web", Requires: above, Stop: deaf(b)})
				b.Daemon.AddPart(goworker.Part{Name: "database", Stop: deaf(b)})
			},
			jobs: []string{daemontest.Job("Hold", "h")},
			want: goworker.ShutdownError{Parts: []string{"web", "database"}},
			says: []string{"2 parts did not stop in time and may still run: web, database"},
		},
		"everything, and Redis stands still": {
			set: func(b *daemontest.Bundle) {
				b.Daemon.AddPart(goworker.Part{Name: "web", Requires: above, Stop: deaf(b)})
				b.Daemon.AddPart(goworker.Part{Name: "database", Stop: deaf(b)})
				b.Daemon.AddHooks(goworker.Hooks{Shutdown: func() { _ = deaf(b)(nil) }})
				if err := b.Daemon.Schedule("often", goworker.Recurring{Every: time.Second, Queue: "rare", Class: "Mark"}); err != nil {
					b.T.Fatal(err)
				}
			},
			before: func(b *daemontest.Bundle) { b.Redis.Pause() },
			jobs:   []string{daemontest.Job("Deaf", "d")},
			want: goworker.ShutdownError{
				Unfinished: []string{"Deaf of queue work"}, Undelivered: 1, Remaining: []string{"Deaf of queue work"},
				Parts: []string{"hook Shutdown", "web", "database"},
			},
			says: []string{"1 job did not stop in time: Deaf of queue work", "3 parts did not stop in time and may still run: hook Shutdown, web, database"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			daemontest.Punctually(t, func() error {
				b := daemontest.Setup(t, quick)
				if tc.set != nil {
					tc.set(b)
				}
				b.Start()
				b.Idle()
				if len(tc.jobs) > 0 {
					b.Push(tc.jobs...)
				}
				b.Eventually("they run", func() bool { return b.Runs.Started() == 1+len(tc.jobs) })
				record := "resque:go:inflight:" + b.Process()
				if tc.before != nil {
					tc.before(b)
				}
				left, err := stopsInTime(b)
				if left == nil {
					left = new(goworker.ShutdownError)
				}
				var wrong []error
				if !slices.Equal(left.Unfinished, tc.want.Unfinished) || left.Undelivered != tc.want.Undelivered ||
					!slices.Equal(left.Remaining, tc.want.Remaining) || !slices.Equal(left.Parts, tc.want.Parts) {
					wrong = append(wrong, fmt.Errorf("the error says %+v, want %+v", left, tc.want))
				}
				for _, says := range tc.says {
					says = strings.Replace(says, " R ", " "+record+" ", 1)
					if err == nil || !strings.Contains(err.Error(), says) || b.Log.Count(says) == 0 {
						wrong = append(wrong, fmt.Errorf("the error and the log do not say %q", says))
					}
				}
				if b.Log.Count(tc.logs) == 0 || tc.never != "" && b.Log.Count(tc.never) > 0 {
					wrong = append(wrong, fmt.Errorf("want %q in the log, and not %q:\n%s", tc.logs, tc.never, b.Log.Text()))
				}
				return errors.Join(wrong...)
			})
		})
	}
}

// Where a job stays whose outcome Redis refused, another process finds it.
func TestStopLeavesJobsToOthers(t *testing.T) {
	t.Parallel()
	daemontest.Punctually(t, func() error {
		b := daemontest.Setup(t, func(s *goworker.WorkerSettings) { s.ShutdownTimeout = 300 * time.Millisecond })
		b.Start()
		b.Idle()
		b.Redis.Do(t, "SET", "resque:failed", "of the wrong type")
		b.Push(daemontest.Job("Fail", "f"))
		b.Eventually("Redis refuses the failure", func() bool { return b.Log.Count("Redis refuses a key") == 1 })
		left, _ := stopsInTime(b)
		if left == nil || !strings.Contains(fmt.Sprint(b.Redis.Dump(t, "")[left.Record]), daemontest.Job("Fail", "f")) {
			return fmt.Errorf("the job is not where the error says: %+v", left)
		}
		b.Redis.Do(t, "DEL", "resque:failed")
		other := daemontest.SetupOn(t, b.Redis)
		other.Start()
		other.Eventually("another process runs it again", func() bool { return other.Runs.Ends("f") == 1 && len(other.Failures()) == 1 })
		return nil
	})
}

// With NoTimeout a stop waits for a job, and the graces bound what comes after it.
func TestStopWithoutTimeoutIsBoundedAfterTheJobs(t *testing.T) {
	t.Parallel()
	none := goworker.WorkerSettings{ShutdownTimeout: goworker.NoTimeout}
	if d := goworker.StopTime(none); d != goworker.NoTimeout {
		t.Errorf("StopTime is %v", d)
	}
	daemontest.Punctually(t, func() error {
		b := daemontest.Setup(t, func(s *goworker.WorkerSettings) { s.ShutdownTimeout = goworker.NoTimeout })
		b.Daemon.AddPart(goworker.Part{Name: "database", Stop: func(context.Context) error { <-b.Gate; return nil }})
		held := make(chan struct{})
		b.Daemon.Register("Wait", func(id string) { b.Runs.Start(id); <-held; b.Runs.End(id) })
		b.Start()
		b.Idle()
		b.Push(daemontest.Job("Wait", "w"))
		b.Eventually("it runs", func() bool { return b.Runs.Starts("w") == 1 })
		b.Redis.Pause()
		b.Cancel()
		time.Sleep(3 * time.Second) // more than any grace of a job
		select {
		case err := <-b.Ended:
			t.Fatalf("Run returned %v while a job ran", err)
		default:
		}
		close(held)
		b.Eventually("it ends", func() bool { return b.Runs.Ends("w") == 1 })
		err := b.Wait() // which bounds it: the part of the program would not end
		var left *goworker.ShutdownError
		if !errors.As(err, &left) || left.Undelivered != 1 || len(left.Unfinished) > 0 || !slices.Equal(left.Parts, []string{"database"}) {
			return fmt.Errorf("Run returned %v, with %+v", err, left)
		}
		return nil
	})
}

// A dialer of the program that ignores its context does not hold a stop up.
func TestStopWithADeafDialer(t *testing.T) {
	t.Parallel()
	b := daemontest.Setup(t, func(s *goworker.WorkerSettings) {
		s.ShutdownTimeout, s.URI = 300*time.Millisecond, strings.Replace(s.URI, "redis", "deaf", 1)
	})
	var away = make(chan struct{})
	b.Daemon.RegisterDialer("deaf", func(ctx context.Context, uri string, o goworker.DialOptions) (goworker.Dialer, error) {
		return goworker.DialerFunc(func(context.Context) (redis.Conn, error) {
			select {
			case <-away:
				<-b.Gate
			default:
			}
			return redis.DialURL(strings.Replace(uri, "deaf", "redis", 1))
		}), nil
	})
	b.Start()
	b.Idle()
	close(away)
	b.Redis.Kill()
	b.Eventually("it dials", func() bool { return b.Log.Count("EOF")+b.Log.Count("connection reset")+b.Log.Count("closed") > 0 })
	// Which part dials first is open: an idle poller may not have noticed that Redis is gone.
	if left, _ := stopsInTime(b); left == nil || !slices.Contains(left.Parts, "poller") && !slices.Contains(left.Parts, "lease") {
		t.Errorf("the stop left %+v", left)
	}
}
