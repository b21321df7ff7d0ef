package resque

import (
	"slices"
	"strings"
	"sync"
)

// Contents says what the elements of a key are.
type Contents int

const (
	OtherContents Contents = iota
	Payloads               // jobs or failure records, in a list or as the values of a hash
	Names                  // names of queues, workers, lists or workflows, in a set
)

// Family is what a key of the namespace is for, in a word for people.
type Family struct {
	Name     string
	Contents Contents
}

// OtherFamily is the family of keys that neither Resque nor goworker nor a plugin that goworker knows has written.
var OtherFamily = Family{Name: "other"}

// families returns the family of each row of Fates, by its key. A child process of an isolated job asks for none.
var families = sync.OnceValue(func() map[string]Family {
	return map[string]Family{
		"queue:<queue>": {"queue", Payloads}, "go:queue:<queue>": {"queue", Payloads}, "go:kept:<queue>": {"kept payloads", Payloads},
		"queues": {"names of queues", Names}, "go:queues": {"names of queues", Names}, "go:paused": {"paused queues", Names}, "pause-all-workers": {"paused queues", OtherContents},
		"go:lane:<lane>": {"lane", Payloads}, "go:lanes:<lanes>": {"turns of lanes", OtherContents}, "go:lanes": {"turns of lanes", Names},
		"go:taken": {"ages of queues", OtherContents}, "go:depths": {"ages of queues", OtherContents},

		"failed": {"failed", Payloads}, "failed_queues": {"failed", Names},
		"go:schedule": {"delayed jobs", OtherContents}, "go:precise": {"delayed jobs", OtherContents}, "delayed_queue_schedule": {"delayed jobs", OtherContents},
		"delayed:<second>": {"delayed jobs", Payloads}, "timestamps:<item>": {"delayed jobs", OtherContents},
		"go:ticks": {"schedules", OtherContents}, "go:paused-schedules": {"schedules", Names}, "delayed:last_enqueued_at": {"schedules", OtherContents},
		"persistent_schedules": {"schedules", OtherContents}, "schedules_changed": {"schedules", Names}, "<namespace>resque_scheduler_master_lock": {"schedules", OtherContents},

		"go:inflight:<p>": {"go:inflight", Payloads}, "go:process:<p>": {"processes", OtherContents}, "go:process-more:<p>": {"processes", OtherContents},
		"go:processes": {"processes", OtherContents},
		"go:pulse":     {"processes", OtherContents}, "go:probe:<p>": {"processes", OtherContents}, "go:sentries:<digest>": {"processes", OtherContents}, "go:reaped:<p>": {"processes", OtherContents}, "go:recovered": {"processes", OtherContents},
		"workers": {"workers", Names}, "worker:<id>": {"workers", OtherContents}, "worker:<id>:started": {"workers", OtherContents},
		"workers:heartbeat": {"workers", OtherContents}, "pruning_dead_workers_in_progress": {"workers", OtherContents},
		"stat:<total>:<id>": {"totals", OtherContents}, "stat:<total>": {"totals", OtherContents}, "go:stats": {"totals", OtherContents},

		"go:unique:<digest>": {"locks", OtherContents}, "go:unique:<digest>:refused": {"locks", OtherContents}, "go:unique-rest": {"locks", OtherContents},
		"go:limits": {"limits", OtherContents}, "go:slots:<limit>": {"limits", Names}, "go:rate:<limit>": {"limits", OtherContents}, "go:clock": {"limits", OtherContents},
		"go:cancelled": {"cancelled jobs", OtherContents},

		"go:result:<id>": {"result documents", OtherContents}, "go:progress:<id>": {"result documents", OtherContents}, "go:logs:<id>": {"result documents", OtherContents},
		"go:cursor:<id>": {"long jobs", OtherContents}, "job:<id>:status": {"status of php-resque", OtherContents},
		"go:wf:<id>": {"workflows", OtherContents}, "go:wf-steps:<id>": {"workflows", OtherContents}, "go:workflows": {"workflows", OtherContents},
		"go:halted": {"workflows", Names}, "go:stalled": {"workflows", Names}, "go:wf-lock:<name>": {"workflows", OtherContents},
		"go:group:<id>": {"aggregated jobs", OtherContents}, "go:groups": {"aggregated jobs", OtherContents},

		"go:leased": {"jobs over HTTP", Payloads}, "go:leases": {"jobs over HTTP", OtherContents}, "go:returned": {"jobs over HTTP", OtherContents},
		"go:served:<t>": {"jobs over HTTP", OtherContents}, "go:takers": {"jobs over HTTP", OtherContents}, "go:taker:<t>": {"jobs over HTTP", OtherContents},
		"go:jump": {"jobs over HTTP", OtherContents}, "go:idem:<digest>": {"jobs over HTTP", OtherContents}, "go:http:rest:<queue>": {"jobs over HTTP", OtherContents},
		"go:http:tokens": {"tokens", OtherContents}, "go:http:rate:<digest>:<kind>": {"tokens", OtherContents}, "go:imported": {"imports", OtherContents},

		"go:tally": {"history", OtherContents}, "go:folded": {"history", OtherContents}, "go:m:<n>": {"history", OtherContents}, "go:x:<n>": {"history", OtherContents},
		"go:h:<n>": {"history", OtherContents}, "go:d:<n>": {"history", OtherContents}, "go:log": {"history", OtherContents},
		"go:notice": {"remote control", OtherContents}, "go:control": {"remote control", OtherContents}, "go:reply:<id>": {"remote control", OtherContents},
		"go:reply:<id>:n": {"remote control", OtherContents}, "go:rules": {"remote control", OtherContents},
		"go:events": {"events", OtherContents}, "go:events-all": {"events", OtherContents},
		"go:webhook:<name>": {"webhooks", OtherContents}, "go:webhook:<name>:state": {"webhooks", OtherContents},
		"go:audit": {"audit", OtherContents}, "go:operation:<id>": {"operations", OtherContents}, "go:operations": {"operations", OtherContents},
		"go:operating": {"operations", OtherContents}, "go:bin:<id>:<place>": {"bin", OtherContents},

		"resque-retry:<key>": {"resque-retry", OtherContents}, "failure-resque-retry:<key>": {"resque-retry", OtherContents},
		"go:<name>": {"goworker, another release", OtherContents},
	}
})

