package checks

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/goworker/goworker/internal/resque"
)

// idChecks are about what Ruby's workers cannot read of other workers. One such entry ends each worker that reads it.
var idChecks = []*Check{{
	Number: 24, Name: "worker-ids", Severity: Error, Uses: Doctor | Notice, Title: "the ids of the workers",
	Sentence: "worker {worker} names no queues{why}: every Ruby worker that removes dead ones ends with an error, and resque-web shows none",
	Remedy:   "take it off the list",
	Command:  `redis-cli -u "$REDIS_URL" {remove} {worker}`,
	look: func(l *look) error {
		f, err := fleetOf(l)
		if err != nil {
			return err
		}
		registered := make(map[string]bool, len(f.workers))
		for _, w := range f.workers {
			registered[w.ID] = true
		}
		for _, id := range f.ids() {
			why, bad := noQueues(id)
			if !bad {
				continue
			}
			remove := arguments{"SREM", l.store.KeyOfWorkers()}
			if !registered[id] {
				remove = arguments{"HDEL", l.store.KeyOfHeartbeats()}
			}
			l.find(values{"worker": id, "why": words(why), "remove": remove})
		}
		return nil
	},
	fix: func(f *fixing) (bool, error) {
		settings, now, err := f.settingsAndTime()
		if err != nil {
			return false, err
		}
		return f.store.ForgetWorker(f.conn, f.text("worker"), now, settings.MultiQueue)
	},
}, {
	Number: 25, Name: "worker-jobs", Severity: Error, Uses: Doctor | Notice, Title: "the jobs that workers have in hand",
	Sentence: "what worker {worker} has in hand {is}: Ruby's tools end with an error where they read it, {value}",
	Remedy:   "remove the text; the worker writes another one with its next job",
	Command:  `redis-cli -u "$REDIS_URL" DEL {key}`,
	look: func(l *look) error {
		f, err := fleetOf(l)
		if err != nil {
			return err
		}
		seen, ids := 0, f.ids()
		for chunk := range slices.Chunk(ids, 1000) {
			if l.over() {
				break
			}
			texts, err := l.store.WorkerValues(l.conn, chunk)
			if err != nil {
				return err
			}
			for n, id := range chunk {
				if is, bad := noWork(texts[n]); bad {
					l.find(values{"worker": id, "is": words(is), "value": string(texts[n]), "key": l.store.KeyOfWorker(id)})
				}
			}
			seen += len(chunk)
		}
		l.saw(seen, len(ids))
		return nil
	},
	fix: func(f *fixing) (bool, error) {
		return f.store.ForgetWork(f.conn, f.text("worker"), []byte(f.text("value")))
	},
}, {
	Number: 26, Name: "heartbeats", Severity: Error, Uses: Doctor | Notice, Title: "the heartbeats of the workers",
	Sentence: "the heartbeat of worker {worker} is {beat}, which is no time: every Ruby worker that removes dead ones ends with an error",
	Remedy:   "remove it; a worker that lives sends another one within a minute",
	Command:  `redis-cli -u "$REDIS_URL" HDEL {key} {worker}`,
	look: func(l *look) error {
		f, err := fleetOf(l)
		if err != nil {
			return err
		}
		for _, id := range sortedKeys(f.beats) {
			if beat := f.beats[id]; resque.ParseTime(beat).IsZero() || strings.Trim(beat, "0123456789") == "" {
				l.find(values{"worker": id, "beat": beat, "key": l.store.KeyOfHeartbeats()})
			}
		}
		return nil
	},
	fix: func(f *fixing) (bool, error) {
		return f.store.ForgetHeartbeat(f.conn, f.text("worker"), f.text("beat"))
	},
}, {
	Number: 27, Name: "heartbeats-ahead", Severity: Warning, Uses: Doctor, Title: "heartbeats that are yet to come",
	Bound:    Bound{300, "s"},
	Sentence: "the heartbeat of worker {worker} is {ahead} ahead of the clock of Redis: if that worker dies, it counts as alive for that long",
	Remedy:   "have the clock of its host, {host}, keep time by NTP",
	look: func(l *look) error {
		f, err := fleetOf(l)
		if err != nil {
			return err
		}
		for _, id := range sortedKeys(f.beats) {
			if ahead := resque.ParseTime(f.beats[id]).Sub(f.now); ahead > l.check.Bound.Duration() {
				l.find(values{"worker": id, "ahead": ahead, "host": resque.WorkerOf(id).Host})
			}
		}
		return nil
	},
}}

// ids are the workers that are registered or have a heartbeat, sorted.
func (f *fleet) ids() []string {
	ids := sortedKeys(f.beats)
	for _, w := range f.workers {
		ids = append(ids, w.ID)
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// noQueues reports whether Ruby finds no queue in a worker's id. It splits the third part at commas and drops empty ends.
func noQueues(id string) (why string, none bool) {
	parts := strings.SplitN(id, ":", 3)
	if len(parts) < 3 {
		return " (its id has fewer than three parts)", true
	}
	list := strings.TrimRight(parts[2], ",")
	if list == "" {
		return "", true
	}
	for name := range strings.SplitSeq(list, ",") {
		if !strings.HasPrefix(strings.TrimSpace(name), "!") {
			return "", false
		}
	}
	return " but those that it excludes", true
}

// noWork reports whether Ruby cannot read what a worker has in hand.
func noWork(value []byte) (is string, bad bool) {
	if len(value) == 0 {
		return "", false
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(value, &fields); err != nil {
		return "is no JSON object", true
	}
	var payload map[string]json.RawMessage
	if len(fields) > 0 && (json.Unmarshal(fields["payload"], &payload) != nil || payload == nil) {
		return "has no payload", true
	}
	return "", false
}
