package checks

import (
	"encoding/json"
	"fmt"

	"github.com/goworker/goworker/internal/payload"
	"github.com/goworker/goworker/internal/resque"
	"github.com/goworker/goworker/internal/resque/failures"
)

// mostLists is how many lists of failures are looked at, where each queue has its own.
const mostLists = 1000

// failureChecks are about failures that tools of Ruby cannot show or retry.
var failureChecks = []*Check{{
	Number: 30, Name: "failures", Severity: Error, Uses: Doctor, Title: "failures that tools cannot show",
	Sentence: "failure {id} in the list {list} {what}: tools that show or retry failures end with an error there",
	Remedy:   "look at it with goworker failed show, then remove it; an empty element goes with LREM",
	Command:  "{remove}",
	look: func(l *look) error {
		return eachFailure(l, func(f failure) {
			if f.what != "" {
				l.find(values{"id": f.id, "list": f.list, "what": words(f.what), "remove": f.removal(l)})
			}
		})
	},
}, {
	Number: 31, Name: "backtraces", Severity: Warning, Uses: Doctor, Title: "failures whose backtrace is a text",
	Sentence: "the backtrace of failure {id} in the list {list} is a text and no list of lines: the page of failures of resque-web ends with an error there",
	Remedy:   "remove it, or retry its job first",
	Command:  "goworker failed rm -- {id}",
	look: func(l *look) error {
		return eachFailure(l, func(f failure) {
			if f.text {
				l.find(values{"id": f.id, "list": f.list})
			}
		})
	},
}}

// failure is a record that is not as Ruby's are.
type failure struct {
	list, id string
	what     string // "has no payload"
	text     bool   // its backtrace is a text
}

// removal is the command that removes it: an empty element has no id by which goworker could.
func (f failure) removal(l *look) literal {
	if f.id != emptyID {
		return literal("goworker failed rm -- " + f.id)
	}
	key, ok := Quote(l.store.KeyOfFailures(f.list))
	if !ok {
		return ""
	}
	return literal(`redis-cli -u "$REDIS_URL" LREM ` + key + ` 0 ''`)
}

// emptyID stands for the id of a failure that has none, because it is empty.
const emptyID = "empty"

// odd are the failures that are not as Ruby's, and the share of all that was seen.
type odd struct {
	failures []failure
	seen     float64
}

// mostOdd is how many are kept for their checks. A list that is wrong throughout need not be in memory.
const mostOdd = 1000

func eachFailure(l *look, each func(failure)) error {
	o, err := read(l, "failures", func() (odd, error) { return oddFailures(l) })
	if err != nil {
		return err
	}
	l.seen = min(l.seen, o.seen)
	for _, f := range o.failures {
		each(f)
	}
	return nil
}

func oddFailures(l *look) (odd, error) {
	lists, err := failures.New(l.store).Lists(l.conn)
	if err != nil {
		return odd{}, err
	}
	var seen, all int64
	var found []failure
	until := l.shareOf(5)
	for n, list := range lists {
		if n == mostLists || l.over() {
			all += int64(len(lists) - n) // at least one each
			break
		}
		some, length, err := walkList(l, l.store.KeyOfFailures(list), until, func(raw []byte) {
			what, text := oddities(raw)
			if what == "" && !text || len(found) == mostOdd {
				return
			}
			id := failures.ID(raw)
			if id == "" {
				id = emptyID
			}
			found = append(found, failure{list, id, what, text})
		})
		if err != nil && !resque.IsWrongType(err) { // check 23 names such a key
			return odd{}, err
		}
		seen, all = seen+some, all+length
	}
	o := odd{found, 1}
	if seen < all {
		o.seen = float64(seen) / float64(all)
	}
	return o, nil
}

// oddities says what of a record keeps Ruby's tools from showing it, and whether its backtrace is a text.
func oddities(raw []byte) (what string, text bool) {
	if len(raw) == 0 {
		return "is empty", false
	}
	var f payload.FailureFields
	if !f.Scan(raw) {
		return "is no JSON object", false
	}
	job := struct {
		Class json.RawMessage `json:"class"`
	}{}
	switch {
	case absent(f.Payload):
		what = "has no payload"
	case json.Unmarshal(f.Payload, &job) != nil:
		what = "has a payload that is no job"
	case absent(job.Class):
		what = "has a payload without a class"
	case !isText(f.Worker):
		what = "has no worker"
	case !isText(f.FailedAt):
		what = "has no time"
	}
	return what, isText(f.Backtrace)
}

func absent(value json.RawMessage) bool { return len(value) == 0 || string(value) == "null" }

func isText(value json.RawMessage) bool { return len(value) > 1 && value[0] == '"' }

// poisonChecks are about what waits in queues and ends the worker that takes it.
var poisonChecks = []*Check{{
	Number: 32, Name: "no-json", Severity: Error, Uses: Doctor, Title: "payloads that are no JSON where Ruby works",
	Sentence: "{element} in queue {queue} is no JSON: the Ruby worker that takes it ends, and worker {worker} works this queue",
	Remedy:   "move it to the failures",
	Command:  "goworker doctor --fix 32",
	look: func(l *look) error {
		f, all, err := fleetAndQueues(l)
		if err != nil {
			return err
		}
		s := f.served()
		var seen, length int64
		until := l.shareOf(4)
		for n, q := range all {
			worker := s.byOther(q.name)
			if worker == nil || q.jobs <= 0 {
				continue
			}
			if l.over() {
				length += q.jobs
				continue
			}
			// Each queue has its part of what is left, or a long one would leave nothing for those behind it.
			part := until
			if rest := len(all) - n; rest > 1 {
				part = earlier(until, l.shareOf(rest))
			}
			some, jobs, err := walkList(l, l.store.KeyOfQueue(q.name), part, func(raw []byte) {
				if !json.Valid(raw) {
					l.find(values{"element": string(raw), "queue": q.name, "worker": worker.ID})
				}
			})
			if err != nil && !resque.IsWrongType(err) {
				return err
			}
			seen, length = seen+some, length+jobs
		}
		if seen < length {
			l.seen = min(l.seen, float64(seen)/float64(length))
		}
		return nil
	},
	fix: func(f *fixing) (bool, error) {
		settings, now, err := f.settingsAndTime()
		if err != nil {
			return false, err
		}
		raw, queue := []byte(f.text("element")), f.text("queue")
		_, why := payload.Parse(raw)
		return f.store.Condemn(f.conn, queue, raw, payload.Failure{
			FailedAt: payload.FailedAt(now), Payload: payload.Invalid(raw), Exception: "Resque::Helpers::DecodeException",
			Error: fmt.Sprint(why), Worker: "doctor:0:" + queue, Queue: queue,
		}, settings.MultiQueue)
	},
}}
