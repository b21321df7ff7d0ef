package lmstfywire

import (
	"fmt"
	"strconv"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/resque"
)

// Limits of a page. Redis does nothing else while it moves one.
const (
	PageJobs  = 200
	PageBytes = 4 << 20
)

// Claimed is a page that was claimed and not yet dropped.
type Claimed struct {
	Source string // names lmstfy's Redis
	Number int64  // of the page; pages have numbers from 1
	Jobs   []Job
}

// Page returns the page that was claimed last, without jobs if it was dropped or none was claimed.
func Page(c redis.Conn) (p Claimed, err error) {
	fields, err := redis.StringMap(c.Do("HGETALL", recordKey))
	if err != nil {
		return p, explain("reading "+recordKey, err)
	}
	p.Source = fields["id"]
	p.Number, _ = strconv.ParseInt(fields["page"], 10, 64)
	values, err := redis.ByteSlices(c.Do("LRANGE", pageKey, 0, -1))
	if err != nil {
		return p, explain("reading "+pageKey, err)
	}
	if len(values)%pageValues != 0 {
		return p, fmt.Errorf("lmstfy: the list %s has %d values, which is no page of an import; another program has changed it", pageKey, len(values))
	}
	for i := 0; i < len(values); i += pageValues {
		v := values[i : i+pageValues]
		j := Job{State: State(v[0]), Queue: Queue{string(v[1]), string(v[2])}, ID: string(v[3]), Body: v[6]}
		j.Tries, _ = strconv.Atoi(string(v[4]))
		j.Due, _ = strconv.ParseInt(string(v[5]), 10, 64)
		j.Expires, _ = strconv.ParseInt(string(v[7]), 10, 64)
		p.Jobs = append(p.Jobs, j)
	}
	return p, nil
}

// pageValues is how many values of the list are one job.
const pageValues = 8

// Got is what a claim did: how many entries went into the page, and how many had no body any more, because their jobs were
// acknowledged or have expired. Those are removed.
type Got struct{ Jobs, Gone int }

// Sum returns both together.
func (g Got) Sum() int { return g.Jobs + g.Gone }

// ClaimListed moves the entries at the head of a queue, or of its dead letters, into a page behind the dropped one. It stops at the
// first entry that is no more at the head. It moves nothing while a page is there.
func ClaimListed(c redis.Conn, after Claimed, q Queue, state State, entries []Entry) (Got, error) {
	entries, err := fitting(c, entries)
	if err != nil || len(entries) == 0 {
		return Got{}, err
	}
	var call resque.Call
	call.Key(q.list(state))
	call.Key(recordKey)
	call.Key(pageKey)
	call.Arg(after.Source, after.Number)
	for _, e := range entries {
		call.Key(e.Queue.body(e.ID))
		call.Arg(e.raw, string(state), e.Queue.Namespace, e.Queue.Name, e.ID, max(e.Tries, 1), 0)
	}
	return claimed(call.Do(c, claimListScript))
}

// ClaimTimed moves entries of the timer into a page as ClaimListed does. An entry that has another time now stays. state says what
// the job of an entry is.
func ClaimTimed(c redis.Conn, after Claimed, entries []Entry, state func(Entry) State) (Got, error) {
	entries, err := fitting(c, entries)
	if err != nil || len(entries) == 0 {
		return Got{}, err
	}
	var call resque.Call
	call.Key(timer)
	call.Key(recordKey)
	call.Key(pageKey)
	call.Arg(after.Source, after.Number)
	for _, e := range entries {
		call.Key(e.Queue.body(e.ID))
		call.Arg(e.raw, string(state(e)), e.Queue.Namespace, e.Queue.Name, e.ID, max(e.Tries, 1), e.Due)
	}
	return claimed(call.Do(c, claimTimerScript))
}

func claimed(reply any, err error) (Got, error) {
	r, err := redis.Ints(reply, err)
	if err == nil && len(r) != 2 {
		err = resque.ErrAnswer
	}
	if err != nil {
		return Got{}, explain("claiming jobs", err)
	}
	return Got{Jobs: r[0], Gone: r[1]}, nil
}

// fitting returns the first entries whose bodies fit into a page. One entry always fits.
func fitting(c redis.Conn, entries []Entry) ([]Entry, error) {
	entries = entries[:min(len(entries), PageJobs)]
	b := &resque.Batch{Conn: c}
	for _, e := range entries {
		b.Send("STRLEN", e.Queue.body(e.ID))
	}
	answers, err := b.Receive()
	if err != nil {
		return nil, explain("measuring bodies", err)
	}
	size := 0
	for i, e := range entries {
		n, err := redis.Int(resque.Answer(answers[i]))
		if err != nil {
			return nil, explain("measuring the body of job "+e.ID, err)
		}
		if size += n; size > PageBytes && i > 0 {
			return entries[:i], nil
		}
	}
	return entries, nil
}

// Drop removes a page that was adopted, unless another import has done so.
func Drop(c redis.Conn, p Claimed) error {
	var call resque.Call
	call.Key(recordKey)
	call.Key(pageKey)
	call.Arg(p.Number)
	_, err := call.Do(c, dropScript)
	return explain("dropping a page", err)
}
