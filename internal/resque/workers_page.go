package resque

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"
)

// MostSorted is up to how many workers they are read at once and sorted by their ids. More are paged by SSCAN.
const MostSorted = 2000

const (
	workersScanned = 1000      // about how many ids one SSCAN brings
	workerScans    = 4         // in one call at most
	handsBytes     = 512 << 10 // of jobs in hand, shared by the workers of a page
)

// WorkersPlace is how far a walk through the workers has come. The zero value is the beginning.
type WorkersPlace struct {
	Scan string `json:"s,omitempty"` // the cursor of SSCAN whose ids it is in; "": ids are sorted
	ID   string `json:"i,omitempty"` // the last one of them that it has passed
	Seen int64  `json:"n,omitempty"` // how many it has looked at
}

// WorkersRead is a page of the registered workers.
type WorkersRead struct {
	Workers []Worker
	Dead    []bool // of each: its last heartbeat is older than PruneAfter
	Next    WorkersPlace
	More    bool
	Of      int64 // how many workers are registered
}

// PageOfWorkers returns up to count workers whose ids contain a text. It sends nine commands at most. A payload in hand that is
// larger than about 1 KiB is left out.
func (s Store) PageOfWorkers(c redis.Conn, from WorkersPlace, count int, text string) (page WorkersRead, err error) {
	b := Batch{Conn: c}
	b.Send("TIME")
	b.Send("SCARD", s.workers())
	replies, err := b.Receive()
	if err != nil {
		return page, fmt.Errorf("reading the workers: %w", err)
	}
	now, err := timeOfAnswer(Answer(replies[0]))
	if err != nil {
		return page, err
	}
	if page.Of, err = redis.Int64(Answer(replies[1])); err != nil {
		return page, fmt.Errorf("reading the set of workers: %w", Explain(err))
	}
	page.Next = from
	var ids []string
	if from.Scan == "" && (from.ID != "" || page.Of <= MostSorted) {
		var all []string
		if all, err = redis.Strings(c.Do("SMEMBERS", s.workers())); err == nil {
			slices.Sort(all)
			ids = page.choose(all, count, text)
		}
	} else {
		page.Next.Scan = cmp.Or(from.Scan, "0")
		ids, err = s.scanWorkers(c, &page, count, text)
	}
	if err != nil {
		return page, fmt.Errorf("reading the set of workers: %w", Explain(err))
	}
	page.Workers, page.Dead, err = s.readWorkers(c, ids, now)
	return page, err
}

// choose takes from sorted ids those behind the place that fit, and moves the place.
func (p *WorkersRead) choose(all []string, count int, text string) (ids []string) {
	at, there := slices.BinarySearch(all, p.Next.ID)
	if there {
		at++
	}
	for ; at < len(all); at++ {
		if fits := strings.Contains(all[at], text); fits && len(ids) == count {
			p.More = true
			return ids
		} else if fits {
			ids = append(ids, all[at])
		}
		p.Next.ID = all[at]
		p.Next.Seen++
	}
	p.More = false
	return ids
}

// scanWorkers chooses from pages of the set.
func (s Store) scanWorkers(c redis.Conn, p *WorkersRead, count int, text string) (ids []string, err error) {
	for range workerScans {
		reply, err := redis.Values(c.Do("SSCAN", s.workers(), p.Next.Scan, "COUNT", workersScanned))
		next, all, err := scanned(reply, err)
		if err != nil {
			return nil, err
		}
		ids = append(ids, p.choose(all, count-len(ids), text)...)
		if p.More {
			return ids, nil
		}
		p.Next.Scan, p.Next.ID, p.More = next, "", next != "0"
		if !p.More {
			break
		}
	}
	return ids, nil
}

// scanned reads the answer to SSCAN: the next cursor, and the members sorted.
func scanned(reply []any, err error) (next string, members []string, _ error) {
	if err == nil && len(reply) != 2 {
		err = ErrAnswer
	}
	if err == nil {
		if next, err = redis.String(reply[0], nil); err == nil {
			members, err = redis.Strings(reply[1], nil)
		}
	}
	slices.Sort(members)
	return next, slices.Compact(members), err
}

