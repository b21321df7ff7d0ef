package resque

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/clock"
)

var glanceScript = script("glance")

// What one glance reads at most.
const (
	GlanceQueues    = 1000 // of which it reads lengths and ends
	GlanceProcesses = 500
	glanceWorkers   = 1024 // about: whether they have a job, and which queues they name
	glanceLanes     = 1000
	glanceSet       = 100  // lanes that a queue counts for among them: it rarely has as many
	GlanceSeconds   = 200  // of resque-scheduler's schedule
	glanceLists     = 1000 // of failures
	glanceTakers    = 200
	glanceWhole     = 4096 // bytes of an element
	glanceTail      = 1024 // bytes of a last element that is looked for again
	glanceFar       = 1000 // elements that are searched for it
)

// GlanceAsk says what to look at.
type GlanceAsk struct {
	MultiQueue bool     // each queue may have its own failure list
	Queues     []string // nil: all
	After      string   // only queues behind this name

	// Tails are the last elements of queues at an earlier glance.
	Tails map[string][]byte

	// Takers is the set of the servers that take jobs for clients, and Taker the record of one.
	Takers Key
	Taker  func(id string) Key

	// Retrying is the command that counts the delayed jobs that failed before, and Retried reads its answer.
	Retrying func(c redis.Conn) error
	Retried  func(reply any, err error) (n int64, all bool, _ error)
}

// Number is a number that Redis gave, or did not.
type Number struct {
	N  int64
	OK bool
}

// Glance is what a look at a Resque shows, in at most three round trips.
type Glance struct {
	At    time.Time
	Info  map[string]string // of Redis
	Trips int
	Took  time.Duration // the first one of them

	Processed, Failed, Expired Number
	PausedAll                  bool
	Paused                     map[string]bool

	QueueNames []string // all, sorted
	Queues     []GlanceQueue
	Depths     map[string]Depth
	SortedAll  bool // all lanes of all queues were looked at

	Own, Seconds, Plain Number // delayed jobs of goworker; seconds and jobs of resque-scheduler
	PlainAll            bool
	First               time.Time // when the first delayed job is due; zero: there is none
	Retrying            Number
	RetryingAll         bool
	Failures            Number
	FailuresAll         bool
	Leased              Number

	Workers      Number
	WorkerIDs    []string        // some of them
	WorkersAll   bool            // they are all
	Silent       map[string]bool // of WorkerIDs: those of other programs whose last heartbeat is so old that Ruby counts them as dead; nil: nobody knows
	Busy         Number          // of those of WorkerIDs that are not Silent
	Processes    []LiveProcess
	ProcessCount Number
	Takers       map[string]map[string]string // their records

	Refused []error
}

// GlanceQueue is a queue in a Glance.
type GlanceQueue struct {
	Name   string
	Length Number
	Head   []byte // nil: it is large, or there is none
	Digest string // of a head that is large
	Tail   []byte // nil: it is large, or there is none
	Behind int64  // elements behind the one of GlanceAsk.Tails; -1: it was not found
	Lanes  []GlanceLane
}

// GlanceLane is a lane of a queue in which jobs wait.
type GlanceLane struct {
	Turn time.Time
	Jobs int64
	Head []byte
	key  string
}

// Glance looks at the Resque.
func (s Store) Glance(c redis.Conn, ask GlanceAsk) (Glance, error) {
	g := &glance{s: s, asked: ask, Glance: Glance{Paused: make(map[string]bool)}}
	for _, read := range []func(*trip){g.names, g.contents, g.lanesIn} {
		t := &trip{c: c}
		if read(t); len(t.takes) == 0 {
			continue
		}
		began := clock.System.Now()
		if err := t.run(); err != nil {
			return g.Glance, fmt.Errorf("looking at the Resque: %w", Explain(err))
		}
		if g.Trips++; g.Trips == 1 {
			g.Took = clock.Since(clock.System, began)
		}
	}
	return g.Glance, nil
}

// glance is a Glance while it is read.
type glance struct {
	s     Store
	asked GlanceAsk
	Glance

	sorted []Lanes
	lists  []string // of failures
	plain  []string // seconds
}

// refused notes that Redis refused something.
func (g *glance) refused(what string, err error) {
	if err != nil && err != redis.ErrNil {
		g.Refused = append(g.Refused, fmt.Errorf("reading %s: %w", what, Explain(err)))
	}
}

// number takes a number; a key that is missing is 0, and so is a text that is no number, as to Ruby.
func (g *glance) number(to *Number, what string) func(any, error) {
	return func(reply any, err error) {
		switch v := reply.(type) {
		case int64:
			*to = Number{v, err == nil}
		case []byte:
			*to = Number{number(v), err == nil}
		default:
			*to = Number{0, err == nil}
		}
		g.refused(what, err)
	}
}

func (g *glance) texts(what string, take func([]string)) func(any, error) {
	return func(reply any, err error) {
		list, err := redis.Strings(reply, err)
		if g.refused(what, err); err == nil {
			take(list)
		}
	}
}

