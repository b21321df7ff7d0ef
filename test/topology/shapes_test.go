// Package topology runs the same tests on every shape of Redis that goworker
// works with, and moves the master under its hands where it can move.
package topology

import (
	"crypto/x509"
	"flag"
	"net"
	"strconv"
	"strings"
	"testing"

	"github.com/gomodule/redigo/redis"
	"go.uber.org/goleak"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/cluster"
	"github.com/goworker/goworker/embedded"
	"github.com/goworker/goworker/internal/redistest"
	"github.com/goworker/goworker/sentinel"
)

func TestMain(m *testing.M) {
	flag.Parse()
	_ = flag.Set("test.parallel", "4") // these tests wait more than they compute
	goleak.VerifyTestMain(m,
		goleak.IgnoreAnyFunction("github.com/cihub/seelog.(*asyncLoopLogger).processQueue"),
		goleak.IgnoreAnyFunction("github.com/cihub/seelog.(*asyncAdaptiveLogger).processQueue"),
	)
}

// shape is one way to reach a Redis.
type shape struct {
	settings goworker.WorkerSettings
	prefix   string // what a namespace must begin with
	// cut breaks all connections of the daemon; nil: there is no way to.
	cut func(t *testing.T)
}

var openers = map[string]goworker.Opener{
	"embedded":       embedded.Open,
	"redis+sentinel": sentinel.Open, "rediss+sentinel": sentinel.Open,
	"redis+cluster": cluster.Open, "rediss+cluster": cluster.Open,
}

// shapes are started by the test that uses them.
var shapes = map[string]func(t *testing.T) shape{
	"plain": func(t *testing.T) shape {
		s := redistest.Start(t)
		return shape{settings: at(s.URI()), cut: cut(s)}
	},
	"embedded": func(*testing.T) shape { return shape{settings: at("embedded:")} },
	"unix socket with a password": func(t *testing.T) shape {
		s := redistest.Start(t, "--requirepass", "s3cret")
		return shape{settings: at("unix://:s3cret@" + s.Socket() + "?db=3"), cut: cut(s)}
	},
	"TLS with client certificates": func(t *testing.T) shape {
		ca := newAuthority(t)
		addr, s := ca.Start(t, "server", "yes")
		return shape{settings: secure(ca, at("rediss://"+addr)), cut: cut(s)}
	},
	"user of the minimal ACL": func(t *testing.T) shape {
		s := redistest.Start(t, append([]string{"--user"}, redistest.MinimalACL(t)...)...)
		return shape{settings: at("redis://" + redistest.ACLUser + ":" + redistest.ACLPassword + "@" + s.Addr), prefix: "resque:", cut: cut(s)}
	},
	"Sentinel": func(t *testing.T) shape {
		f := redistest.StartSentinel(t)
		return shape{settings: at(f.URI() + "/0"), cut: cut(f.Redis[0])}
	},
	"Sentinel with TLS, a user and a password for the Sentinels": secureSentinel,
	"Cluster": func(t *testing.T) shape {
		c := redistest.StartCluster(t, redistest.Patient...)
		return shape{settings: at(c.URI()), cut: cut(c.Nodes...)}
	},
	"Cluster with TLS and a user": secureCluster,
}

// inShort are the shapes that go test -short tries: one of each kind.
var inShort = map[string]bool{"plain": true, "user of the minimal ACL": true, "Sentinel": true, "Cluster": true}

func at(uri string) goworker.WorkerSettings { return goworker.WorkerSettings{URI: uri} }

func newAuthority(t *testing.T) *redistest.Authority {
	ca := redistest.NewAuthority(t)
	ca.Issue(t, "server", &x509.Certificate{IPAddresses: []net.IP{net.ParseIP("127.0.0.1")}})
	ca.Issue(t, "worker", &x509.Certificate{ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	return ca
}

func secure(ca *redistest.Authority, s goworker.WorkerSettings) goworker.WorkerSettings {
	s.TLSCertPath, s.TLSClientCertPath, s.TLSClientKeyPath = ca.Crt("ca"), ca.Crt("worker"), ca.Key("worker")
	return s
}

// cut breaks the connections of clients to any of the servers.
func cut(servers ...*redistest.Server) func(*testing.T) {
	return func(t *testing.T) {
		for _, s := range servers {
			s.Do(t, "CLIENT", "KILL", "TYPE", "normal")
			s.Do(t, "CLIENT", "KILL", "TYPE", "pubsub")
		}
	}
}

// secureSentinel is a fleet that speaks TLS only: its members find each other by
// their TLS ports.
func secureSentinel(t *testing.T) shape {
	ca := newAuthority(t)
	f := redistest.StartSentinelTLS(t, ca, append([]string{"--user"}, redistest.MinimalACL(t)...)...)
	for _, s := range f.Sentinels {
		s.Do(t, "ACL", "SETUSER", "watcher", "on", ">s3cret", "+ping", "+sentinel|get-master-addr-by-name", "+sentinel|sentinels")
	}
	uri := strings.Replace(f.URI(), "redis+sentinel://", "rediss+sentinel://"+redistest.ACLUser+":"+redistest.ACLPassword+"@", 1)
	return shape{
		settings: secure(ca, at(uri+"?sentinel_user=watcher&sentinel_password=s3cret")),
		prefix:   "resque:", cut: cut(f.Redis[0]),
	}
}

func secureCluster(t *testing.T) shape {
	ca := newAuthority(t)
	c := redistest.StartClusterTLS(t, ca, append([]string{"--user"}, redistest.MinimalACL(t)...)...)
	uri := strings.Replace(c.URI(), "redis+cluster://", "rediss+cluster://"+redistest.ACLUser+":"+redistest.ACLPassword+"@", 1)
	return shape{settings: secure(ca, at(uri)), prefix: "resque:", cut: cut(c.Nodes...)}
}

// namespace makes one of its own for each test: one that every shape takes.
func (s shape) namespace(n int) string { return s.prefix + "{t" + strconv.Itoa(n) + "}:" }

// do sends a command over a connection of the daemon's.
func do(t *testing.T, d *goworker.Daemon, command string, args ...any) any {
	t.Helper()
	c, err := d.GetConn()
	if err != nil {
		t.Fatal(err)
	}
	defer d.PutConn(c)
	reply, err := c.Do(command, args...)
	if err != nil {
		t.Fatalf("%s %v: %v", command, args, err)
	}
	return reply
}

func number(t *testing.T, d *goworker.Daemon, command string, args ...any) int {
	t.Helper()
	n, err := redis.Int(do(t, d, command, args...), nil)
	if err != nil && err != redis.ErrNil {
		t.Fatalf("%s %v: %v", command, args, err)
	}
	return n
}
