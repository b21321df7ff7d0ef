package checks

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goworker/goworker/inspect"
	"github.com/goworker/goworker/internal/resque"
)

// The moving checks look at samples. They have no numbers, and doctor does not run them.

var grows = &Check{
	Name: "queue-grows", Severity: Warning, Uses: Status | Notice | Alert, Title: "queues that grow",
	Bound: Bound{1000, "jobs"}, More: []Bound{{1800, "s"}}, // so many wait, and twice as many will within that time
	Sentence: "queue {queue} grows: {waiting}, and {rate} more come each second than go",
	Remedy:   "{do}",
}

var waitsLong = &Check{
	Name: "waits-long", Severity: Warning, Uses: Status | Notice | Alert, Title: "jobs that wait too long",
	Bound:    Bound{300, "s"},
	More:     []Bound{{10, "times"}}, // and so many times what is usual there, if that is known
	Sentence: "the oldest job of queue {queue} has waited {age}: {waiting}",
	Remedy:   "{do}",
}

var saturated = &Check{
	Name: "workers-saturated", Severity: Warning, Uses: Status | Notice | Alert, Title: "workers that are all busy",
	Bound:    Bound{0.95, "share"},
	Sentence: "{share} of the workers are busy, and {waiting}",
	Remedy:   "start more processes, or workers, if what the jobs use can bear more",
}

var pausedNow = &Check{
	Name: "paused", Severity: Warning, Uses: Status, Title: "queues that are paused while jobs wait",
	Sentence: "queue {queue} is paused, and {waiting}",
	Remedy:   "resume it when its jobs are to run again",
	Command:  "goworker queues resume -- {queue}",
}

var stuckNow = &Check{
	Name: "stuck-job", Severity: Warning, Uses: Status | Notice, Title: "jobs that run past their time",
	Sentence: "{class} is stuck in {worker} for {age}",
	Remedy:   "its handler does not heed its context; the line \"job is stuck\" in that process's log shows where it waits",
}

var jobsFail = &Check{
	Name: "jobs-fail", Severity: Warning, Uses: Status | Notice | Alert, Title: "jobs that fail",
	Bound: Bound{0.05, "share"}, More: []Bound{{20, "jobs"}},
	Sentence: "{failed} of the last {jobs} failed ({share})",
	Remedy:   "see what they have in common",
	Command:  "goworker failed groups",
}

var movingChecks = []*Check{grows, waitsLong, saturated, pausedNow, stuckNow, jobsFail, classFails, newGroup}

// Moving returns what two samples of one Resque show, the errors before the warnings: the lines of status that begin with an
// exclamation mark. Of before only rates are taken. A zero before leaves them out. Beside the moving checks it has
// those of doctor that a sample answers.
func Moving(before, after inspect.Sample, options ...MovingOption) []Finding {
	m := &moving{before: before, after: after}
	for _, option := range options {
		option(m)
	}
	m.servers()
	if after.PausedAll {
		m.find(ByNumber(37), "", values{"key": resque.New(after.Namespace).KeyOfPauseAll()})
	}
	var rates inspect.Rates
	if !before.At.IsZero() {
		rates = after.Rates(before)
	}
	for _, q := range after.Queues {
		m.queue(q, rates.Queues[q.Name])
	}
	m.late()
	m.busy()
	for _, j := range after.Stuck {
		m.find(stuckNow, "", values{"class": j.Class, "worker": cmp.Or(j.Worker, j.Process), "age": j.For})
	}
	m.failing(rates.For)
	slices.SortStableFunc(m.found, func(a, b Finding) int { return int(b.Check.Severity) - int(a.Check.Severity) })
	return m.found
}

type moving struct {
	before, after inspect.Sample
	usual         inspect.History // see Usually
	found         []Finding
}

func (m *moving) find(c *Check, shard string, v values) {
	f := newFinding(c, v)
	f.Shard, f.values = shard, nil // a sample does not fix
	m.found = append(m.found, f)
}

// servers looks at each Redis.
func (m *moving) servers() {
	for _, s := range m.after.Servers {
		shard := ""
		if len(m.after.Servers) > 1 {
			shard = s.Name
		}
		if s.Role == "slave" {
			m.find(ByNumber(10), shard, values{"master": words("another one")})
		}
		memory := ByNumber(4)
		if part := float64(s.Memory) / float64(s.MaxMemory); s.MaxMemory > 0 && part > memory.Bound.Value {
			m.find(memory, shard, values{"used": size(s.Memory), "limit": size(s.MaxMemory), "share": share(part), "largest": words("see goworker doctor")})
		}
	}
}