// FamilyOf returns the family of a key. It returns false for a key that is not in the namespace.
func (s Store) FamilyOf(key string) (f Family, ok bool) {
	rest, ok := strings.CutPrefix(key, s.ns)
	if !ok || rest == "" {
		return Family{}, false
	}
	if strings.HasPrefix(rest, s.ns) && strings.HasSuffix(rest, ":"+masterLockName) { // Ruby's key has the namespace twice
		return families()["<namespace>resque_scheduler_master_lock"], true
	}
	for _, row := range familyRows() {
		if part, ok := strings.CutPrefix(rest, row.start); ok && row.open == (part != "") {
			return row.Family, true
		}
	}
	if strings.HasSuffix(rest, FailureListOf("")) {
		return families()[FailedList], true
	}
	return OtherFamily, true
}

// familyRow is a row of families, taken apart.
type familyRow struct {
	start string // how the keys begin
	open  bool   // more follows
	Family
}

// familyRows are the families, those with the longest beginning first.
var familyRows = sync.OnceValue(func() (rows []familyRow) {
	for key, family := range families() {
		if start, _, open := strings.Cut(key, "<"); start != "" {
			rows = append(rows, familyRow{start, open, family})
		}
	}
	slices.SortFunc(rows, func(a, b familyRow) int { return len(b.start) - len(a.start) })
	return rows
})

// lone returns the keys of the namespace whose names are always the same, and their families.
func (s Store) lone() (keys []string, of map[string]Family) {
	of = make(map[string]Family)
	for row, family := range families() {
		if !strings.Contains(row, "<") {
			of[s.ns+row] = family
			keys = append(keys, s.ns+row)
		}
	}
	return keys, of
}
