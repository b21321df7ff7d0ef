package resque

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/payload"
)

var inflightScript = script("inflight")

// What one look at running jobs reads at most: less than a MiB together.
const (
	lookProcesses = 100 // of which it reads records and jobs
	lookReserved  = 250 // jobs of processes
	lookBytes     = 256 << 10
	lookShown     = 1000      // workers of these processes of which it reads what they show
	shownBytes    = 512       // of what one shows: when the job began, and enough to know it by
	lookWorkers   = 1000      // about how many ids of workers
	lookLeases    = 100       // about how many leases
	leasesBytes   = 128 << 10 // of their jobs
)

// RunningPlace is how far a walk through the running jobs has come. The zero value is the beginning.
type RunningPlace struct {
	Process string `json:"p,omitempty"` // the process it has passed, or is in
	Ticket  int64  `json:"t,omitempty"` // the last job of it that it has passed; 0: it has passed the process
	Scan    string `json:"s,omitempty"` // the cursor among the workers
	Worker  string `json:"w,omitempty"` // the last one of its ids that it has passed
	Leases  string `json:"l,omitempty"` // the cursor among the leases
	Lease   string `json:"h,omitempty"` // the last one of its places that it has passed
	Seen    int64  `json:"n,omitempty"` // processes, workers and leases that it has passed

	NoProcesses bool `json:"x,omitempty"` // these are over
	NoWorkers   bool `json:"y,omitempty"`
	NoLeases    bool `json:"z,omitempty"`
}

// Over reports whether the walk has passed all.
func (p RunningPlace) Over() bool { return p.NoProcesses && p.NoWorkers && p.NoLeases }

// RunningJob is a job that runs, or that a process has reserved to run it.
type RunningJob struct {
	Process string // of goworker; "" of another program's worker
	Host    string
	Worker  string // that shows it
	Queue   string
	Payload []byte // its beginning, HeadSize bytes at most
	Size    int64  // of the whole payload
	Ticket  int64  // in the process
	Began   time.Time
	ID      string    // of a job that a client holds
	Place   string    // of such a job
	Ends    time.Time // of its lease
	Stuck   *StuckJob // what the process says of it
}

// RunningRead is a part of the running jobs.
type RunningRead struct {
	Jobs    []RunningJob
	Next    RunningPlace
	Of      int64 // processes, workers and leases that there are
	At      time.Time
	Refused []error
}

// Running reads about 250 jobs of processes, the jobs of about 1,000 workers, and about 100 jobs that clients hold. It sends at most eleven
// commands in three round trips. leases is the set of leases.
func (s Store) Running(c redis.Conn, from RunningPlace) (RunningRead, error) {
	l := &runningLook{s: s, RunningRead: RunningRead{Next: from}}
	for _, read := range []func(*trip){l.names, l.jobs, l.shown} {
		t := &trip{c: c}
		if read(t); len(t.takes) == 0 {
			continue
		}
		if err := t.run(); err != nil {
			return l.RunningRead, fmt.Errorf("looking at running jobs: %w", Explain(err))
		}
	}
	return l.RunningRead, nil
}

type runningLook struct {
	s Store
	RunningRead

	processes []Process             // behind the place
	stuck     map[string][]StuckJob // by process
	scan      string                // the cursor of these workers
	all, ids  []string              // workers, and those of them of other programs
	held      string                // the cursor of these leases
	places    []string
	ends      map[string]time.Time // by place
}

func (l *runningLook) refused(what string, err error) bool {
	if err != nil && err != redis.ErrNil {
		l.Refused = append(l.Refused, fmt.Errorf("reading %s: %w", what, Explain(err)))
	}
	return err != nil
}

