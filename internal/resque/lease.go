package resque

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"
)

var (
	enterScript   = script("enter")
	restoreScript = script("restore")
	renewScript   = script("renew")
	resyncScript  = script("resync")
	leaveScript   = script("leave")
)

// mostWorkers is the most worker ids that the record of another process may claim. A number read
// from Redis must not decide how much memory its reader takes.
const mostWorkers = 1 << 16

// LeasePeriod is how long a lease lasts: fleet.LeasePeriod.
const LeasePeriod = 8 * time.Second

// ErrTaken is returned by Enter when another process has registered the worker ids.
var ErrTaken = errors.New("the worker ids are taken")

// Process is one run of a daemon as the fleet sees it. A process that starts
// again, or loses its lease, is another Process with another ID.
type Process struct {
	ID          string // host:pid:random
	Host        string
	PID         int
	Version     string
	Queues      string
	Concurrency int // no worker has a higher number; some of them may not be registered
	Started     time.Time

	// Knows is what its release understands of jobs, as its record says: words with blanks between.
	Knows string

	// Duties says which duties of the fleet its release knows: a number that rises when a release adds one. 0: it is an
	// older release.
	Duties int

	// Classes and Limits are what its program registered: RecordText of the classes' names, and of the numbers of the limits.
	// "": its record does not say it.
	Classes, Limits string

	// Name is that of its program, and Control is what it obeys: "off", "on" or "full". "": it is of a release that knows no
	// commands.
	Name, Control string

	// App is the version of its program; "": it does not say it.
	App string

	// Worker n is registered as IDHead + n + ":" + IDQueues. While a list of queues changes, it may also
	// be registered with one of Former.
	IDHead, IDQueues string
	Former           []string
}

// Knows is what this release understands of jobs: see Process.
const Knows = KnowsWorkflows + " " + KnowsMessagePack + " " + KnowsLeases + " " + KnowsApart

// KnowsWorkflows is the word of a release that counts the ends of steps.
const KnowsWorkflows = "workflows"

// KnowsMessagePack is the word of a release that knows where goworker's own queues lie.
const KnowsMessagePack = "msgpack"

// KnowsLeases is the word of a release that looks for jobs among those that clients hold, and ends leases that have run out.
const KnowsLeases = "leases"

// KnowsApart is the word of a release that reads payloads which are in fields of their own: see apart.go.
const KnowsApart = "apart"

// Duties is that of this release: see Process. 1 are ages of queues and the history.
const Duties = 1

// ReadDuties has a renewal read the Duties of a process. It hears nothing of one whose record is missing: the process may be
// about to write it again.
func (s Store) ReadDuties(c *Cargo, process string, heard func(duties int)) {
	c.Read(func(reply any, err error) {
		f, _ := redis.Values(reply, err)
		switch {
		case len(f) == 2 && f[0] != nil:
			duties, _ := redis.Int(f[1], nil) // a record without them is one of an older release
			heard(duties)
		case len(f) != 2: // Redis refuses the record
			heard(0)
		}
	}, "HMGET", hashKey(s.process(process)), "epoch", "duties")
}

// KnowsOf reports whether the process understands what a word names.
func (p Process) KnowsOf(word string) bool { return slices.Contains(strings.Fields(p.Knows), word) }

// mostRecorded is how long a text is that a record may have of a program.
const mostRecorded = 4 << 10

// RecordText is a value as JSON for a process's record, or "" if it is too long for that.
func RecordText(v any) string {
	text, err := json.Marshal(v)
	if err != nil || len(text) > mostRecorded {
		return ""
	}
	return string(text)
}

func (p Process) fields(epoch int64) []any {
	fields := []any{
		"epoch", epoch,
		"host", p.Host, "pid", p.PID, "version", p.Version, "queues", p.Queues,
		"concurrency", p.Concurrency, "started", StartedAt(p.Started),
		"id_head", p.IDHead, "id_queues", p.IDQueues, "knows", Knows, "duties", Duties,
	}
	for _, of := range [][2]string{{"classes", p.Classes}, {"limits", p.Limits}, {"name", p.Name}, {"control", p.Control}, {"app", p.App}, {formerField, p.former()}} {
		if of[1] != "" {
			fields = append(fields, of[0], of[1])
		}
	}
	return fields
}

// ReadProcess reads a process's record. If it is missing, only ID is set.
func (s Store) ReadProcess(c redis.Conn, id string) (Process, error) {
	f, err := redis.StringMap(c.Do("HGETALL", s.process(id)))
	if err != nil {
		return Process{}, fmt.Errorf("reading the record of process %s: %w", id, err)
	}
	return processOf(id, f), nil
}