// queue looks at one queue, and says one thing of it: the cause before what follows from it.
func (m *moving) queue(q inspect.SampleQueue, r inspect.QueueRates) {
	if !q.Waiting.Known() || q.Waiting.N == 0 {
		return
	}
	waits := words(waiting(q.Waiting))
	switch {
	case q.Paused:
		m.find(pausedNow, q.Shard, values{"queue": q.Name, "waiting": waits})
	case unserved(q):
		m.find(ByNumber(35), q.Shard, values{"queue": q.Name, "jobs": words(plural(int(q.Waiting.N), "job", "jobs"))})
	case growing(q, r):
		m.find(grows, q.Shard, values{"queue": q.Name, "waiting": waits, "rate": words(rate(r.Growth.PerSecond)), "do": m.do(q)})
	default:
		if usual, long := m.long(q); long {
			m.find(waitsLong, q.Shard, values{"queue": q.Name, "waiting": waits, "age": words(age(q.Oldest)) + usual, "do": m.do(q)})
		}
	}
}

// unserved reports whether it is known that nothing takes from a queue.
func unserved(q inspect.SampleQueue) bool {
	for _, c := range []inspect.Count{q.Go, q.Other, q.HTTP} {
		if c.Bound != inspect.Exact || c.N > 0 {
			return false
		}
	}
	return true
}

func growing(q inspect.SampleQueue, r inspect.QueueRates) bool {
	doubles := grows.More[0].Value
	return float64(q.Waiting.N) >= grows.Bound.Value && r.Growth.Known() && r.Growth.PerSecond*doubles >= float64(q.Waiting.N)
}

// do is what to do about jobs that wait in a queue.
func (m *moving) do(q inspect.SampleQueue) words {
	part, known := m.busyShare()
	switch {
	case q.InLanes.N*2 > q.Waiting.N:
		return "its limits hold most of them: goworker limits ls"
	case known && part >= saturated.Bound.Value:
		return words("the workers are " + in(share(part)) + " busy: start more processes")
	case known:
		return words("the workers are " + in(share(part)) + " busy, so more of them change little: look at its limits, and at the order of the queues")
	}
	return "see whether its workers are busy: goworker workers"
}

// busyShare is how many of the workers that the sample has looked at have a job.
func (m *moving) busyShare() (part float64, known bool) {
	w := m.after.Workers
	if !w.Busy.Known() || w.Looked == 0 {
		return 0, false
	}
	return float64(w.Busy.N) / float64(w.Looked), true
}

func (m *moving) busy() {
	part, known := m.busyShare()
	served := slices.ContainsFunc(m.after.Queues, func(q inspect.SampleQueue) bool {
		return q.Waiting.N > q.InLanes.N && !q.Paused && !unserved(q)
	})
	if known && served && part >= saturated.Bound.Value {
		m.find(saturated, "", values{"share": share(part), "waiting": words(waiting(m.after.Waiting))})
	}
}

// late looks at the first delayed job.
func (m *moving) late() {
	c, by := ByNumber(39), m.after.Late
	if !by.Known() || by.For <= c.Bound.Duration() {
		return
	}
	who, do := words("no goworker process is there to move them"), words("start a goworker process or resque-scheduler")
	if len(m.after.Processes) > 0 {
		who, do = "the processes that are there do not move them", "goworker doctor says why"
	}
	m.find(c, "", values{"late": by.For, "jobs": words(plural(int(m.after.Delayed.N), "job is delayed", "jobs are delayed")), "who": who, "do": do})
}

// failing looks at how many of the jobs that ended between the samples have failed.
func (m *moving) failing(between time.Duration) {
	b, a := m.before, m.after
	if between <= 0 || !a.Processed.Known() || !a.Failed.Known() || !b.Processed.Known() || !b.Failed.Known() {
		return
	}
	jobs, failed := a.Processed.N-b.Processed.N, a.Failed.N-b.Failed.N
	if jobs > 0 && float64(failed) >= jobsFail.More[0].Value && float64(failed) >= jobsFail.Bound.Value*float64(jobs) {
		m.find(jobsFail, "", values{"failed": failed, "jobs": words(plural(int(jobs), "job", "jobs")), "share": share(float64(failed) / float64(jobs))})
	}
}

// waiting is "37 jobs wait", or "at least 37 jobs wait".
func waiting(n inspect.Count) string {
	text := plural(int(n.N), "job waits", "jobs wait")
	switch n.Bound {
	case inspect.AtLeast:
		return "at least " + text
	case inspect.AtMost:
		return "at most " + text
	}
	return text
}

// age is how long a job has waited, and how that is known.
func age(a inspect.Age) string {
	switch text := duration(a.For); a.Method {
	case inspect.AgeCounted:
		return "about " + text
	case inspect.AgeSeen:
		return "for more than " + text
	default:
		return text
	}
}

// rate is a number a second with two digits that matter.
func rate(perSecond float64) string {
	if perSecond >= 10 {
		return count(int64(perSecond + 0.5))
	}
	return strings.TrimSuffix(strings.TrimRight(strconv.FormatFloat(perSecond, 'f', 1, 64), "0"), ".")
}