// names asks what there is behind the place.
func (l *runningLook) names(t *trip) {
	t.ask(func(reply any, err error) {
		l.At, err = timeOfAnswer(reply, err)
		l.refused("Redis's time", err)
	}, "TIME")
	var a together
	count := func(reply any, err error) {
		n, _ := redis.Int64(reply, err) // what is refused is said below
		l.Of += n
	}
	a.ask(count, "ZCARD", l.s.processes())
	a.ask(count, "SCARD", l.s.workers())
	a.ask(count, "ZCARD", l.s.KeyOfLeases())
	if !l.Next.NoProcesses {
		a.ask(l.behind, "ZRANGE", l.s.processes(), 0, MostProcesses-1)
	}
	if !l.Next.NoWorkers {
		a.ask(l.others, "SSCAN", l.s.workers(), cmp.Or(l.Next.Scan, "0"), "COUNT", lookWorkers)
	}
	if !l.Next.NoLeases {
		a.ask(l.leases, "ZSCAN", l.s.KeyOfLeases(), cmp.Or(l.Next.Leases, "0"), "COUNT", lookLeases)
	}
	a.on(t)
}

// behind takes the ids of processes.
func (l *runningLook) behind(reply any, err error) {
	ids, err := redis.Strings(reply, err)
	if l.refused("which processes there are", err) {
		l.Next.NoProcesses = true
		return
	}
	slices.Sort(ids)
	at, there := slices.BinarySearch(ids, l.Next.Process)
	if there && l.Next.Ticket == 0 {
		at++
	} else if !there {
		l.Next.Ticket = 0
	}
	for _, id := range ids[at:] {
		l.processes = append(l.processes, Process{ID: id})
	}
	l.Next.NoProcesses = len(l.processes) <= lookProcesses // unless a record is not read to its end
	l.processes = l.processes[:min(len(l.processes), lookProcesses)]
}

// others takes the ids of workers. Those of goworker show jobs of processes.
func (l *runningLook) others(reply any, err error) {
	page, err := redis.Values(reply, err)
	next, ids, err := scanned(page, err)
	if l.refused("the set of workers", err) {
		l.Next.NoWorkers = true
		return
	}
	at, there := slices.BinarySearch(ids, l.Next.Worker)
	if there {
		at++
	}
	l.scan, l.all = cmp.Or(l.Next.Scan, "0"), ids[at:]
	l.Next.Seen += int64(len(l.all))
	for _, id := range l.all {
		if host, _, _ := strings.Cut(id, ":"); !strings.HasSuffix(host, GoHost) {
			l.ids = append(l.ids, id)
		}
	}
	l.Next.Scan, l.Next.Worker, l.Next.NoWorkers = next, "", next == "0"
}

// leases takes a page of the leases.
func (l *runningLook) leases(reply any, err error) {
	page, err := redis.Values(reply, err)
	if err == nil && len(page) != 2 {
		err = ErrAnswer
	}
	var pairs []string
	if err == nil {
		pairs, err = redis.Strings(page[1], nil)
	}
	if l.refused("the leases of jobs", err) {
		l.Next.NoLeases = true
		return
	}
	l.ends = make(map[string]time.Time)
	for i := 0; i+1 < len(pairs); i += 2 {
		if ms, err := strconv.ParseFloat(pairs[i+1], 64); err == nil && pairs[i] > l.Next.Lease {
			l.ends[pairs[i]] = time.UnixMilli(int64(ms))
			l.places = append(l.places, pairs[i])
		}
	}
	slices.Sort(l.places)
	l.places = slices.Compact(l.places)
	l.Next.Seen += int64(len(l.places))
	l.held = cmp.Or(l.Next.Leases, "0")
	next, _ := redis.String(page[0], nil)
	l.Next.Leases, l.Next.Lease, l.Next.NoLeases = next, "", next == "0"
}

// ownerFields are the fields of a record that say who a process's workers are.
var ownerFields = []any{"host", "concurrency", "id_head", "id_queues", formerField, "stuck"}

