package redistest

import (
	"testing"
	"time"
)

func TestClusterMovesAndFailsOver(t *testing.T) {
	t.Parallel()
	begin := time.Now()
	c := StartCluster(t)
	t.Log("up after", time.Since(begin))
	const a, b = "{tag}:a", "{tag}:b"
	first, _ := c.Owner(t, a)
	first.Do(t, "SET", a, "1")
	first.Do(t, "SET", b, "2")
	second := c.Nodes[0]
	if second == first {
		second = c.Nodes[1]
	}
	moved := 0
	c.Move(t, a, second, func() { moved++ })
	if got := second.List(t, "MGET", a, b); got[0]+got[1] != "12" || moved != 2 {
		t.Errorf("after the slot moved it holds %q; %d keys moved", got, moved)
	}
	Eventually(t, startLimit, "all know", func() bool { m, r := c.Owner(t, a); return m == second && r != nil })
	_, replica := c.Owner(t, a)
	Eventually(t, startLimit, "the replica has it all", func() bool { return second.Int(t, "WAIT", 1, 1000) == 1 })
	second.Kill()
	Eventually(t, ElectionLimit, "the replica takes over", func() bool {
		m, _ := c.Owner(t, a)
		return m == replica
	})
	if got := replica.Text(t, "GET", b); got != "2" {
		t.Errorf("the new master has %q", got)
	}
	t.Log("over after", time.Since(begin))
}