// readWorkers reads what some workers say of themselves, in one round trip.
func (s Store) readWorkers(c redis.Conn, ids []string, now time.Time) (workers []Worker, dead []bool, err error) {
	if len(ids) == 0 {
		return nil, nil, nil
	}
	workers, dead = make([]Worker, len(ids)), make([]bool, len(ids))
	keys, stats, beats := make([]string, len(ids)), []any{}, []any{s.heartbeats()}
	for i, id := range ids {
		workers[i] = parseWorkerID(id)
		keys[i] = s.worker(id)
		stats = append(stats, s.started(id), s.workerStat("processed", id), s.workerStat("failed", id))
		beats = append(beats, id)
	}
	refused := func(e error) bool {
		err = cmp.Or(err, e)
		return e != nil
	}
	t := &trip{c: c}
	each := min(headBytes, handsBytes/len(ids))
	askHeads(t, each, handsBytes, keys, nil, func(found []head, e error) {
		if e == nil && len(found) != len(ids) {
			e = ErrAnswer
		}
		if refused(e) {
			return
		}
		for i, h := range found {
			if w, size := parseShown(h); w != nil {
				if int64(len(w.Payload)) < size {
					w.Payload = nil
				}
				workers[i].Working = w
			}
		}
	})
	t.ask(func(reply any, e error) {
		values, e := redis.ByteSlices(reply, e)
		if e == nil && len(values) != 3*len(ids) {
			e = ErrAnswer
		}
		if refused(e) {
			return
		}
		for i := range workers {
			v := values[3*i:]
			workers[i].Started, workers[i].Processed, workers[i].Failed = ParseTime(string(v[0])), number(v[1]), number(v[2])
		}
	}, "MGET", stats...)
	t.ask(func(reply any, e error) {
		values, e := redis.Strings(reply, e)
		if IsWrongType(e) { // nothing is known of heartbeats
			return
		}
		if e == nil && len(values) != len(ids) {
			e = ErrAnswer
		}
		if refused(e) {
			return
		}
		for i, text := range values {
			workers[i].Heartbeat = ParseTime(text)
			dead[i] = !workers[i].Heartbeat.IsZero() && now.Sub(workers[i].Heartbeat) > PruneAfter
		}
	}, "HMGET", beats...)
	if e := t.run(); e != nil {
		err = e
	}
	if err != nil {
		return nil, nil, fmt.Errorf("reading what the workers do: %w", Explain(err))
	}
	return workers, dead, nil
}

// WorkerOf returns one worker, whole, and whether it is dead. The error is ErrNoWorker if it is not registered.
func (s Store) WorkerOf(c redis.Conn, id string) (w Worker, dead bool, err error) {
	b := Batch{Conn: c}
	b.Send("TIME")
	b.Send("SISMEMBER", s.workers(), id)
	b.Send("MGET", s.worker(id))
	replies, err := b.Receive()
	if err != nil {
		return w, false, fmt.Errorf("reading worker %s: %w", id, err)
	}
	now, err := timeOfAnswer(Answer(replies[0]))
	there, e := redis.Bool(Answer(replies[1]))
	job, e2 := redis.ByteSlices(Answer(replies[2]))
	switch err = cmp.Or(err, e, e2); {
	case err != nil:
		return w, false, fmt.Errorf("reading worker %s: %w", id, Explain(err))
	case !there:
		return w, false, ErrNoWorker
	case len(job) != 1:
		return w, false, fmt.Errorf("reading worker %s: %w", id, ErrAnswer)
	}
	all, deads, err := s.readWorkers(c, []string{id}, now)
	if err != nil {
		return w, false, err
	}
	all[0].Working = parseWorking(job[0])
	return all[0], deads[0], nil
}
