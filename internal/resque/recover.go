package resque

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"
)

var (
	fenceScript   = script("fence")
	recoverScript = script("recover")
)

const (
	// tombstoneSeconds is how long a process that was found dead can still learn of it.
	tombstoneSeconds = 24 * 60 * 60
	// deathsAge is how long a job is remembered to have been found in a dead process.
	deathsAge = 24 * time.Hour
	// recoverChunk keeps one call of the recovery short: 7 values a job.
	recoverChunk = 200
)

// Fence declares a process dead, if its lease is still the observed one ("" for
// a record without a lease). Only after it returned true may its jobs be moved.
func (s Store) Fence(c redis.Conn, process, observed string) (bool, error) {
	var a call
	a.key(s.processes())
	a.key(s.reaped(process))
	a.key(s.process(process))
	a.arg(process, observed, tombstoneSeconds)
	fenced, err := redis.Bool(a.do(c, fenceScript))
	if err != nil {
		return false, fmt.Errorf("fencing process %s: %w", process, err)
	}
	return fenced, nil
}

// Recovered tells what became of the jobs of a dead process.
type Recovered struct {
	Requeued int
	Failed   int     // were found in dead processes too often
	Refused  []error // queues that would not take their jobs back, values that are no jobs
}

// Recover moves all jobs of a fenced process back to the heads of their queues,
// in their old order. A job that was running, and has been so in more than limit
// dead processes, is filed as failed instead; limit 0 never does. It works in
// pieces and may be repeated: what it has moved is out of the record.
func (s Store) Recover(c redis.Conn, dead Process, limit int, now time.Time, multiQueue bool) (Recovered, error) {
	var total Recovered
	keys, err := redis.Strings(c.Do("HKEYS", s.inflight(dead.ID)))
	if err != nil {
		return total, fmt.Errorf("reading the in-flight record of process %s: %w", dead.ID, err)
	}
	handed, err := redis.String(c.Do("HGET", s.process(dead.ID), "handed"))
	if err != nil && err != redis.ErrNil {
		return total, fmt.Errorf("reading the record of process %s: %w", dead.ID, err)
	}
	r := recovery{Store: s, dead: dead, limit: limit, now: now, multiQueue: multiQueue, running: parseHanded(handed),
		over: make(map[string]bool)}
	tickets := parseTickets(keys)
	slices.Reverse(tickets)
	for chunk := range slices.Chunk(tickets, recoverChunk) {
		if err := r.move(c, chunk, &total); err != nil {
			return total, err
		}
	}
	if len(r.over) == 0 || len(total.Refused) > 0 {
		return total, nil
	}
	_, err = c.Do("HDEL", redis.Args{}.Add(s.recovered()).AddFlat(slices.Collect(maps.Keys(r.over)))...)
	return total, err
}

type recovery struct {
	Store
	dead       Process
	limit      int
	now        time.Time
	multiQueue bool
	running    func(ticket int64) bool
	over       map[string]bool // digests that passed the limit: forgotten once all jobs are filed
}

// move moves a piece, highest ticket first, so that each LPUSH puts a job in
// front of those reserved after it. A job whose count somebody else changed
// between the reading and the script stays; it is tried again at once. Jobs of the
// same bytes share a count, and one death of their process raises it by one.
func (r recovery) move(c redis.Conn, tickets []int64, total *Recovered) error {
	for attempt := range 3 {
		jobs, unreadable, err := r.ReadReserved(c, r.dead.ID, tickets)
		if attempt == 0 {
			total.Refused = append(total.Refused, unreadable...)
		}
		if err != nil || len(jobs) == 0 {
			return err
		}
		deaths, err := r.Deaths(c, digests(jobs), r.now)
		if err != nil {
			return err
		}
		var a call
		a.key(r.inflight(r.dead.ID))
		a.key(r.processes())
		a.key(r.recovered())
		a.key(r.queues())
		a.arg(r.dead.ID)
		latest := make(map[string]Deaths, len(jobs))
		var settled []Settled
		for i, j := range jobs {
			d, ok := latest[deaths[i].digest]
			if !ok {
				d = deaths[i]
			}
			was, running, fails := d.raw, r.running(j.Ticket), false
			if running {
				d, fails = r.count(j, d)
			}
			latest[d.digest] = d
			switch {
			case fails:
				settled = append(settled, r.fail(j, d))
			case j.Lane != nil:
				settled = append(settled, r.backToLane(j, d, running))
			case running:
				a.arg(j.Ticket, a.key(r.queue(j.Queue)), j.Queue, len(recordPrefix(j.Queue)), d.digest, was, d.raw)
			default:
				a.arg(j.Ticket, a.key(r.queue(j.Queue)), j.Queue, len(recordPrefix(j.Queue)), "", "", "")
			}
		}
		if err := r.regain(c, settled, total); err != nil {
			return err
		}
		if len(settled) == len(jobs) {
			return nil
		}
		reply, err := redis.Values(a.do(c, recoverScript))
		if err == nil && len(reply) == 0 {
			err = errAnswer
		}
		if err != nil {
			return fmt.Errorf("recovering the jobs of process %s: %w", r.dead.ID, err)
		}
		moved, err := redis.Int(reply[0], nil)
		if err != nil {
			return err
		}
		r.refused(reply[1:], total)
		total.Requeued += moved
		if moved+len(reply)-1 == len(jobs)-len(settled) {
			return nil
		}
	}
	return nil
}

