package redistest

import (
	"net"
	"strings"
	"testing"

	"github.com/gomodule/redigo/redis"
)

// Cluster is three masters, each with a third of the slots, and a replica for each.
type Cluster struct {
	Nodes []*Server
}

// StartCluster runs a Cluster whose nodes count a silent one as dead after two
// seconds. It returns when all of them agree. Every node gets args.
func StartCluster(t testing.TB, args ...string) *Cluster {
	t.Helper()
	return StartClusterTLS(t, nil, args...)
}

// Patient are arguments for a cluster that keeps a master which does not answer for a
// while on a busy machine.
var Patient = []string{"--cluster-node-timeout", "15000"}

// StartClusterTLS is StartCluster with TLS only: all nodes use the certificate
// server of the authority, and ask clients for theirs. Without an authority it is plain.
func StartClusterTLS(t testing.TB, ca *Authority, args ...string) *Cluster {
	t.Helper()
	c := &Cluster{}
	args = append([]string{"--cluster-enabled", "yes", "--cluster-node-timeout", "2000",
		"--cluster-allow-replica-migration", "no", "--repl-diskless-sync-delay", "0", "--repl-ping-replica-period", "1"}, args...)
	for range 6 {
		c.Nodes = append(c.Nodes, launch(t, &Server{ca: ca, args: args}))
	}
	const slots = 16384
	for i, n := range c.Nodes {
		if i < 3 {
			n.Do(t, "CLUSTER", "ADDSLOTSRANGE", i*slots/3, (i+1)*slots/3-1)
		}
		n.Do(t, "CLUSTER", "SET-CONFIG-EPOCH", i+1)
		host, port, _ := net.SplitHostPort(c.Nodes[0].Addr)
		n.Do(t, "CLUSTER", "MEET", host, port)
	}
	for i, n := range c.Nodes[3:] {
		master := c.Nodes[i].ID(t)
		Eventually(t, startLimit, "the replica knows its master", func() bool {
			return strings.Contains(n.Text(t, "CLUSTER", "NODES"), master)
		})
		n.Do(t, "CLUSTER", "REPLICATE", master)
	}
	Eventually(t, startLimit, "the Cluster is complete", func() bool {
		for i, n := range c.Nodes {
			ranges, err := redis.Values(n.Do(t, "CLUSTER", "SLOTS"), nil)
			if err != nil || len(ranges) != 3 || !strings.Contains(n.Text(t, "CLUSTER", "INFO"), "cluster_state:ok") {
				return false
			}
			for _, r := range ranges {
				if nodes, err := redis.Values(r, nil); err != nil || len(nodes) != 4 {
					return false
				}
			}
			if i < 3 && n.Int(t, "WAIT", 1, 50) != 1 {
				return false
			}
		}
		return true
	})
	return c
}

// ID is the name by which the nodes of a Cluster know each other.
func (s *Server) ID(t testing.TB) string {
	t.Helper()
	return s.Text(t, "CLUSTER", "MYID")
}

// URI leads to the Cluster through two of its nodes.
func (c *Cluster) URI() string {
	return "redis+cluster://" + c.Nodes[0].Addr + "," + c.Nodes[4].Addr
}

// Owner is the master that serves the key, as the nodes that are up see it, and
// its replica.
func (c *Cluster) Owner(t testing.TB, key string) (master, replica *Server) {
	t.Helper()
	for _, n := range c.Nodes {
		if !n.answers() {
			continue
		}
		slot := n.Int(t, "CLUSTER", "KEYSLOT", key)
		ranges, _ := redis.Values(n.Do(t, "CLUSTER", "SLOTS"), nil)
		for _, r := range ranges {
			fields := r.([]any)
			if first, last := int(fields[0].(int64)), int(fields[1].(int64)); slot < first || slot > last {
				continue
			}
			for i, field := range fields[2:] {
				id, _ := redis.String(field.([]any)[2], nil)
				for _, s := range c.Nodes {
					if s.answers() && s.ID(t) == id {
						if i == 0 {
							master = s
						} else {
							replica = s
						}
					}
				}
			}
		}
		return master, replica
	}
	t.Fatal("redistest: no node of the Cluster answers")
	return nil, nil
}

// Move moves the slot of a key to another master while it is in use, as
// redis-cli --cluster reshard does, a key at a time. between runs after each.
func (c *Cluster) Move(t testing.TB, key string, to *Server, between func()) {
	t.Helper()
	from, _ := c.Owner(t, key)
	slot := to.Int(t, "CLUSTER", "KEYSLOT", key)
	host, port, _ := net.SplitHostPort(to.Addr)
	to.Do(t, "CLUSTER", "SETSLOT", slot, "IMPORTING", from.ID(t))
	from.Do(t, "CLUSTER", "SETSLOT", slot, "MIGRATING", to.ID(t))
	for {
		keys := from.List(t, "CLUSTER", "GETKEYSINSLOT", slot, 1)
		if len(keys) == 0 {
			break
		}
		from.Do(t, "MIGRATE", host, port, keys[0], 0, 5000)
		between()
	}
	to.Do(t, "CLUSTER", "SETSLOT", slot, "NODE", to.ID(t))
	from.Do(t, "CLUSTER", "SETSLOT", slot, "NODE", to.ID(t))
}
