package resque

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"
)

// contents is the second round trip: what is under the names that the first one brought.
func (g *glance) contents(t *trip) {
	g.pick()
	for start := 0; start < len(g.Queues); start += glanceTogether {
		part := g.Queues[start:min(start+glanceTogether, len(g.Queues))]
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
		left -= glanceTogether // they are rarely that many
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
	for i := range g.Processes {
		p := &g.Processes[i]
		t.ask(func(reply any, err error) {
			fields, err := redis.StringMap(reply, err)
			g.refused("the record of process "+p.ID, err)
			p.Process = processOf(p.ID, fields)
			p.Vitals, p.Stuck = readVitals(fields)
			p.Bridges = readBridges(fields)
		}, "HGETALL", g.s.process(p.ID))
		var held, marks Number
		t.ask(g.number(&held, "the in-flight record of process "+p.ID), "HLEN", g.s.inflight(p.ID))
		t.ask(func(reply any, err error) {
			marks.N, _ = redis.Int64(reply, err)
			p.Jobs = max(0, held.N-marks.N)
		}, "HEXISTS", g.s.inflight(p.ID), markField)
	}
	for id := range g.Takers {
		t.ask(func(reply any, err error) {
			fields, err := redis.StringMap(reply, err)
			g.refused("the record of server "+id, err)
			g.Takers[id] = fields
		}, "HGETALL", g.asked.Taker(id).String())
	}
	g.workers(t)
	g.count(t, &g.Plain, "resque-scheduler's schedule", g.plain, g.s.KeyOfSecond)
	g.PlainAll = g.Seconds.OK && int64(len(g.plain)) >= g.Seconds.N
	g.count(t, &g.Failures, "the failures", FailureLists(g.lists), g.s.KeyOfFailures)
	if t.err == nil {
		t.err = g.asked.Retrying(t.c)
		t.takes = append(t.takes, func(reply any, err error) {
			n, all, err := g.asked.Retried(reply, err)
			g.refused("goworker's schedule", err)
			g.Retrying, g.RetryingAll = Number{n, err == nil}, all
		})
	}
}

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
	for _, id := range others {
		t.ask(count(func() bool { return !g.Silent[id] }), "EXISTS", g.s.worker(id))
	}
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

// count adds the lengths of lists to a number.
func (g *glance) count(t *trip, to *Number, what string, names []string, key func(string) string) {
	to.OK = true
	for _, name := range names {
		var one Number
		read := g.number(&one, what)
		t.ask(func(reply any, err error) {
			read(reply, err)
			to.N, to.OK = to.N+one.N, to.OK && one.OK
		}, "LLEN", key(name))
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
	for part := range slices.Chunk(lanes, glanceTogether) {
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
