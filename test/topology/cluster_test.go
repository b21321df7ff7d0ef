package topology

import (
	"testing"
	"time"

	"github.com/goworker/goworker/internal/redistest"
)

const someKey = namespace + "queue:work"

// whenOwned waits until another master than old serves our slot.
func whenOwned(t *testing.T, c *redistest.Cluster, old *redistest.Server) (*redistest.Server, time.Time) {
	t.Helper()
	var master *redistest.Server
	eventually(t, "another node serves the slot", func() bool {
		master, _ = c.Owner(t, someKey)
		return master != nil && master != old
	})
	return master, time.Now()
}

// TestClusterMoves hands our slot to another master and back, key by key, under a
// load of pushes. While it moves, the scripts find some of their keys gone and do
// nothing. No job is lost, no process is found dead, and all continues by itself.
func TestClusterMoves(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, redistest.Patient...)
	l := startLoad(t, at(c.URI()), 0)
	home, _ := c.Owner(t, someKey)
	away := c.Nodes[0]
	if away == home {
		away = c.Nodes[1]
	}
	var longest time.Duration
	for _, to := range []*redistest.Server{away, home, away} {
		c.Move(t, someKey, to, func() { time.Sleep(50 * time.Millisecond) }) // so that clients meet every state
		longest = max(longest, l.resumes(time.Now()))
	}
	l.settle(func() *redistest.Server { return away })
	l.report("Cluster, slot moved three times", longest)
	l.wantNothingLost()
	l.wantNoneTwice()
	if dead := away.Text(t, "GET", namespace+"go:recovered"); dead != "" {
		t.Errorf("a process was found dead: %s", dead)
	}
}

// TestClusterFailover makes the replica of our slot its master under load.
func TestClusterFailover(t *testing.T) {
	t.Parallel()
	for _, how := range []struct {
		name     string
		replicas int
		certain  bool
		short    bool
		do       func(t *testing.T, master, replica *redistest.Server)
	}{
		{"asked to", 0, true, false, func(t *testing.T, _, replica *redistest.Server) { replica.Do(t, "CLUSTER", "FAILOVER") }},
		{"master killed, waiting for its replica", 1, true, true, func(_ *testing.T, master, _ *redistest.Server) { master.Kill() }},
		{"master stopped, waiting for its replica", 1, true, false, func(_ *testing.T, master, _ *redistest.Server) { master.Pause() }},
		{"master killed, waiting for none", 0, false, false, func(_ *testing.T, master, _ *redistest.Server) { master.Kill() }},
	} {
		if testing.Short() && !how.short {
			continue
		}
		t.Run(how.name, func(t *testing.T) {
			t.Parallel()
			c := redistest.StartCluster(t)
			l := startLoad(t, at(c.URI()), how.replicas)
			old, replica := c.Owner(t, someKey)
			how.do(t, old, replica)
			master, owned := whenOwned(t, c, old)
			received := holds(t, master)
			resumed := l.resumes(owned)
			l.settle(func() *redistest.Server { return master })
			old.Resume()
			l.report("Cluster, "+how.name, resumed)
			l.wantRun(received)
			l.wantLostBefore(owned.Add(6 * time.Second)) // a Sentinel may learn of it two seconds late; we ask each second
			if how.certain {
				l.wantNothingLost()
			}
		})
	}
}
