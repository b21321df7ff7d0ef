package inspect

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/access"
	"github.com/goworker/goworker/internal/payload"
	"github.com/goworker/goworker/internal/resque"
	"github.com/goworker/goworker/internal/resque/delayed"
	"github.com/goworker/goworker/internal/resque/leases"
	"github.com/goworker/goworker/internal/stamp"
)

// Sample looks at the Resque once. Over shards it looks at one after the other, and its numbers are sums.
func (i *Inspector) Sample(ctx context.Context, options ...SampleOption) (Sample, error) {
	var o sampleOptions
	for _, option := range options {
		option(&o)
	}
	if err := i.usable(); err != nil {
		return Sample{}, err
	}
	if i.several() {
		if o.cursor != "" {
			return Sample{}, errors.New("goworker: the queues of shards come in one Sample; leave SamplePage out")
		}
		o.shards = true
		return over(i, mergeSamples, func(one *Inspector) (Sample, error) { return one.sample(ctx, o) })
	}
	return i.sample(ctx, o)
}

func (i *Inspector) sample(ctx context.Context, o sampleOptions) (Sample, error) {
	settings, err := i.redis.Settings()
	if err != nil {
		return Sample{}, err
	}
	ask := resque.GlanceAsk{MultiQueue: settings.MultiQueue, Queues: o.queues, After: o.cursor, Retried: delayed.Retrying}
	if o.before != nil {
		ask.Tails = make(map[string][]byte)
		for _, q := range o.before.Queues {
			if h, ok := q.ends[i.mark()]; ok && len(h.tail) > 0 {
				ask.Tails[q.Name] = h.tail
			}
		}
	}
	var namespace string
	g, err := query(ctx, i, func(s resque.Store, c redis.Conn) (resque.Glance, error) {
		namespace = s.Namespace()
		takers := leases.New(s)
		ask.Takers, ask.Taker, ask.Retrying = takers.TakersKey(), takers.TakerKey, delayed.New(s).AskRetrying
		return s.Glance(c, ask)
	})
	if err != nil {
		return Sample{}, err
	}
	t := &taken{g: &g, shard: i.mark(), o: o}
	if o.shards {
		t.name = i.name()
	}
	t.out.Namespace = namespace
	t.server(settings)
	t.totals()
	t.fleet()
	t.queues()
	return t.out, nil
}

// taken is a Sample while it is made of what Redis said.
type taken struct {
	g     *resque.Glance
	o     sampleOptions
	shard string // its mark
	name  string // of the shard, "" for one Redis
	out   Sample
}

func countOf(n resque.Number) Count {
	if !n.OK {
		return Count{}
	}
	return exactly(n.N)
}

// all is a count that is exact if everything was looked at, and else the least.
func (c Count) all(whole bool) Count {
	if !whole && c.Bound == Exact {
		c.Bound = AtLeast
	}
	return c
}

func (t *taken) server(settings access.Settings) {
	info := t.g.Info
	number := func(name string) int64 { n, _ := strconv.ParseInt(info[name], 10, 64); return n }
	server := SampleServer{
		Name: settings.Server, Version: info["redis_version"], Role: info["role"], Policy: info["maxmemory_policy"],
		Memory: number("used_memory"), MaxMemory: number("maxmemory"), Clients: number("connected_clients"), RoundTrip: t.g.Took,
	}
	if info["aof_enabled"] == "1" {
		server.Persistence = "aof"
	}
	t.out.Servers = []SampleServer{server}
	t.out.Refused = t.g.Refused
}

func (t *taken) totals() {
	g, s := t.g, &t.out
	s.At = g.At
	s.Processed, s.Failed, s.Failures, s.Leased = countOf(g.Processed), countOf(g.Failed), countOf(g.Failures).all(g.FailuresAll), countOf(g.Leased)
	plain := countOf(g.Plain).all(g.PlainAll)
	if !g.Seconds.OK {
		plain = Count{}
	}
	if !g.PlainAll && g.Seconds.OK { // each second that was not looked at has a job
		plain.N += max(0, g.Seconds.N-resque.GlanceSeconds)
	}
	s.Delayed = countOf(g.Own).plus(plain)
	s.Retrying = countOf(g.Retrying).all(g.RetryingAll)
	if g.Own.OK || g.Seconds.OK {
		s.Late = Age{Method: AgeExact}
		if late := g.At.Sub(g.First); !g.First.IsZero() && late > 0 {
			s.Late.For = late
		}
	}
	s.PausedAll = g.PausedAll
	s.QueueCount = exactly(int64(len(g.QueueNames)))
}

