package inspect_test

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/goworker/goworker/inspect"
	"github.com/goworker/goworker/internal/redistest"
)

// as gives the Inspector a user of Redis with these rules.
func (l *lender) as(rules ...any) {
	l.t.Helper()
	redistest.OwnUser(l.t)
	l.server.Do(l.t, "ACL", append([]any{"SETUSER", "looker", "reset", "on", ">secret"}, rules...)...)
	l.login = "looker:secret"
}

// A server says what it is, with its replica, and which of its keys end.
func TestServerInfo(t *testing.T) {
	i, server, l := setup(t)
	server.Do(t, "CONFIG", "SET", "maxmemory", "100mb", "maxmemory-policy", "allkeys-lru", "appendfsync", "always", "save", "3600 1")
	server.Do(t, "SET", "a", "1", "EX", "1000")
	server.Do(t, "SET", "b", "1")
	host, port, _ := net.SplitHostPort(server.Addr)
	replica := redistest.Start(t)
	replica.Do(t, "REPLICAOF", host, port)
	var info inspect.ServerInfo
	redistest.Eventually(t, 30*time.Second, "the replica is online", func() bool {
		all, err := i.ServerInfo(t.Context())
		if err != nil || len(all) != 1 {
			t.Fatalf("%+v, %v", all, err)
		}
		info = all[0]
		return len(info.Replicas) == 1 && info.Replicas[0].State == "online" && info.Replicas[0].Lag >= 0
	})
	if info.Name != "redis://:***@cache" || info.Shard != "" || info.Version == "" || info.Product == "" || info.Role != "master" || info.Uptime < 0 ||
		info.Latency <= 0 || info.CPU < 0 || time.Since(info.Now).Abs() > time.Minute || info.Master != "" || info.Cluster {
		t.Errorf("the server is %+v", info)
	}
	if m := info.Memory; m.Used <= 0 || m.Peak <= 0 || m.RSS <= 0 || m.Max != 100<<20 || m.Policy != "allkeys-lru" || m.Fragmentation <= 0 {
		t.Errorf("its memory is %+v", m)
	}
	if p := info.Persistence; p.AppendFsync != "always" || p.Save != "3600 1" || !p.SaveKnown || !p.SaveOK || !p.AOFOK || p.LastSave.IsZero() || p.Loading {
		t.Errorf("it keeps its data %+v", p)
	}
	if info.Clients < 1 || info.MostClients < 1 || info.Blocked != 0 || info.Rejected != 0 || info.Evicted != 0 || info.Hits < 0 || info.OpsPerSecond < 0 {
		t.Errorf("its clients are %+v", info)
	}
	if info.Keys != 2 || info.Expiring != 1 || len(info.Denied) > 0 {
		t.Errorf("its keys are %d, %d, and it denies %v", info.Keys, info.Expiring, info.Denied)
	}
	_, replicaPort, _ := net.SplitHostPort(replica.Addr)
	if r := info.Replicas[0]; !strings.HasSuffix(r.Address, ":"+replicaPort) || r.Behind < 0 {
		t.Errorf("its replica is %+v", r)
	}

	l.server = replica
	redistest.Eventually(t, time.Minute, "the replica says that it follows its master", func() bool {
		all, err := i.ServerInfo(t.Context())
		return err == nil && all[0].Role == "slave" && all[0].Master == server.Addr && all[0].MasterUp
	})
	if err := i.Writable(t.Context()); !errors.Is(err, inspect.ErrReadOnly) || !strings.Contains(err.Error(), "is a replica") {
		t.Errorf("the replica may be written: %v", err)
	}
}

