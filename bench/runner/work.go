package main

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/goworker/goworker/bench/probe"
)

// work is one kind of work: what the jobs are, and how they come.
type work struct {
	name    string // in the results
	group   string // of -only
	workers []int  // or producers, or processes
	class   string
	size    int      // of a job's Resque payload, in bytes
	spread  int      // over so many queues
	weights []int    // of the queues; what is measured is how much is taken of each
	beside  []string // queues that are worked too, and hold none of the jobs
	order   string
	bulk    int // pushed in calls of so many
	fixed   int // so many jobs, whatever they take
	link    bool
	counted bool     // its commands are counted, in a run of their own
	pushed  bool     // pushing them is what is timed
	delayed bool     // to one moment, at which the worker starts
	called  bool     // a process pushes one job after another and waits for the result of each
	shape   string   // a process starts workflows of it, of so many members
	pairs   bool     // so many workflows of two members each
	soak    bool     // so many of them a second, for a while
	awaited bool     // a process waits for the results of so many jobs at the same time
	atOnce  bool     // so many callers push a job and wait for its result, each one after the other
	begins  bool     // a job that is not counted comes first, and its start is when the time begins
	weighed bool     // in Redis, before the worker starts
	named   bool     // the jobs have ids
	own     bool     // the contender's own client queues the jobs, also where they are plain bytes
	only    []string // the contenders that run it; nil is all but the variants that are special
	trials  int      // of each contender in a round, by turns: what they differ in is small
	once    bool     // not again in later rounds: it takes long and hardly varies
	apart   bool     // runs only when -only names its group
}

// The size of a no-op job, which is what one with two small arguments has.
const smallJob = 44

// The slow link's way in each direction.
const linkDelay = 500 * time.Microsecond

