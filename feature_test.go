package goworker_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/internal/daemontest"
	"github.com/goworker/goworker/internal/outcome"
	"github.com/goworker/goworker/internal/payload"
	"github.com/goworker/goworker/internal/redistest"
	"github.com/goworker/goworker/internal/resque"
)

// This file proves that a feature needs no other file: tally and trace stand in it alone.

// tally is a feature of all jobs. It wraps their handlers, counts their ends by class, keeps what they
// return, has some run again later, and pushes a job of another class with the end of one that is done.
type tally struct {
	mu      sync.Mutex
	wrapped []string       // the ids of the jobs whose handlers it wrapped, in the order of their ends
	running map[string]int // by id: how often a job has run for 100 ms
	seen    map[string]int // by class and state: the ends that the observer saw
	closed  int
}

// followedBy is the option of a class: a job of another class follows each of its jobs that is done.
type followedBy string

// errLater is what handlers return whose jobs are to run again in a while.
var errLater = errors.New("later")

// mark is a verb of the feature: it notes a job that came to its end, and how long its payload is.
var mark = resque.NewVerb("mark", `
function proofs.mark(job, keys, args)
  if call('HGET', keys[2], 'refuse') == args[1] then return 'MARK not this one' end
end
function verbs.mark(job, keys, args)
  call('RPUSH', keys[1], args[1] .. ' ' .. #job.bytes - args[2])
  call('HSET', keys[2], args[1], job.now > 1e12 and 'now' or 'never')
end
`)

func newTally() *tally { return &tally{running: make(map[string]int), seen: make(map[string]int)} }

// add gives a daemon the feature.
func (r *tally) add(d *goworker.Daemon) {
	goworker.AddFeature(d, r.feature)
	goworker.Observe(d, func(j *outcome.Job, o *outcome.Outcome) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.seen[field(j, o.State)]++
	})
}

func (r *tally) feature(d outcome.Deps) outcome.Feature {
	p := tallied{tally: r, deps: d}
	return outcome.Feature{
		Name: "tally",
		Open: func(*outcome.Job) outcome.Policy { return p },
		Bind: func(*outcome.Class) outcome.Policy { return p },
		Close: func() {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.closed++
		},
	}
}

type tallied struct {
	outcome.None
	*tally
	deps outcome.Deps
}

func field(j *outcome.Job, s outcome.State) string { return j.Name + " " + s.String() }

type wrapped struct{} // of the context that the handler gets

func (p tallied) Wrap(next outcome.Handler) outcome.Handler {
	return func(ctx context.Context, j *outcome.Job) error {
		j.Keep = true
		defer func() {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.tally.wrapped = append(p.tally.wrapped, j.ID)
		}()
		return next(context.WithValue(ctx, wrapped{}, "by the tally"), j)
	}
}

func (p tallied) Running(j *outcome.Job) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.running[j.ID]++
}

func (p tallied) Decide(_ context.Context, j *outcome.Job, err error) (o outcome.Outcome, decided bool) {
	if !errors.Is(err, errLater) {
		return o, false
	}
	o = outcome.Outcome{State: outcome.Snoozed, Err: err, At: p.deps.Time.Now().Add(20 * time.Millisecond)}
	o.Fields = []payload.Field{payload.TextField("step", "two")}
	return o, true
}

func (p tallied) Settle(j *outcome.Job, o *outcome.Outcome) {
	store := p.deps.Store
	o.Effects = append(o.Effects, resque.Command("HINCRBY", store.HashKey("tally:ends"), field(j, o.State), 1).Soft())
	if o.State.Over() && j.ID != "" {
		o.Effects = append(o.Effects, mark.Effect([]resque.Key{store.ListKey("tally:marks"), store.HashKey("tally:marked")}, j.ID, len(j.Payload)))
	}
	if o.Result != nil {
		o.Effects = append(o.Effects, resque.Command("HSET", store.HashKey("tally:results"), j.ID, []byte(o.Result)))
	}
	if next, ok := outcome.Get[followedBy](j.Class); ok && o.State == outcome.Done {
		o.Effects = append(o.Effects, store.PushTail(j.Queue, fmt.Appendf(nil, `{"class":%q,"args":[%q],"id":"after %[2]s"}`, next, j.ID))...)
	}
}