func (r recovery) refused(texts []any, total *Recovered) {
	for _, t := range texts {
		text, _ := redis.String(t, nil)
		total.Refused = append(total.Refused, fmt.Errorf("taking a job of process %s back: %s", r.dead.ID, text))
	}
}

// count raises a job's count, and reports whether it is to be filed as failed. What no
// record can hold goes back: whoever takes it keeps it elsewhere.
func (r recovery) count(j Reserved, d Deaths) (raised Deaths, fails bool) {
	if d.last != r.dead.ID {
		d.Count++
		d.last = r.dead.ID
		d.raw = fmt.Sprintf("%d %d %s", d.Count, r.now.UnixMilli(), d.last)
	}
	return d, r.limit > 0 && d.Count > r.limit && recordable(j.Payload)
}

func (r recovery) failure(j Reserved, found int) Failure {
	return Failure{
		FailedAt:  FailedAt(r.now),
		Payload:   safePayload(j.Payload),
		Exception: "Resque::DirtyExit",
		Error: fmt.Sprintf("The job was running in %d processes that died, the last of them %s; it is not run again by itself.",
			found, r.dead.ID),
		Worker: r.dead.WorkerID(0),
		Queue:  j.Queue,
	}
}

// safePayload is the payload as a failure record may hold it.
func safePayload(raw []byte) []byte {
	if !isJob(raw) {
		return InvalidPayload(raw)
	}
	return raw
}

// Digest names a payload in the memory of jobs found in dead processes.
func Digest(payload []byte) string {
	sum := sha256.Sum256(payload)
	return hex.EncodeToString(sum[:16])
}

func digests(jobs []Reserved) []string {
	d := make([]string, len(jobs))
	for i, j := range jobs {
		d[i] = Digest(j.Payload)
	}
	return d
}

// Deaths is how often a payload was found running in a dead process lately.
type Deaths struct {
	Count int

	last        string // the process it was found in last
	digest, raw string
}

// Deaths reads the counts of the given digests, in their order. A count that
// has not risen for a day is none.
func (s Store) Deaths(c redis.Conn, digests []string, now time.Time) ([]Deaths, error) {
	if len(digests) == 0 {
		return nil, nil
	}
	raw, err := redis.Strings(c.Do("HMGET", redis.Args{}.Add(s.recovered()).AddFlat(digests)...))
	if err == nil && len(raw) != len(digests) {
		err = errAnswer
	}
	if err != nil {
		return nil, fmt.Errorf("reading which jobs were found in dead processes: %w", err)
	}
	deaths := make([]Deaths, len(digests))
	for i, d := range digests {
		deaths[i] = parseDeaths(raw[i], now)
		deaths[i].digest = d
	}
	return deaths, nil
}

// parseDeaths reads "count milliseconds process".
func parseDeaths(raw string, now time.Time) Deaths {
	count, rest, _ := strings.Cut(raw, " ")
	at, last, _ := strings.Cut(rest, " ")
	n, err := strconv.Atoi(count)
	ms, err2 := strconv.ParseInt(at, 10, 64)
	if err != nil || err2 != nil || now.Sub(time.UnixMilli(ms)) > deathsAge {
		return Deaths{raw: raw}
	}
	return Deaths{Count: n, last: last, raw: raw}
}

// ForgetDeaths removes the counts that are older than a day.
func (s Store) ForgetDeaths(c redis.Conn, now time.Time) error {
	all, err := redis.StringMap(c.Do("HGETALL", s.recovered()))
	if err != nil {
		return fmt.Errorf("reading which jobs were found in dead processes: %w", err)
	}
	old := redis.Args{}.Add(s.recovered())
	for digest, raw := range all {
		if parseDeaths(raw, now).Count == 0 {
			old = old.Add(digest)
		}
	}
	if len(old) == 1 {
		return nil
	}
	_, err = c.Do("HDEL", old...)
	return err
}

// Orphans looks at one page of the keys for records of processes, in-flight ones and
// others, and returns whose they are, together with the cursor of the next page (0:
// from the start). Which of them have no lease the caller knows from Renew.
func (s Store) Orphans(c redis.Conn, cursor uint64) (processes []string, next uint64, err error) {
	r, err := redis.Values(c.Do("SCAN", cursor, "MATCH", escapeGlob(s.ns)+"go:*:*", "COUNT", 1000))
	if err == nil && len(r) != 2 {
		err = errAnswer
	}
	if err != nil {
		return nil, 0, fmt.Errorf("looking for records without a lease: %w", err)
	}
	if next, err = redis.Uint64(r[0], nil); err != nil {
		return nil, 0, err
	}
	keys, err := redis.Strings(r[1], nil)
	for _, k := range keys {
		for _, prefix := range []string{s.inflight(""), s.process("")} {
			if p, ok := strings.CutPrefix(k, prefix); ok {
				processes = append(processes, p)
			}
		}
	}
	return processes, next, err
}

// escapeGlob makes a literal of a namespace that holds pattern characters.
func escapeGlob(s string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`).Replace(s)
}
