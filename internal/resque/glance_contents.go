package resque

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"
)

// contents is the second round trip: what is under the names that the first one brought.
func (g *glance) contents(t *trip) {
	g.pick()
	for part := range slices.Chunk(g.Queues, endsTogether) {
		var a Call
		a.Arg(glanceWhole, glanceFar)
		for _, q := range part {
			a.Key(g.s.KeyOfQueue(q.Name))
			tail := g.asked.Tails[q.Name]
			if len(tail) > glanceTail {
				tail = nil
			}
			a.Arg(tail)
		}
		t.eval(func(reply any, err error) { g.ends(part, reply, err) }, glanceScript, a)
	}
	var others together
	g.turns(&others)
	g.takers(&others)
	others.on(t)
	for part := range slices.Chunk(g.Processes, recordsTogether) {
		g.s.askProcesses(t, part, g.refused)
	}
	g.workers(t)
	g.lengths(t)
	if t.err == nil {
		t.err = g.asked.Retrying(t.c)
		t.takes = append(t.takes, func(reply any, err error) {
			n, all, err := g.asked.Retried(reply, err)
			g.refused("goworker's schedule", err)
			g.Retrying, g.RetryingAll = Number{n, err == nil}, all
		})
	}
}

// turns asks for the lanes of queues.
func (g *glance) turns(t *together) {
	left := glanceLanes
	for _, lanes := range g.sorted {
		if left <= 0 {
			g.SortedAll = false
			break
		}
		at := slices.IndexFunc(g.Queues, func(q GlanceQueue) bool { return q.Name == lanes.Queue })
		if at < 0 {
			continue
		}
		q, most := &g.Queues[at], left
		left -= glanceSet
		t.ask(g.texts("the lanes of queue "+lanes.Queue, func(turns []string) {
			if len(turns) > 2*most {
				g.SortedAll, turns = false, turns[:2*most]
			}
			for i := 0; i+1 < len(turns); i += 2 {
				us, _ := strconv.ParseFloat(turns[i+1], 64)
				q.Lanes = append(q.Lanes, GlanceLane{Turn: time.UnixMicro(int64(us)), key: g.s.lane(Lane{lanes.Queue, lanes.Shared, turns[i]})})
			}
		}), "ZRANGE", g.s.turns(lanes), 0, most, "WITHSCORES")
	}
}

// takers asks for the records of the servers that take jobs.
func (g *glance) takers(t *together) {
	ids := slices.Sorted(maps.Keys(g.Takers))
	keys := make([]string, len(ids))
	for i, id := range ids {
		keys[i] = g.asked.Taker(id).String()
	}
	t.each(func(i int, reply any, err error) {
		fields, err := fieldsOf(takerFields, reply, err)
		g.refused("the record of server "+ids[i], err)
		g.Takers[ids[i]] = fields
	}, keys, "HMGET", takerFields...)
}

// takerFields are the fields of a server's record that are looked at.
var takerFields = []any{"host", "pid", "version", "address", "started", "queues", "waiting"}

// workers asks which workers have a job, and which are dead. goworker's own are counted by their processes' leases, so one question serves all
// of them; of another program's worker that is dead nobody counts the job.
func (g *glance) workers(t *trip) {
	if g.Busy.OK = g.WorkerIDs != nil || g.WorkersAll; !g.Busy.OK {
		return
	}
	var own, others []string
	for _, id := range g.WorkerIDs {
		if host, _, _ := strings.Cut(id, ":"); strings.HasSuffix(host, GoHost) {
			own = append(own, id)
		} else {
			others = append(others, id)
		}
	}
	if len(others) == 0 {
		g.Silent = make(map[string]bool)
	} else {
		args := []any{g.s.heartbeats()}
		for _, id := range others {
			args = append(args, id)
		}
		t.ask(g.texts("the heartbeats of workers", func(beats []string) {
			g.Silent = make(map[string]bool)
			for n, text := range beats {
				if beat := ParseTime(text); n < len(others) && !beat.IsZero() && g.At.Sub(beat) > PruneAfter {
					g.Silent[others[n]] = true
				}
			}
		}), "HMGET", args...)
	}
	var busy int64
	count := func(counts func() bool) func(any, error) {
		return func(reply any, err error) {
			n, err := redis.Int64(reply, err)
			if g.refused("what workers do", err); counts() {
				busy += n
			}
			g.Busy = Number{busy, g.Busy.OK && err == nil}
		}
	}
	if len(own) > 0 {
		keys := make([]any, len(own))
		for i, id := range own {
			keys[i] = g.s.worker(id)
		}
		t.ask(count(func() bool { return true }), "EXISTS", keys...)
	}
	keys := make([]string, len(others))
	for i, id := range others {
		keys[i] = g.s.worker(id)
	}
	var each together
	each.each(func(i int, reply any, err error) { count(func() bool { return !g.Silent[others[i]] })(reply, err) }, keys, "EXISTS")
	each.on(t)
}

