// Package lmstfywire knows the keys of lmstfy, a job server on Redis, and has the scripts that take jobs out of them. These keys
// have no namespace: the jobs that wait in queue mail of namespace shop are the list "q/shop/mail".
//
// An import takes pages. A claim moves the entries and bodies of a page, in one step, from lmstfy's keys into a page that only the
// import reads: from then on no server of lmstfy delivers these jobs. Store.Adopt puts the jobs of the page into a Store, and notes the
// page's number there in the same step. Drop removes the page. A page that was adopted is not adopted again, so each job arrives once,
// wherever the import is killed, and however many imports run.
package lmstfywire

import (
	"embed"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/resque"
)

//go:embed scripts/*.lua
var scriptFiles embed.FS

// Scripts returns the scripts of this package by name.
func Scripts() map[string]string { return resque.ScriptsOf(scriptFiles) }

var (
	claimListScript  = resque.LoadScript(scriptFiles, "claimlist")
	claimTimerScript = resque.LoadScript(scriptFiles, "claimtimer")
	dropScript       = resque.LoadScript(scriptFiles, "drop")
)

// The keys of lmstfy.
const (
	timer      = "timer_set"
	namespaces = "m/ns"
	limitsKey  = "__throttler_keys__"
)

// The keys of an import, beside lmstfy's.
const (
	recordKey = "goworker:import"      // hash: id, which names lmstfy's Redis; page, the number of the last page
	pageKey   = "goworker:import:page" // list: eight values for each job
)

// Queue is a queue of lmstfy.
type Queue struct{ Namespace, Name string }

// String returns the queue as lmstfy's paths have it.
func (q Queue) String() string { return q.Namespace + "/" + q.Name }

func (q Queue) ready() string         { return "q/" + q.String() }
func (q Queue) dead() string          { return "d/" + q.String() }
func (q Queue) body(id string) string { return "j/" + q.String() + "/" + id }

// State says where in lmstfy a job is.
type State string

// The states. A job that a consumer of lmstfy has is in the timer as well, until its TTR ends.
const (
	Ready   State = "ready"
	Delayed State = "delayed"
	Dead    State = "dead"
)

// Job is a job of lmstfy.
type Job struct {
	State   State
	Queue   Queue
	ID      string
	Tries   int    // how often it may still be delivered
	Due     int64  // of a delayed job: when, in seconds
	Body    []byte // as it is stored: of an id with a version, JSON
	Expires int64  // in ms; 0: never
}

// Entry is a job as lmstfy's lists and timer name it.
type Entry struct {
	Queue Queue
	ID    string
	Tries int
	Due   int64 // in seconds; 0 in a list
	raw   string
}

// parseListed reads an entry of a list: tries and id, each number two bytes, the low one first.
func parseListed(q Queue, raw string) (Entry, bool) {
	tries, rest, ok := number(raw)
	id, rest, ok2 := text(rest)
	return Entry{Queue: q, ID: id, Tries: tries, raw: raw}, ok && ok2 && rest == ""
}

// parseTimed reads an entry of the timer: namespace, queue, tries and id.
func parseTimed(raw string, due int64) (Entry, bool) {
	e := Entry{Due: due, raw: raw}
	var ok [4]bool
	rest := raw
	e.Queue.Namespace, rest, ok[0] = text(rest)
	e.Queue.Name, rest, ok[1] = text(rest)
	e.Tries, rest, ok[2] = number(rest)
	e.ID, rest, ok[3] = text(rest)
	return e, rest == "" && !slices.Contains(ok[:], false)
}

func number(b string) (n int, rest string, ok bool) {
	if len(b) < 2 {
		return 0, b, false
	}
	return int(binary.LittleEndian.Uint16([]byte(b))), b[2:], true
}

func text(b string) (s, rest string, ok bool) {
	n, b, ok := number(b)
	if !ok || len(b) < n {
		return "", b, false
	}
	return b[:n], b[n:], true
}

// Queues returns the queues that lmstfy knows, in their order.
func Queues(c redis.Conn) ([]Queue, error) {
	names, err := redis.Strings(c.Do("HKEYS", namespaces))
	if err != nil {
		return nil, explain("listing the namespaces", err)
	}
	slices.Sort(names)
	var all []Queue
	for _, ns := range names {
		queues, err := redis.Strings(c.Do("HKEYS", namespaces+"/"+ns))
		if err != nil {
			return nil, explain("listing the queues of namespace "+ns, err)
		}
		slices.Sort(queues)
		for _, q := range queues {
			all = append(all, Queue{ns, q})
		}
	}
	return all, nil
}