// names is the first round trip: what needs no names. One script asks for what is small.
func (g *glance) names(t *trip) {
	t.ask(func(reply any, err error) {
		if v, err := redis.Int64s(reply, err); err == nil && len(v) == 2 {
			g.At = time.Unix(v[0], v[1]*1000)
		} else {
			g.refused("Redis's time", cmp.Or(err, ErrAnswer))
		}
	}, "TIME")
	t.ask(func(reply any, err error) {
		text, err := redis.String(reply, err)
		g.refused("what Redis says of itself", err)
		g.Info = parseInfo(text)
	}, "INFO")
	var small together
	small.ask(g.number(&g.Processed, "the total of jobs"), "GET", g.s.stat("processed"))
	small.ask(g.number(&g.Failed, "the total of failures"), "GET", g.s.stat("failed"))
	small.ask(g.number(&g.Expired, "goworker's totals"), "HGET", g.s.stats(), expiredField)
	small.ask(func(reply any, err error) { g.PausedAll = reply != nil && err == nil }, "GET", g.s.pauseAll())
	small.ask(g.texts("which queues are paused", func(names []string) {
		for _, name := range names {
			g.Paused[name] = true
		}
	}), "SMEMBERS", g.s.paused())
	name := func(names []string) { g.QueueNames = append(g.QueueNames, names...) }
	small.ask(g.texts("the names of goworker's own queues", name), "SMEMBERS", g.s.ownQueues())
	small.ask(g.texts("which queues have lanes", func(names []string) { g.sorted, g.SortedAll = parseLanes(names), true }), "SMEMBERS", g.s.lanes())
	small.ask(g.number(&g.Own, "goworker's schedule"), "ZCARD", g.s.KeyOfSchedule())
	small.ask(g.number(&g.Seconds, "resque-scheduler's schedule"), "ZCARD", g.s.KeyOfSeconds())
	small.ask(g.texts("resque-scheduler's schedule", func(seconds []string) { g.plain = seconds }), "ZRANGE", g.s.KeyOfSeconds(), 0, GlanceSeconds-1)
	small.ask(g.first(time.Millisecond), "ZRANGE", g.s.KeyOfSchedule(), 0, 0, "WITHSCORES")
	small.ask(g.first(time.Second), "ZRANGE", g.s.KeyOfSeconds(), 0, 0, "WITHSCORES")
	if g.asked.MultiQueue {
		small.ask(g.texts("the names of failure lists", func(names []string) { g.lists = names }), "SMEMBERS", g.s.KeyOfFailureLists())
	}
	small.ask(g.number(&g.Leased, "the leases of jobs"), "HLEN", g.s.KeyOfLeased())
	small.ask(g.number(&g.Workers, "the set of workers"), "SCARD", g.s.workers())
	small.ask(g.number(&g.ProcessCount, "which processes there are"), "ZCARD", g.s.processes())
	small.ask(g.texts("which processes there are", g.leases), "ZRANGE", g.s.processes(), 0, GlanceProcesses-1, "WITHSCORES")
	small.ask(g.texts("which servers take jobs", func(ids []string) {
		g.Takers = make(map[string]map[string]string, len(ids)/2)
		for i := 0; i+1 < len(ids); i += 2 {
			if until, err := strconv.ParseFloat(ids[i+1], 64); err == nil && int64(until) >= g.At.UnixMilli() {
				g.Takers[ids[i]] = nil
			}
		}
	}), "ZRANGE", g.asked.Takers.String(), -glanceTakers, -1, "WITHSCORES")
	small.on(t)
	t.ask(g.texts("the names of queues", name), "SMEMBERS", g.s.KeyOfQueues())
	t.ask(func(reply any, err error) {
		all, err := redis.StringMap(reply, err)
		g.refused("the ages of queues", err)
		g.Depths = parseDepths(all)
	}, "HGETALL", g.s.KeyOfDepths())
	t.ask(func(reply any, err error) {
		page, err := redis.Values(reply, err)
		if err == nil && len(page) != 2 {
			err = ErrAnswer
		}
		if g.refused("the set of workers", err); err == nil {
			cursor, _ := redis.String(page[0], nil)
			ids, _ := redis.Strings(page[1], nil)
			slices.Sort(ids)
			g.WorkerIDs, g.WorkersAll = slices.Compact(ids), cursor == "0"
		}
	}, "SSCAN", g.s.workers(), 0, "COUNT", glanceWorkers)
}

// first reads when the first job of a schedule is due, whose scores have this unit.
func (g *glance) first(unit time.Duration) func(any, error) {
	return g.texts("when delayed jobs are due", func(first []string) {
		if len(first) != 2 {
			return
		}
		ms := float64(unit / time.Millisecond)
		if at, err := strconv.ParseFloat(first[1], 64); err == nil && at*ms < 1e15 && at > 0 {
			if due := time.UnixMilli(int64(at * ms)); g.First.IsZero() || due.Before(g.First) {
				g.First = due
			}
		}
	})
}

// leases reads the leases of processes.
func (g *glance) leases(pairs []string) {
	for i := 0; i+1 < len(pairs); i += 2 {
		g.Processes = append(g.Processes, liveProcess(Lease{pairs[i], pairs[i+1]}))
	}
}

// parseInfo reads what INFO answers.
func parseInfo(text string) map[string]string {
	info := make(map[string]string)
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimRight(line, "\r\n"), ":"); ok {
			info[name] = value
		}
	}
	return info
}
