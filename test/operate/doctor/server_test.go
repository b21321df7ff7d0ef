package doctor

// serverFaults are those of checks 1 to 23: Redis and what it lets its users do.
var serverFaults = []fault{
	{number: 1, rewrite: becomes("redis_version:7.2.", "redis_version:5.0."), expect: "Redis 5.0.", remedy: "upgrade"},
}
