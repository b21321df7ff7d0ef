package drain

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/clock"
	"github.com/goworker/goworker/internal/resque"
)

// mailed is the queue mail after a drain of everything: the jobs of the dead, in front of them the
// lanes in the order of their turns, behind them what was due and what was kept.
func mailed() []string {
	all := jobsOf("I2 A1 A2 A3 B1")
	all = append(all, job("B2", `"id":"b2"`))
	all = append(all, jobsOf("O1 I1 Q1 Q2")...)
	return append(all, job("S0", `"id":"s0"`), job("K1"))
}

// everyJobOnce checks where the jobs of everything are after a drain.
func (b *bundle) everyJobOnce(second string) {
	b.Helper()
	b.same("queue mail", mailed(), b.list("resque:queue:mail"))
	b.same("queue work", jobsOf("W0 W1 W2 W3 W4 W5 W6 W7 X1"), b.list("resque:queue:work"))
	b.same("queues", []string{"mail", "work"}, sortedList(b.server.List(b, "SMEMBERS", "resque:queues")))
	b.same("resque-scheduler's second", []string{`{"class":"S1","args":[1],"queue":"mail"}`, `{"class":"S2","args":[1],"queue":"mail"}`},
		sortedList(b.list("resque:delayed:"+second)))
	b.same("where Ruby finds a delayed job", []string{"delayed:" + second},
		b.server.List(b, "SMEMBERS", `resque:timestamps:{"class":"S1","args":[1],"queue":"mail"}`))
	b.same("seconds", 2, b.server.Int(b, "ZCARD", "resque:delayed_queue_schedule"))
	b.same("score of a second", second, b.server.Text(b, "ZSCORE", "resque:delayed_queue_schedule", second))
	var own []string
	for _, k := range b.server.Keys(b) {
		if strings.HasPrefix(k, "resque:go:") {
			own = append(own, k)
		}
	}
	b.same("what is left of goworker", []string{"resque:go:reaped:web:7:dead", "resque:go:reaped:web:8:orphan", "resque:go:stats"}, own)
	b.same("workers", 0, b.server.Int(b, "SCARD", "resque:workers"))
	b.same("the schedulers' lock", 0, b.server.Int(b, "EXISTS", "resque:resque:resque_scheduler_master_lock"))
}

func sortedList(list []string) []string { slices.Sort(list); return list }

// Jobs in every state are in a key that Ruby reads afterwards, each once, and the report counts them.
func TestDrain(t *testing.T) {
	t.Parallel()
	b := setup(t)
	second := b.everything()
	before := b.everywhere()
	report := b.drain()
	b.everyJobOnce(second)
	b.same("all jobs", before, b.everywhere())
	want := Report{
		Dead: []string{"web:7:dead", "web:8:orphan"}, Requeued: 4, Lanes: 14, Delayed: 3, Queued: 1, Kept: 1, Locks: 2, Removed: 7,
		Dropped: map[string]int{"attempt": 1, "id": 2, "unique": 1, "expires_at": 1}, Ignored: map[string]int{"id": 2},
		Notes: []string{
			"resque-scheduler moves delayed jobs: start one, or drain with DrainNow where there is none",
			"the recurring schedule nightly is in a program of goworker only: write it into resque-scheduler's file",
			"the limit c:Report (1) holds for no Ruby worker",
		},
	}
	b.same("report", want, report)
	b.same("the second drain", Report{Dropped: map[string]int{}, Ignored: map[string]int{}}, b.drain())
	b.everyJobOnce(second)
}

// A dry run writes nothing and reports what a drain would do.
func TestDryRun(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.everything()
	before := b.server.Dump(t, "")
	report := b.drain(func(c *Config) { c.DryRun = true })
	b.same("keys", before, b.server.Dump(t, ""))
	// The jobs of the dead that are from lanes are still with the dead.
	b.same("counts", []int{4, 12, 3, 1, 1, 2}, []int{report.Requeued, report.Lanes, report.Delayed, report.Queued, report.Kept, report.Locks})
	b.same("fields", map[string]int{"attempt": 1, "id": 2, "unique": 1, "expires_at": 1}, report.Dropped)
}