// jobs asks for the jobs, and for the records of the processes.
func (l *runningLook) jobs(t *trip) {
	if len(l.processes) > 0 {
		l.reserved(t)
	}
	cut := false
	for part := range slices.Chunk(l.ids, headsTogether) {
		keys := make([]string, len(part))
		for i, id := range part {
			keys[i] = l.s.worker(id)
		}
		askHeads(t, headBytes, headsAnswered, keys, nil, func(found []head, err error) {
			if cut || l.refused("what workers do", err) {
				return
			}
			for i, h := range found {
				if w, size := parseShown(h); w != nil {
					at := parseWorkerID(part[i])
					l.Jobs = append(l.Jobs, RunningJob{Host: at.Host, Worker: at.ID, Queue: w.Queue, Payload: w.Payload, Size: size, Began: w.RunAt})
				}
			}
			if cut = len(found) < len(part); cut { // what is behind these is on the next page
				last := part[len(found)-1]
				at, _ := slices.BinarySearch(l.all, last)
				l.Next.Scan, l.Next.Worker, l.Next.NoWorkers = l.scan, last, false
				l.Next.Seen -= int64(len(l.all) - at - 1)
			}
		})
	}
	if len(l.places) > 0 {
		askHeads(t, headBytes, leasesBytes, slices.Repeat([]string{l.s.KeyOfLeased()}, len(l.places)), l.places, l.leased)
	}
}

// leased takes the jobs that clients hold.
func (l *runningLook) leased(found []head, err error) {
	if l.refused("the jobs that clients hold", err) {
		return
	}
	for i, h := range found {
		if h.size == 0 { // it has ended meanwhile
			continue
		}
		j := RunningJob{Place: l.places[i], Payload: h.text[:min(len(h.text), HeadSize)], Size: h.size, Ends: l.ends[l.places[i]]}
		j.Queue, j.ID, _ = ParsePlace(j.Place)
		l.Jobs = append(l.Jobs, j)
	}
	if len(found) < len(l.places) {
		l.Next.Leases, l.Next.Lease, l.Next.NoLeases = l.held, l.places[len(found)-1], false
		l.Next.Seen -= int64(len(l.places) - len(found))
	}
}

// reserved asks for the jobs of processes.
func (l *runningLook) reserved(t *trip) {
	keys, a := make([]string, len(l.processes)), Call{}
	for i, p := range l.processes {
		keys[i] = l.s.process(p.ID)
		a.Key(l.s.inflight(p.ID))
	}
	l.stuck = make(map[string][]StuckJob)
	var records together
	records.each(func(i int, reply any, err error) {
		p := &l.processes[i]
		fields, err := fieldsOf(ownerFields, reply, err)
		l.refused("the record of process "+p.ID, err)
		*p = processOf(p.ID, fields)
		_, l.stuck[p.ID] = readVitals(fields)
	}, keys, "HMGET", ownerFields...)
	records.on(t)
	a.Arg(headBytes, lookReserved, lookBytes, headWhole, l.Next.Ticket)
	t.eval(func(reply any, err error) {
		rows, err := redis.Values(reply, err)
		if err == nil && (len(rows) == 0 || len(rows) > len(l.processes)+1) {
			err = ErrAnswer
		}
		if l.refused("the in-flight records", err) {
			l.Next.NoProcesses = true
			return
		}
		read, _ := redis.Int(rows[0], nil)
		for i, row := range rows[1:] {
			l.inRecord(&l.processes[i], row)
		}
		if read = min(max(read, 0), len(l.processes)); read < len(l.processes) {
			l.Next.NoProcesses = false
		}
		if read > 0 {
			l.Next.Process, l.Next.Ticket = l.processes[read-1].ID, 0
		}
		if n := len(l.Jobs); read < len(l.processes) && n > 0 && l.Jobs[n-1].Process == l.processes[read].ID {
			l.Next.Process, l.Next.Ticket = l.Jobs[n-1].Process, l.Jobs[n-1].Ticket
		}
		l.Next.Seen += int64(read)
	}, inflightScript, a)
}

