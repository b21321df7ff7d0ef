package main

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/gomodule/redigo/redis"
)

// finish lets the load run out, stops all workers, looks for what is left and joins the
// ledgers.
func (a *arena) finish() result {
	a.stopProducers()
	a.drain()
	a.checkSurvivors()
	for _, p := range a.alive() {
		p.term()
	}
	for _, p := range a.processes() {
		if p.termed && !p.node && !p.forced {
			p.mustLeave()
		}
	}
	a.eventually("no process is left", func() bool { return len(withEnvironment("CHAOS_LEDGER="+a.dir+"/")) == 0 })
	for range 3 {
		if !slices.ContainsFunc(a.processes(), (*process).unheard) || a.number("ZCARD", "resque:go:processes") == 0 {
			break
		}
		last := a.start("-queues=none") // buries processes that could not leave
		a.drain()
		last.stop()
	}
	a.checkKeys()
	a.checkFlows()
	return a.join()
}

// waiting counts jobs that wait or run, at one instant, and lists of such jobs.
const waiting = `local n = 0
for _, queue in ipairs({'work', 'lanes', 'lone'}) do n = n + redis.call('LLEN', 'resque:queue:' .. queue) end
for _, schedule in ipairs({'go:schedule', 'delayed_queue_schedule', 'go:groups'}) do n = n + redis.call('ZCARD', 'resque:' .. schedule) end
for _, list in ipairs({'go:lane:*', 'queue:lone-*'}) do n = n + #redis.call('KEYS', 'resque:' .. list) end
for _, record in ipairs(redis.call('KEYS', 'resque:go:inflight:*')) do
  local apart = redis.call('HGET', record, 'apart') -- how many fields are payloads
  n = n + redis.call('HLEN', record) - redis.call('HEXISTS', record, 'entered') - (apart and apart + 1 or 0)
end
return n`

// drain waits until nothing is queued or reserved, and no dead process has a record left. One
// whose lease was removed still has its other records.
func (a *arena) drain() {
	for deadline := time.Now().Add(2 * soon); ; time.Sleep(200 * time.Millisecond) { // each look goes over all keys
		queued := a.number("EVAL", waiting, 0)
		leases := a.list("ZRANGE", "resque:go:processes", 0, -1)
		processes := a.list("KEYS", "resque:go:process:*")
		alive := len(a.alive())
		if queued == 0 && len(leases) == alive && len(processes) == alive {
			return
		}
		if time.Now().After(deadline) {
			a.problem("within %v: %d jobs wait or run, in-flight records %q, leases %q, records %q of %d processes",
				2*soon, queued, a.list("KEYS", "resque:go:inflight:*"), leases, processes, alive)
			return
		}
	}
}

// historyRow is the name of a row of the history.
var historyRow = regexp.MustCompile(`^go:[mxhd]:\d+$`)

// checkKeys reports go: keys that are left when all have stopped.
func (a *arena) checkKeys() {
	var left []string
	for _, key := range a.list("KEYS", "*") {
		name := strings.TrimPrefix(key, "resque:")
		switch {
		case name == "queues", name == "go:queues", name == "failed", name == "stat:processed", name == "stat:failed", name == "connection_test_key":
		case strings.HasPrefix(name, "queue:"), strings.HasPrefix(name, "go:probe:"), strings.HasPrefix(name, "go:sentries:"), strings.HasPrefix(name, "go:rate:"): // those expire
		case strings.HasPrefix(name, "go:reaped:"), name == "go:recovered": // what others must remember of the dead
		case name == "failed_queues", strings.HasSuffix(name, "_failed"): // the dead letters of HTTP
		case name == "go:returned", name == "go:takers", name == "go:jump", name == "go:audit", strings.HasPrefix(name, "go:served:"), strings.HasPrefix(name, "go:taker:"), strings.HasPrefix(name, "go:http:"), strings.HasPrefix(name, "go:idem:"): // those expire or are trimmed
		case strings.HasPrefix(name, "go:unique:") && strings.HasSuffix(name, ":refused"): // how many jobs a lock has refused, which expires
		case name == "go:notice", name == "go:events", name == "go:events-all", name == "go:control", strings.HasPrefix(name, "go:reply:"): // those expire
		case name == "go:log", name == "go:tally", name == "go:folded", name == "go:taken", name == "go:depths", historyRow.MatchString(name): // they expire or are bounded
		case name == "go:lanes", name == "go:limits", name == "go:clock": // what others must know of limits
		case strings.HasPrefix(name, "job:"): // php-resque's, which expire
		case strings.HasPrefix(name, "go:slots:") && len(a.removed.unheard) > 0: // freed when the limit is next used up
		case strings.HasPrefix(name, "go:result:"), strings.HasPrefix(name, "go:progress:"), name == "go:cancelled": // those expire
		case strings.HasPrefix(name, "go:operation"): // what operations did, for seven days
		case strings.HasPrefix(name, "go:wf"), name == "go:workflows", name == "go:halted": // checkFlows looks at them
		case name == "go:ticks", name == "delayed:last_enqueued_at", name == "go:stats": // what has been
		default:
			left = append(left, key)
		}
	}
	if len(left) > 0 {
		a.problem("left behind: %q", left)
	}
}

