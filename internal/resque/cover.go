package resque

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/gomodule/redigo/redis"
)

var coverScript = script("cover")

// mostFormer is how many lists of queues a record has beside the present one. Each may mean as many
// worker ids as the process has workers.
const mostFormer = 8

// Cover writes into a process's record which worker ids it has: Concurrency, Queues, IDQueues and
// Former. If claim is not "", it is the first worker id of a list of queues that the process takes up,
// and Cover returns ErrTaken and writes nothing if another process has registered it. It returns
// ErrReaped or ErrGone where there is no record to write to. It may be repeated.
func (s Store) Cover(c redis.Conn, p Process, claim string) error {
	var a Call
	a.Key(s.process(p.ID))
	a.Key(s.reaped(p.ID))
	a.Key(s.heartbeats())
	a.Arg(claim, "concurrency", p.Concurrency, "queues", p.Queues, "id_queues", p.IDQueues, formerField, p.former())
	status, err := redis.String(a.Do(c, coverScript))
	if err != nil {
		return fmt.Errorf("writing which workers process %s has: %w", p.ID, err)
	}
	if status == "taken" {
		return ErrTaken
	}
	return statusError(status)
}

// formerField is the field of a record for Process.Former: JSON, and missing if there is none.
const formerField = "id_queues_old"

// former is Process.Former as the record has it.
func (p Process) former() string {
	if len(p.Former) == 0 {
		return ""
	}
	text, _ := json.Marshal(p.Former) // a list of texts
	return string(text)
}

// formerOf reads Process.Former of a process with so many workers. Another program may have written anything.
func formerOf(text string, workers int) (former []string) {
	if text == "" || json.Unmarshal([]byte(text), &former) != nil {
		return nil
	}
	return former[:min(len(former), formerRoom(workers))]
}

// formerRoom is how many Former a record of so many workers may have.
func formerRoom(workers int) int { return max(0, min(mostFormer, mostWorkers/max(1, workers)-1)) }

// ErrManyLists is why a process takes up no more lists of queues.
var ErrManyLists = errors.New("workers still run jobs that began under too many other lists of queues; this one is taken up when some of these jobs have ended")

// With returns the process with another number of workers, and another list of queues under which
// they are registered. Its record still covers the workers that it has.
func (p Process) With(workers int, queues string) (Process, error) {
	p.Concurrency = max(p.Concurrency, workers)
	if queues == p.IDQueues {
		return p, nil
	}
	former := slices.DeleteFunc(append(slices.Clone(p.Former), p.IDQueues), func(q string) bool { return q == queues })
	if len(former) > formerRoom(p.Concurrency) {
		return p, ErrManyLists
	}
	p.Former, p.IDQueues, p.Queues = former, queues, queues
	return p, nil
}

// WorkerName is the worker's id without its queues, as node-resque knows it.
func (p Process) WorkerName(n int) string { return p.IDHead + strconv.Itoa(n) }

// WorkerID is the member of the set of workers for worker n.
func (p Process) WorkerID(n int) string { return p.WorkerUnder(n, p.IDQueues) }

// WorkerUnder is that member under another list of queues.
func (p Process) WorkerUnder(n int, queues string) string { return p.WorkerName(n) + ":" + queues }

// WorkerIDs are the ids of all its workers, and those that some of them may still have.
func (p Process) WorkerIDs() []string {
	ids := make([]string, 0, p.Concurrency*(1+len(p.Former)))
	for _, queues := range append([]string{p.IDQueues}, p.Former...) {
		for n := range p.Concurrency {
			ids = append(ids, p.WorkerUnder(n, queues))
		}
	}
	return ids
}

// Owns reports whether the worker id is one of the process's.
func (p Process) Owns(id string) bool {
	rest, ok := strings.CutPrefix(id, p.IDHead)
	number, queues, _ := strings.Cut(rest, ":")
	n, err := strconv.Atoi(number)
	return ok && p.IDHead != "" && err == nil && n < p.Concurrency && (queues == p.IDQueues || slices.Contains(p.Former, queues))
}
