package checks

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goworker/goworker/internal/resque"
)

// delayedChecks are about delayed jobs that do not come when they are due.
var delayedChecks = []*Check{{
	Number: 39, Name: "delayed-late", Severity: Warning, Uses: Doctor | Status | Notice | Alert, Title: "delayed jobs that are late",
	Bound:    Bound{(30 * time.Second).Seconds(), "s"},
	Sentence: "delayed jobs are late by up to {late}, {jobs}, and {who}",
	Remedy:   "{do}",
	look: func(l *look) error {
		f, err := fleetOf(l)
		if err != nil {
			return err
		}
		late, err := l.store.LateJobs(l.conn, f.now, l.check.Bound.Duration())
		if err != nil || late.Jobs == 0 {
			return err
		}
		locks, _, err := schedulerLocks(l)
		if err != nil {
			return err
		}
		many := words(jobs(late.Jobs).String() + " in all")
		if !late.Exact {
			many = words(jobs(late.Jobs).String() + " or more")
		}
		who, do := words("nobody moves them"), words("start a goworker process or resque-scheduler")
		for _, lock := range slices.Backward(locks) {
			if lock.Holder != "" {
				who = words("the scheduler " + shown(lock.Holder) + ", which holds the lock, does not move them")
				do = "look whether that scheduler still works, and stop it if not: its lock ends after 3 minutes"
			}
		}
		if f.alive() || len(f.takers) > 0 {
			if who == "nobody moves them" {
				who, do = "those that are alive do not move them in time", "look at the log of the first process: it moves them, or says why not"
			}
		}
		l.find(values{"jobs": many, "late": late.First, "who": who, "do": do})
		return nil
	},
}, {
	Number: 40, Name: "scheduler-lock", Severity: Warning, Uses: Doctor, Title: "the schedulers' locks",
	Sentence: "the schedulers' lock {key} is held by {holder}, {why}: until it ends nobody moves Ruby's delayed jobs",
	Remedy:   "remove the lock, if {holder} does not run any more",
	Command:  `redis-cli -u "$REDIS_URL" DEL {key}`,
	look: func(l *look) error {
		f, err := fleetOf(l)
		if err != nil {
			return err
		}
		locks, unseen, err := schedulerLocks(l)
		if err != nil {
			return err
		}
		for _, lock := range locks {
			switch {
			case lock.Holder == "":
			case lock.Left == resque.Never:
				l.find(values{"key": lock.Key, "holder": lock.Holder, "why": words("without an end"), "dead": false})
			case f.died(lock.Holder):
				l.find(values{"key": lock.Key, "holder": lock.Holder, "why": words("which is no process of the fleet any more"), "dead": true})
			}
		}
		return unseen
	},
	fix: releaseHeld,
}, {
	Number: 41, Name: "lost-buckets", Severity: Warning, Uses: Doctor, Title: "delayed jobs that no scheduler finds",
	Sentence: "the list of the jobs that are delayed to {time} has {jobs} and is not in the set of seconds, so no scheduler finds them",
	Remedy:   "add the second to the set",
	Command:  `redis-cli -u "$REDIS_URL" ZADD {key} NX {second} {second}`,
	look: func(l *look) error {
		seconds, err := keys(l, resque.BucketKey)
		if err != nil {
			return err
		}
		for chunk := range slices.Chunk(seconds, 500) {
			lost, err := l.store.LostSeconds(l.conn, chunk)
			if err != nil {
				return err
			}
			for _, second := range sortedKeys(lost) {
				n, _ := strconv.ParseInt(second, 10, 64)
				l.find(values{"second": second, "jobs": jobs(lost[second]), "time": time.Unix(n, 0), "key": l.store.KeyOfSeconds()})
			}
		}
		return nil
	},
	fix: func(f *fixing) (bool, error) { return f.store.NameSecond(f.conn, f.text("second")) },
}}

// schedulerLocks are the locks that the walk through the keys has found, besides those with the names that every fleet has. unseen says why the walk
// could not look.
func schedulerLocks(l *look) (locks []resque.HeldKey, unseen, err error) {
	prefixes, unseen := keys(l, resque.SchedulerLockKey)
	locks, err = l.store.SchedulerLocks(l.conn, prefixes...)
	return locks, unseen, err
}

