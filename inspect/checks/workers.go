package checks

import (
	"errors"
	"fmt"
	"strings"

	"github.com/goworker/goworker/internal/resque"
)

// workerChecks are about workers that do not work: dead ones, and those that several programs take for the same.
var workerChecks = []*Check{{
	Number: 28, Name: "dead-workers", Severity: Warning, Uses: Doctor, Title: "workers that are dead",
	Bound:    Bound{resque.PruneAfter.Seconds(), "s"},
	Sentence: "worker {worker} sent its last heartbeat {age} ago, so it is dead, and tools still show it",
	Remedy:   "remove it; the job that it had in hand becomes a failure, as where Ruby's workers prune it",
	Command:  "goworker workers rm -- {worker}",
	look: func(l *look) error {
		f, err := fleetOf(l)
		if err != nil {
			return err
		}
		heads := f.heads()
		for _, id := range sortedKeys(f.beats) {
			at := resque.ParseTime(f.beats[id])
			if p := owner(heads, id); at.IsZero() || p != nil && p.alive {
				continue
			}
			if age := f.now.Sub(at); age > l.check.Bound.Duration() {
				l.find(values{"worker": id, "age": age})
			}
		}
		return nil
	},
	fix: func(f *fixing) (bool, error) {
		dead, beaten, err := f.store.DeadWorker(f.conn, f.text("worker"))
		if lives := (*resque.WorkerLives)(nil); errors.Is(err, resque.ErrNoWorker) || errors.As(err, &lives) {
			return false, nil
		}
		if err != nil || !beaten {
			return false, err
		}
		settings, now, err := f.settingsAndTime()
		if err != nil {
			return false, err
		}
		return f.store.Prune(f.conn, dead, now, settings.MultiQueue)
	},
}, {
	Number: 29, Name: "prune-lock", Severity: Warning, Uses: Doctor, Title: "the lock of those that remove dead workers",
	Sentence: "worker {holder} holds the lock {key} without an end, so no Ruby worker removes dead ones any more",
	Remedy:   "remove the lock; workers take it for a minute each",
	Command:  `redis-cli -u "$REDIS_URL" DEL {key}`,
	look: func(l *look) error {
		lock, err := l.store.PruningLock(l.conn)
		if err == nil && lock.Holder != "" && lock.Left == resque.Never {
			l.find(values{"key": lock.Key, "holder": lock.Holder})
		}
		return err
	},
	fix: releaseHeld,
}, {
	Number: 50, Name: "worker-twice", Severity: Warning, Uses: Doctor, Title: "workers that are taken for the same",
	Sentence: "{first} and {second} have the same host and process number: when one of them ends, the other vanishes from tools",
	Remedy:   "give each machine or container a host name of its own, goworker by -hostname",
	look: func(l *look) error {
		f, err := fleetOf(l)
		if err != nil {
			return err
		}
		alive := make(map[string]string)
		for _, p := range f.processes {
			if !p.alive {
				continue
			}
			if first, twice := alive[p.IDHead]; twice && p.IDHead != "" {
				l.find(values{"first": words("process " + shown(first)), "second": words("process " + shown(p.ID))})
			}
			alive[p.IDHead] = p.ID
		}
		byHost := make(map[string]string)
		for _, w := range f.others() {
			if f.beats[w.ID] == "" {
				continue // a program that sends no heartbeat leaves ids of dead workers behind
			}
			at := w.Host + ":" + w.PID
			if first, twice := byHost[at]; twice {
				l.find(values{"first": words("worker " + shown(first)), "second": words("worker " + shown(w.ID))})
			}
			byHost[at] = w.ID
		}
		return nil
	},
}}

// releaseHeld removes a lock that has no end, or whose holder is a dead process.
func releaseHeld(f *fixing) (bool, error) {
	lock := resque.HeldKey{Key: f.text("key"), Holder: f.text("holder"), Left: resque.Never}
	if dead, _ := f.values["dead"].(bool); dead {
		lock.Left = 0
	}
	return f.store.ReleaseHeld(f.conn, lock)
}

// versionChecks are about releases side by side.
var versionChecks = []*Check{{
	Number: 49, Name: "versions", Severity: Warning, Uses: Doctor, Title: "the releases in the fleet",
	Sentence: "releases differ: {how}",
	Remedy:   "finish the deploy: stop the processes of the older release",
	look: func(l *look) error {
		f, err := fleetOf(l)
		if err != nil {
			return err
		}
		by := make(map[string][]string)
		for _, p := range f.processes {
			if p.alive {
				by[p.Version] = append(by[p.Version], p.ID)
			}
		}
		for _, t := range f.takers {
			by[t.Version] = append(by[t.Version], t.ID)
		}
		if len(by) > 1 {
			var parts []string
			for _, version := range sortedKeys(by) {
				parts = append(parts, fmt.Sprintf("%s of %s (%s)", plural(len(by[version]), "process", "processes"), shown(version), some(by[version])))
			}
			l.find(values{"how": words(strings.Join(parts, ", "))})
		}
		for _, p := range f.processes {
			for _, word := range strings.Fields(resque.Knows) {
				if p.alive && !p.KnowsOf(word) && word != resque.KnowsApart { // it passes over no job
					l.find(values{"how": words(fmt.Sprintf("process %s of release %s is too old to know of %s, and passes over their jobs", shown(p.ID), shown(p.Version), word))})
					break
				}
			}
		}
		return nil
	},
}}
