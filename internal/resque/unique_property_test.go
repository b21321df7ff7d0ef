package resque

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/goworker/goworker/internal/payload"
	"pgregory.net/rapid"
)

// However jobs of a few locks are enqueued, replaced, run, retried, stolen, and their
// processes killed: of no lock there are ever two jobs, none is lost, and a lock whose job
// is nowhere is free as soon as it is old.
func TestUniqueIsUnique(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	rapid.Check(t, func(rt *rapid.T) {
		w.do("FLUSHALL")
		r := &uniqueRun{T: rt, w: w, live: make(map[string]string)}
		rt.Repeat(map[string]func(*rapid.T){
			"enqueue": r.enqueue,
			"reserve": r.reserve,
			"end":     r.end,
			"kill":    r.kill,
			"pump":    r.pump,
			"steal":   r.steal,
			"age": func(*rapid.T) {
				for _, lock := range uniqueLocks {
					w.age(lock, ProvenFor)
				}
			},
			"": func(*rapid.T) { r.check() },
		})
		// At last everything is over, and every lock can be had.
		for _, lock := range uniqueLocks {
			w.age(lock, ProvenFor)
		}
		for id := range r.live {
			w.do("DEL", w.s.KeyOfQueue("high"), w.s.KeyOfQueue("low"), w.s.KeyOfSchedule())
			for _, p := range r.procs {
				w.do("DEL", w.s.inflight(p.ID))
			}
			delete(r.live, id)
		}
		for _, lock := range uniqueLocks {
			w.taken(uniqueJob(lock, 1000, "low"))
		}
	})
}

var uniqueLocks = []string{"a", "b"}

// uniqueRun is one sequence of steps. A job's id begins with the name of its lock.
type uniqueRun struct {
	*rapid.T
	w     *wire
	jobs  int
	born  int               // processes
	live  map[string]string // Payload by id, of all jobs that have not ended
	procs []*proc
	held  []heldJob
}

type heldJob struct {
	*proc
	Reserved
	lock, id string
}

func (r *uniqueRun) check() {
	r.Helper()
	found := make(map[string]string)
	note := func(raw string) {
		p, err := payload.Parse([]byte(raw))
		if err != nil || found[p.ID] != "" {
			r.Fatalf("%s is there twice, or no job: %v", raw, err)
		}
		found[p.ID] = raw
	}
	for _, q := range modelQueues {
		for _, payload := range r.w.queue(q) {
			note(payload)
		}
	}
	for _, member := range r.w.server.List(r.w.t, "ZRANGE", r.w.s.KeyOfSchedule(), 0, -1) {
		_, payload, _ := CutPrefix([]byte(member))
		note(string(payload))
	}
	for _, p := range r.procs {
		for _, line := range r.w.record(p.ID) {
			note(strings.SplitN(line, " ", 3)[2])
		}
	}
	if diff := cmp.Diff(r.live, found); diff != "" {
		r.Fatalf("jobs are lost or doubled (-model +found):\n%s", diff)
	}
	for _, lock := range uniqueLocks {
		if ids := r.of(lock); len(ids) > 1 || len(r.w.locks(lock)) > 1 {
			r.Fatalf("lock %s has jobs %v and says %v", lock, ids, r.w.locks(lock))
		}
	}
}

// of are the jobs of a lock that have not ended.
func (r *uniqueRun) of(lock string) []string {
	ids := slices.Collect(maps.Keys(r.live))
	return slices.DeleteFunc(ids, func(id string) bool { return !strings.HasPrefix(id, lock) })
}

func (r *uniqueRun) enqueue(t *rapid.T) {
	r.jobs++
	lock := rapid.SampledFrom(uniqueLocks).Draw(t, "lock")
	j := uniqueJob(lock, r.jobs, rapid.SampledFrom(modelQueues).Draw(t, "queue"))
	j.Replace = rapid.Bool().Draw(t, "replace")
	if rapid.Bool().Draw(t, "later") {
		j.At = at(99)
	}
	before, old := r.of(lock), false
	for id, said := range r.w.locks(lock) {
		old = time.Now().UnixMilli()-parseHolder(id, said).seen >= ProvenFor.Milliseconds()
	}
	holder, replaced := r.w.enqueue(j)
	switch {
	case holder != "" && len(before) == 0 && old:
		r.Fatalf("%s is refused by %s, which is nowhere", j.ID, holder)
	case holder != "" && len(before) > 0 && !slices.Contains(before, holder):
		r.Fatalf("%s is refused by %s, and there is %v", j.ID, holder, before)
	case holder == "":
		delete(r.live, replaced)
		r.live[j.ID] = string(j.Payload)
	}
}

