package resque

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/goworker/goworker/internal/payload"
)

var fenceScript = script("fence")

const (
	// tombstoneSeconds is how long a process that was found dead can still learn of it.
	tombstoneSeconds = 24 * 60 * 60
	// recoverChunk keeps one call of the recovery short: about 25 values a job.
	recoverChunk = 200
)

// Fence declares a process dead, if its lease is still the observed one ("" for
// a record without a lease). Only after it returned true may a reaper move its jobs.
func (s Store) Fence(c redis.Conn, process, observed string) (bool, error) {
	var a Call
	a.Key(s.processes())
	a.Key(s.reaped(process))
	a.Key(s.process(process))
	a.Key(s.inflight(process))
	a.Arg(process, observed, tombstoneSeconds)
	fenced, err := redis.Bool(a.Do(c, fenceScript))
	if err != nil {
		return false, fmt.Errorf("fencing process %s: %w", process, err)
	}
	return fenced, nil
}

// Recovered counts what became of the jobs of a dead process.
type Recovered struct {
	Requeued int
	Failed   int     // found in dead processes too often
	Refused  []error // queues that refused their jobs, values that are no jobs

	// Back is how many jobs went back to the heads of queues, not to lanes. Where others moved some of the jobs at the same
	// time, it is not known which, and none of those is in it.
	Back map[string]int
}

// Recover moves all jobs of a fenced process back to the heads of their queues and lanes, in
// their old order. A job that was with a worker in more than limit dead processes, and was on
// trial in some of them, is filed as failed instead; with limit 0 none is. Recover works in chunks
// and may be repeated: the jobs it has moved are out of the record.
//
// end returns the effects of each job's end: a poison job is filed as failed, any other goes back.
func (s Store) Recover(c redis.Conn, dead Process, limit int, now time.Time, end func(DeadJob) []Effect) (Recovered, error) {
	var total Recovered
	keys, err := redis.Strings(c.Do("HKEYS", s.inflight(dead.ID)))
	if err != nil {
		return total, fmt.Errorf("reading the in-flight record of process %s: %w", dead.ID, err)
	}
	handed, err := redis.String(c.Do("HGET", s.process(dead.ID), "handed"))
	if err != nil && err != redis.ErrNil {
		return total, fmt.Errorf("reading the record of process %s: %w", dead.ID, err)
	}
	r, err := s.recovery(c, dead, limit, now, parseHanded(handed))
	if r.end = end; err != nil {
		return total, err
	}
	tickets := parseTickets(keys)
	slices.Reverse(tickets)
	for chunk := range slices.Chunk(tickets, recoverChunk) {
		if err := r.move(c, chunk, &total); err != nil {
			return total, err
		}
	}
	for _, digest := range r.filing { // jobs that could not be filed yet
		delete(r.over, digest)
	}
	if len(r.over) == 0 {
		return total, nil
	}
	_, err = c.Do("HDEL", redis.Args{}.Add(s.recovered()).AddFlat(slices.Collect(maps.Keys(r.over)))...)
	return total, err
}

// DeadJob is a job of a dead process.
type DeadJob struct {
	Reserved
	Process string // the dead one
	Worker  string // the id of its first worker
	Started bool   // it was with a worker, or may have been
	Poison  int    // in how many dead processes it was found, if that is too often; 0: it goes back
}

// recovery is one recovery of one dead process.
type recovery struct {
	Store
	dead   Process
	limit  int
	now    time.Time
	end    func(DeadJob) []Effect
	handed HandedOut
	trial  string           // the digest of the job on trial; "": none was
	past   map[string]bool  // the digests of suspects that ran past their trials
	filing map[int64]string // digests of jobs that are to be filed, by ticket
	back   map[int64]string // queues of jobs that are to go back to their heads, by ticket
	over   map[string]bool  // digests of jobs that were filed: forgotten at the end
}

// recovery reads which suspects ran in the process. Jobs of the same bytes share their
// counts, so a job counts as on trial if another job with its bytes was.
func (s Store) recovery(c redis.Conn, dead Process, limit int, now time.Time, handed HandedOut) (recovery, error) {
	r := recovery{Store: s, dead: dead, limit: limit, now: now, handed: handed,
		past: make(map[string]bool), filing: make(map[int64]string), back: make(map[int64]string), over: make(map[string]bool)}
	tickets := append([]int64{handed.Trial}, handed.Past...) // no job has the ticket 0
	jobs, _, err := s.ReadReserved(c, dead.ID, tickets)
	for _, j := range jobs {
		if j.Ticket == handed.Trial {
			r.trial = Digest(j.Payload)
		} else {
			r.past[Digest(j.Payload)] = true
		}
	}
	return r, err
}