// pick chooses the queues to look at.
func (g *glance) pick() {
	slices.Sort(g.QueueNames)
	g.QueueNames = slices.Compact(g.QueueNames)
	names := g.asked.Queues
	if names == nil {
		from, there := slices.BinarySearch(g.QueueNames, g.asked.After)
		if there {
			from++
		}
		names = g.QueueNames[from:]
	}
	for _, name := range names[:min(len(names), GlanceQueues)] {
		g.Queues = append(g.Queues, GlanceQueue{Name: name, Behind: -1})
	}
}

// ends reads what glance.lua answers about some queues.
func (g *glance) ends(part []GlanceQueue, reply any, err error) {
	rows, err := redis.Values(reply, err)
	if err == nil && len(rows) != len(part) {
		err = ErrAnswer
	}
	if g.refused("the queues", err); err != nil {
		return
	}
	for i, row := range rows {
		q := &part[i]
		if text, ok := row.([]byte); ok {
			g.refused("queue "+q.Name, redis.Error(text))
			continue
		}
		v, err := redis.Values(row, nil)
		if err != nil || len(v) != 5 {
			g.refused("queue "+q.Name, ErrAnswer)
			continue
		}
		q.Length.N, _ = redis.Int64(v[0], nil)
		q.Length.OK = true
		q.Digest, _ = redis.String(v[2], nil)
		if q.Head, _ = redis.Bytes(v[1], nil); len(q.Head) == 0 {
			q.Head = nil
		}
		if q.Tail, _ = redis.Bytes(v[3], nil); len(q.Tail) == 0 {
			q.Tail = nil
		}
		q.Behind, _ = redis.Int64(v[4], nil)
	}
}

// lengths asks for the lengths of lists of which nothing else counts: those of resque-scheduler's schedule, and of failures.
func (g *glance) lengths(t *trip) {
	g.PlainAll = g.Seconds.OK && int64(len(g.plain)) >= g.Seconds.N
	g.FailuresAll = len(g.lists) <= glanceLists
	type list struct {
		to        *Number
		what, key string
	}
	var all []list
	for _, second := range g.plain {
		all = append(all, list{&g.Plain, "resque-scheduler's schedule", g.s.KeyOfSecond(second)})
	}
	for _, name := range FailureLists(g.lists[:min(len(g.lists), glanceLists)]) {
		all = append(all, list{&g.Failures, "the failures", g.s.KeyOfFailures(name)})
	}
	g.Plain.OK, g.Failures.OK = true, true
	for part := range slices.Chunk(all, lengthsTogether) {
		keys := make([]string, len(part))
		for i, l := range part {
			keys[i] = l.key
		}
		var lists together
		lists.each(func(i int, reply any, err error) {
			var one Number
			l := part[i]
			g.number(&one, l.what)(reply, err)
			l.to.N, l.to.OK = l.to.N+one.N, l.to.OK && one.OK
		}, keys, "LLEN")
		lists.on(t)
	}
}

// lanesIn is the third round trip: the jobs in the lanes of queues.
func (g *glance) lanesIn(t *trip) {
	var lanes []*GlanceLane
	for i := range g.Queues {
		for j := range g.Queues[i].Lanes {
			lanes = append(lanes, &g.Queues[i].Lanes[j])
		}
	}
	if len(lanes) > glanceLanes {
		lanes, g.SortedAll = lanes[:glanceLanes], false
	}
	for part := range slices.Chunk(lanes, endsTogether) {
		var a Call
		a.Arg(glanceWhole, 0)
		looked := make([]GlanceQueue, len(part))
		for _, l := range part {
			a.Key(l.key)
			a.Arg("")
		}
		t.eval(func(reply any, err error) {
			g.ends(looked, reply, err)
			for i, l := range part {
				l.Jobs, l.Head = looked[i].Length.N, looked[i].Head
			}
		}, glanceScript, a)
	}
}