// works are the kinds of work at which the contenders run alternately.
func works() []work {
	list := []work{
		{name: "noop", group: "noop", workers: []int{1, 10, 25, 100, 1000}, class: "Noop", counted: true},
		{name: "payload-100B", group: "payload", workers: []int{25}, class: "Noop", size: 100},
		{name: "payload-1KiB", group: "payload", workers: []int{25}, class: "Noop", size: 1 << 10},
		{name: "payload-64KiB", group: "payload", workers: []int{25}, class: "Noop", size: 64 << 10},
	}
	for _, order := range []string{probe.Strict, probe.Weighted, probe.All} {
		for _, n := range []int{1, 10, 200} {
			list = append(list, work{
				name: fmt.Sprintf("%s-%d", order, n), group: "queues", workers: []int{25}, class: "Noop",
				spread: n, order: order, counted: true,
			})
		}
	}
	return append(list,
		work{name: "failing", group: "failing", workers: []int{25}, class: "Tenth"},
		work{name: "sleep-1ms", group: "sleep", workers: []int{25, 100}, class: "Sleep1"},
		work{name: "sleep-100ms", group: "many", workers: []int{10_000}, class: "Sleep100", fixed: 10_000},
		work{name: "link", group: "link", workers: []int{25, 100}, class: "Noop", link: true},
		work{name: "push", group: "push", workers: []int{1, 8, 100}, class: "Noop", size: 100, pushed: true},
		work{name: "push-bulk", group: "push", workers: []int{1}, class: "Noop", size: 100, pushed: true, bulk: 1000},
		work{name: "push-bulk-named", group: "push", workers: []int{1}, class: "Noop", size: 100, pushed: true, bulk: 1000, named: true, only: []string{"ours", "raw"}},
		work{name: "unused", group: "unused", workers: []int{1, 25, 100}, class: "Noop", beside: []string{"other", "paused"}, only: []string{"ours", "ours-unused"}},
		work{name: "history", group: "history", workers: []int{1, 25, 100}, class: "Noop", trials: 10, only: []string{"ours", "ours-no-history"}},
		work{name: "metrics", group: "metrics", workers: []int{1, 25, 100}, class: "Noop", trials: 10, only: []string{"ours-unscraped", "ours-scraped"}},
		work{name: "events", group: "events", workers: []int{100}, class: "Noop", trials: 10, only: heard},
		work{name: "events-1ms", group: "events", workers: []int{100}, class: "Sleep1", trials: 5, only: heard},
		work{name: "traces-1ms", group: "traces", workers: []int{25}, class: "Sleep1", trials: 5, only: []string{"ours", "ours-traced"}},
		work{
			name: "features", group: "features", workers: []int{25}, class: "Noop", counted: true, only: []string{
				"ours", "ours-expiring", "ours-unique", "ours-limited", "ours-keyed", "ours-rated", "ours-fair", "ours-retried", "ours-results", "ours-chord", "ours-isolated",
				"ours-isolated-static", "ours-reused",
			},
		},
		work{name: "keys", group: "features", workers: []int{25}, class: "Noop", fixed: 200_000, only: []string{"ours", "ours-many-keys"}},
		work{
			name: "push-unique", group: "unique", workers: []int{8}, class: "Noop", size: 100, pushed: true, once: true,
			only: []string{"ours", "ours-unique", "asynq", "asynq-unique", "gocraft", "gocraft-unique"},
		},
		work{
			name: "weights", group: "weights", workers: []int{25}, class: "Sleep1", spread: 3, order: probe.Weighted,
			weights: []int{6, 3, 1}, fixed: 60_000, only: []string{"ours", "goworker", "asynq", "gocraft"},
		},
		work{name: "results", group: "results", workers: []int{25}, class: "Answer", counted: true, only: append(keeping, "ours", "asynq", "machinery", "bullmq")},
		work{name: "call", group: "calls", workers: []int{25}, class: "Answer", fixed: 300, called: true, only: append(keeping, "ours-called")},
		work{
			name: "call-many", group: "calls", workers: []int{1000}, class: "Answer", called: true, atOnce: true,
			only: append(keeping, "ours-called"),
		},
		work{name: "waiters", group: "results", workers: []int{10_000}, class: "Answer10", awaited: true, only: keeping},
		work{name: "waiters-burst", group: "results", workers: []int{10_000}, class: "Answer", awaited: true, only: keeping},
		work{name: "members", group: "workflows", workers: []int{2000}, shape: probe.Plain, only: joining},
		work{name: "chord", group: "workflows", workers: []int{2000}, shape: probe.Chord, only: flowing},
		work{name: "members", group: "workflows", workers: []int{100_000}, shape: probe.Plain, only: []string{"ours", "bullmq"}},
		work{name: "chord", group: "workflows", workers: []int{100_000}, shape: probe.Chord, only: []string{"ours", "bullmq"}},
		work{name: "chords", group: "workflows", workers: []int{2000}, shape: probe.Chord, pairs: true, only: joining},
		work{name: "chain", group: "workflows", workers: []int{100}, shape: probe.Chain, only: joining},
		work{name: "batch", group: "workflows", workers: []int{1_000_000}, shape: probe.Batch, once: true, only: []string{"ours"}},
		work{name: "soak", group: "workflows", workers: []int{10_000}, shape: probe.Chord, pairs: true, soak: true, once: true, only: []string{"ours"}},
		work{
			name: "aggregation", group: "aggregation", workers: []int{25}, class: probe.Item, fixed: 6 * probe.Keys * probe.GroupOf, begins: true, own: true,
			only: []string{"ours", "ours-gathering", "goworker", "asynq", "asynq-gathering", "gocraft", "machinery", "node-resque", "bullmq"},
		},
		work{
			name: "aggregation-one", group: "aggregation", workers: []int{25}, class: probe.OneKey, fixed: 6 * probe.Keys * probe.GroupOf,
			begins: true, own: true, only: []string{"ours", "ours-gathering", "asynq-gathering"},
		},
		work{name: "msgpack-small", group: "messagepack", workers: []int{25}, class: probe.Small, weighed: true, own: true, only: packing},
		work{name: "msgpack-record", group: "messagepack", workers: []int{25}, class: probe.Thing, weighed: true, own: true, only: packing},
		work{name: "msgpack-numbers", group: "messagepack", workers: []int{25}, class: probe.Numbers, size: 6 << 10, weighed: true, own: true, only: packing},
		work{
			name: "cursor", group: "cursor", workers: []int{25}, class: "Noop", named: true, counted: true,
			only: []string{"ours-named", "ours-set", "ours-cursor", "ours-sets", "ours-once"},
		},
		work{name: "delayed", group: "delayed", workers: []int{100}, class: "Noop", delayed: true, only: delaying},
		work{name: "schedule", group: "schedule", workers: []int{100_000}, class: probe.Far, delayed: true, once: true, only: delaying},
		work{
			name: "schedule", group: "schedule", workers: []int{10_000, 1_000_000}, class: probe.Far, delayed: true, once: true,
			only: []string{"ours", "ours-plain"},
		},
		work{
			name: "schedule", group: "ten-million", workers: []int{10_000_000}, class: probe.Far, delayed: true, once: true,
			only: []string{"ours"}, apart: true,
		},
	)
}

