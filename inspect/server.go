package inspect

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/clock"
	"github.com/goworker/goworker/internal/prefix"
	"github.com/goworker/goworker/internal/resque"
)

// ServerInfo is what one Redis says of itself. A number that this server does not say is -1, and a text "".
type ServerInfo struct {
	Name    string        // its URI, with *** for the password; of shards the name
	Version string        // of Redis, or of what it says in its place
	Product string        // "redis", "valkey"
	Now     time.Time     // by its clock
	Uptime  time.Duration // -1: it does not say
	Role    string        // "master" or "slave", as Redis calls them
	Latency time.Duration // of one round trip from here
	Cluster bool          // it is a node of a Cluster, and all of this is of that node

	Master   string // of a replica: host and port of its master
	MasterUp bool   // of a replica: it is connected to it
	Replicas []Replica

	Memory      ServerMemory
	Persistence ServerPersistence

	Clients     int64 // connections
	Blocked     int64 // of these, those that wait in a command
	MostClients int64 // maxclients
	Rejected    int64 // connections that were refused because there were so many, since its start

	OpsPerSecond int64
	Hits, Misses int64 // keys that were found or not, since its start
	Evicted      int64 // keys that it deleted because its memory was full, since its start
	CPU          time.Duration

	Keys     int64 // of the database in use, those of other programs too
	Expiring int64 // of these, those that go by themselves

	Denied []Denied
	Shard  string // of several Redises, this one; "": there is one
}

// Replica is a replica that a master knows.
type Replica struct {
	Address string
	State   string // "online", else it is being filled
	// Behind is how many bytes it has not confirmed, and Lag how long ago it last spoke, in whole seconds.
	Behind int64
	Lag    time.Duration
}

// ServerMemory is the memory of a Redis, in bytes.
type ServerMemory struct {
	Used, Peak, RSS int64
	Max             int64   // maxmemory; 0: no bound
	System          int64   // of the machine
	Fragmentation   float64 // RSS by Used; meaningless while Used is small
	Policy          string  // what it does when Max is reached: "noeviction", "allkeys-lru" …
}

// ServerPersistence is how a Redis keeps its data.
type ServerPersistence struct {
	Loading     bool      // it reads its data, and answers nothing else
	AOF         bool      // it has an append-only file
	AOFOK       bool      // the last write and the last rewrite of that file went well
	Rewriting   bool      // the file is being rewritten
	LastSave    time.Time // by its clock
	SaveOK      bool      // the last snapshot went well
	Saving      bool      // a snapshot is being made
	Changes     int64     // since the last snapshot
	AppendFsync string    // the setting; "": Denied says why it is not known
	Save        string    // the setting, such as "3600 1 300 100"; "": there are no snapshots by time, or Denied says why it is not known
	SaveKnown   bool      // Save is known
}

// ServerInfo returns what each Redis says of itself, in the order of the shards. It costs two round trips, and reads two settings,
// appendfsync and save, by their names. A user that may not ask for them, or for DBSIZE, gets the rest: Denied names the rules.
//
// If a shard does not answer, it is left out, and the error names it.
func (i *Inspector) ServerInfo(ctx context.Context) ([]ServerInfo, error) {
	var all []ServerInfo
	err := i.each(func(one *Inspector) error {
		info, err := query(ctx, one, func(s resque.Store, c redis.Conn) (ServerInfo, error) {
			st, err := s.ServerState(c, clock.System.Now)
			if err != nil {
				return ServerInfo{}, refusal(s, err)
			}
			return serverInfo(st), nil
		})
		if err == nil {
			info.Name, info.Shard = one.name(), one.shard()
			all = append(all, info)
		}
		return err
	})
	return all, err
}

// facts reads the lines of an INFO.
type facts struct{ resque.ServerInfo }

func (f facts) number(name string) int64 {
	if n, ok := f.Number(name); ok {
		return n
	}
	return -1
}

func (f facts) is(name, value string) bool { return f.Text(name) == value }

// okay reports whether a status is not bad. A server that lacks the line has nothing to complain of.
func (f facts) okay(name string) bool { return f.Text(name) == "" || f.is(name, "ok") }

func (f facts) seconds(name string) time.Duration {
	if s, err := strconv.ParseFloat(f.Text(name), 64); err == nil {
		return time.Duration(s * float64(time.Second))
	}
	return -1
}