func processOf(id string, f map[string]string) Process {
	p := Process{ID: id, Host: f["host"], Version: f["version"], Queues: f["queues"],
		IDHead: f["id_head"], IDQueues: f["id_queues"], Classes: f["classes"], Limits: f["limits"], Knows: f["knows"], Name: f["name"], Control: f["control"], App: f["app"]}
	p.PID, _ = strconv.Atoi(f["pid"])
	p.Duties, _ = strconv.Atoi(f["duties"])
	p.Concurrency, _ = strconv.Atoi(f["concurrency"])
	p.Concurrency = min(max(p.Concurrency, 0), mostWorkers) // another program may have written anything
	p.Former = formerOf(f[formerField], p.Concurrency)
	p.Started, _ = time.Parse(startedLayout, f["started"])
	return p
}

// Now returns the clock of all leases and heartbeats: Redis's own.
func (s Store) Now(c redis.Conn) (time.Time, error) {
	return timeOfAnswer(c.Do("TIME"))
}

func timeOfAnswer(reply any, err error) (time.Time, error) {
	v, err := redis.Int64s(reply, err)
	if err == nil && len(v) != 2 {
		err = ErrAnswer
	}
	if err != nil {
		return time.Time{}, fmt.Errorf("asking Redis for the time: %w", err)
	}
	return time.Unix(v[0], v[1]*1000), nil
}

// Enter puts a new process into the fleet under epoch 1. It claims the first
// worker id with a heartbeat of the given time, and returns ErrTaken when another
// process has that id.
func (s Store) Enter(c redis.Conn, p Process, lease time.Duration, now time.Time) error {
	return s.enter(c, p, 1, lease, p.WorkerID(0), HeartbeatAt(now))
}

// Reenter puts back a process that Redis forgot, under a new epoch. Restore must follow.
func (s Store) Reenter(c redis.Conn, p Process, epoch int64, lease time.Duration) error {
	return s.enter(c, p, epoch, lease, "", "")
}

// Restore writes into a process's in-flight record the jobs that the process holds and the
// record has lost, and which jobs are with workers. Its last step is the mark. If the epoch is
// not the record's, it changes nothing and returns ErrStale or ErrGone.
func (s Store) Restore(c redis.Conn, process string, epoch int64, jobs []Reserved, handed string) error {
	write := func(last bool, fields ...any) error {
		var a Call
		a.Key(s.inflight(process))
		a.Key(s.process(process))
		a.Arg(epoch, last, handed)
		a.Arg(fields...)
		status, err := redis.String(a.Do(c, restoreScript))
		if err != nil {
			return fmt.Errorf("restoring the in-flight record of process %s: %w", process, err)
		}
		return statusError(status)
	}
	for chunk := range slices.Chunk(jobs, MaxExchangeJobs) {
		var fields []any
		for _, j := range chunk {
			fields = append(fields, j.Ticket, j.prefix()+string(j.Payload))
		}
		if err := write(false, fields...); err != nil {
			return err
		}
	}
	return write(true, markField, mark)
}

// The mark is a field of an in-flight record that only entering and restoring write. If the record
// has it, a missing ticket was committed. If not, the record was removed.
//
// Its value is longer than hash-max-listpack-value, so that Redis keeps the record as a hash
// table from the start. In a listpack each command would go through all fields.
const (
	markField = "entered"
	mark      = "goworker wrote this when the process entered; do not remove the record"
)

func (s Store) enter(c redis.Conn, p Process, epoch int64, lease time.Duration, claim, heartbeat string) error {
	var a Call
	a.Key(s.processes())
	a.Key(s.process(p.ID))
	a.Key(s.heartbeats())
	a.Key(s.reaped(p.ID))
	a.Key(s.inflight(p.ID))
	entered := ""
	if claim != "" {
		entered = mark
	}
	a.Arg(p.ID, lease.Milliseconds(), entered, claim, heartbeat)
	a.Arg(p.fields(epoch)...)
	status, err := redis.String(a.Do(c, enterScript))
	if err != nil {
		return fmt.Errorf("registering process %s: %w", p.ID, err)
	}
	if status == "taken" {
		return ErrTaken
	}
	return statusError(status)
}

// Lease is what one process holds: a value that changes with every renewal.
type Lease struct {
	Process string
	Value   string // when it runs out or, negative, since when the process counts as dead; in ms, by Redis's clock
}

// at is the time of the lease in ms. It is negative if the process counts as dead.
func (l Lease) at() int64 {
	at, _ := strconv.ParseFloat(l.Value, 64)
	return int64(at)
}

// Fenced reports whether a reaper has declared the process dead.
func (l Lease) Fenced() bool { return l.at() < 0 }