// died reports whether the holder of a lock is a goworker process or server that is not alive. The names of Ruby's schedulers
// do not say it.
func (f *fleet) died(holder string) bool {
	parts := strings.Split(holder, ":")
	if _, err := strconv.ParseUint(parts[len(parts)-1], 16, 32); len(parts) < 3 || err != nil || len(parts[len(parts)-1]) != 8 {
		return false
	}
	for _, p := range f.processes {
		if p.ID == holder && p.alive {
			return false
		}
	}
	for _, t := range f.takers {
		if t.ID == holder {
			return false
		}
	}
	return true
}

// orphanChecks are about jobs that wait until a process of goworker lives.
var orphanChecks = []*Check{{
	Number: 42, Name: "orphans", Severity: Error, Uses: Doctor, Title: "reserved jobs that nobody brings back",
	Bound:    Bound{time.Minute.Seconds(), "s"},
	Sentence: "{what} {jobs}, and no process is alive that brings them back to their queues",
	Remedy:   "start a goworker process",
	look: func(l *look) error {
		f, err := fleetOf(l)
		if err != nil {
			return err
		}
		if !f.alive() {
			records, err := keys(l, resque.InFlightKey)
			if err != nil {
				return err
			}
			var lost int64
			for chunk := range slices.Chunk(records, 500) {
				counts, err := l.store.InFlight(l.conn, chunk)
				if err != nil {
					return err
				}
				for _, n := range counts {
					lost += n
				}
			}
			if lost > 0 {
				l.find(values{"jobs": jobs(lost), "what": words("processes that are dead have reserved")})
			}
		}
		work, err := l.store.OwnWork(l.conn, f.now, l.check.Bound.Duration())
		if err != nil {
			return err
		}
		sweeps := len(f.takers) > 0 || slices.ContainsFunc(f.processes, func(p process) bool { return p.alive && p.KnowsOf(resque.KnowsLeases) })
		if work.Over > 0 && !sweeps {
			l.find(values{"jobs": jobs(work.Over), "what": words("clients over HTTP, whose leases ended more than a minute ago, hold")})
		}
		return nil
	},
}, {
	Number: 43, Name: "own-jobs", Severity: Error, Uses: Doctor, Title: "jobs that only goworker can move",
	Bound:    Bound{(10 * time.Minute).Seconds(), "s"},
	Sentence: "only goworker can move {jobs}, and no process has been alive {since}",
	Remedy:   "start a goworker process, or bring them to Ruby's queues",
	Command:  "goworker drain-to-ruby --dry-run",
	look: func(l *look) error {
		f, err := fleetOf(l)
		if err != nil || f.alive() {
			return err
		}
		work, err := l.store.OwnWork(l.conn, f.now, 0)
		if err != nil {
			return err
		}
		lanes, err := keys(l, resque.LaneKey)
		if err != nil {
			return err
		}
		inLanes, err := l.store.LaneLengths(l.conn, lanes)
		if err != nil {
			return err
		}
		parts := []string{}
		add := func(n int64, one, several string) {
			if n > 0 {
				parts = append(parts, plural(int(n), one, several))
			}
		}
		add(inLanes, "job in a lane", "jobs in lanes")
		add(work.Workflows, "workflow", "workflows")
		add(work.Groups, "group of jobs", "groups of jobs")
		if len(f.takers) == 0 { // a server moves delayed jobs and ends leases too
			add(work.Scheduled, "delayed job with more than class and arguments", "delayed jobs with more than class and arguments")
			add(work.Leased, "job that a client holds", "jobs that clients hold")
		}
		if len(parts) == 0 {
			return nil
		}
		last := work.Pulse
		for _, p := range f.processes {
			if p.ends.After(last) {
				last = p.ends
			}
		}
		since := "for longer than Redis knows"
		if !last.IsZero() {
			if f.now.Sub(last) <= l.check.Bound.Duration() {
				return nil
			}
			since = "for " + duration(f.now.Sub(last))
		}
		l.find(values{"jobs": words(strings.Join(parts, ", ")), "since": words(since)})
		return nil
	},
}}