// What one worker process uses at most, at rest: the poller holds two connections, the
// lease, the reaper and the records one each, the pool two; the schedule of delayed jobs
// has two, recurring jobs and lanes one each.
const (
	maxConnections = 11
	maxGoroutines  = 40 // and one a worker
	maxHeap        = 32 << 20
	settled        = 20 * time.Second // Redis takes a while to notice connections that ended
)

// checkSurvivors looks for growth in the workers that lived through the fault.
func (a *arena) checkSurvivors() {
	alive := a.alive()
	a.mu.Lock()
	alive = slices.DeleteFunc(alive, func(p *process) bool { return p.termed }) // and is about to end
	a.mu.Unlock()
	for _, p := range alive {
		p.signal(syscall.SIGWINCH) // note what you use
	}
	for _, p := range alive {
		l := newLedgers()
		a.eventually(p.name+" tells what it uses", func() bool {
			text, _ := os.ReadFile(a.ledger(p.name))
			l.add(p.name, text)
			return len(l.gauges[p.name]) > 0
		})
		g := l.gauges[p.name][0]
		a.goroutines, a.heap = max(a.goroutines, g.goroutines), max(a.heap, g.heap)
		if limit := maxGoroutines + p.concurrency(); g.goroutines > limit {
			a.problem("%s has %d goroutines, more than %d", p.name, g.goroutines, limit)
		}
		if g.heap > maxHeap {
			a.problem("%s holds %d MiB of heap at rest", p.name, g.heap>>20)
		}
	}
	const others = 10 // producers, this one
	limit := len(alive)*maxConnections + others
	a.eventuallyWithin(settled, fmt.Sprintf("Redis has at most %d connections with %d processes alive", limit, len(alive)), func() bool {
		clients, err := redis.String(a.ask("CLIENT", "LIST"))
		return err == nil && strings.Count(clients, "\n") <= limit
	})
}

func (p *process) concurrency() (n int) {
	for _, arg := range p.cmd.Args {
		if v, ok := strings.CutPrefix(arg, "-concurrency="); ok {
			n, _ = strconv.Atoi(v)
		}
	}
	return n
}

// failure is what is read of a failure record.
type failure struct{ id, exception, text string }

// poison reports whether a reaper filed it: its job was found in too many dead processes.
func (f failure) poison() bool {
	return f.exception == "Resque::DirtyExit" && strings.HasPrefix(f.text, "The job was running in")
}

func (a *arena) failures() (all []failure) {
	for _, text := range a.list("LRANGE", "resque:failed", 0, -1) {
		var record struct {
			Exception string `json:"exception"`
			Error     string `json:"error"`
			Payload   struct {
				Class string `json:"class"`
				Args  any    `json:"args"`
			} `json:"payload"`
		}
		if err := json.Unmarshal([]byte(text), &record); err != nil || record.Payload.Class == "" {
			a.problem("a failure record is not as Resque writes it: %.100q, %v", text, err)
		}
		f := failure{exception: record.Exception, text: record.Error}
		if args, ok := record.Payload.Args.([]any); ok && len(args) > 0 {
			f.id, _ = args[0].(string)
		}
		all = append(all, f)
	}
	return all
}

