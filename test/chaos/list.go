package main

// fault is one row of the table.
type fault struct {
	name, title string
	run         func(options) result
	long        bool // takes -duration, and has the machine to itself
}

var faults = []fault{
	{"boundaries", "F24: kill -9 at every boundary of every script", killAtBoundaries, false},
	{"replies", "connections cut at the same boundaries: replies lost after the script ran", cutAtBoundaries, false},
	{"late", "calls that Redis hears when their process goes on without them, or was found dead", lateCalls, false},
	{"kill", "F1: kill -9 of workers at random instants, under load", kill, false},
	{"storm", "F1: kill -9 so often that few processes live for as long as a lease", storm, false},
	{"rolling", "F2: rolling restarts with TERM", rolling, false},
	{"deadline", "F3: the shutdown deadline, and a second TERM", deadline, false},
	{"redis-kill", "F4: kill -9 of Redis under pipelines of pushes, appendfsync always", redisKill, false},
	{"redis-empty", "F5: Redis restarted without its data", redisEmpty, false},
	{"script-flush", "F6: SCRIPT FLUSH", flushScripts, false},
	{"partition-short", "F7: a worker cut off for 5 s, half-open and by reset", shortPartition, false},
	{"partition-long", "F7: workers cut off for longer than their leases", longPartition, false},
	{"slow", "F8: latency, jitter, 20 KB/s, crumbs, cuts in the middle of a reply", slow, false},
	{"redis-sigstop", "F9: Redis stopped for 12 s: it finds every lease expired", redisStops, false},
	{"redis-sleep", "F9: DEBUG SLEEP for 12 s", redisSleeps, false},
	{"client-pause", "F9: CLIENT PAUSE for 12 s", clientPause, false},
	{"zombie", "F10: SIGSTOP of workers past their leases, then SIGCONT", zombie, false},
	{"suspend", "F10: SIGSTOP of all workers past their leases, then SIGCONT of one after the other", suspend, false},
	{"stall", "F10: SIGSTOP of a worker within its lease", stall, false},
	{"oom", "F11: maxmemory reached, noeviction", memoryFull, false},
	{"eviction", "F12: maxmemory-policy allkeys-lru: the worker", eviction, false},
	{"readonly", "F13: READONLY, as after a fail-over", readOnly, false},
	{"clock", "F15: Redis's clock jumps by minutes and hours, both ways", clocks, false},
	{"churn", "F16: CLIENT KILL each 100 ms", churn, false},
	{"busy", "BUSY: another client's script holds Redis", busy, false},
	{"poison", "F17: a job that ends its process", poison, false},
	{"poison-stream", "F17: fast poison jobs in a queue that is never empty, jobs reserved ahead", poisonStream, false},
	{"poison-slow", "F17: poison jobs that end their process late, in such a queue", poisonSlow, false},
	{"poison-long", "F17: long jobs beside a poison job, in such a queue", poisonLong, false},
	{"panics", "F18: panics, Goexit, errors", panics, false},
	{"bad", "F19: payloads that are no jobs", badPayloads, false},
	{"fleet", "F20: node-resque's worker on the same queue", mixedFleet, false},
	{"operators", "operators remove our keys and change their types", operators, false},
	{"keys", "operators remove each of our keys and change its type, under limits, retries, locks and schedules", keys, false},
	{"limit-lost", "the numbers of a limit are removed when no live process has registered it", limitLost, false},
	{"leader", "F21: the process that fires recurring schedules killed, frozen and replaced at their ticks", leader, false},
	{"pump-kill", "kill -9 of Redis and of the leader while delayed jobs are due", pumpKill, false},
	{"schedulers", "a Ruby scheduler beside ours, which takes over, stops and is killed", schedulers, false},
	{"isolated", "isolated jobs and their daemons: kill -9 and TERM", isolated, false},
	{"maxclients", "F23: Redis takes no more connections", maxClients, false},
	{"disk-full", "F23: no space for the append-only file", diskFull, false},
	{"policies", "delayed, retried, unique, limited, isolated and recurring jobs under kills, freezes and restarts of Redis", policies, false},
	{"results", "jobs with results: kill -9 of workers and of Redis, closed connections; some are cancelled, some are waited for", results, false},
	{"workflows", "workflows: kill -9 of workers and of Redis, closed connections; starts and additions are repeated until Redis answers", workflowsUnderFire, false},
	{"aggregation", "jobs that become one: kill -9 and restarts of workers, closed connections, kill -9 of Redis", aggregation, false},
	{"cursor", "jobs that go on where they were: kill -9 and TERM of workers, freezes past their leases, closed connections, kill -9 of Redis", cursor, false},
	{"drain", "kill -9 of a fleet at work, then five times of the drain to Ruby; Ruby's and node-resque's workers run what is left", drain, false},
	{"http-boundaries", "F25: kill -9 of an HTTP server at every boundary of its scripts", httpKillAtBoundaries, false},
	{"http-replies", "F25: connections of an HTTP server cut at the same boundaries: no try is used up", httpCutAtBoundaries, false},
	{"http-connections", "F25: each connection of an HTTP server closed alone: no try is used up", httpConnections, false},
	{"http-kill", "F25: kill -9 of two HTTP servers and their consumers at random instants, appendfsync always", httpKill, false},
	{"http-freeze", "F25: SIGSTOP of an HTTP server for longer than leases last, then SIGCONT", httpFreeze, false},
	{"http-redis", "F25: kill -9 of Redis, full memory, closed connections and SCRIPT FLUSH under HTTP servers, appendfsync always", httpRedis, false},
	{"http-stop", "F25: Redis stopped for 20 s under HTTP servers: it finds every lease over", httpStop, false},
	{"http-failover", "F25: a replica that has all becomes the master under HTTP servers", httpFailOver, false},
	{"http-wait", "F25: a replica that is behind becomes the master; each publish waits for it", httpWait, false},
	{"http-behind", "F25: a replica that is behind becomes the master; no publish waits", httpBehind, false},
	{"http-everysec", "F25: Redis loses the end of its file, appendfsync everysec", httpEverySec, false},
	{"http-empty", "F25: Redis restarted without its data under HTTP servers", httpEmpty, false},
	{"http-clock", "F25: Redis's clock jumps by an hour while consumers have jobs over HTTP", httpClock, false},
	{"http-clocks", "F25: the clocks of two HTTP servers are an hour apart", httpClocks, false},
	{"mixed", "F22: many of these at once", mixed, true},
}

// elsewhere says where the rest of the catalogue is tried.
const elsewhere = `F13 with Sentinel and F14 (Cluster) are tried by test/topology.
`