// inRecord takes what inflight.lua says of one process.
func (l *runningLook) inRecord(p *Process, row any) {
	if text, ok := row.([]byte); ok {
		l.refused("the in-flight record of process "+p.ID, redis.Error(text))
		return
	}
	values, err := redis.Values(row, nil)
	if err != nil || len(values)%3 != 0 {
		l.refused("the in-flight record of process "+p.ID, ErrAnswer)
		return
	}
	for v := range slices.Chunk(values, 3) {
		ticket, _ := redis.Int64(v[0], nil)
		size, _ := redis.Int64(v[1], nil)
		text, _ := redis.Bytes(v[2], nil)
		job, _ := parseReserved(ticket, text) // what another program wrote has no queue
		l.Jobs = append(l.Jobs, RunningJob{
			Process: p.ID, Host: p.Host, Ticket: ticket, Queue: job.Queue,
			Payload: job.Payload[:min(len(job.Payload), HeadSize)], Size: size - int64(len(text)-len(job.Payload)),
		})
	}
}

// shown asks when the jobs of processes began, which their workers show.
func (l *runningLook) shown(t *trip) {
	jobs := make(map[string][]*RunningJob)
	for i := range l.Jobs {
		if j := &l.Jobs[i]; j.Process != "" {
			jobs[j.Process] = append(jobs[j.Process], j)
		}
	}
	type slot struct{ process, worker string }
	var slots []slot
	for _, p := range l.processes {
		if len(jobs[p.ID]) == 0 || len(slots) >= lookShown {
			continue
		}
		p.Concurrency = min(p.Concurrency, lookShown)
		for _, id := range p.WorkerIDs() {
			slots = append(slots, slot{p.ID, id})
		}
		for n := range l.stuck[p.ID] {
			isStuck(jobs[p.ID], &l.stuck[p.ID][n])
		}
	}
	for part := range slices.Chunk(slots[:min(len(slots), lookShown)], headsTogether) {
		keys := make([]string, len(part))
		for i, of := range part {
			keys[i] = l.s.worker(of.worker)
		}
		askHeads(t, shownBytes, len(part)*shownBytes, keys, nil, func(found []head, err error) {
			if l.refused("what workers do", err) {
				return
			}
			for i, h := range found {
				if w, _ := parseShown(h); w != nil {
					began(jobs[part[i].process], w, part[i].worker)
				}
			}
		})
	}
}

// isStuck notes what a process says of one of its jobs.
func isStuck(jobs []*RunningJob, of *StuckJob) {
	for _, j := range jobs {
		class, id, _ := payload.Beginning(j.Payload)
		if j.Stuck == nil && j.Queue == of.Queue && class == of.Class && id == of.ID {
			j.Stuck, j.Worker, j.Began = of, of.Worker, Time(of.Started)
			return
		}
	}
}

// began notes when a job began that a worker shows. Of jobs that are equal, or begin equally, any may be meant.
func began(jobs []*RunningJob, w *Working, worker string) {
	for _, j := range jobs {
		text := j.Payload
		if int64(len(text)) == j.Size {
			text = payload.Safe(text)
		}
		n := min(len(text), len(w.Payload))
		if j.Began.IsZero() && j.Queue == w.Queue && n > 0 && bytes.Equal(text[:n], w.Payload[:n]) {
			j.Began, j.Worker = w.RunAt, worker
			return
		}
	}
}

// ReadProgress returns what jobs say of how far they are, by their ids.
func (s Store) ReadProgress(c redis.Conn, ids []string) (map[string]*DocumentProgress, error) {
	found := make(map[string]*DocumentProgress)
	if len(ids) == 0 {
		return found, nil
	}
	keys := make([]any, len(ids))
	for i, id := range ids {
		keys[i] = s.KeyOfProgress(id)
	}
	texts, err := redis.Strings(c.Do("MGET", keys...))
	if err == nil && len(texts) != len(ids) {
		err = ErrAnswer
	}
	if err != nil {
		return nil, fmt.Errorf("reading how far jobs are: %w", Explain(err))
	}
	for i, text := range texts {
		if p := ProgressOf(text); p != nil {
			found[ids[i]] = p
		}
	}
	return found, nil
}