// Renewed is what a process learns when it renews its lease.
type Renewed struct {
	Processes int      // how many there are, dead ones too
	Late      []Lease  // of those that may be dead: see Dead
	All       bool     // Members were read
	Members   []string // the ids of the processes that live, in any order
	Due       Due

	now, since, period int64 // in ms; see Dead
}

// fencedGrace is how long only the reaper that fenced a process recovers its jobs.
const fencedGrace = 2 * time.Second

// Dead returns the leases of processes that are dead. All of the fleet's renewals must have
// come without a gap for a whole lease period, and none of these processes may have renewed in it.
// If Redis stood still or the clock jumped, there is a gap, so no process is found dead. The
// renewals of all processes count, so a new reaper need not observe for a period first.
//
// A process that was fenced a while ago is among them: its reaper may have died.
func (r Renewed) Dead() (dead []Lease) {
	for _, l := range r.Late {
		renewed := l.at() - r.period
		switch {
		case l.Fenced():
			if r.now+l.at() >= fencedGrace.Milliseconds() || r.now+l.at() < 0 {
				dead = append(dead, l)
			}
		case r.now-r.since >= r.period && (renewed <= r.now-r.period || renewed > r.now):
			dead = append(dead, l)
		}
	}
	return dead
}

// Fenced returns the leases of the processes that count as dead, those too of which Dead says nothing yet.
func (r Renewed) Fenced() (fenced []Lease) {
	for _, l := range r.Late {
		if l.Fenced() {
			fenced = append(fenced, l)
		}
	}
	return fenced
}

// mostMembers is how many members of a fleet a renewal reads at most, and how many leases of dead ones.
const mostMembers = 10_000

// Renew is RenewBehind no other process.
func (s Store) Renew(c redis.Conn, process string, lease, gap time.Duration, cargo *Cargo) (Renewed, error) {
	return s.RenewBehind(c, process, "", lease, gap, cargo)
}

// RenewBehind renews a process's lease. It reads the members of the fleet unless another process is one of them. It returns ErrReaped or ErrGone when there is
// nothing to renew. If the whole fleet was silent for longer than gap, Dead finds no
// process dead. The cargo, which may be nil, hears its answers before RenewBehind returns.
func (s Store) RenewBehind(c redis.Conn, process, other string, lease, gap time.Duration, cargo *Cargo) (Renewed, error) {
	var a Call
	a.Key(s.processes())
	a.Key(s.process(process))
	a.Key(s.reaped(process))
	a.Key(s.pulse())
	keys := s.RenewalKeys(&a)
	a.Arg(process, lease.Milliseconds(), gap.Milliseconds(), keys, other, mostMembers)
	a.Carry(cargo)
	r, err := redis.Values(a.Do(c, renewScript))
	if err != nil {
		return Renewed{}, fmt.Errorf("renewing the lease of process %s: %w", process, err)
	}
	status := "ok"
	if len(r) > 0 {
		status, _ = redis.String(r[0], nil)
	}
	if err := statusError(status); err != nil {
		return Renewed{}, err
	}
	due, rest, err := RenewalDue(r[min(2, len(r)):], cargo)
	out := Renewed{period: lease.Milliseconds(), Due: due, now: due.Now.UnixMilli()}
	if err == nil {
		err = out.read(rest)
	}
	if err != nil {
		return Renewed{}, fmt.Errorf("renewing the lease of process %s: %w", process, err)
	}
	out.since, _ = redis.Int64(r[1], nil)
	return out, nil
}

// read takes what a renewal answers of the fleet: how many processes there are, leases, and ids.
func (r *Renewed) read(answer []any) (err error) {
	if len(answer) != 2 && len(answer) != 3 {
		return ErrAnswer
	}
	if r.Processes, err = redis.Int(answer[0], nil); err != nil {
		return ErrAnswer
	}
	late, err := redis.Strings(answer[1], nil)
	if err != nil || len(late)%2 != 0 {
		return ErrAnswer
	}
	for pair := range slices.Chunk(late, 2) {
		r.Late = append(r.Late, Lease{Process: pair[0], Value: pair[1]})
	}
	if r.All = len(answer) == 3; r.All {
		if r.Members, err = redis.Strings(answer[2], nil); err != nil {
			return ErrAnswer
		}
	}
	return nil
}