// sees returns how many ends of each class and state the observer saw.
func (r *tally) sees() map[string]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.seen)
}

// counted returns how many ends of each class and state a Redis has counted.
func counted(t *testing.T, s *redistest.Server) map[string]int {
	t.Helper()
	counts := make(map[string]int)
	ends, _ := s.Dump(t, "resque:go:tally:ends")["resque:go:tally:ends"].(map[string]string)
	for name, n := range ends {
		counts[name], _ = strconv.Atoi(n)
	}
	return counts
}

func total(counts map[string]int) (n int) {
	for _, one := range counts {
		n += one
	}
	return n
}

// job is a job whose id the feature knows.
func (r *tally) job(class, id string) string {
	return fmt.Sprintf(`{"class":%q,"args":[%q],"id":%[2]q}`, class, id)
}

// setupTally makes a daemon that has the feature, and classes whose jobs end in all ways.
func setupTally(t *testing.T) (*daemontest.Bundle, *tally) {
	t.Helper()
	b, r := daemontest.Setup(t), newTally()
	r.add(b.Daemon)
	r.register(b.Daemon.Register, b)
	return b, r
}

func (r *tally) register(register func(string, any, ...goworker.Option), b *daemontest.Bundle) {
	follows := goworker.ClassOption(followedBy("After"))
	once := func(err error) func(context.Context, string) (string, error) {
		return func(ctx context.Context, id string) (string, error) {
			b.Runs.Start(id)
			if b.Runs.Starts(id) == 1 {
				return "", err
			}
			return id + " again", nil
		}
	}
	register("Good", func(ctx context.Context, id string) (any, error) {
		return map[string]any{"id": id, "wrapped": ctx.Value(wrapped{})}, nil
	}, follows)
	register("After", func(id string) {})
	register("Again", once(daemontest.ErrNoLuck), goworker.Retry(1, goworker.Delays{0}), follows)
	register("Later", func(ctx context.Context, id string) (string, error) {
		d := goworker.FromContext(ctx)
		if _, step, ok := strings.Cut(string(d.Raw()), `"step":"`); ok {
			return fmt.Sprintf("step %s, attempt %d", step[:3], d.Attempt), nil
		}
		return "", errLater
	})
	register("Limited", func(id string) (string, error) { return "limited", nil }, goworker.MaxRunning(1), follows)
	register("Instead", func(id string) (string, error) { return "never", nil }, goworker.OnExpired(func(_ context.Context, d *goworker.Delivery) error { d.Result = "instead"; return nil }))
	register("Exit", func(id string) { runtime.Goexit() })
	register("Slow", func(ctx context.Context, id string) {
		for range 600 {
			r.mu.Lock()
			n := r.running[id]
			r.mu.Unlock()
			if n > 0 {
				return
			}
			time.Sleep(10 * time.Millisecond)
		}
	})
	register("Drop", func(id string) error { return goworker.Discard(daemontest.ErrNoLuck) })
}

