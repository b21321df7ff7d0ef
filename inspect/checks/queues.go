package checks

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/goworker/goworker/inspect"
	"github.com/goworker/goworker/internal/clock"
	"github.com/goworker/goworker/internal/httpjob"
	"github.com/goworker/goworker/internal/payload"
	"github.com/goworker/goworker/internal/queues"
	"github.com/goworker/goworker/internal/resque"
	"github.com/goworker/goworker/internal/resque/failures"
)

// queueChecks are about queues that nothing works, or the wrong workers do.
var queueChecks = []*Check{{
	Number: 33, Name: "queue-names", Severity: Warning, Uses: Doctor, Title: "queues that no list can name",
	Sentence: "queue {queue} {what}, so no worker's list of queues can name it; it has {jobs}",
	Remedy:   "move its jobs to a queue with another name, and have its producers use that one",
	Command:  "goworker queues move -- {queue} {to}",
	look: func(l *look) error {
		all, err := queuesOf(l)
		if err != nil {
			return err
		}
		for _, q := range all {
			if what := unnameable(q.name, l.store.KeyOfRubys("")); what != "" {
				l.find(values{"queue": q.name, "what": words(what), "jobs": jobs(max(0, q.jobs)), "to": nameable(q.name, l.store.KeyOfRubys(""))})
			}
		}
		return nil
	},
}, {
	Number: 34, Name: "queues-not-listed", Severity: Warning, Uses: Doctor, Title: "queues that are not in the set of queues",
	Sentence: "queue {queue} has {jobs} and is not in the set of queues: tools do not show it, and lists with * pass over it",
	Remedy:   "add its name to the set",
	Command:  `redis-cli -u "$REDIS_URL" SADD {key} {queue}`,
	look: func(l *look) error {
		found, err := keys(l, resque.QueueKey)
		if err != nil {
			return err
		}
		for chunk := range slices.Chunk(found, 500) {
			lost, err := l.store.NotNamed(l.conn, chunk)
			if err != nil {
				return err
			}
			for _, name := range sortedKeys(lost) {
				l.find(values{"queue": name, "jobs": jobs(lost[name]), "key": l.store.KeyOfQueues()})
			}
		}
		return nil
	},
	fix: func(f *fixing) (bool, error) { return f.store.NameQueue(f.conn, f.text("queue")) },
}, {
	Number: 35, Name: "unserved", Severity: Error, Uses: Doctor | Status | Notice | Alert, Title: "jobs that nothing takes",
	Sentence: "queue {queue} has {jobs}, and no worker, process or client takes from it",
	Remedy:   "start a worker for it, or move its jobs to a queue that has one",
	look: func(l *look) error {
		f, all, err := fleetAndQueues(l)
		if err != nil {
			return err
		}
		s := f.served()
		for n, q := range all {
			if l.over() {
				l.saw(n, len(all))
				break
			}
			if q.jobs > 0 && !s.any(q.name) {
				l.find(values{"queue": q.name, "jobs": jobs(q.jobs)})
			}
		}
		return nil
	},
}, {
	Number: 36, Name: "unknown-classes", Severity: Warning, Uses: Doctor, Title: "jobs that those who take them cannot run",
	Sentence: "queue {queue} has jobs of class {class}, and {who}",
	Remedy:   "{do}",
	look:     unknownClasses,
}}

// unnameable says why no list of queues can name a queue; "" if one can.
func unnameable(name, key string) string {
	switch {
	case strings.TrimSpace(name) == "":
		return "has a blank name"
	case strings.Contains(name, ","):
		return "has a comma in its name"
	case strings.HasPrefix(name, "!"):
		return "has a name that begins with an exclamation mark, which excludes"
	case strings.Contains(name, "="):
		return "has an equals sign in its name, behind which goworker reads a weight"
	case strings.TrimSpace(name) != name:
		return "has a blank at an end of its name"
	case strings.HasPrefix(name, key):
		return "is named by its whole key"
	case queues.CheckName(name, key) != nil:
		return "has a name that lists of queues read in another way"
	}
	return ""
}

// nameable is a name like it that a list can have.
func nameable(name, key string) string {
	name = strings.TrimLeft(strings.TrimSpace(strings.TrimPrefix(name, key)), "!")
	name = strings.Map(func(c rune) rune {
		if c == ',' || c == '=' {
			return '-'
		}
		return c
	}, name)
	if unnameable(name, key) != "" || !plain(name) {
		return "renamed"
	}
	return name
}

// headJobs is how many jobs of a queue's head are looked at for their classes.
const headJobs = 100