// heard are the contenders that say what happens to their jobs, or would.
var heard = []string{"ours", "ours-events", "ours-events-all"}

// delaying are the contenders that are asked for delayed jobs.
var delaying = []string{"ours", "ours-plain", "goworker", "asynq", "gocraft", "machinery", "node-resque", "bullmq"}

// keeping are the contenders that are asked for results.
var keeping = []string{"ours-results", "goworker", "asynq-results", "gocraft", "machinery-results", "node-resque", "bullmq-results"}

// flowing are the contenders that are asked for workflows, joining those of them that have some.
var (
	flowing = []string{"ours", "goworker", "asynq", "gocraft", "machinery-results", "node-resque", "bullmq"}
	joining = []string{"ours", "machinery-results", "bullmq"}
)

// gathering are the contenders that are asked for aggregation and have it, or run the same jobs one by one; packing
// those whose queues hold JSON, or MessagePack.
var (
	gathering = []string{"ours", "ours-gathering", "asynq", "asynq-gathering"}
	packing   = []string{"ours", "ours-msgpack"}
)

// far says that its jobs wait and are never run.
func (w work) far() bool { return w.class == probe.Far }

// sized says that its workers are how many jobs there are, or workflows.
func (w work) sized() bool { return w.far() || w.awaited || w.shape != "" }

// has leaves out variants that would take long and show nothing new.
func (w work) has(c contender) bool {
	switch {
	case w.only != nil:
		return slices.Contains(w.only, c.name)
	case c.special:
		return false
	case c.name == "ours-no-look-ahead":
		return w.name == "noop" || w.name == "link" || w.name == "sleep-1ms"
	case c.name == "machinery-results":
		return w.name == "noop" || w.pushed
	}
	return true
}

func (w work) queues() []string {
	if w.spread < 2 {
		return []string{queueName}
	}
	names := make([]string, w.spread)
	for i := range names {
		names[i] = queueName + strconv.Itoa(i)
	}
	return names
}

// config is what a contender is asked to do for this work.
func (w work) config(mode, addr string, workers, jobs int) probe.Config {
	c := probe.Config{
		Mode: mode, Addr: addr, Queues: w.queues(), Beside: w.beside, Order: w.order, Weights: w.weights, Workers: workers,
		Jobs: jobs, Class: w.class, Size: max(w.size, smallJob), Producers: 1, Bulk: w.bulk, Delayed: w.delayed,
		Named: w.named,
	}
	if c.Order == "" {
		c.Order = probe.Strict
	}
	return c
}

// most is how many jobs a run may have: what fits into memory, and into a minute.
func (w work) most() int {
	const memory = 256 << 20
	return min(400_000, memory/max(w.size, 500))
}