// Two databases with keys are distinguished by their sizes, where these differ.
func TestServerInfoOfADatabase(t *testing.T) {
	i, server, _ := setup(t)
	c := server.Dial(t)
	for _, command := range [][]any{{"SELECT", 3}, {"SET", "x", 1, "EX", 100}, {"SET", "y", 1, "EX", 100}} {
		if _, err := c.Do(command[0].(string), command[1:]...); err != nil {
			t.Fatal(err)
		}
	}
	expiring := func() (keys, ends int64) {
		all, err := i.ServerInfo(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return all[0].Keys, all[0].Expiring
	}
	for _, tt := range []struct{ keys, ends int64 }{{0, 0}, {1, 0}, {2, -1}, {3, 0}} {
		if tt.keys > 0 {
			server.Do(t, "SET", fmt.Sprint("k", tt.keys), "1")
		}
		if keys, ends := expiring(); keys != tt.keys || ends != tt.ends {
			t.Errorf("%d keys, of which %d end, want %+v", keys, ends, tt)
		}
	}
}

// What the user may not ask is left out, with the rule.
func TestServerInfoDenied(t *testing.T) {
	i, server, l := setup(t)
	server.Do(t, "SET", "resque:a", "1", "EX", "1000")
	l.as("~resque:*", "-@all", "+info", "+time")
	all, err := i.ServerInfo(t.Context())
	want(t, "denied", []inspect.Denied{{Command: "DBSIZE", Rule: "+dbsize"}, {Command: "CONFIG GET", Rule: "+config|get"}}, all[0].Denied, err)
	if info := all[0]; info.Keys != -1 || info.Expiring != 1 || info.Persistence.AppendFsync != "" || info.Persistence.SaveKnown || info.Memory.Used <= 0 {
		t.Errorf("the rest is %+v", info)
	}
	l.as("~resque:*", "-@all", "+time")
	var denied *inspect.DeniedError
	if _, err := i.ServerInfo(t.Context()); !errors.As(err, &denied) || denied.Rule != "+info" || err.Error() != "goworker: this Redis user may not run INFO: add the ACL rule +info" {
		t.Errorf("without INFO: %v", err)
	}
}

// A user who may not write learns which rule lacks, and nothing is written.
func TestWritable(t *testing.T) {
	i, server, l := setup(t)
	if err := i.Writable(t.Context()); err != nil {
		t.Errorf("the default user: %v", err)
	}
	for rule, rules := range map[string][]any{"+del": {"~resque:*", "-@all", "+get"}, "~resque:*": {"~other:*", "+@all"}} {
		l.as(rules...)
		if err := i.Writable(t.Context()); !errors.Is(err, inspect.ErrReadOnly) || !strings.Contains(err.Error(), "add the ACL rule "+rule) {
			t.Errorf("%v: %v", rules, err)
		}
	}
	l.login = ""
	want(t, "keys", 0, len(server.Keys(t)), nil)
	server.Kill()
	if err := i.Writable(t.Context()); err == nil || errors.Is(err, inspect.ErrReadOnly) {
		t.Errorf("without a server: %v", err)
	}
}

// The slow log shows what took long and nothing of what it was about.
func TestSlowLog(t *testing.T) {
	i, server, l := setup(t)
	server.Do(t, "CONFIG", "SET", "slowlog-log-slower-than", "0")
	long := strings.Repeat("s", 1000)
	server.Do(t, "RPUSH", "resque:queue:a", "secret", long)
	server.Do(t, "SET", "other:secret", "secret")
	server.Do(t, "EVAL", "return 'secret'", 1, "resque:queue:b", "secret")
	many := []any{"resque:many"}
	for range 100 {
		many = append(many, "secret")
	}
	server.Do(t, "SADD", many...)
	server.Do(t, "CONFIG", "SET", "slowlog-log-slower-than", "-1")
	all, err := i.SlowLog(t.Context(), 20)
	if err != nil {
		t.Fatal(err)
	}
	rows := make(map[string]inspect.SlowCommand)
	for _, slow := range all {
		if strings.Contains(fmt.Sprintf("%+v", slow), "secret") || slow.At.IsZero() || slow.Took < 0 {
			t.Errorf("it shows %+v", slow)
		}
		rows[slow.Command] = slow
	}
	for command, want := range map[string]inspect.SlowCommand{
		"RPUSH": {Key: "resque:queue:a", Arguments: 3, Bytes: 14 + 6 + 1000}, "SET": {Arguments: 2, Bytes: 18},
		"EVAL": {Key: "resque:queue:b", Arguments: 4, Bytes: 15 + 1 + 14 + 6}, "SADD": {Key: "resque:many", Arguments: 101, Bytes: 11 + 29*6},
	} {
		got := rows[command]
		if got.Key != want.Key || got.Arguments != want.Arguments || got.Bytes != want.Bytes {
			t.Errorf("%s is %+v, want %+v", command, got, want)
		}
	}
	if one, err := i.SlowLog(t.Context(), 1); err != nil || len(one) != 1 {
		t.Errorf("one is %+v, %v", one, err)
	}
	if _, err := i.SlowLog(t.Context(), 0); err == nil {
		t.Error("none may be asked for")
	}
	l.as("~resque:*", "-@all", "+info")
	var denied *inspect.DeniedError
	if _, err := i.SlowLog(t.Context(), 1); !errors.As(err, &denied) || denied.Rule != "+slowlog|get" {
		t.Errorf("who may not ask: %v", err)
	}
}

// Each shard says what it is; one that is away is left out and named.
func TestServerInfoOfShards(t *testing.T) {
	i, servers := sharded(t)
	servers[1].Kill()
	all, err := i.ServerInfo(t.Context())
	if err == nil || !strings.Contains(err.Error(), "shard redis://shard1") || len(all) != 2 || all[1].Shard != "redis://shard2" {
		t.Errorf("%+v, %v", all, err)
	}
	if err := i.Writable(t.Context()); err == nil || !strings.Contains(err.Error(), "shard redis://shard1") {
		t.Errorf("writable: %v", err)
	}
}

// DeniedBy finds what Redis denies in the error of any call, and nothing in others.
func TestDeniedBy(t *testing.T) {
	i, _, l := setup(t)
	l.as("~resque:*", "-@all", "+eval", "+evalsha", "+scan")
	_, err := i.SlowLog(t.Context(), 10)
	if d, ok := inspect.DeniedBy(err); !ok || d.Rule != "+slowlog|get" {
		t.Errorf("%+v of %v", d, err)
	}
	_, err = i.Audit(t.Context(), 10)
	if d, ok := inspect.DeniedBy(err); !ok || d.Rule != "+lrange" || d.Command != "LRANGE" {
		t.Errorf("%+v of %v", d, err)
	}
	for _, err := range []error{nil, errors.New("+lrange")} {
		if d, ok := inspect.DeniedBy(err); ok {
			t.Errorf("%v denies %+v", err, d)
		}
	}
}
