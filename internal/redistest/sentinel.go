package redistest

import (
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
)

// MasterName is the name by which the Sentinels of this package watch their master.
const MasterName = "mymaster"

// ElectionLimit is how long a fail-over may take. Usually it takes three seconds, but a
// Sentinel that gets no time to run on a busy machine distrusts its clock and waits
// half a minute.
const ElectionLimit = time.Minute

// Fleet is a master with two replicas, watched by three Sentinels that count a
// silent master as dead after a second.
type Fleet struct {
	Redis     []*Server // any of them may be the master
	Sentinels []*Server
}

// StartSentinel runs a Fleet. It returns when the Sentinels know each other and
// both replicas. The Redis servers get args.
func StartSentinel(t testing.TB, args ...string) *Fleet {
	t.Helper()
	return StartSentinelTLS(t, nil, args...)
}

// StartSentinelTLS is StartSentinel with TLS only: all servers use the certificate
// server of the authority, and ask clients for theirs. Without an authority it is plain.
func StartSentinelTLS(t testing.TB, ca *Authority, args ...string) *Fleet {
	t.Helper()
	f := &Fleet{}
	args = append([]string{"--repl-diskless-sync-delay", "0", "--repl-ping-replica-period", "1"}, args...)
	master := launch(t, &Server{ca: ca, args: args})
	f.Redis = append(f.Redis, master)
	host, port, _ := net.SplitHostPort(master.Addr)
	for range 2 {
		f.Redis = append(f.Redis, launch(t, &Server{ca: ca, args: append([]string{"--replicaof", host + " " + port}, args...)}))
	}
	Eventually(t, startLimit, "both replicas follow", func() bool {
		return master.Int(t, "WAIT", 2, 100) == 2
	})
	conf := strings.Join([]string{
		fmt.Sprintf("sentinel monitor %s %s %s 2", MasterName, host, port),
		"sentinel down-after-milliseconds " + MasterName + " 1000",
		"sentinel failover-timeout " + MasterName + " 3000",
	}, "\n")
	for range 3 {
		f.Sentinels = append(f.Sentinels, launch(t, &Server{ca: ca, sentinel: conf}))
	}
	Eventually(t, startLimit, "the Sentinels know each other and the replicas", func() bool {
		for _, s := range f.Sentinels {
			about, err := redis.StringMap(s.Do(t, "SENTINEL", "MASTER", MasterName), nil)
			if err != nil || about["num-slaves"] != "2" || about["num-other-sentinels"] != "2" || about["flags"] != "master" {
				return false
			}
			for _, row := range s.Do(t, "SENTINEL", "REPLICAS", MasterName).([]any) {
				if r, err := redis.StringMap(row, nil); err != nil || r["flags"] != "slave" || r["master-link-status"] != "ok" {
					return false
				}
			}
		}
		return true
	})
	return f
}

// URI leads to the master through the Sentinels.
func (f *Fleet) URI() string {
	var hosts []string
	for _, s := range f.Sentinels {
		hosts = append(hosts, s.Addr)
	}
	return "redis+sentinel://" + strings.Join(hosts, ",") + "/" + MasterName
}

// Master is the server that the first Sentinel names.
func (f *Fleet) Master(t testing.TB) *Server {
	t.Helper()
	addr := f.Sentinels[0].List(t, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", MasterName)
	for _, s := range f.Redis {
		if s.Addr == net.JoinHostPort(addr[0], addr[1]) {
			return s
		}
	}
	t.Fatalf("redistest: the Sentinels name %v, which is no server of this fleet", addr)
	return nil
}

// Switched waits until all Sentinels name another master than old, and that one
// accepts writes, and returns it.
func (f *Fleet) Switched(t testing.TB, old *Server) *Server {
	t.Helper()
	var master *Server
	Eventually(t, ElectionLimit, "the Sentinels make another server the master", func() bool {
		for _, s := range f.Sentinels {
			addr := s.List(t, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", MasterName)
			if _, port, _ := net.SplitHostPort(old.Addr); addr[1] == port {
				return false
			}
		}
		master = f.Master(t)
		return strings.Contains(master.Text(t, "INFO", "replication"), "role:master")
	})
	return master
}
