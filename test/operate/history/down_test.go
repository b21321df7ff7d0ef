package history

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/internal/daemontest"
)

// The vitals of a process name the part that does not run.
func TestVitalsNameThePartThatIsDown(t *testing.T) {
	t.Parallel()
	b := daemontest.Setup(t)
	b.Daemon.AddPart(goworker.Part{
		Name: "metrics", Restart: &goworker.Backoff{Min: time.Hour},
		Run: func(context.Context) error { return errors.New("the port is in use") },
	})
	b.Start()
	b.Eventually("the vitals name it", func() bool {
		all, err := b.Daemon.Client().Inspect().Processes(t.Context())
		return err == nil && len(all) == 1 && slices.Equal(all[0].Vitals.Down, []string{"metrics"})
	})
	b.Eventually("it is ready", func() bool { return b.Daemon.Health().Ready }) // the poller connects after the first renewal
	if h := b.Daemon.Health(); !h.Ready || !slices.Equal(h.Reasons, []string{"part metrics has failed: PartStates says why"}) {
		t.Errorf("its health is %+v", h)
	}
	if err := b.Stop(); err != nil {
		t.Error(err)
	}
}