// queues reads the queues.
func (t *taken) queues() {
	served := t.served()
	sum := exactly(0)
	for _, q := range t.g.Queues {
		out := SampleQueue{Name: q.Name, Shard: t.name, Waiting: countOf(q.Length), InLanes: exactly(0), Paused: t.g.Paused[q.Name]}
		var lanes []Age
		for _, l := range q.Lanes {
			out.InLanes.N += l.Jobs
			if l.Jobs > 0 {
				lanes = append(lanes, t.ageInLane(l))
			}
		}
		out.InLanes = out.InLanes.all(t.g.SortedAll)
		if out.Waiting = out.Waiting.plus(out.InLanes); !q.Length.OK && out.InLanes.N == 0 {
			out.Waiting = Count{}
		}
		out.Oldest, out.ends = t.oldest(q)
		for _, a := range lanes {
			out.Oldest = older(out.Oldest, a, q.Length.N == 0)
		}
		if d, ok := t.g.Depths[q.Name]; ok && t.fresh(d) {
			out.Counted, out.Pushed, out.Taken = d.Method == resque.AgeCounted, d.Pushed, d.Pushed-d.Length
			out.rates = &depthRates{d.In, d.Out}
		}
		served.of(&out)
		sum = sum.plus(out.Waiting)
		t.out.Queues = append(t.out.Queues, out)
	}
	if n := len(t.g.Queues); t.o.queues == nil && n == resque.GlanceQueues && t.g.Queues[n-1].Name < t.g.QueueNames[len(t.g.QueueNames)-1] {
		t.out.NextQueues = t.g.Queues[n-1].Name
		sum = sum.all(false)
	}
	t.out.Waiting = sum
}

// depthsCount is how long what the keeper found out of a queue counts. It writes the record of a queue once a minute at least.
const depthsCount = 3 * time.Minute

// keeperLooks is how often the keeper looks at the queues.
const keeperLooks = 2 * time.Second

func (t *taken) fresh(d resque.Depth) bool { return t.g.At.Sub(d.At) < depthsCount }

// busy adds what processes say of themselves where not all workers were looked at.
func (t *taken) busy(whole bool) {
	w := &t.out.Workers
	if w.Busy.Bound != AtLeast {
		return
	}
	var said int64
	for _, p := range t.out.Processes {
		whole = whole && p.Busy.Bound == Exact
		if p.Busy.Bound == Exact {
			said += p.Busy.N
		}
	}
	w.Busy.N = max(w.Busy.N, said)
	if whole && w.Other == exactly(0) {
		w.Busy.Bound = Exact
	}
}

// oldest is the age of the job at the head of a queue, and what the next Sample needs for it.
func (t *taken) oldest(q resque.GlanceQueue) (Age, map[string]endsOf) {
	if !q.Length.OK {
		return Age{}, nil
	}
	ends := endsOf{length: q.Length.N, tail: q.Tail, pushed: -1}
	if before := t.before(q.Name); before != nil {
		ends.pushed = pushedSince(*before, q)
	}
	if q.Length.N == 0 {
		return Age{}, map[string]endsOf{t.shard: ends}
	}
	ends.head, ends.since = q.Digest+string(q.Head), t.g.At
	// A queue that is shorter has lost its head, and what is there now may be equal to it.
	if before := t.before(q.Name); before != nil && before.head == ends.head && before.length <= ends.length && !before.since.IsZero() {
		ends.since = before.since
	}
	all := map[string]endsOf{t.shard: ends}
	if at, ok := enqueued(q.Head); ok && !at.After(t.g.At) {
		return Age{t.g.At.Sub(at), AgeExact}, all
	}
	if d, ok := t.g.Depths[q.Name]; ok && t.fresh(d) {
		switch {
		case d.Method == resque.AgeCounted && d.Length == 0: // it came since the keeper looked
			return Age{min(max(0, t.g.At.Sub(d.At)), keeperLooks), AgeCounted}, all
		case d.Method == resque.AgeCounted && !d.Oldest.IsZero():
			return Age{max(0, t.g.At.Sub(d.Oldest)), AgeCounted}, all
		case d.Method == resque.AgeSeen && !d.Oldest.IsZero():
			return Age{max(0, t.g.At.Sub(d.Oldest)), AgeSeen}, all
		}
	}
	if seen := t.g.At.Sub(ends.since); seen > 0 {
		return Age{seen, AgeSeen}, all
	}
	return Age{}, all
}