// With Now delayed jobs keep all their fields, and wait for no scheduler.
func TestNow(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.later("mail", job("Second", `"attempt":2`), 2*time.Hour)
	b.later("mail", job("First", `"id":"x"`), time.Hour)
	report := b.drain(func(c *Config) { c.Now = true })
	b.same("queue", []string{job("First", `"id":"x"`), job("Second", `"attempt":2`)}, b.list("resque:queue:mail"))
	b.same("counts", []int{2, 0}, []int{report.Queued, report.Delayed})
	b.same("keys", []string{"resque:queue:mail", "resque:queues"}, b.server.Keys(t))
	b.same("fields", map[string]int{"attempt": 1, "id": 1}, report.Ignored)
}

// More jobs than one piece has are moved in their order.
func TestPieces(t *testing.T) {
	t.Parallel()
	b := setup(t)
	const n = 2*pieceJobs + 7
	var jobs []string
	args := redis.Args{"resque:go:lane:4:work8:c:Report"}
	for i := range n {
		jobs = append(jobs, fmt.Sprintf(`{"class":"J","args":[%d]}`, i))
		args = args.Add(jobs[i])
		b.later("later", jobs[i], time.Hour)
	}
	b.lane(report, 1)
	b.do("RPUSH", args...)
	b.push("resque:queue:work", "Last")
	report := b.drain()
	b.same("queue", append(jobs, job("Last")), b.list("resque:queue:work"))
	b.same("counts", []int{n, n}, []int{report.Lanes, report.Delayed})
	moved := 0
	for _, key := range b.server.Keys(t) {
		if strings.HasPrefix(key, "resque:delayed:") {
			moved += len(b.list(key))
		}
	}
	b.same("delayed", n, moved)
}

// broken is a way to Redis that breaks at one call: before it, or so that only the answer is lost.
type broken struct {
	*bundle
	calls, at int
	after     bool
	cancel    context.CancelFunc // instead of an error
}

var errBroken = errors.New("the connection broke")

func (w *broken) Do(ctx context.Context, f func(resque.Store, redis.Conn) error) error {
	w.calls++
	if w.calls != w.at {
		return w.bundle.Do(ctx, f)
	}
	if w.cancel != nil {
		w.cancel()
		return w.bundle.Do(ctx, f)
	}
	if w.after {
		_ = w.bundle.Do(ctx, f)
	}
	return errBroken
}

// Wherever a drain ends, each job is there once, and the next drain does the rest.
func TestEndsAnywhere(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*broken, context.CancelFunc){
		"before a call":          func(*broken, context.CancelFunc) {},
		"with an answer lost":    func(w *broken, _ context.CancelFunc) { w.after = true },
		"because it was stopped": func(w *broken, cancel context.CancelFunc) { w.cancel = cancel },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			for at, ended := 1, false; !ended; at++ {
				b.do("FLUSHALL")
				second := b.everything()
				before := b.everywhere()
				ctx, cancel := context.WithCancel(t.Context())
				w := &broken{bundle: b, at: at}
				change(w, cancel)
				report, err := Run(ctx, b.config(func(c *Config) { c.Redis = w }))
				cancel()
				ended = w.calls < at
				switch {
				case ended && err != nil:
					t.Fatal(err)
				case !ended && w.cancel == nil && !errors.Is(err, errBroken):
					t.Fatalf("call %d broke, and the error is %v", at, err)
				case err != nil && report.StoppedAt == "":
					t.Errorf("the report does not say where the drain ended")
				}
				b.same(fmt.Sprintf("all jobs after call %d", at), before, b.everywhere())
				b.drain()
				b.everyJobOnce(second)
				b.same("all jobs", before, b.everywhere())
				if t.Failed() {
					t.FailNow()
				}
				if ended && at < 20 {
					t.Errorf("the drain took %d calls only", w.calls)
				}
			}
		})
	}
}

