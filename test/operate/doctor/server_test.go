package doctor

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/daemontest"
	"github.com/goworker/goworker/internal/redistest"
)

// serverFaults are those of checks 1 to 23: Redis and what it lets its users do.
var serverFaults = []fault{
	{number: 1, rewrite: becomes("redis_version:7.2.4\r\nvalkey_version:9.2.0", "redis_version:5.0.14"), expect: "Redis 5.0.14,", remedy: "upgrade",
		also: []int{9, 19, 20}}, // 5.0 has no ACL DRYRUN
	{number: 2, args: own, expect: "allkeys-lru", remedy: "CONFIG SET maxmemory-policy noeviction", plant: func(w *world) {
		w.do("CONFIG", "SET", "maxmemory", "1gb", "maxmemory-policy", "allkeys-lru")
	}},
	{number: 3, args: own, expect: "has deleted", plant: func(w *world) {
		w.do("CONFIG", "SET", "maxmemory", "3mb", "maxmemory-policy", "allkeys-random")
		for n := 0; w.info("evicted_keys") == "0"; n++ {
			w.do("SET", "other:"+strconv.Itoa(n), strings.Repeat("x", 100_000))
		}
		w.do("CONFIG", "SET", "maxmemory", "0", "maxmemory-policy", "noeviction")
	}},
	{number: 4, args: own, expect: `"queue:mail" `, plant: func(w *world) {
		w.do("SADD", "~queues", "mail")
		for range 200 {
			w.do("RPUSH", "~queue:mail", `{"class":"A","args":["`+strings.Repeat("x", 100_000)+`"]}`)
		}
		used, _ := strconv.Atoi(w.info("used_memory"))
		w.do("CONFIG", "SET", "maxmemory", used*10/9)
	}, also: []int{35}},
	{number: 5, args: own, expect: ": 1 since", plant: func(w *world) {
		w.do("CONFIG", "SET", "maxmemory", "1")
		if err := w.refused("SET", "other", "x"); err == nil {
			w.t.Error("the server is not full")
		}
		w.do("CONFIG", "SET", "maxmemory", "0")
	}},
	{number: 6, args: own, expect: "nothing to a disk", plant: func(w *world) { w.do("CONFIG", "SET", "appendonly", "no", "save", "") }},
	{number: 7, args: own, expect: "appendfsync is no", plant: func(w *world) { w.do("CONFIG", "SET", "appendfsync", "no") }},
	{number: 8, args: []string{"--enable-protected-configs", "yes"}, expect: "the last save", plant: func(w *world) {
		dir := filepath.Join(w.server.Dir, "gone")
		if err := os.Mkdir(dir, 0o700); err != nil {
			w.t.Fatal(err)
		}
		w.do("CONFIG", "SET", "dir", dir)
		if err := os.Remove(dir); err != nil {
			w.t.Fatal(err)
		}
		_ = w.refused("BGSAVE")
		redistest.Eventually(w.t, daemontest.Soon, "a save fails", func() bool { return w.info("rdb_last_bgsave_status") == "err" })
	}},
	{number: 9, rewrite: func(text string) string { return text }, expect: "Redis 7.", remedy: "redis-check-aof --fix"},
	{number: 10, args: own, expect: "a replica of", plant: func(w *world) {
		master := redistest.Start(w.t)
		_, port, _ := strings.Cut(master.Addr, ":")
		w.do("REPLICAOF", "127.0.0.1", port)
		redistest.Eventually(w.t, daemontest.Soon, "it is a replica", func() bool { return w.info("master_link_status") == "up" })
	}, blinds: true}, // what has to write
	{number: 11, rewrite: becomes("connected_slaves:0", "connected_slaves:1\r\nslave0:ip=10.0.0.7,port=6379,state=online,offset=1,lag=60"),
		expect: `"10.0.0.7:6379" has heard nothing for 1m`, remedy: "min-replicas-to-write 1"},
	{number: 12, name: "Redis behind", expect: "behind", plant: func(w *world) {
		w.options.Now = func() time.Time { return steady().Add(time.Hour) }
	}},
	{number: 12, name: "Redis ahead", expect: "1h ahead of", plant: func(w *world) {
		w.options.Now = func() time.Time { return steady().Add(-time.Hour) }
	}},
	{number: 13, expect: "2h", plant: func(w *world) { w.do("SET", "~go:clock", "7200000000 1") }},
	{number: 14, expect: "took 6ms", plant: func(w *world) {
		calls := 0
		w.options.Now = func() time.Time {
			calls++
			return steady().Add(time.Duration(calls) * 6 * time.Millisecond)
		}
	}},
	{number: 15, args: own, expect: "KEYS held Redis up 2 times", plant: func(w *world) {
		w.do("CONFIG", "SET", "slowlog-log-slower-than", "0")
		w.do("KEYS", "*")
		w.do("KEYS", "*")
		w.do("CONFIG", "SET", "slowlog-log-slower-than", "10000000")
	}},
	{number: 16, name: "of all clients", args: own, expect: "takes 60", plant: func(w *world) {
		w.do("CONFIG", "SET", "maxclients", "60")
		w.held(50, "PING")
	}},
	{number: 16, name: "of one process", args: own, expect: "12 connections", plant: func(w *world) {
		w.tracking()
		w.held(11, "EVAL", "return 1", 0)
	}},
	{number: 17, args: []string{"--rename-command", "CLIENT", ""}, born: true, expect: "does not know CLIENT", blinds: true},
	{number: 18, args: own, expect: "room for 5", plant: func(w *world) {
		w.do("CONFIG", "SET", "tracking-table-max-keys", "5")
		c := w.tracking()
		for n := range 10 {
			if _, err := c.Do("GET", "other:"+strconv.Itoa(n)); err != nil {
				w.t.Fatal(err)
			}
		}
	}},
	{number: 19, args: own, expect: `"worker" may not run everything that workers need: +zadd is missing`, remedy: "ACL SETUSER worker '+zadd'",
		plant: func(w *world) { w.limitedUser("-zadd") }},
	{number: 19, name: "the same user", args: own, expect: `"default" may not run everything that workers need: +bitcount`, plant: func(w *world) {
		w.process("web-1", "mail")
		w.server.Do(w.t, "ACL", "SETUSER", "default", "-bitcount")
	}},
	{number: 19, name: "not 20 too", args: own, expect: "+zadd is missing", plant: func(w *world) { w.limitedUser("-zadd", "-client|tracking") }},
	{number: 20, args: own, expect: `lacks &__redis__:invalidate &`, remedy: "'+client|tracking'", plant: func(w *world) { w.limitedUser("resetchannels", "-client|tracking") }},
	{number: 21, args: own, expect: "1 MiB", remedy: "CONFIG SET proto-max-bulk-len", plant: func(w *world) { w.do("CONFIG", "SET", "proto-max-bulk-len", "1mb") }},
	{number: 22, args: []string{"--cluster-enabled", "yes"}, born: true, blinds: true, expect: "no part in braces", plant: func(w *world) {
		w.do("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
		redistest.Eventually(w.t, daemontest.Soon, "the Cluster is up", func() bool {
			return strings.Contains(w.server.Text(w.t, "CLUSTER", "INFO"), "cluster_state:ok")
		})
	}},
	{number: 23, name: "single key", blinds: true, expect: "is a string, where Resque has a set", remedy: "RENAMENX", plant: func(w *world) { w.do("SET", "~workers", "x") }},
	{number: 23, name: "queue", blinds: true, expect: `is a string, where Resque has a list`, remedy: `:queue:it'\''s;$(x)' '`, plant: func(w *world) {
		w.do("SADD", "~queues", "it's;$(x)")
		w.do("SET", "~queue:it's;$(x)", "x")
	}},
}

// tracking returns a connection whose keys Redis tracks, as those of a goworker process.
func (w *world) tracking() redis.Conn {
	w.t.Helper()
	to := w.server.Dial(w.t)
	id, err := redis.Int(to.Do("CLIENT", "ID"))
	if err != nil {
		w.t.Fatal(err)
	}
	c := w.server.Dial(w.t)
	if _, err := c.Do("CLIENT", "TRACKING", "ON", "REDIRECT", id); err != nil {
		w.t.Fatal(err)
	}
	return c
}

// limitedUser connects as the user of the minimal ACL, whose rules are changed, and runs a script.
func (w *world) limitedUser(change ...string) {
	w.t.Helper()
	rules := append(redistest.MinimalACL(w.t), "~"+w.ns+"*")
	w.server.Do(w.t, "ACL", redis.Args{"SETUSER"}.AddFlat(rules).AddFlat(change)...)
	c := w.server.Dial(w.t)
	if _, err := c.Do("AUTH", redistest.ACLUser, redistest.ACLPassword); err != nil {
		w.t.Fatal(err)
	}
	if _, err := c.Do("EVAL", "return 1", 0); err != nil {
		w.t.Fatal(err)
	}
}