// The feature works however jobs end here.
func TestFeature(t *testing.T) {
	t.Parallel()
	b, r := setupTally(t)
	past := fmt.Sprintf(`,"expires_at":%d}`, time.Now().Add(-time.Hour).UnixMilli())
	expired := func(job string) string { return strings.TrimSuffix(job, "}") + past }
	b.Push(
		r.job("Good", "g1"), r.job("Good", "g2"), r.job("Fail", "f"), r.job("Again", "a"), r.job("Later", "l"), r.job("Drop", "d"),
		r.job("Exit", "e"), r.job("Slow", "s"), r.job("Nobody", "n"), expired(r.job("Good", "x")), expired(r.job("Instead", "i")), "no job",
	)
	b.PushTo("limited", r.job("Limited", "c"))
	b.Settings.QueuesString = "limited,work"
	b.Daemon.SetSettings(b.Settings)
	want := map[string]int{
		"Good done": 2, "After done": 4, "Fail failed": 1, "Again retried": 1, "Again done": 1, "Later snoozed": 1, "Later done": 1,
		"Drop discarded": 1, "Exit failed": 1, "Slow done": 1, "Nobody failed": 1, "Good expired": 1, "Instead done": 1, " failed": 1,
		"Limited returned": 1, "Limited done": 1, // it is found in its queue, and goes into a lane
	}
	b.Start()
	b.Eventually("all have ended", func() bool { return total(counted(t, b.Redis)) >= total(want) })
	if err := b.Stop(); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, counted(t, b.Redis)); diff != "" {
		t.Errorf("counted (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(want, r.sees()); diff != "" {
		t.Errorf("observed (-want +got):\n%s", diff)
	}
	results := map[string]string{
		"g1": `{"id":"g1","wrapped":"by the tally"}`, "g2": `{"id":"g2","wrapped":"by the tally"}`, "a": `"a again"`, "l": `"step two, attempt 1"`,
		"c": `"limited"`, "i": `"instead"`, "s": "null", "after g1": "null", "after g2": "null", "after a": "null", "after c": "null",
	}
	if diff := cmp.Diff(any(results), b.Redis.Dump(t, "resque:go:tally:results")["resque:go:tally:results"]); diff != "" {
		t.Errorf("results (-want +got):\n%s", diff)
	}
	marked := map[string]bool{"f": true, "d": true, "e": true, "n": true, "x": true}
	for id := range results {
		marked[id] = true
	}
	for _, text := range b.Redis.List(t, "LRANGE", "resque:go:tally:marks", 0, -1) {
		i := strings.LastIndexByte(text, ' ')
		id, prefix := text[:i], text[i+1:]
		if !marked[id] || !strings.HasSuffix(id, "c") && prefix != strconv.Itoa(len("4:work")) {
			t.Errorf("the verb noted %q", text)
		}
		delete(marked, id)
	}
	if len(marked) > 0 {
		t.Errorf("the verb did not note %v", marked)
	}
	slices.Sort(r.wrapped)
	if wraps := strings.Join(r.wrapped, ","); wraps != "a,a,after a,after c,after g1,after g2,c,d,e,f,g1,g2,i,l,l,s" {
		t.Errorf("it wrapped the handlers of %s", wraps)
	}
	if r.running["s"] != 1 || r.closed != 1 {
		t.Errorf("after 100 ms it was called %v times, and closed %d times", r.running, r.closed)
	}
}

