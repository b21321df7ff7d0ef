package redistest

import (
	"testing"
	"time"
)

func TestFleetFailsOver(t *testing.T) {
	t.Parallel()
	begin := time.Now()
	f := StartSentinel(t)
	t.Log("up after", time.Since(begin))
	old := f.Master(t)
	old.Do(t, "SET", "k", "v")
	Eventually(t, startLimit, "the replicas have it", func() bool { return old.Int(t, "WAIT", 2, 1000) == 2 })
	old.Kill()
	master := f.Switched(t, old)
	if got := master.Text(t, "GET", "k"); got != "v" || master == old {
		t.Errorf("the new master %s has %q", master.Addr, got)
	}
	t.Log("over after", time.Since(begin))
}
