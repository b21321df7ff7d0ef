package checks

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goworker/goworker/internal/resque"
)

// serverChecks are about the Redis itself and its replicas.
var serverChecks = []*Check{{
	Number: 1, Name: "redis-version", Severity: Error, Uses: Doctor, Title: "the version of Redis",
	Bound:    Bound{6.2, "version"},
	Sentence: "the server is Redis {version}, and goworker needs 6.2 or newer",
	Remedy:   "upgrade Redis, or use Valkey",
	look: func(l *look) error {
		info, err := info(l)
		if err != nil {
			return err
		}
		text := info.Text("redis_version")
		bound := versionOf(strconv.FormatFloat(l.check.Bound.Value, 'f', -1, 64))
		if info.Text("valkey_version") == "" && versionOf(text).before(bound) {
			l.find(values{"version": words(text)})
		}
		return nil
	},
}}

// placeChecks are about which Redis this is, and about time.
var placeChecks = []*Check{{
	Number: 10, Name: "redis-replica", Severity: Error, Uses: Doctor | Status | Notice, Title: "whether Redis is a master",
	Sentence: "this Redis is a replica of {master}, and no job can be taken from a replica",
	Remedy:   "give the address of the master, {master}, or the Sentinels or the Cluster that know it",
	look: func(l *look) error {
		info, err := info(l)
		if err == nil && info.Text("role") == "slave" {
			l.find(values{"master": info.Text("master_host") + ":" + info.Text("master_port")})
		}
		return err
	},
}, {
	Number: 11, Name: "replica-lag", Severity: Warning, Uses: Doctor, Title: "the replicas",
	Bound:    Bound{10, "s"},
	Sentence: "the replica {replica} has heard nothing for {lag}, and Redis takes writes without any replica: a fail-over to it would lose them",
	Remedy:   "repair its connection; then CONFIG SET min-replicas-to-write 1 and min-replicas-max-lag 10",
	look:     replicas,
}, {
	Number: 12, Name: "clocks-differ", Severity: Warning, Uses: Doctor, Title: "the clock of Redis",
	Bound:    Bound{5, "s"},
	Sentence: "the clock of Redis is {off} {way} that of this machine",
	Remedy:   "have both keep time by NTP: delayed and recurring jobs run by Redis's clock",
	look:     clocks,
}, {
	Number: 13, Name: "clock-went-back", Severity: Warning, Uses: Doctor, Title: "the clock of the limits",
	Bound:    Bound{5, "s"},
	Sentence: "the clock of Redis went back by {ahead}; the limits go on by a clock of their own, which is that far ahead",
	Remedy:   "nothing is to be done for the limits; leases over HTTP and delayed jobs came due that much later",
	look: func(l *look) error {
		ahead, err := l.store.ClockAhead(l.conn)
		if err == nil && ahead > l.check.Bound.Duration() {
			l.find(values{"ahead": ahead})
		}
		return err
	},
}}

// info is what Redis says of itself.
func info(l *look) (resque.ServerInfo, error) {
	return read(l, "info", func() (resque.ServerInfo, error) { return l.store.ServerInfo(l.conn) })
}

// config is a setting of the server.
func config(l *look, name string) (string, error) {
	return read(l, "config "+name, func() (string, error) { return l.store.Config(l.conn, name) })
}

// numberOf is a setting of the server that is a number.
func numberOf(l *look, name string) (int64, error) {
	text, err := config(l, name)
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0, blind{why: "this server does not say its " + name}
	}
	return n, nil
}

// replicas finds those whose lag is past the bound.
func replicas(l *look) error {
	info, err := info(l)
	if err != nil || info.Text("role") != "master" {
		return err
	}
	var late []values
	count, _ := info.Number("connected_slaves")
	for n := range min(count, 100) {
		fields := make(map[string]string)
		for field := range strings.SplitSeq(info.Text("slave"+strconv.FormatInt(n, 10)), ",") {
			name, value, _ := strings.Cut(field, "=")
			fields[name] = value
		}
		lag, err := strconv.Atoi(fields["lag"])
		if behind := time.Duration(lag) * time.Second; err == nil && fields["state"] == "online" && behind > l.check.Bound.Duration() {
			late = append(late, values{"replica": fields["ip"] + ":" + fields["port"], "lag": behind})
		}
	}
	if len(late) == 0 {
		return nil
	}
	least, err := numberOf(l, "min-replicas-to-write")
	if err != nil || least > 0 {
		return err
	}
	for _, v := range late {
		l.find(v)
	}
	return nil
}

// clocks compares Redis's clock with that of this machine. The time that the question takes counts for neither.
func clocks(l *look) error {
	before := l.now()
	redis, err := l.store.ServerTime(l.conn)
	if err != nil {
		return err
	}
	after := l.now()
	switch bound := l.check.Bound.Duration(); {
	case before.Sub(redis) > bound:
		l.find(values{"off": before.Sub(redis), "way": words("behind")})
	case redis.Sub(after) > bound:
		l.find(values{"off": redis.Sub(after), "way": words("ahead of")})
	}
	return nil
}