// A reaper that does not know the class ends the jobs of a dead process with the feature's effects.
func TestFeatureOfDeadProcess(t *testing.T) {
	t.Parallel()
	b, r := setupTally(t)
	dead := b.Died(true)
	poison, good, waited := r.job("Nobody", "p"), r.job("Good", "g"), r.job("Good", "w")
	now := time.Now()
	for i, job := range []string{poison, good, waited} {
		b.Redis.Do(t, "HSET", "resque:go:inflight:"+dead.ID, i+1, "4:work"+job)
	}
	b.Redis.Do(t, "HSET", "resque:go:process:"+dead.ID, "handed", "2 *1") // up to ticket 2, the first on trial
	b.Redis.Do(t, "HSET", "resque:go:recovered", resque.Digest([]byte(poison)), fmt.Sprintf("8 %d other 7 0", now.UnixMilli()))
	want := map[string]int{"Nobody failed": 1, "Good returned": 1, " returned": 1, "Good done": 2, "After done": 2}
	b.Start()
	b.Eventually("what observes has started", func() bool { return b.Log.Count("part=observer") > 0 })
	b.Redis.Do(t, "ZADD", "resque:go:processes", -now.Add(-time.Minute).UnixMilli(), dead.ID) // its reaper died as well
	b.Eventually("all have ended", func() bool { return total(counted(t, b.Redis)) >= total(want) })
	if err := b.Stop(); err != nil {
		t.Fatal(err)
	}
	// What was not with a worker goes back unread.
	if diff := cmp.Diff(want, counted(t, b.Redis)); diff != "" {
		t.Errorf("counted (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(want, r.sees()); diff != "" {
		t.Errorf("observed (-want +got):\n%s", diff)
	}
	if f := b.Failures(); len(f) != 1 || f[0].Exception != "Resque::DirtyExit" || string(f[0].Payload) != poison {
		t.Errorf("failures %+v", f)
	}
	if marks := b.Redis.List(t, "LRANGE", "resque:go:tally:marks", 0, 0); !slices.Equal(marks, []string{"p 6"}) {
		t.Errorf("the verb noted %q", marks)
	}
}

// The daemons of shards have the feature each for its own Redis.
func TestFeatureOfShards(t *testing.T) {
	t.Parallel()
	f := setupShards(t, 2)
	var tallies []*tally
	for _, d := range f.shards.Daemons() {
		r := newTally()
		r.add(d)
		tallies = append(tallies, r)
	}
	tallies[0].register(f.shards.Register, f.Bundle)
	for i := range f.servers {
		for _, class := range []string{"Good", "Again", "Limited", "Fail"} {
			for n := range i + 1 {
				f.servers[i].Do(t, "RPUSH", fmt.Sprint("resque:queue:work", i), tallies[i].job(class, fmt.Sprint(class, i, n)))
			}
		}
	}
	f.run()
	want := []map[string]int{
		{"Good done": 1, "Again retried": 1, "Again done": 1, "Limited done": 1, "Fail failed": 1, "After done": 3},
		{"Good done": 2, "Again retried": 2, "Again done": 2, "Limited done": 2, "Fail failed": 2, "After done": 6},
	}
	for i, server := range f.servers {
		f.Eventually("all have ended", func() bool {
			got := counted(t, server)
			maps.DeleteFunc(got, func(name string, _ int) bool { return strings.HasSuffix(name, " returned") }) // into lanes
			return cmp.Equal(want[i], got)
		})
		if diff := cmp.Diff(counted(t, server), tallies[i].sees()); diff != "" {
			t.Errorf("shard %d: observed (-want +got):\n%s", i, diff)
		}
	}
}

// A soft effect that Redis refuses holds nothing up. Another one keeps the job and all of its effects,
// and nothing is written twice once Redis takes it.
func TestFeatureRefused(t *testing.T) {
	t.Parallel()
	b, r := setupTally(t)
	b.Redis.Do(t, "SET", "resque:go:tally:ends", "no hash")
	b.Start()
	b.Push(r.job("Good", "soft"))
	b.Eventually("what follows is done", func() bool { return b.Stat("processed") == 2 })
	b.Redis.Do(t, "DEL", "resque:go:tally:ends")
	b.Redis.Do(t, "SET", "resque:go:tally:results", "no hash")
	b.Redis.Do(t, "HSET", "resque:go:tally:marked", "refuse", "unmarked")
	b.Push(r.job("Good", "hard"), r.job("After", "unmarked"), r.job("Fail", "other"))
	b.Eventually("the others end", func() bool { return counted(t, b.Redis)["Fail failed"] == 1 })
	b.Eventually("it is logged", func() bool { return b.Log.Count("resque:go:tally:results") > 0 && b.Log.Count("MARK not this one") > 0 })
	if got := counted(t, b.Redis); got["Good done"]+got["After done"] > 0 || len(b.Queue("work")) > 0 || b.Stat("processed") != 3 {
		t.Errorf("counted was %v; in the queue is %q", got, b.Queue("work"))
	}
	b.Redis.Do(t, "DEL", "resque:go:tally:results")
	b.Redis.Do(t, "HDEL", "resque:go:tally:marked", "refuse")
	want := map[string]int{"Fail failed": 1, "Good done": 1, "After done": 2}
	b.Eventually("they are done", func() bool { return cmp.Equal(want, counted(t, b.Redis)) })
	if marks := b.Redis.List(t, "LRANGE", "resque:go:tally:marks", 0, -1); len(marks) != 6 || b.Stat("processed") != 6 {
		t.Errorf("the verb noted %q", marks)
	}
}

// trace is a feature that comes and goes at run time.
type trace struct {
	version atomic.Uint64
	bound   atomic.Int64 // how many policies were made
	plain   atomic.Int64 // ends that took no more than an acknowledgement

	mu    sync.Mutex
	lines []string
}

func (r *trace) feature(d outcome.Deps) outcome.Feature {
	return outcome.Feature{Name: "trace", Live: r.version.Load, Bind: func(c *outcome.Class) outcome.Policy {
		if c == nil || r.version.Load() == 0 {
			return nil
		}
		r.bound.Add(1)
		return tracedPolicy{trace: r, level: r.version.Load(), store: d.Store}
	}}
}

type tracedPolicy struct {
	outcome.None
	*trace
	level uint64
	store resque.Store
}

func (p tracedPolicy) Settle(j *outcome.Job, o *outcome.Outcome) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lines = append(p.lines, fmt.Sprintf("%s at %d", j.Name, p.level))
	o.Effects = append(o.Effects, resque.Command("HINCRBY", p.store.HashKey("trace"), j.Name, 1).Soft())
}

