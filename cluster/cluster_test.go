package cluster

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"go.uber.org/goleak"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/internal/redistest"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		goleak.IgnoreAnyFunction("github.com/cihub/seelog.(*asyncLoopLogger).processQueue"),
		goleak.IgnoreAnyFunction("github.com/cihub/seelog.(*asyncAdaptiveLogger).processQueue"),
	)
}

const key = "{resque}:queue:q"

var opts = goworker.DialOptions{
	ConnectTimeout: redistest.ElectionLimit, ReadTimeout: redistest.ElectionLimit, WriteTimeout: 10 * time.Second,
	TLS: &tls.Config{MinVersion: tls.VersionTLS12}, Namespace: "{resque}:",
}

func open(t *testing.T, uri string) goworker.Dialer {
	t.Helper()
	d, err := Open(t.Context(), uri, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.(interface{ Close() error }).Close() })
	return d
}

// dialed is the connection a dialer makes and the address it leads to.
func dialed(t *testing.T, d goworker.Dialer) (redis.Conn, string) {
	t.Helper()
	c, err := d.Dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	info, err := redis.String(c.Do("CLIENT", "INFO"))
	if err != nil {
		t.Fatal(err)
	}
	_, addr, _ := strings.Cut(info, "laddr=")
	addr, _, _ = strings.Cut(addr, " ")
	return c, addr
}

// Every node leads to the master of our slot, and when it is gone the nodes it has named
// do. A call that waits for the answer of a stopped master ends.
func TestOpen(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t)
	master, replica := c.Owner(t, key)
	for _, n := range c.Nodes {
		if _, addr := dialed(t, open(t, "redis+cluster://"+n.Addr)); addr != master.Addr {
			t.Errorf("%s leads to %s, want %s", n.Addr, addr, master.Addr)
		}
	}
	dead := fmt.Sprintf("127.0.0.1:%d", redistest.FreePort(t))
	if _, addr := dialed(t, open(t, "redis-cluster://"+dead+","+replica.Addr+"/0?db=0")); addr != master.Addr {
		t.Errorf("led to %s, want %s", addr, master.Addr)
	}

	d := open(t, "redis+cluster://"+master.Addr)
	conn, _ := dialed(t, d)
	master.Pause()
	if _, err := conn.Do("PING"); err == nil || !strings.Contains(err.Error(), "use of closed") {
		t.Errorf("a stopped master: %v, want a closed connection", err)
	}
	if _, addr := dialed(t, d); addr != replica.Addr {
		t.Errorf("led to %s, want the replica %s", addr, replica.Addr)
	}
	master.Resume()
}

// A moved slot is found again, and connections to its old master are closed although
// no command was sent on them.
func TestSlotMoves(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, redistest.Patient...)
	home, _ := c.Owner(t, key)
	away := c.Nodes[0]
	if away == home {
		away = c.Nodes[1]
	}
	d := open(t, c.URI())
	conn, addr := dialed(t, d)
	if addr != home.Addr {
		t.Fatalf("led to %s", addr)
	}
	home.Do(t, "SET", key, "v")
	c.Move(t, key, away, func() {
		if _, addr := dialed(t, d); addr != home.Addr {
			t.Errorf("while the slot moves: led to %s", addr)
		}
	})
	redistest.Eventually(t, 20*time.Second, "the old connection is closed", func() bool { return conn.Err() != nil })
	if _, addr := dialed(t, d); addr != away.Addr {
		t.Errorf("led to %s, want %s", addr, away.Addr)
	}
}

// A server that is no Cluster has every slot.
func TestSingleServer(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	if _, addr := dialed(t, open(t, "redis+cluster://"+s.Addr)); addr != s.Addr {
		t.Errorf("led to %s", addr)
	}
}

func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	const form = "; write redis+cluster://user:password@host:6379,host2:6379"
	for uri, want := range map[string]string{
		"redis+cluster://:s3cret@h/1":        "goworker: the Cluster's URI cannot be used: a Cluster has only the database 0" + form,
		"redis+cluster://:s3cret@h?db=2":     "goworker: the Cluster's URI cannot be used: a Cluster has only the database 0" + form,
		"redis+cluster://:s3cret@h?x=1":      `goworker: the Cluster's URI cannot be used: it has an unknown parameter "x"` + form,
		"redis+cluster://:s3cret@h#x":        "goworker: the Cluster's URI cannot be used: nothing may follow a #" + form,
		"redis+cluster://:s3cret@":           "goworker: the Cluster's URI cannot be used: a host is missing" + form,
		"redis+cluster://u:s3cret@h:9999999": "goworker: the port in redis://u:***@",
	} {
		if _, err := Open(context.Background(), uri, opts); err == nil || !strings.HasPrefix(err.Error(), want) || strings.Contains(err.Error(), "s3c") {
			t.Errorf("%s: %v; want %q", uri, err, want)
		}
	}
}

// Init refuses a namespace whose keys would be in many slots.
func TestNamespace(t *testing.T) {
	t.Parallel()
	for namespace, ok := range map[string]bool{
		"": false, "resque": false, "{}resque": false, "{resque": false, "resque}": false, "}{": false,
		"{resque}": true, "app:{resque}:": true, "{a}{}": true, "{{a}}": true,
	} {
		d := goworker.New(goworker.WorkerSettings{URI: "redis+cluster://h", Namespace: namespace, QueuesString: "q"})
		d.RegisterDialer("redis+cluster", Open)
		err := d.Init()
		d.Close()
		if (err == nil) != ok || err != nil && !strings.Contains(err.Error(), "the namespace needs a part in braces") {
			t.Errorf("namespace %q: %v", namespace, err)
		}
	}
}

func TestAnswers(t *testing.T) {
	t.Parallel()
	const at = "10.0.0.1:7000"
	for reply, want := range map[string]string{
		"":                                at,
		"MOVED 3999 10.0.0.2:7001":        "10.0.0.2:7001",
		"MOVED 3999 :7001":                "10.0.0.1:7001",
		"MOVED 3999 ?:7001":               "10.0.0.1:7001",
		"MOVED 3999 node-2.example:7001":  "node-2.example:7001",
		"MOVED 3999 fd00::2:7001":         "[fd00::2]:7001",
		"ASK 3999 10.0.0.2:7001":          at,
		"MOVED 3999 nonsense":             "",
		"CLUSTERDOWN The cluster is down": "",
	} {
		var err error
		if reply != "" {
			err = redis.Error(reply)
		}
		got, err := master(at, err)
		if got != want || (err != nil) != (want == "") {
			t.Errorf("%q: %q, %v; want %q", reply, got, err, want)
		}
	}
	if _, err := master(at, errors.New("broken")); err == nil {
		t.Error("an error of the connection is none")
	}
}