// A drain refuses while a process is alive, names it and writes nothing. It goes on when the lease is over.
func TestAlive(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.everything()
	store := resque.New("")
	p := resque.Process{ID: "web-2:811:9c1f", Host: "web-2", PID: 811, Concurrency: 1, Started: time.Now().Add(-3 * time.Hour), IDHead: "web-2.go:811-", IDQueues: "mail"}
	if err := store.Enter(b.conn, p, 8*time.Second, time.Now()); err != nil {
		t.Fatal(err)
	}
	before := b.server.Dump(t, "")
	report, err := Run(t.Context(), b.config())
	says := regexp.MustCompile(`: web-2:811 \(started 3h0m\d+s ago, its lease was renewed [\d.]+s ago\); stop them first`)
	if !errors.Is(err, ErrAlive) || !says.MatchString(err.Error()) {
		t.Errorf("the error is %v", err)
	}
	if len(report.Alive) != 1 || report.StoppedAt != "dead processes" {
		t.Errorf("the report is %+v", report)
	}
	dry, err := Run(t.Context(), b.config(func(c *Config) { c.DryRun = true }))
	if !errors.Is(err, ErrAlive) || dry.Lanes != 12 || len(dry.Alive) != 1 {
		t.Errorf("the dry run: %v, %+v", err, dry)
	}
	b.same("keys", before, b.server.Dump(t, ""))
	b.do("ZADD", "resque:go:processes", 7, p.ID)
	if r := b.drain(); r.Requeued != 4 || r.Lanes != 14 {
		t.Errorf("the report is %+v", r)
	}
}

// moment is a clock whose timers call a function when they are made and fire at once.
type moment struct {
	clock.Clock
	f func()
}

func (m moment) NewTimer(time.Duration) clock.Timer {
	m.f()
	return m.Clock.NewTimer(0)
}

// A lease may be over because Redis stood still. A process that renews it is alive.
func TestRenewedWhileWatched(t *testing.T) {
	t.Parallel()
	for name, process := range map[string]string{"lease": "web:7:dead", "record without a lease": "web:8:orphan"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.everything()
			renew := func() { b.do("ZADD", "resque:go:processes", time.Now().Add(8*time.Second).UnixMilli(), process) }
			lanes := b.server.Keys(t)
			_, err := Run(t.Context(), b.config(func(c *Config) { c.Clock = moment{clock.System, renew} }))
			if !errors.Is(err, ErrAlive) {
				t.Errorf("the error is %v", err)
			}
			b.same("keys", len(lanes), len(b.server.Keys(t)))
		})
	}
}

// starting is a way to Redis on which a process starts before one call.
type starting struct {
	*bundle
	calls, at int
	before    []string
}

func (w *starting) Do(ctx context.Context, f func(resque.Store, redis.Conn) error) error {
	if w.calls++; w.calls == w.at {
		w.do("ZADD", "resque:go:processes", time.Now().Add(8*time.Second).UnixMilli(), "new:1:x")
		w.before = w.list("resque:queue:work")
	}
	return w.bundle.Do(ctx, f)
}

// A process that starts meanwhile ends the drain before its next step.
func TestStartsMeanwhile(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for at, over := 1, false; !over; at++ {
		b.do("FLUSHALL")
		b.everything()
		before := b.everywhere()
		w := &starting{bundle: b, at: at}
		_, err := Run(t.Context(), b.config(func(c *Config) { c.Redis = w }))
		over = w.calls < at
		if !over && err == nil && w.calls > at {
			t.Errorf("a process started before call %d of %d, and the drain did not end", at, w.calls)
		}
		if err != nil && !errors.Is(err, ErrAlive) {
			t.Error(err)
		}
		b.same("all jobs", before, b.everywhere())
	}
}

// What Ruby could not read stays where it is and is listed; all else is moved.
func TestLeft(t *testing.T) {
	t.Parallel()
	b := setup(t)
	key := b.lane(report, 1, "no JSON", job("A"), `["no","job"]`, job("B"))
	bad := b.lane(acme, 1, job("C"))
	b.do("SET", "resque:queue:mail", "no list")
	b.do("RPUSH", "resque:go:kept:work", "no JSON", job("K"))
	b.do("ZADD", "resque:go:schedule", 1, "junk", 2, "4:work{", 3, "4:work"+job("D"), 4, "4:mail"+job("E"))
	b.dead("web:7:dead", 5, "4:mail"+job("F"), "junk")
	b.do("HSET", "resque:go:leased", "x", "y")
	b.do("SET", "resque:go:later:1", "of a later version")
	b.do("SADD", "resque:go:paused", "mail")
	b.do("HSET", "resque:go:paused-schedules", "nightly", "x")
	b.do("ZADD", "resque:go:workflows", 1, "a", 2, "b")
	report := b.drain()
	b.same("queue", jobsOf("A B D K"), b.list("resque:queue:work"))
	b.same("lane", []string{"no JSON", `["no","job"]`}, b.list(key))
	b.same("lane of a queue that Redis refuses", jobsOf("C"), b.list(bad))
	left := make(map[string]int)
	for _, l := range report.Left {
		left[strings.TrimPrefix(l.Key, "resque:")] += l.Jobs
		if l.Why == "" {
			t.Errorf("no reason for %s", l.Key)
		}
	}
	b.same("left", map[string]int{
		strings.TrimPrefix(key, "resque:"): 2, strings.TrimPrefix(bad, "resque:"): 0, "go:kept:work": 1, "go:schedule": 3,
		"go:inflight:web:7:dead": 2, "go:leased": 1, "go:later:1": 0,
	}, left)
	notes := strings.Join(report.Notes, "\n")
	for _, want := range []string{"queue mail is paused", "schedule nightly is paused", "waiting steps of 2 workflows"} {
		if !strings.Contains(notes, want) {
			t.Errorf("no note that the %s: %s", want, notes)
		}
	}
	b.do("DEL", "resque:queue:mail")
	b.drain()
	b.same("after the repair", jobsOf("C F E"), b.list("resque:queue:mail"))
	b.same("the names of lanes that have jobs", 1, b.server.Int(t, "EXISTS", "resque:go:lanes"))
}