func serverInfo(st resque.ServerState) ServerInfo {
	f := facts{st.Info}
	info := ServerInfo{
		Version: f.Text("redis_version"), Product: "redis", Now: st.Now, Uptime: f.seconds("uptime_in_seconds"), Role: f.Text("role"), Latency: st.Took,
		Cluster:  f.is("cluster_enabled", "1"),
		MasterUp: f.is("master_link_status", "up"),
		Memory: ServerMemory{
			Used: f.number("used_memory"), Peak: f.number("used_memory_peak"), RSS: f.number("used_memory_rss"), Max: f.number("maxmemory"),
			System: f.number("total_system_memory"), Policy: f.Text("maxmemory_policy"),
		},
		Persistence: ServerPersistence{
			Loading: f.is("loading", "1"),
			AOF:     f.is("aof_enabled", "1"), AOFOK: f.okay("aof_last_write_status") && f.okay("aof_last_bgrewrite_status"), Rewriting: f.is("aof_rewrite_in_progress", "1"),
			SaveOK: f.okay("rdb_last_bgsave_status"), Saving: f.is("rdb_bgsave_in_progress", "1"), Changes: f.number("rdb_changes_since_last_save"),
			AppendFsync: st.AppendFsync, Save: st.Save, SaveKnown: st.SaveKnown,
		},
		Clients: f.number("connected_clients"), Blocked: f.number("blocked_clients"), MostClients: f.number("maxclients"), Rejected: f.number("rejected_connections"),
		OpsPerSecond: f.number("instantaneous_ops_per_sec"), Hits: f.number("keyspace_hits"), Misses: f.number("keyspace_misses"), Evicted: f.number("evicted_keys"),
		CPU: -1, Keys: max(st.Keys, -1), Expiring: max(st.Expires, -1), Denied: deniedOf(st.Denied),
	}
	if name := f.Text("server_name"); name != "" { // Valkey shows the version of the Redis that it began as beside its own
		info.Product, info.Version = name, f.Text(name+"_version")
	}
	if last := f.number("rdb_last_save_time"); last > 0 {
		info.Persistence.LastSave = time.Unix(last, 0)
	}
	info.Memory.Fragmentation, _ = strconv.ParseFloat(f.Text("mem_fragmentation_ratio"), 64)
	if sys, user := f.seconds("used_cpu_sys"), f.seconds("used_cpu_user"); sys >= 0 && user >= 0 {
		info.CPU = sys + user
	}
	if host := f.Text("master_host"); host != "" {
		info.Master = host + ":" + f.Text("master_port")
	}
	info.Replicas = replicas(f)
	return info
}

// replicas reads lines such as slave0:ip=10.0.0.2,port=6379,state=online,offset=1284,lag=1.
func replicas(f facts) (all []Replica) {
	for n := range max(0, f.number("connected_slaves")) {
		line := f.Text(fmt.Sprint("slave", n))
		if line == "" {
			break
		}
		r := Replica{Behind: -1, Lag: -1}
		host, port := "", ""
		for field := range strings.SplitSeq(line, ",") {
			switch name, value, _ := strings.Cut(field, "="); name {
			case "ip":
				host = value
			case "port":
				port = value
			case "state":
				r.State = value
			case "offset":
				if offset, err := strconv.ParseInt(value, 10, 64); err == nil {
					r.Behind = max(0, f.number("master_repl_offset")-offset)
				}
			case "lag":
				if lag, err := strconv.Atoi(value); err == nil && lag >= 0 {
					r.Lag = time.Duration(lag) * time.Second
				}
			}
		}
		r.Address = host + ":" + port
		all = append(all, r)
	}
	return all
}

// ErrReadOnly is returned by Writable where Redis can only be read. The error says why.
var ErrReadOnly = prefix.New("this Redis can only be read")

// Writable returns nil if this user of Redis may write here, and else an ErrReadOnly that says why: it is a replica, it cannot save, or the
// user lacks a rule. It removes a key of goworker's that no program has. A Redis that does not answer is another error.
//
// Over shards it is the error of each that cannot be written.
func (i *Inspector) Writable(ctx context.Context) error {
	return i.each(func(one *Inspector) error {
		return one.do(ctx, func(s resque.Store, c redis.Conn) error {
			err := s.CanWrite(c)
			var refused redis.Error
			if !errors.As(err, &refused) {
				return err
			}
			if denied, ok := s.Denied(err); ok {
				return prefix.Errorf("%w: %s", ErrReadOnly, Denied{denied.Command, denied.Rule})
			}
			return prefix.Errorf("%w: %w", ErrReadOnly, resque.Explain(err))
		})
	})
}

// SlowCommand is a command that took long, without what it was about: its arguments may be payloads, those of other programs too.
type SlowCommand struct {
	At        time.Time // by Redis's clock, to the second
	Took      time.Duration
	Command   string // in capitals
	Key       string // the first key, if it is in the namespace; else ""
	Arguments int    // how many it had
	Bytes     int64  // of all of them
	Shard     string // of several Redises, the one where it ran
}

// MaxSlow is how many commands SlowLog returns at most.
const MaxSlow = 1000

// SlowLog returns the newest commands of the slow log, at most count of each Redis, the newest first. Redis keeps 128 of those that took
// 10 ms or more, unless it is set otherwise. The error is a DeniedError with the rule +slowlog|get where the user may not ask.
func (i *Inspector) SlowLog(ctx context.Context, count int) ([]SlowCommand, error) {
	if count < 1 || count > MaxSlow {
		return nil, fmt.Errorf("goworker: ask for 1 to %d slow commands, not for %d", MaxSlow, count)
	}
	var all []SlowCommand
	err := i.each(func(one *Inspector) error {
		return one.do(ctx, func(s resque.Store, c redis.Conn) error {
			commands, err := s.SlowCommands(c, count)
			for _, slow := range commands {
				n, bytes := slow.Weigh()
				all = append(all, SlowCommand{
					At: slow.At, Took: slow.Took, Command: slow.Verb(), Key: s.KeyOfSlow(slow), Arguments: n, Bytes: bytes, Shard: one.shard(),
				})
			}
			return refusal(s, err)
		})
	})
	slices.SortStableFunc(all, func(a, b SlowCommand) int { return b.At.Compare(a.At) })
	return all, err
}
