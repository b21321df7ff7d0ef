//go:build unix

package goworker_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/internal/outcome"
	"github.com/goworker/goworker/internal/redistest"
)

// registerWaiting registers a class whose isolated jobs create the file they are given once they run, and wait for the
// end of their context.
func registerWaiting(d *goworker.Daemon, uri string) {
	d.Register("Waiting", func(ctx context.Context, running string) error {
		if err := os.WriteFile(running, nil, 0o600); err != nil {
			return err
		}
		<-ctx.Done()
		return fmt.Errorf("in the child: %v, %t", ctx.Err(), context.Cause(ctx) == goworker.ErrCancelled)
	}, goworker.Isolated(goworker.ChildEnv(childVar+"="+uri)))
}

// The context of one isolated job ends in its child, with the cause.
func TestCancelOneIsolatedJob(t *testing.T) {
	t.Parallel()
	f := newFailing(t)
	registerWaiting(f.daemon, f.redis.URI())
	made := make(chan outcome.Deps, 2)
	goworker.AddFeature(f.daemon, func(d outcome.Deps) outcome.Feature {
		made <- d
		return outcome.Feature{Name: "canceller"}
	})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	dir := t.TempDir()
	for _, id := range []string{"one", "two"} {
		f.push(id, fmt.Sprintf(`{"class":"Waiting","args":[%q],"id":%q}`, filepath.Join(dir, id), id))
	}
	go func() { ended <- f.daemon.Run(ctx) }()
	<-made // for the client of the daemon
	deps := <-made
	cancel := func(id string) (found bool) {
		for j := range deps.Running {
			found = found || j.Opened() && j.ID == id && j.Cancel(goworker.ErrCancelled)
		}
		return found
	}
	redistest.Eventually(t, time.Minute, "both wait in their children", func() bool {
		files, err := os.ReadDir(dir)
		return err == nil && len(files) == 2
	})
	redistest.Eventually(t, time.Minute, "it is cancelled", func() bool { return cancel("one") })
	redistest.Eventually(t, time.Minute, "it has failed", func() bool { return f.redis.Int(t, "LLEN", "resque:failed") == 1 })
	record := f.redis.Text(t, "LINDEX", "resque:failed", 0)
	if want := "the job was cancelled: in the child: context canceled, true"; !strings.Contains(record, want) || !strings.Contains(record, `"queue":"one"`) {
		t.Errorf("the record is %s, want %q in it", record, want)
	}
	redistest.Eventually(t, time.Minute, "the other one is cancelled too", func() bool { return cancel("two") })
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