// Head returns the entries of a queue's jobs that come first, those of a dead letter list if they are dead, and
// how many there are in all. Entries that cannot be read end the page with an error.
func Head(c redis.Conn, q Queue, state State, most int) (page []Entry, all int, err error) {
	key := q.list(state)
	raw, err := redis.Strings(c.Do("LRANGE", key, -most, -1))
	if err != nil {
		return nil, 0, explain("reading "+key, err)
	}
	slices.Reverse(raw) // lmstfy pushes to the left and takes from the right
	for _, r := range raw {
		e, ok := parseListed(q, r)
		if !ok {
			return nil, 0, fmt.Errorf("lmstfy: the list %s has an entry that is not lmstfy's, %q; remove it with LREM, and run the import again", key, r)
		}
		page = append(page, e)
	}
	if all, err = redis.Int(c.Do("LLEN", key)); err != nil {
		return nil, 0, explain("reading "+key, err)
	}
	return page, all, nil
}

func (q Queue) list(state State) string {
	if state == Dead {
		return q.dead()
	}
	return q.ready()
}

// Timed returns entries of the timer behind the first skip, the first due first, and Redis's time in seconds.
func Timed(c redis.Conn, skip, most int) (page []Entry, now int64, err error) {
	if now, _, err = clock(c); err != nil {
		return nil, 0, err
	}
	raw, err := redis.Strings(c.Do("ZRANGE", timer, skip, skip+most-1, "WITHSCORES"))
	if err != nil {
		return nil, 0, explain("reading "+timer, err)
	}
	for i := 0; i+1 < len(raw); i += 2 {
		var due int64
		if _, err := fmt.Sscan(raw[i+1], &due); err != nil {
			return nil, 0, fmt.Errorf("lmstfy: an entry of %s has the score %s, which is no number of seconds; remove it with ZREM, and run the import again", timer, raw[i+1])
		}
		e, ok := parseTimed(raw[i], due)
		if !ok {
			return nil, 0, fmt.Errorf("lmstfy: %s has an entry that is not lmstfy's, %q; remove it with ZREM, and run the import again", timer, raw[i])
		}
		page = append(page, e)
	}
	return page, now, nil
}

func clock(c redis.Conn) (sec, micro int64, err error) {
	t, err := redis.Int64s(c.Do("TIME"))
	if err == nil && len(t) != 2 {
		err = resque.ErrAnswer
	}
	if err != nil {
		return 0, 0, explain("asking for the time", err)
	}
	return t[0], t[1], nil
}

// Tokens returns the tokens of all namespaces of all pools, with their descriptions. They are secrets.
func Tokens(c redis.Conn) (all []Token, err error) {
	cursor := "0"
	var keys []string
	for {
		r, err := redis.Values(c.Do("SCAN", cursor, "MATCH", "tk/*", "COUNT", 1000))
		if err != nil || len(r) != 2 {
			return nil, explain("looking for tokens", err)
		}
		cursor, _ = redis.String(r[0], nil)
		some, err := redis.Strings(r[1], nil)
		if err != nil {
			return nil, explain("looking for tokens", err)
		}
		if keys = append(keys, some...); cursor == "0" {
			break
		}
	}
	slices.Sort(keys)
	for _, key := range slices.Compact(keys) {
		pool, ns, ok := strings.Cut(strings.TrimPrefix(key, "tk/"), "/")
		if !ok {
			continue
		}
		of, err := redis.StringMap(c.Do("HGETALL", key))
		if err != nil {
			return nil, explain("reading the tokens of namespace "+ns, err)
		}
		for token, description := range of {
			all = append(all, Token{Pool: pool, Namespace: ns, Token: token, Description: description})
		}
	}
	limits, err := redis.StringMap(c.Do("HGETALL", limitsKey))
	if err != nil {
		return nil, explain("reading the limits of tokens", err)
	}
	for i, t := range all {
		text, ok := limits[t.Pool+"/"+t.Namespace+"/"+t.Token]
		if !ok {
			continue
		}
		if err := json.Unmarshal([]byte(text), &all[i].Limits); err != nil {
			return nil, fmt.Errorf("lmstfy: the limit of a token of namespace %s is no JSON; remove its field from %s, and run the import again", t.Namespace, limitsKey)
		}
	}
	slices.SortFunc(all, func(a, b Token) int { return strings.Compare(a.order(), b.order()) })
	return all, nil
}

// Token is a token of lmstfy, which it keeps in clear.
type Token struct {
	Pool, Namespace, Token, Description string
	Limits                              Limits
}

// Limits are how many requests a token has in a window of seconds. Without an interval there is no limit.
type Limits struct{ Read, Write, Interval int64 }

func (t Token) order() string { return t.Pool + "\x00" + t.Namespace + "\x00" + t.Token }

func explain(doing string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("lmstfy: %s: %w", doing, resque.Explain(err))
}