// join compares what was pushed with what ran and what failed.
func (a *arena) join() result {
	r := newResult()
	r.injected, r.goroutines, r.heap = a.injected, a.goroutines, a.heap
	l, err := readLedgers(a.dir)
	if err != nil {
		a.Fatalf("%v", err)
	}
	noted := map[int]bool{}
	for _, s := range l.jobs {
		for _, n := range s.runs {
			noted[n.pid] = true
		}
	}
	for pid := range a.killed {
		a.unnoted = a.unnoted || !noted[pid]
	}
	failed := map[string]failure{}
	strange := 0
	for _, f := range a.failures() {
		if l.jobs[f.id] == nil {
			strange++
		} else if _, again := failed[f.id]; again && !a.removed.doubtful[f.id] {
			a.problem("job %s was filed as failed twice", f.id)
		} else {
			failed[f.id] = f
		}
	}
	if strange != a.strange && !a.loose {
		a.problem("%d bad payloads were filed as failed, not %d", strange, a.strange)
	}
	c := a.newCauses()
	a.readDocuments()
	expired, more := 0, 0 // drops of jobs of which there may be two: one is dropped, and the other is too, or has another end
	for id, s := range l.jobs {
		f, isFailed := failed[id]
		isDone := !isFailed && slices.ContainsFunc(s.runs, func(n run) bool { return n.end > 0 && !n.failed && !n.again })
		r.retried += c.judgeAll(&r, id, s)
		ran := isFailed || len(s.runs)+len(s.drops) > 0
		o, ordered := a.orders[id]
		if ordered && !a.removed.gone[id] {
			a.checkOrder(o, s, isFailed)
		}
		switch {
		case s.push == 'r':
			r.refused++
			if ran {
				a.problem("the push of job %s was refused, and yet it ran", id)
			}
			continue
		case s.push != 'a':
			r.unknown++
			if !ran {
				continue // it never reached Redis
			}
		}
		r.pushed++
		late, replaced := c.dropped(s)
		if a.removed.doubtful[id] {
			more += len(s.drops)
		}
		want := "" // what the job's document says; "": anything
		switch {
		case a.documents[id] == "cancelled" && a.mayCancel(id):
			r.dropped++
		case isFailed:
			want = "failed"
			r.failed++
			if f.poison() {
				r.dirty++
			}
		case late: // though it may have run, and its process died then
			want = "expired"
			expired++
			r.dropped++
		case replaced:
			r.dropped++
		case isDone:
			want = "done"
			if o.class == "Drop" {
				want = "discarded"
			}
			r.done++
		case o.unique != "" && a.replaced(o, l):
			r.dropped++
		case a.removed.excused(id, s):
			r.removed++
		case ran:
			r.lost = append(r.lost, id+", which ran without an outcome")
		default:
			r.lost = append(r.lost, id)
		}
		a.checkDocument(o, want)
	}
	c.checkResults(l)
	r.recovery = c.recoveries(l)
	c.checkLimits(l)
	c.checkPace(l)
	if n := a.number("HGET", "resque:go:stats", "expired") + a.removed.expired; n < expired || n > expired+more {
		a.problem("%d jobs are counted as expired, not %d", n, expired)
	}
	surplus := a.checkGroups(l)
	snoozed, maybe := c.snoozes(l)
	if !a.loose {
		a.checkTotal("processed", r.done+r.failed-r.dirty+r.retried+a.strange+a.removed.n+snoozed-surplus, maybe)
		a.checkTotal("failed", r.failed-r.dirty+a.strange, 0)
	}
	if a.tickEvery > 0 {
		a.checkTicks(&r)
	}
	for _, check := range a.checks {
		check(l, &r)
	}
	slices.Sort(r.lost)
	r.problems, r.notes = a.problems, a.notes
	return r
}

// checkTotal compares one of Resque's totals. Whom a reaper files counts in neither. Outcomes
// that stood in a removed record, and whose replies were lost, may count twice. So many more may count.
func (a *arena) checkTotal(name string, want, more int) {
	want -= a.pruned
	if n := a.number("GET", "resque:stat:"+name); n < want || n > want+more+len(a.removed.doubtful) {
		a.problem("stat:%s is %d, want %d", name, n, want)
	}
}