// A full Redis needs to be emptied, so a drain works there too.
func TestOutOfMemory(t *testing.T) {
	t.Parallel()
	b := setup(t)
	second := b.everything()
	b.do("CONFIG", "SET", "maxmemory", "1")
	b.drain()
	b.everyJobOnce(second)
}

// Each key of goworker has the fate that the table says.
func TestFates(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.everything()
	b.do("HSET", "resque:go:leased", "4:workx", job("H"))
	b.do("ZADD", "resque:go:leases", 1, "4:workx")
	b.do("SADD", "resque:go:paused", "other")
	b.do("HSET", "resque:go:paused-schedules", "nightly", "x")
	b.do("SET", "resque:go:probe:p", 1)
	b.do("SET", "resque:go:reaped:p", 1)
	b.do("HSET", "resque:go:wf:a", "state", "running")
	b.do("SET", "resque:go:wf-steps:a", "s")
	b.do("SET", "resque:go:wf-lock:a", "a")
	b.do("ZADD", "resque:go:workflows", 1, "a")
	b.do("ZADD", "resque:go:halted", 1, "a")
	b.do("HSET", "resque:go:stalled", "a", 1)
	b.do("RPUSH", "resque:go:group:4:work1:Gx", `1 1 0 id {"class":"G","args":[[`, "2 1 5")
	b.do("ZADD", "resque:go:groups", 1, "4:work1:Gx")
	b.do("LPUSH", "resque:go:audit", "{}")
	b.do("HSET", "resque:go:http:tokens", "a", "{}")
	b.do("HSET", "resque:go:rules", "pause:mail", "{}")
	for _, row := range []string{"m", "x", "h", "d"} {
		b.do("SET", "resque:go:"+row+":1", "x", "EX", 1000)
	}
	b.do("RPUSH", "resque:go:tally", "x")
	b.do("HSET", "resque:go:folded", "n", 1)
	b.do("XADD", "resque:go:log", "*", "kind", "online")
	b.do("HSET", "resque:go:result:a", "state", "done")
	b.do("ZADD", "resque:go:cancelled", 1<<52, "j:a")
	b.do("SET", "resque:go:progress:a", "{}")
	b.do("RPUSH", "resque:go:logs:a", "{}")
	b.do("HSET", "resque:go:cursor:a", "cursor", 1)
	b.do("HSET", "resque:go:operation:a", "plan", "{}")
	b.do("ZADD", "resque:go:operations", 1, "a")
	b.do("ZADD", "resque:go:operating", 1, "a")
	b.do("RPUSH", "resque:go:bin:a:4:mail", "{}")
	b.do("HSET", "resque:go:taken", "mail", 1)
	b.do("HSET", "resque:go:depths", "mail", "x")
	b.drain()
	after := b.server.Keys(t)
	for _, row := range resque.Fates {
		start, _, _ := strings.Cut(row.Key, "<")
		if !strings.HasPrefix(start, "go:") || row.Builder == "own" {
			continue
		}
		there := slices.ContainsFunc(after, func(k string) bool { return strings.HasPrefix(k, "resque:"+start) })
		if there != (row.Fate == resque.FateKept) {
			t.Errorf("%s is to be %s, and after the drain it is there: %v", row.Key, row.Fate, there)
		}
	}
}
