package topology

import (
	"net"
	"testing"
	"time"

	"github.com/goworker/goworker/internal/redistest"
)

// fails is one way for a master to go.
type fails struct {
	name     string
	replicas int  // WaitReplicas of the pushes
	certain  bool // Redis itself loses nothing then
	short    bool
	do       func(t *testing.T, f *redistest.Fleet, master *redistest.Server)
}

func failover(t *testing.T, f *redistest.Fleet, _ *redistest.Server) {
	f.Sentinels[0].Do(t, "SENTINEL", "FAILOVER", redistest.MasterName)
}

func kill(_ *testing.T, _ *redistest.Fleet, master *redistest.Server) { master.Kill() }

// pause leaves its connections open: a master that is silent, not dead.
func pause(_ *testing.T, _ *redistest.Fleet, master *redistest.Server) { master.Pause() }

// TestSentinelFailover makes the Sentinels choose another master under a
// load of pushes. Jobs that the new master had received are done without help. If
// pushes wait for the replicas, no acknowledged job is lost.
func TestSentinelFailover(t *testing.T) {
	t.Parallel()
	for _, how := range []fails{
		{"asked to, waiting for both replicas", 2, true, false, failover},
		{"asked to, waiting for one", 1, false, false, failover},
		{"master killed, waiting for one", 1, true, true, kill},
		{"master stopped, waiting for one", 1, true, false, pause},
		{"master killed, waiting for none", 0, false, false, kill},
	} {
		if testing.Short() && !how.short {
			continue
		}
		t.Run(how.name, func(t *testing.T) {
			t.Parallel()
			f := redistest.StartSentinel(t)
			l := startLoad(t, at(f.URI()), how.replicas)
			old := f.Master(t)
			how.do(t, f, old)
			switched := whenSwitched(t, f, old)
			master := f.Switched(t, old)
			received := holds(t, master)
			resumed := l.resumes(switched)
			l.settle(func() *redistest.Server { return master })
			l.report("Sentinel, "+how.name, resumed)
			old.Resume()
			l.wantRun(received)
			l.wantLostBefore(switched.Add(6 * time.Second)) // a Sentinel may learn of it two seconds late; we ask each second
			if how.certain {
				l.wantNothingLost()
			}
		})
	}
}

// whenSwitched waits until the first Sentinel names another master.
func whenSwitched(t *testing.T, f *redistest.Fleet, old *redistest.Server) time.Time {
	t.Helper()
	_, port, _ := net.SplitHostPort(old.Addr)
	defer func() {
		if t.Failed() {
			for _, s := range f.Sentinels {
				t.Log(s.Log())
			}
		}
	}()
	redistest.Eventually(t, redistest.ElectionLimit, "a Sentinel names another master", func() bool {
		return f.Sentinels[0].List(t, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", redistest.MasterName)[1] != port
	})
	return time.Now()
}