// taken returns what was traced since it was called last, sorted.
func (r *trace) taken() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	slices.Sort(r.lines)
	text := strings.Join(r.lines, ", ")
	r.lines = nil
	return text
}

// A live feature is seen by all classes at once while it is on, and by none while it is off: then jobs
// are as plain as ever.
func TestFeatureAtRunTime(t *testing.T) {
	t.Parallel()
	b := daemontest.Setup(t, func(s *goworker.WorkerSettings) { s.Concurrency = 1 })
	var r trace
	goworker.AddFeature(b.Daemon, r.feature)
	goworker.Observe(b.Daemon, func(_ *outcome.Job, o *outcome.Outcome) {
		if o.Plain() {
			r.plain.Add(1)
		}
	})
	b.Start()
	n := 0
	for _, step := range []struct {
		version uint64
		traced  string
		plain   int64
		bound   int64
	}{
		{0, "", 4, 0},
		{1, "Mark at 1, Mark at 1, Nap at 1, Nap at 1", 0, 2},
		{0, "", 4, 0},
		{2, "Mark at 2, Mark at 2, Nap at 2, Nap at 2", 0, 2},
		{3, "Mark at 3, Mark at 3, Nap at 3, Nap at 3", 0, 2},
		{0, "", 4, 0},
	} {
		r.version.Store(step.version)
		r.plain.Store(0)
		r.bound.Store(0)
		b.Push(daemontest.Job("Mark", "a"), daemontest.Naps(1, 0)[0], daemontest.Job("Mark", "b"), daemontest.Naps(1, 0)[0])
		n += 4
		b.Eventually("four jobs are counted", func() bool { return b.Stat("processed") == n })
		if got, plain, bound := r.taken(), r.plain.Load(), r.bound.Load(); got != step.traced || plain != step.plain || bound != step.bound {
			t.Errorf("at version %d %q was traced, %d were plain, %d policies were made", step.version, got, plain, bound)
		}
	}
	if got := b.Redis.Dump(t, "resque:go:trace")["resque:go:trace"]; !cmp.Equal(got, any(map[string]string{"Mark": "6", "Nap": "6"})) {
		t.Errorf("Redis counted %v", got)
	}
}
