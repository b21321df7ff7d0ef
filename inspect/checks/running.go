package checks

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/goworker/goworker/internal/recurring"
)

// runningChecks are about processes whose jobs do not end, or that take none.
var runningChecks = []*Check{{
	Number: 51, Name: "stuck", Severity: Warning, Uses: Doctor | Status | Notice | Alert, Title: "jobs that run past their time",
	Sentence: "a job of class {class} from queue {queue} has run for {age} in process {process}, past its limit of {limit}",
	Remedy:   "its handler does not heed its context: the line \"job is stuck\" in the log of the process shows where it waits; a restart ends it",
	look: func(l *look) error {
		f, err := fleetOf(l)
		if err != nil {
			return err
		}
		for _, p := range f.processes {
			var stuck []struct {
				Queue, Class   string
				Started, Limit int64
			}
			if !p.alive || json.Unmarshal([]byte(p.Fields["stuck"]), &stuck) != nil {
				continue
			}
			for _, j := range stuck {
				l.find(values{"class": j.Class, "queue": j.Queue, "process": p.ID, "age": f.now.Sub(time.UnixMilli(j.Started)), "limit": time.Duration(j.Limit) * time.Millisecond})
			}
		}
		return nil
	},
}, {
	Number: 52, Name: "not-exchanging", Severity: Warning, Uses: Doctor | Status | Notice | Alert, Title: "processes that take no jobs",
	Bound:    Bound{(30 * time.Second).Seconds(), "s"}, // an idle process whose queues a renewal has found empty asks each 20 s at least
	Sentence: "process {process} has not asked Redis for jobs for {age}, though it has idle workers and queue {queue} has {jobs} waiting",
	Remedy:   "look at its log, then restart it",
	look:     notExchanging,
}}

// notExchanging looks for processes that renew their leases and take no jobs. A process that is idle or wholly busy need not ask.
func notExchanging(l *look) error {
	f, all, err := fleetAndQueues(l)
	if err != nil {
		return err
	}
	_, stopped, err := l.store.PauseAll(l.conn)
	if err != nil || stopped {
		return err
	}
	paused, err := l.store.PausedQueues(l.conn)
	if err != nil {
		return err
	}
	waiting := make(map[string]int64)
	for _, q := range all {
		if q.jobs > 0 {
			waiting[q.name] = q.jobs
		}
	}
	for _, name := range paused {
		delete(waiting, name)
	}
	for _, p := range f.processes {
		var v struct {
			At, Exchange  int64
			Workers, Busy int
		}
		if !p.alive || json.Unmarshal([]byte(p.Fields["vitals"]), &v) != nil || v.Exchange == 0 || v.Busy >= v.Workers {
			continue
		}
		age := time.Duration(v.At-v.Exchange) * time.Millisecond
		if age <= l.check.Bound.Duration() {
			continue
		}
		for _, name := range sortedKeys(waiting) {
			if names(strings.Split(p.Queues, ","), name) {
				l.find(values{"process": p.ID, "age": age, "queue": name, "jobs": jobs(waiting[name])})
				break
			}
		}
	}
	return nil
}

// recurringChecks are about recurring schedules that are kept in Redis.
var recurringChecks = []*Check{{
	Number: 53, Name: "recurring-unserved", Severity: Warning, Uses: Doctor, Title: "recurring jobs that nothing takes",
	Sentence: "the recurring schedule {schedule} enqueues {class} into queue {queue}, and no worker, process or client takes from it",
	Remedy:   "start a worker for the queue, or remove the schedule",
	look: func(l *look) error {
		f, err := fleetOf(l)
		if err != nil {
			return err
		}
		s := f.served()
		return eachSchedule(l, func(name string, is *recurring.Schedule, paused bool) error {
			if !paused && is.Queue != "" && !s.any(is.Queue) {
				l.find(values{"schedule": name, "class": is.Class, "queue": is.Queue})
			}
			return nil
		})
	},
}, {
	Number: 54, Name: "missed-tick", Severity: Warning, Uses: Doctor, Title: "recurring jobs that did not come",
	Bound:    Bound{(2 * time.Minute).Seconds(), "s"},
	Sentence: "the recurring schedule {schedule} should have enqueued {class} at {time}, and did not",
	Remedy:   "start a goworker process or a resque-scheduler with DYNAMIC_SCHEDULE; enqueue the job now",
	Command:  "goworker schedule run -- {schedule}",
	look: func(l *look) error {
		f, err := fleetOf(l)
		if err != nil {
			return err
		}
		return eachSchedule(l, func(name string, is *recurring.Schedule, paused bool) error {
			ticks, err := l.store.ReadTicks(l.conn, name)
			if err != nil || paused || len(is.Environments) > 0 && ticks[0].Last.IsZero() {
				return err
			}
			last := is.LastFired(ticks[0], f.now)
			if ticks[0].Enqueued.After(last) {
				last = ticks[0].Enqueued
			}
			if last.IsZero() {
				return nil // nothing has begun it
			}
			if due := is.After(last); !due.IsZero() && f.now.Sub(due) > l.check.Bound.Duration() {
				l.find(values{"schedule": name, "class": is.Class, "time": due})
			}
			return nil
		})
	},
}}

// mostSchedules is how many recurring schedules are looked at.
const mostSchedules = 10_000

func eachSchedule(l *look, each func(name string, is *recurring.Schedule, paused bool) error) error {
	kept, err := read(l, "schedules", func() (map[string]string, error) { return l.store.PersistentSchedules(l.conn) })
	if err != nil {
		return err
	}
	paused, err := l.store.PausedSchedules(l.conn)
	if err != nil {
		return err
	}
	pausedOnes := make(map[string]bool)
	for _, name := range paused {
		pausedOnes[name] = true
	}
	for n, name := range sortedKeys(kept) {
		if n == mostSchedules || l.over() {
			l.saw(n, len(kept))
			return nil
		}
		is, err := recurring.Read(name, kept[name])
		if err != nil {
			continue // a scheduler that reads it says what is wrong
		}
		if err := each(name, is, pausedOnes[name]); err != nil {
			return err
		}
	}
	return nil
}
