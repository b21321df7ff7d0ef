package leases

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/payload"
	"github.com/goworker/goworker/internal/resque"
)

// Sizes are the counts of a queue.
type Sizes struct {
	Queue    string
	Ready    int64  // jobs that servers may take
	Reserved int64  // jobs that clients hold
	Dead     int64  // failures in the queue's own list
	Head     []byte // the payload of the oldest job that is ready; nil: none is
	Paused   bool   // this queue or all of them
	Limited  bool   // daemons sort its jobs into lanes, from which servers do not take
	Err      error  // a key of the queue that has another type; its count is 0 then
}

// Sizes returns the counts of queues. The jobs that clients hold are counted by CountReserved.
func (s Store) Sizes(c redis.Conn, held map[string]int64, queues ...string) ([]Sizes, error) {
	if len(queues) == 0 {
		return nil, nil
	}
	sorted, err := s.SortedQueues(c, "")
	if err != nil && !resque.IsWrongType(err) {
		return nil, err
	}
	pauseAll, paused, _ := s.TurnKeys()
	b := resque.Batch{Conn: c}
	b.Send("GET", pauseAll)
	for _, q := range queues {
		b.Send("LLEN", s.KeyOfQueue(q))
		b.Send("LLEN", s.deadList(q))
		b.Send("LINDEX", s.KeyOfQueue(q), 0)
		b.Send("SISMEMBER", paused, q)
	}
	replies, err := b.Receive()
	if err != nil {
		return nil, fmt.Errorf("counting the jobs of %s: %w", resque.Plural(len(queues), "queue"), err)
	}
	all, _ := redis.String(resque.Answer(replies[0]))
	sizes := make([]Sizes, len(queues))
	for i, q := range queues {
		r, z := replies[1+4*i:], Sizes{Queue: q, Reserved: held[q], Paused: strings.EqualFold(strings.TrimSpace(all), "true")}
		z.Ready, err = redis.Int64(resque.Answer(r[0]))
		if err != nil {
			z.Err = fmt.Errorf("counting the jobs of queue %s: key %s: %w", q, s.KeyOfQueue(q), resque.Explain(err))
		}
		z.Dead, err = redis.Int64(resque.Answer(r[1]))
		if err != nil {
			z.Err = fmt.Errorf("counting the failures of queue %s: key %s: %w", q, s.deadList(q), resque.Explain(err))
		}
		z.Head, _ = redis.Bytes(resque.Answer(r[2]))
		held, _ := redis.Bool(resque.Answer(r[3]))
		z.Paused = z.Paused || held
		z.Limited = slices.ContainsFunc(sorted, func(l resque.Lanes) bool { return l.Queue == q })
		sizes[i] = z
	}
	return sizes, nil
}

// CountReserved counts the jobs that clients hold, by queue. It reads all leases, a page at a time, at about 1 µs of Redis
// each: a server with many readers keeps the answer for a while.
func (s Store) CountReserved(c redis.Conn) (map[string]int64, error) {
	counts := make(map[string]int64)
	seen := make(map[string]bool) // a scan may return a place twice
	for cursor := "0"; ; {
		next, pairs, err := s.scan(c, "ZSCAN", s.KeyOfLeases(), cursor, "*", 2000)
		if err != nil {
			return nil, s.explain(c, err, "", "counting the jobs that clients hold")
		}
		for i := 0; i < len(pairs); i += 2 {
			place := string(pairs[i])
			if queue, _, ok := ParsePlace(place); ok && !seen[place] {
				counts[queue]++
				seen[place] = true
			}
		}
		if cursor = next; cursor == "0" {
			return counts, nil
		}
	}
}

// Peek returns the first job of a queue that has not expired, and Redis's time in ms; nil: there is none among the first 10,000.
func (s Store) Peek(c redis.Conn, queue string) (raw []byte, now int64, err error) {
	at, err := s.Now(c)
	if err != nil {
		return nil, 0, err
	}
	now = at.UnixMilli()
	var from *resque.ListPlace
	for looked := 0; looked < mostLooks; {
		page, err := s.WalkList(c, s.KeyOfQueue(queue), true, from, 1, nil, func(raw []byte) bool {
			p := payload.Tail(raw)
			ends, err := strconv.ParseInt(string(p.Field("expires_at")), 10, 64)
			return err != nil || ends <= 0 || ends > now
		})
		if err != nil {
			return nil, 0, fmt.Errorf("reading queue %s: %w", queue, resque.Explain(err))
		}
		if len(page.Found) > 0 {
			return page.Found[0].Raw, now, nil
		}
		looked += page.Looked
		if from = page.Next; from == nil {
			break
		}
	}
	return nil, now, nil
}

// mostLooks is how many jobs of a queue a search looks at.
const mostLooks = 10_000

// FindReady looks in a page of a queue for a job with an id, from the head on. from is nil at first and then next, which is
// nil behind the last page. A page has about 1 MiB. Who searches adds looked up, and ends at a bound.
func (s Store) FindReady(c redis.Conn, queue, id string, from *resque.ListPlace) (raw []byte, looked int, next *resque.ListPlace, err error) {
	texts, ok := idTexts(id)
	if !ok {
		return nil, 0, nil, nil
	}
	page, err := s.WalkList(c, s.KeyOfQueue(queue), true, from, 1, texts, func(raw []byte) bool { return hasID(raw, id) })
	if err != nil {
		return nil, 0, nil, fmt.Errorf("looking for a job in queue %s: %w", queue, resque.Explain(err))
	}
	if len(page.Found) > 0 {
		return page.Found[0].Raw, page.Looked, nil, nil
	}
	return nil, page.Looked, page.Next, nil
}

// idTexts is what a payload with an id contains. An id that JSON may write in several ways is found by parsing alone.
func idTexts(id string) (texts [][]byte, ok bool) {
	text, err := payload.EncodeValue(id, payload.Plain)
	if err != nil || id == "" {
		return nil, false
	}
	if strings.ContainsAny(id, `\"/<>&`) || strings.ContainsFunc(id, func(r rune) bool { return r < ' ' || r > '~' }) {
		return nil, true
	}
	return [][]byte{text}, true
}

func hasID(raw []byte, id string) bool {
	p, err := payload.Parse(raw)
	return err == nil && p.ID == id
}

// FindDelayed looks for a delayed job of a queue with an id among those that are due at a time in ms. nil: there is none.
func (s Store) FindDelayed(c redis.Conn, queue, id string, at int64) (raw []byte, err error) {
	members, err := redis.ByteSlices(c.Do("ZRANGEBYSCORE", s.KeyOfSchedule(), at, at, "LIMIT", 0, mostLooks))
	if err != nil {
		return nil, s.explain(c, err, "", "looking for a delayed job of queue %s", queue)
	}
	for _, m := range members {
		if of, raw, ok := resque.CutPrefix(m); ok && of == queue && hasID(raw, id) {
			return raw, nil
		}
	}
	return nil, nil
}