// before is what the Sample before saw of a queue here.
func (t *taken) before(queue string) *endsOf {
	if t.o.before == nil {
		return nil
	}
	at, ok := slices.BinarySearchFunc(t.o.before.Queues, queue, func(q SampleQueue, name string) int { return cmp.Compare(q.Name, name) })
	if !ok {
		return nil
	}
	ends, ok := t.o.before.Queues[at].ends[t.shard]
	if !ok {
		return nil
	}
	return &ends
}

// enqueued is when the job says that it came.
func enqueued(raw []byte) (time.Time, bool) {
	if raw == nil {
		return time.Time{}, false
	}
	p, err := payload.Parse(raw)
	if err != nil {
		return time.Time{}, false
	}
	return stamp.EnqueuedAt(&p)
}

// ageInLane is how long the head of a lane has waited: since the lane's turn came, if it does not say more.
func (t *taken) ageInLane(l resque.GlanceLane) Age {
	if at, ok := enqueued(l.Head); ok && !at.After(t.g.At) {
		return Age{t.g.At.Sub(at), AgeExact}
	}
	if since := t.g.At.Sub(l.Turn); since > 0 && l.Turn.UnixMicro() > 0 {
		return Age{since, AgeSeen}
	}
	return Age{}
}

// older is the age of the oldest of jobs in two places. alone says that there is nothing in the first one.
func older(a, b Age, alone bool) Age {
	switch {
	case alone:
		return b
	case !b.Known() || a.Known() && a.For >= b.For && a.Method != AgeSeen:
		if a.Method == AgeExact && !b.Known() {
			a.Method = AgeSeen
		}
		return a
	case !a.Known():
		b.Method = AgeSeen
		return b
	case b.For > a.For:
		return b
	default:
		return a
	}
}

// fleet reads workers, processes and servers.
func (t *taken) fleet() {
	g, s := t.g, &t.out
	var workers int64
	whole := g.ProcessCount.OK && int64(len(g.Processes)) >= g.ProcessCount.N
	for _, p := range g.Processes {
		info := processInfo(p, g.At)
		info.Shard = t.name
		busy := Count{min(p.Jobs, int64(p.Concurrency)), AtMost}
		if info.Vitals.Workers > 0 {
			busy = exactly(int64(info.Vitals.Busy))
		}
		s.Processes = append(s.Processes, SampleProcess{ProcessInfo: info, Busy: busy})
		s.Stuck = append(s.Stuck, info.Stuck...)
		workers += int64(p.Concurrency)
	}
	slices.SortFunc(s.Processes, func(a, b SampleProcess) int { return cmp.Compare(a.ID, b.ID) })
	all := countOf(g.Workers)
	s.Workers = SampleWorkers{All: all, Go: Count{}, Busy: countOf(g.Busy).all(g.WorkersAll), Looked: int64(len(g.WorkerIDs) - len(g.Silent))}
	if g.Silent != nil {
		s.Workers.Dead = exactly(int64(len(g.Silent))).all(g.WorkersAll)
	}
	if g.ProcessCount.OK {
		s.Workers.Go = exactly(workers).all(whole)
		if all.Known() {
			s.Workers.Other = Count{max(0, all.N-workers), Exact}
			if !whole {
				s.Workers.Other.Bound = AtMost
			}
		}
	}
	t.busy(whole)
	for id, record := range g.Takers {
		taker := SampleTaker{ID: id, Host: record["host"], Version: record["version"], Address: record["address"], Shard: t.name}
		taker.PID, _ = strconv.Atoi(record["pid"])
		taker.Waiting, _ = strconv.Atoi(record["waiting"])
		if ms, err := strconv.ParseInt(record["started"], 10, 64); err == nil {
			taker.Since = time.UnixMilli(ms)
		}
		if record["queues"] != "" {
			taker.Queues = strings.Split(record["queues"], "\n")
		}
		s.Servings = append(s.Servings, taker)
	}
	slices.SortFunc(s.Servings, func(a, b SampleTaker) int { return cmp.Compare(a.ID, b.ID) })
}
