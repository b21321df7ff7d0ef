package checks

// diskChecks are about what is left when Redis or its machine ends.
var diskChecks = []*Check{{
	Number: 6, Name: "redis-keeps-nothing", Severity: Warning, Uses: Doctor, Title: "whether Redis writes its data to a disk",
	Sentence: "Redis writes nothing to a disk: when it ends, all jobs are gone",
	Remedy:   "turn the append-only file on, here and in the configuration of Redis",
	Command:  `redis-cli -u "$REDIS_URL" CONFIG SET appendonly yes`,
	look: func(l *look) error {
		info, err := info(l)
		if err != nil || info.Text("aof_enabled") == "1" {
			return err
		}
		if info.Text("aof_enabled") == "" {
			return blind{why: "this server does not say what it writes to a disk"}
		}
		save, err := config(l, "save")
		if err == nil && save == "" {
			l.find(values{})
		}
		return err
	},
}, {
	Number: 7, Name: "redis-fsync-off", Severity: Warning, Uses: Doctor, Title: "when Redis has its file written to the disk",
	Sentence: "Redis leaves it to the system when its append-only file gets to the disk (appendfsync is no): a crash of the machine loses the jobs of half a minute",
	Remedy:   "set appendfsync to everysec, here and in the configuration of Redis",
	Command:  `redis-cli -u "$REDIS_URL" CONFIG SET appendfsync everysec`,
	look: func(l *look) error {
		info, err := info(l)
		if err != nil || info.Text("aof_enabled") != "1" {
			return err
		}
		fsync, err := config(l, "appendfsync")
		if err == nil && fsync == "no" {
			l.find(values{})
		}
		return err
	},
}, {
	Number: 8, Name: "redis-save-failed", Severity: Error, Uses: Doctor | Notice, Title: "whether Redis could write to its disk",
	Sentence: "the last {what} of Redis failed: it refuses writes, or will lose what it has when it ends",
	Remedy:   "look into the log of Redis and at its disk: is it full, is the directory there, may Redis write into it",
	look: func(l *look) error {
		info, err := info(l)
		if err != nil {
			return err
		}
		for _, status := range []struct{ name, what string }{
			{"rdb_last_bgsave_status", "save"},
			{"aof_last_write_status", "write into the append-only file"},
			{"aof_last_bgrewrite_status", "rewrite of the append-only file"},
		} {
			if said := info.Text(status.name); said != "" && said != "ok" {
				l.find(values{"what": words(status.what)})
			}
		}
		return nil
	},
}, {
	Number: 9, Name: "redis-half-transaction", Severity: Warning, Uses: Doctor, Title: "how Redis reads its file after a crash",
	Bound: Bound{9.2, "version"}, // of Valkey; no version of Redis is known that drops the half
	Sentence: "{server} {version} may start after a crash with half of a script's writes at the end of its append-only file, and do them at the start after: " +
		"jobs at the heads of queues would be lost",
	Remedy: "run redis-check-aof --fix before each start, as docs/redis.md shows, and then accept check 9",
	look: func(l *look) error {
		info, err := info(l)
		if err != nil || info.Text("aof_enabled") != "1" {
			return err
		}
		server, version := "Redis", info.Text("redis_version")
		if valkey := info.Text("valkey_version"); valkey != "" {
			server, version = "Valkey", valkey
			if !versionOf(valkey).before(versionOf("9.2")) {
				return nil
			}
		}
		l.find(values{"server": words(server), "version": words(version)})
		return nil
	},
}}
