package checks

import (
	"maps"
	"slices"
	"strings"
)

// memoryChecks are about what Redis does when its memory is full.
var memoryChecks = []*Check{{
	Number: 2, Name: "redis-evicts", Severity: Error, Uses: Doctor | Notice | Alert, Title: "what Redis does when its memory is full",
	Sentence: "Redis deletes keys when its memory is full (maxmemory-policy is {policy}): queues, locks and leases would go without a trace",
	Remedy:   "set the policy to noeviction, here and in the configuration of Redis",
	Command:  `redis-cli -u "$REDIS_URL" CONFIG SET maxmemory-policy noeviction`,
	look: func(l *look) error {
		info, err := info(l)
		if err != nil {
			return err
		}
		policy, limit := info.Text("maxmemory_policy"), info.Text("maxmemory")
		if policy == "" {
			return blind{why: "this server does not say its maxmemory-policy"}
		}
		if limit != "0" && policy != "noeviction" {
			l.find(values{"policy": words(policy)})
		}
		return nil
	},
}, {
	Number: 3, Name: "redis-evicted", Severity: Warning, Uses: Doctor, Title: "keys that Redis deleted for lack of memory",
	Bound:    Bound{0, "keys"},
	Sentence: "Redis has deleted {keys} keys for lack of memory since it was started: there may have been jobs among them",
	Remedy:   "mend check 2, compare the queues with what producers sent, then CONFIG RESETSTAT",
	Command:  `redis-cli -u "$REDIS_URL" CONFIG RESETSTAT`,
	look: func(l *look) error {
		info, err := info(l)
		if n, _ := info.Number("evicted_keys"); err == nil && float64(n) > l.check.Bound.Value {
			l.find(values{"keys": n})
		}
		return err
	},
}, {
	Number: 4, Name: "redis-memory", Severity: Warning, Uses: Doctor | Status | Notice | Alert, Title: "the memory of Redis",
	Bound:    Bound{0.8, "share"},
	Sentence: "Redis uses {used} of its {limit} ({share}); the largest keys here: {largest}",
	Remedy:   "raise maxmemory, or remove what is not needed: old failures, results, the bin; at the limit Redis refuses new jobs",
	look:     memory,
}, {
	Number: 5, Name: "redis-oom", Severity: Warning, Uses: Doctor | Status | Notice, Title: "writes that Redis refused for lack of memory",
	Sentence: "Redis refuses writes for lack of memory: {writes} since it was started; jobs that are pushed are refused, workers go on",
	Remedy:   "raise maxmemory, or remove what is not needed, then CONFIG RESETSTAT",
	Command:  `redis-cli -u "$REDIS_URL" CONFIG RESETSTAT`,
	look: func(l *look) error {
		info, err := info(l)
		if err != nil {
			return err
		}
		text, _ := strings.CutPrefix(info.Text("errorstat_OOM"), "count=")
		if text != "" && text != "0" {
			l.find(values{"writes": words(text)})
		}
		return nil
	},
}}

// mostLargest is how many of the largest keys a sentence names.
const mostLargest = 3

func memory(l *look) error {
	info, err := info(l)
	if err != nil {
		return err
	}
	used, _ := info.Number("used_memory")
	spared, _ := info.Number("mem_not_counted_for_evict")
	limit, _ := info.Number("maxmemory")
	part := float64(used-spared) / float64(limit)
	if limit == 0 || part <= l.check.Bound.Value {
		return nil
	}
	largest := words("unknown")
	queues, err := l.store.Queues(l.conn)
	if err == nil {
		queues = queues[:min(len(queues), 1000)]
		keys, denied := l.store.LargestKeys(l.conn, queues, mostLargest)
		var list []string
		for _, k := range keys {
			list = append(list, in(k.Key)+" "+bytesOf(k.Bytes))
		}
		switch why, _, ok := l.cannot(denied); {
		case ok:
			largest = words("unknown, since " + why)
		case denied != nil:
			return denied
		case len(list) > 0:
			largest = words(strings.Join(list, ", "))
		}
	}
	l.find(values{"used": size(used), "limit": size(limit), "share": share(part), "largest": largest})
	return nil
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return count(int64(n)) + " " + many
}
