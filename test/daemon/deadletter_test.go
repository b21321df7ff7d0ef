package daemon

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/internal/daemontest"
)

// The leader removes the oldest failures of every list, and says so.
func TestFailuresAreTrimmed(t *testing.T) {
	t.Parallel()
	for _, backend := range []string{goworker.FailureRedis, goworker.FailureRedisMultiQueue} {
		t.Run(backend, func(t *testing.T) {
			t.Parallel()
			b := daemontest.Setup(t, func(s *goworker.WorkerSettings) {
				s.FailureBackend, s.FailedMaxSize, s.FailedMaxAge = backend, 5, 24*time.Hour
			})
			lists := []string{"resque:failed"}
			if backend == goworker.FailureRedisMultiQueue {
				lists = []string{"resque:work_failed", "resque:low_failed"}
				b.Redis.Do(t, "SADD", "resque:failed_queues", "work_failed", "low_failed")
			}
			failed := func(n int, ago time.Duration) string {
				return fmt.Sprintf(`{"failed_at":%q,"payload":{"class":"J","args":[%d]},"exception":"E","error":"x","backtrace":[],"worker":"h:1:q","queue":"work"}`,
					time.Now().UTC().Add(-ago).Format("2006/01/02 15:04:05 UTC"), n)
			}
			stay := []string{failed(0, 25*time.Hour), failed(1, 23*time.Hour), failed(2, 23*time.Hour), "no record", failed(4, 0)}
			for _, list := range lists {
				for i := range 3000 {
					b.Redis.Do(t, "RPUSH", list, failed(i, 48*time.Hour))
				}
				for _, r := range stay {
					b.Redis.Do(t, "RPUSH", list, r)
				}
			}
			b.Start()
			for _, list := range lists {
				b.Eventually("the old ones are removed", func() bool {
					return slices.Equal(b.Redis.List(t, "LRANGE", list, 0, -1), stay[1:])
				})
			}
			b.Eventually("it is logged", func() bool {
				return b.Log.Count("removed=3001 too_many=3000 too_old=1") == len(lists)
			})
		})
	}
}

// Without caps nothing is ever removed.
func TestFailuresAreKept(t *testing.T) {
	t.Parallel()
	b := daemontest.Setup(t)
	b.Redis.Do(t, "RPUSH", "resque:failed", `{"failed_at":"1999/01/01 00:00:00 UTC"}`, "no record")
	monitor := b.Redis.Monitor(t)
	b.Start()
	b.Idle()
	b.Renewed(2)
	for _, command := range monitor.Commands() {
		if slices.Contains(command, "resque:failed") && command[0] != "EVALSHA" && command[0] != "EVAL" {
			t.Errorf("without caps: %q", command)
		}
	}
	if n := b.Redis.Int(t, "LLEN", "resque:failed"); n != 2 {
		t.Errorf("%d failures are left of 2", n)
	}
}