func (r *uniqueRun) reserve(t *rapid.T) {
	if len(r.procs) < 2 {
		r.born++
		r.procs = append(r.procs, r.w.enter(fmt.Sprint("p", r.born)))
	}
	p := rapid.SampledFrom(r.procs).Draw(t, "process")
	out := p.turn(Exchange{Want: 1, Asks: asks(modelQueues...), Handed: "999"})
	for _, j := range out.Jobs {
		parsed, err := payload.Parse(j.Payload)
		if err != nil {
			r.Fatal(err)
		}
		_, lock, _ := ParseLock(parsed.Unique)
		r.held = append(r.held, heldJob{p, j, lock, parsed.ID})
	}
}

// end commits a job: done, failed, to be retried, or given back.
func (r *uniqueRun) end(t *rapid.T) {
	if len(r.held) == 0 {
		t.Skip("nothing runs")
	}
	i := rapid.IntRange(0, len(r.held)-1).Draw(t, "job")
	j := r.held[i]
	r.held = slices.Delete(r.held, i, i+1)
	s, unlocked := r.w.s, []Effect(nil)
	if j.lock != "" {
		unlocked = []Effect{s.Release(j.lock, j.id)}
	}
	x := Exchange{}
	switch how := rapid.SampledFrom([]string{"done", "failed", "retried", "back", "without a word"}).Draw(t, "how"); how {
	case "done":
		x.Ended = []Ended{{Ticket: j.Ticket, Counts: CountsDone, Effects: unlocked}}
	case "failed":
		x.Ended = []Ended{{Ticket: j.Ticket, Counts: CountsFailed, Effects: append(unlocked, s.FileFailure(j.Queue, failureOf(j.Payload), false)...)}}
	case "without a word":
		x.Done = tickets(j.Reserved)
	case "back":
		x.Ended = back(j.Reserved)
		j.proc.turn(x)
		return
	case "retried":
		r.jobs++
		again, err := payload.SetFields(j.Payload, payload.NumberField("attempt", int64(r.jobs)))
		if err != nil {
			r.Fatal(err)
		}
		x.Ended = []Ended{{Ticket: j.Ticket, Counts: CountsNothing, Effects: []Effect{
			s.LockMoved(j.lock, j.id, time.Now(), time.Now(), time.Hour, j.Queue, again), s.ScheduleAt(99, j.Queue, again),
		}}}
		j.proc.turn(x)
		r.live[j.id] = string(again)
		return
	}
	j.proc.turn(x)
	delete(r.live, j.id)
}

// kill has a process found dead and its jobs taken back.
func (r *uniqueRun) kill(t *rapid.T) {
	if len(r.procs) == 0 {
		t.Skip("no process to kill")
	}
	i := rapid.IntRange(0, len(r.procs)-1).Draw(t, "process")
	p := r.procs[i]
	p.die()
	p.recover(0)
	r.procs = slices.Delete(r.procs, i, i+1)
	r.held = slices.DeleteFunc(r.held, func(j heldJob) bool { return j.proc == p })
}

// pump moves all that waits for its time.
func (r *uniqueRun) pump(*rapid.T) {
	for _, member := range r.w.server.List(r.w.t, "ZRANGE", r.w.s.KeyOfSchedule(), 0, -1) {
		queue, payload, _ := CutPrefix([]byte(member))
		r.w.do("RPUSH", r.w.s.KeyOfQueue(queue), payload)
	}
	r.w.do("DEL", r.w.s.KeyOfSchedule())
}

// steal takes a job as a Ruby worker does.
func (r *uniqueRun) steal(t *rapid.T) {
	queue := rapid.SampledFrom(modelQueues).Draw(t, "queue")
	raw, _ := r.w.do("LPOP", r.w.s.KeyOfQueue(queue)).([]byte)
	if raw == nil {
		t.Skip("nothing to steal")
	}
	parsed, err := payload.Parse(raw)
	if err != nil {
		r.Fatal(err)
	}
	delete(r.live, parsed.ID)
}