// move moves one chunk, highest ticket first, so that each push puts a job in front of those
// reserved after it. If a job's count changed between the reading and the script, the script
// leaves the job and move tries it again at once. Another reaper may change a count. So may the
// refusal of a job whose twin comes next: jobs of the same bytes share a count, and one death
// raises it by one.
func (r *recovery) move(c redis.Conn, tickets []int64, total *Recovered) error {
	closed := make(map[string]bool) // keys that Redis refused
	for attempt := 0; attempt < 3; {
		jobs, unreadable, err := r.ReadReserved(c, r.dead.ID, tickets)
		total.Refused = append(total.Refused, unreadable...)
		if err != nil || len(jobs) == 0 {
			return err
		}
		ended, err := r.ends(c, jobs, closed)
		if err != nil {
			return err
		}
		out, err := r.commit(c, ended)
		if err != nil {
			return fmt.Errorf("recovering the jobs of process %s: %w", r.dead.ID, err)
		}
		known := len(closed)
		for _, refused := range out.refused {
			total.Refused = append(total.Refused, fmt.Errorf("taking a job of process %s back: %w", r.dead.ID, refused.KeyError))
			if refused.Ticket != 0 {
				closed[refused.Key] = true
			}
		}
		r.count(ended, out, total)
		if len(out.left) == 0 {
			return nil
		}
		tickets = out.tickets()
		if len(closed) == known {
			attempt++
		}
	}
	return nil
}

// ends decides how jobs end. It skips those that need a closed key.
func (r *recovery) ends(c redis.Conn, jobs []Reserved, closed map[string]bool) ([]Ended, error) {
	deaths, err := r.DeathsOf(c, jobs, r.now)
	if err != nil {
		return nil, err
	}
	latest := make(map[string]Deaths, len(jobs))
	ended := make([]Ended, 0, len(jobs))
	for i, j := range jobs {
		d, ok := latest[deaths[i].digest]
		if !ok {
			d = deaths[i]
		}
		e := Ended{Ticket: j.Ticket}
		was, running := d.raw, r.handed.running(j.Ticket)
		if running {
			d = r.found(d)
			e.Effects = append(e.Effects, Guard("HGET", hashKey(r.recovered()), was, d.digest),
				effect("HSET", hashKey(r.recovered()), d.digest, d.raw))
		}
		// A job too long for a failure record goes back: the process that takes it keeps it elsewhere.
		dead := DeadJob{Reserved: j, Process: r.dead.ID, Worker: r.dead.WorkerID(0), Started: running}
		if running && d.guilty(r.limit) && payload.Recordable(j.Payload) {
			r.filing[j.Ticket] = d.digest
			dead.Poison = d.Count
		} else {
			delete(r.filing, j.Ticket)
		}
		if delete(r.back, j.Ticket); dead.Poison == 0 && j.Lane == nil {
			r.back[j.Ticket] = j.Queue
		}
		e.Effects = append(e.Effects, r.end(dead)...)
		if !e.needs(closed) {
			latest[d.digest] = d
			ended = append(ended, e)
		}
	}
	return ended, nil
}

// needs reports whether the end has an effect, other than a soft one, on one of the keys.
func (e Ended) needs(keys map[string]bool) bool {
	return slices.ContainsFunc(e.Effects, func(row Effect) bool {
		return row.verb[0] != '~' && slices.ContainsFunc(row.keys, func(k Key) bool { return keys[k.name] })
	})
}

// count adds the outcome of the jobs to the total.
func (r *recovery) count(ended []Ended, out committed, total *Recovered) {
	if out.missing == len(ended) { // the process is not fenced, or another reaper was faster
		return
	}
	stays := make(map[int64]bool)
	for _, ticket := range out.tickets() {
		stays[ticket] = true
	}
	for _, refused := range out.refused {
		stays[refused.Ticket] = true
	}
	delete(stays, 0)
	filed := 0
	for _, e := range ended {
		if digest, ok := r.filing[e.Ticket]; ok && !stays[e.Ticket] {
			delete(r.filing, e.Ticket)
			r.over[digest] = true
			filed++
		}
		if queue, ok := r.back[e.Ticket]; ok && out.missing == 0 && !stays[e.Ticket] {
			if total.Back == nil {
				total.Back = make(map[string]int)
			}
			total.Back[queue]++
		}
	}
	total.Failed += filed
	total.Requeued += max(0, len(ended)-out.missing-len(stays)-filed)
}