// unknownClasses looks for jobs in queues that only such programs work as do not know them.
func unknownClasses(l *look) error {
	f, all, err := fleetAndQueues(l)
	if err != nil {
		return err
	}
	s, until, seen := f.served(), l.shareOf(3), 0
	for _, q := range all {
		if seen++; q.jobs <= 0 {
			continue
		}
		if l.over() || !l.before(until) {
			seen--
			continue
		}
		processes, other, taken := s.byProcess(q.name), s.byOther(q.name), s.byTaker(q.name)
		wild := other != nil && !slices.Contains(other.Queues, q.name)
		if (other != nil || taken || len(processes) == 0) && !(taken && wild) {
			continue // Ruby's workers and clients do not say which classes they know
		}
		known, whole := knownClasses(processes)
		head, err := l.store.ListWindow(l.conn, l.store.KeyOfQueue(q.name), 0, headJobs)
		if err != nil && !resque.IsWrongType(err) {
			return err
		}
		said := make(map[string]bool)
		for _, raw := range head {
			class := failures.JobClass(payload.JSON(raw))
			switch {
			case class == "" || said[class]:
			case taken && wild && class == httpjob.DefaultClass:
				said[class] = true
				l.find(values{"queue": q.name, "class": class, "who": words("worker " + shown(other.ID) + ", which takes from all queues like it, cannot run what is published over HTTP"),
					"do": words("exclude the queue there: add !" + strings.Trim(shown(q.name), `"`) + " to the list of that worker")})
			case len(processes) > 0 && other == nil && !taken && whole && !known[class]:
				said[class] = true
				l.find(values{"queue": q.name, "class": class, "who": words("no process that works it has registered this class"),
					"do": words("start a process that registers the class, or remove the jobs")})
			}
		}
	}
	l.saw(seen, len(all))
	return nil
}

// before reports whether a moment has not come.
func (l *look) before(until time.Time) bool { return clock.System.Now().Before(until) }

// knownClasses are the classes that processes have registered, and whether all of the processes say so.
func knownClasses(processes []*process) (known map[string]bool, all bool) {
	known, all = make(map[string]bool), true
	for _, p := range processes {
		var classes []string
		if json.Unmarshal([]byte(p.Fields["classes"]), &classes) != nil {
			all = false
		}
		for _, class := range classes {
			known[class] = true
		}
	}
	return known, all
}

// pauseChecks are about what operators have stopped and may have forgotten.
var pauseChecks = []*Check{{
	Number: 37, Name: "paused-all", Severity: Warning, Uses: Doctor | Status | Notice | Alert, Title: "whether all workers are paused",
	Sentence: "all workers of Ruby and of goworker are paused by the key {key}",
	Remedy:   "remove the key when they are to work again",
	Command:  `redis-cli -u "$REDIS_URL" DEL {key}`,
	look: func(l *look) error {
		key, paused, err := l.store.PauseAll(l.conn)
		if err != nil || !paused {
			return err
		}
		l.find(values{"key": key})
		return nil
	},
}, {
	Number: 38, Name: "paused-queues", Severity: Warning, Uses: Doctor | Status | Notice | Alert, Title: "queues that stay paused while jobs wait",
	Bound:    Bound{(30 * time.Minute).Seconds(), "s"},
	Sentence: "queue {queue} is paused {since}, and has {jobs}",
	Remedy:   "resume it",
	Command:  "goworker queues resume -- {queue}",
	look: func(l *look) error {
		paused, err := l.store.PausedQueues(l.conn)
		if err != nil || len(paused) == 0 {
			return err
		}
		lengths, err := l.store.QueueLengths(l.conn, paused[:min(len(paused), mostQueues)])
		if err != nil {
			return err
		}
		l.saw(len(lengths), len(paused))
		audit, err := l.run.door.Inspector().Audit(l, resque.MostAudited)
		if err != nil {
			return err
		}
		for n, length := range lengths {
			entry := pausedBy(audit, paused[n])
			if length <= 0 || entry != nil && l.now().Sub(entry.At) <= l.check.Bound.Duration() {
				continue
			}
			since := "since when is not known"
			if entry != nil {
				since = fmt.Sprintf("since %s by %s", in(entry.At), shown(entry.Who))
				if entry.Why != "" {
					since += ": " + shown(entry.Why)
				}
			}
			l.find(values{"queue": paused[n], "jobs": jobs(length), "since": words(since)})
		}
		return nil
	},
}}

// pausedBy is the last change that paused a queue, or nil where the audit does not have it.
func pausedBy(audit []inspect.AuditEntry, queue string) *inspect.AuditEntry {
	for n, e := range audit {
		if e.What == "PauseQueue" && e.On == "queue "+queue {
			return &audit[n]
		}
	}
	return nil
}