// HaveLeases returns which of these processes have leases, be they dead or not.
func (s Store) HaveLeases(c redis.Conn, processes []string) (map[string]bool, error) {
	have := make(map[string]bool)
	for chunk := range slices.Chunk(processes, MaxExchangeJobs) {
		leases, err := redis.Values(c.Do("ZMSCORE", redis.Args{}.Add(s.processes()).AddFlat(chunk)...))
		if err == nil && len(leases) != len(chunk) {
			err = ErrAnswer
		}
		if err != nil {
			return nil, fmt.Errorf("reading which processes have leases: %w", Explain(err))
		}
		for i, lease := range leases {
			if lease != nil {
				have[chunk[i]] = true
			}
		}
	}
	return have, nil
}

// ReadAlive has a renewal read which of these processes live. It hears nothing where Redis refuses to say it.
func (s Store) ReadAlive(c *Cargo, processes []string, heard func(process string, lives bool)) {
	args := redis.Args{}.AddFlat(processes)
	c.Read(func(reply any, err error) {
		leases, err := redis.Values(reply, err)
		if err != nil || len(leases) != len(processes) {
			return
		}
		for i, lease := range leases {
			value, err := redis.String(lease, nil)
			heard(processes[i], err == nil && !(Lease{Value: value}).Fenced())
		}
	}, "ZMSCORE", zsetKey(s.processes()), args...)
}

// Resync reads back what a process holds after the answer to an exchange was
// lost. It raises the epoch, so that Redis ignores the lost request if it arrives later. Whole
// reports whether the record has its mark: a ticket missing from a whole record was committed.
func (s Store) Resync(c redis.Conn, process string) (epoch int64, tickets []int64, whole bool, err error) {
	var a Call
	a.Key(s.inflight(process))
	a.Key(s.process(process))
	a.Key(s.reaped(process))
	r, err := redis.Strings(a.Do(c, resyncScript))
	if err != nil {
		return 0, nil, false, fmt.Errorf("reading back the in-flight record of process %s: %w", process, err)
	}
	if err := firstStatus(r); err != nil {
		return 0, nil, false, err
	}
	if len(r) < 2 {
		return 0, nil, false, fmt.Errorf("reading back the in-flight record of process %s: %w", process, ErrAnswer)
	}
	epoch, _ = strconv.ParseInt(r[1], 10, 64)
	return epoch, parseTickets(r[2:]), slices.Contains(r[2:], markField), nil
}

// parseTickets returns the tickets sorted, which is the order of their reservation.
// It skips the mark and fields that are no tickets.
func parseTickets(fields []string) []int64 {
	tickets := make([]int64, 0, len(fields))
	for _, f := range fields {
		if t, err := strconv.ParseInt(f, 10, 64); err == nil {
			tickets = append(tickets, t)
		}
	}
	slices.Sort(tickets)
	return tickets
}

// ReadReserved reads jobs from a process's in-flight record. It leaves out missing tickets, and
// tickets whose value we did not write: such a value must not keep the others from being
// recovered. There is an error for each of those.
func (s Store) ReadReserved(c redis.Conn, process string, tickets []int64) (jobs []Reserved, unreadable []error, err error) {
	jobs = make([]Reserved, 0, len(tickets))
	for chunk := range slices.Chunk(tickets, MaxExchangeJobs) {
		values, err := redis.ByteSlices(c.Do("HMGET", redis.Args{}.Add(s.inflight(process)).AddFlat(chunk)...))
		if err == nil && len(values) != len(chunk) {
			err = ErrAnswer
		}
		if err != nil {
			return nil, nil, fmt.Errorf("reading the in-flight record of process %s: %w", process, err)
		}
		if values, err = s.joinApart(c, process, chunk, values); err != nil {
			return nil, nil, err
		}
		for i, v := range values {
			if v == nil {
				continue
			}
			job, ok := parseReserved(chunk[i], v)
			switch {
			case ok:
				jobs = append(jobs, job)
			case isApart(v):
				unreadable = append(unreadable, fmt.Errorf("in-flight record of process %s: the payload of ticket %d is gone; remove the field", process, chunk[i]))
			default:
				unreadable = append(unreadable, fmt.Errorf("in-flight record of process %s: ticket %d does not name its queue; look at it and remove the field", process, chunk[i]))
			}
		}
	}
	return jobs, unreadable, nil
}

// Leave takes a process out of the fleet. If jobs are left in its record the process stays,
// and Leave returns their number: a reaper will find it dead.
func (s Store) Leave(c redis.Conn, process string) (left int, err error) {
	var a Call
	a.Key(s.processes())
	a.Key(s.process(process))
	a.Key(s.inflight(process))
	a.Key(s.pulse())
	a.Key(s.registered(process))
	a.Arg(process)
	left, err = redis.Int(a.Do(c, leaveScript))
	if err != nil {
		return 0, fmt.Errorf("taking process %s out of the fleet: %w", process, err)
	}
	return left, nil
}