// commit ends jobs on behalf of the dead process.
func (r *recovery) commit(c redis.Conn, ended []Ended) (committed, error) {
	out, err := r.Store.commit(c, r.byReaper(r.dead.ID), ended)
	if errors.Is(err, ErrStale) { // the process is not fenced: its jobs are its own
		return committed{missing: len(ended)}, nil
	}
	return out, err
}

// found raises the counts of a job that was with a worker when its process died.
func (r *recovery) found(d Deaths) Deaths {
	if d.last == r.dead.ID {
		return d
	}
	d.Count++
	d.last = r.dead.ID
	switch {
	case d.digest == r.trial:
		d.Charged++
	case r.past[d.digest]:
		d.Level++
	}
	d.raw = fmt.Sprintf("%d %d %s %d %d", d.Count, r.now.UnixMilli(), d.last, d.Charged, d.Level)
	return d
}

// Strays is what one page of the keyspace holds that another key should name.
type Strays struct {
	Processes []string         // processes with records, in-flight ones and others
	Lanes     map[Lanes][]Lane // lanes with jobs
	Groups    []string         // ids of groups of aggregated jobs
}

// strayPage is about how many keys of the keyspace a page has: more than a process of a thousand workers writes.
const strayPage = 2000

// Strays reads one page of the keyspace and returns the cursor of the next page (0: from the
// start). The caller knows from Renew which of the processes have no lease. Relane finds out
// which of the lanes no other key names, and Regroup which of the groups the index does not.
func (s Store) Strays(c redis.Conn, cursor uint64) (found Strays, next uint64, err error) {
	r, err := redis.Values(c.Do("SCAN", cursor, "MATCH", EscapeGlob(s.ns)+"go:*:*", "COUNT", strayPage))
	if err == nil && len(r) != 2 {
		err = ErrAnswer
	}
	if err != nil {
		return found, 0, fmt.Errorf("looking for records without a lease: %w", err)
	}
	if next, err = redis.Uint64(r[0], nil); err != nil {
		return found, 0, err
	}
	keys, err := redis.Strings(r[1], nil)
	found.Lanes = make(map[Lanes][]Lane)
	for _, k := range keys {
		for _, prefix := range []string{s.inflight(""), s.process("")} {
			if p, ok := strings.CutPrefix(k, prefix); ok {
				found.Processes = append(found.Processes, p)
			}
		}
		if id, ok := strings.CutPrefix(k, s.own("group:")); ok {
			found.Groups = append(found.Groups, id)
		}
		if l, ok := s.laneOf(k); ok {
			found.Lanes[l.Lanes()] = append(found.Lanes[l.Lanes()], l)
		}
	}
	return found, next, err
}

// Regroup makes the groups due that are there and have lost their time, and returns how many these were. Who looks at them
// then puts off those that have more time.
func (s Store) Regroup(c redis.Conn, ids []string) (n int, err error) {
	ask := func(command string, args func(id string) []any) (replies []any, err error) {
		b := Batch{Conn: c}
		for _, id := range ids {
			b.Send(command, args(id)...)
		}
		if replies, err = b.Receive(); err != nil {
			return nil, err
		}
		for _, reply := range replies {
			if _, refused := Answer(reply); refused != nil {
				err = fmt.Errorf("putting back groups of jobs: %w", Explain(refused))
			}
		}
		return replies, err
	}
	keep := func(replies []any, lost func(any) bool) (kept []string) {
		for i, reply := range replies {
			if lost(reply) {
				kept = append(kept, ids[i])
			}
		}
		return kept
	}
	replies, err := ask("ZSCORE", func(id string) []any { return []any{s.groups(), id} })
	if err != nil {
		return 0, err
	}
	ids = keep(replies, func(reply any) bool { return reply == nil })
	if replies, err = ask("EXISTS", func(id string) []any { return []any{s.own("group:" + id)} }); err != nil {
		return 0, err
	}
	ids = keep(replies, func(reply any) bool { return reply == int64(1) })
	_, err = ask("ZADD", func(id string) []any { return []any{s.groups(), "NX", 0, id} })
	return len(ids), err
}

// EscapeGlob makes a literal of text that holds pattern characters of Redis.
func EscapeGlob(s string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`).Replace(s)
}