// netChecks are about the way to Redis and who else is on it.
var netChecks = []*Check{{
	Number: 14, Name: "redis-slow", Severity: Warning, Uses: Doctor, Title: "how fast Redis answers",
	Bound:    Bound{0.005, "s"},
	Sentence: "the second slowest of 100 answers to a PING took {p99}: each turn of a worker waits that long",
	Remedy:   "run the workers near Redis; look for commands that hold it up (check 15) and for a machine that is busy",
	look:     pings,
}, {
	Number: 15, Name: "slow-commands", Severity: Warning, Uses: Doctor, Title: "commands that hold Redis up",
	Bound:    Bound{86400, "s"},
	Sentence: "{command} held Redis up {times} times in the last day, for up to {took}, from {client}: no job starts or ends meanwhile",
	Remedy:   "have that program use SCAN in place of KEYS, and remove jobs by id or a page at a time in place of LREM; SLOWLOG RESET clears the list",
	look:     slow,
}, {
	Number: 16, Name: "connections", Severity: Warning, Uses: Doctor, Title: "the connections of Redis",
	Bound: Bound{0.8, "share"}, More: []Bound{{10, "connections"}}, // of what Redis takes; of one process: four, those of its parts, and a small pool
	Sentence: "there are {used} connections {where}, and {limit}",
	Remedy:   "use fewer shards and processes, and smaller pools (-connections), or raise maxclients",
	look:     connections,
}}

const (
	pingCount = 100
	pingsMin  = 10 // from so many on the slowest one says something
)

func pings(l *look) error {
	var took []time.Duration
	for len(took) < pingCount && !(len(took) >= pingsMin && l.over()) {
		before := l.now()
		if err := l.store.PingServer(l.conn); err != nil {
			return err
		}
		took = append(took, l.now().Sub(before))
	}
	l.saw(len(took), pingCount)
	slices.Sort(took)
	if p99 := took[len(took)-2]; p99 > l.check.Bound.Duration() {
		l.find(values{"p99": p99.Round(100 * time.Microsecond)})
	}
	return nil
}

// mostSlow is how many entries of the slow log are read: as many as Redis keeps by default.
const mostSlow = 128

// slow finds in the slow log the commands that read or search a whole key or database.
func slow(l *look) error {
	commands, err := l.store.SlowCommands(l.conn, mostSlow)
	if err != nil {
		return err
	}
	now, err := l.store.ServerTime(l.conn)
	if err != nil {
		return err
	}
	type from struct{ command, client string }
	times, took := make(map[from]int), make(map[from]time.Duration)
	var order []from
	for _, c := range commands {
		name := strings.ToUpper(c.Args[0])
		if now.Sub(c.At) > l.check.Bound.Duration() || !slices.Contains([]string{"KEYS", "LREM"}, name) {
			continue
		}
		client, _, _ := cutLast(c.Client, ":")
		if c.Name != "" {
			client = c.Name + " at " + client
		}
		of := from{name, client}
		if times[of]++; times[of] == 1 {
			order = append(order, of)
		}
		took[of] = max(took[of], c.Took)
	}
	for _, of := range order {
		l.find(values{"command": words(of.command), "client": of.client, "times": times[of], "took": took[of]})
	}
	return nil
}

func cutLast(text, sep string) (before, after string, found bool) {
	if at := strings.LastIndex(text, sep); at >= 0 {
		return text[:at], text[at+len(sep):], true
	}
	return text, "", false
}

// mostClients is how many connections are listed.
const mostClients = 20_000

// connections finds a server that is nearly out of them, and hosts whose processes have many.
func connections(l *look) error {
	info, err := info(l)
	if err != nil {
		return err
	}
	used, _ := info.Number("connected_clients")
	most, err := numberOf(l, "maxclients")
	if n, ok := info.Number("maxclients"); ok {
		most, err = n, nil
	}
	if err != nil {
		return err
	}
	if most > 0 && float64(used) > l.check.Bound.Value*float64(most) {
		l.find(values{
			"used": used, "where": words("to Redis"),
			"limit": words("it takes " + count(most) + ": beyond that it refuses workers and producers"),
		})
	}
	if used > mostClients {
		return blind{why: "there are more than " + count(mostClients) + " connections to list"}
	}
	clients, err := l.store.Clients(l.conn)
	if err != nil {
		return err
	}
	scripts, processes := make(map[string]int), make(map[string]int)
	for _, c := range clients {
		if c.RunsScripts() {
			scripts[c.Address]++
		}
		if c.Tracking {
			processes[c.Address]++
		}
	}
	for _, host := range sortedKeys(processes) {
		if each := l.check.More[0].Value; float64(scripts[host]) > each*float64(processes[host]) {
			l.find(values{
				"used": scripts[host], "where": words("of goworker's from " + in(host)),
				"limit": words(plural(processes[host], "process is", "processes are") + " there, each of which needs " + in(int(each)) + " at most"),
			})
		}
	}
	return nil
}
