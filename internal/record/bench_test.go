package record

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/goworker/goworker/internal/clock"
	"github.com/goworker/goworker/internal/outcome"
	"github.com/goworker/goworker/internal/payload"
	"github.com/goworker/goworker/internal/redistest"
	"github.com/goworker/goworker/internal/resque"
	"github.com/goworker/goworker/internal/resque/history"
	"github.com/goworker/goworker/internal/stamp"
)

// What a job costs that is counted.
func BenchmarkEnded(b *testing.B) {
	for _, classes := range []int{1, 20} {
		b.Run(fmt.Sprint(classes, " classes"), func(b *testing.B) {
			r := newRecorder(base(clock.System, ""), Config{Now: time.Now, Workers: 25})
			jobs := make([]*outcome.Job, classes)
			for n := range jobs {
				jobs[n] = &outcome.Job{Class: &outcome.Class{Name: fmt.Sprint("Class", n)}}
				jobs[n].Queue = fmt.Sprint("queue", n)
			}
			o := &outcome.Outcome{Started: true, Ran: 3 * time.Millisecond, Counts: resque.CountsDone}
			for _, j := range jobs { // the first job of each makes its counters
				r.Ended(j, o)
			}
			b.ReportAllocs()
			b.ResetTimer()
			for n := range b.N {
				r.Ended(jobs[n%classes], o)
			}
		})
	}
}

// A job that is counted allocates nothing.
func TestCountingAllocatesNothing(t *testing.T) {
	r := newRecorder(base(clock.System, ""), Config{Now: time.Now, Workers: 25})
	j := &outcome.Job{Class: &outcome.Class{Name: "Mail"}}
	j.Queue = "mail"
	o := &outcome.Outcome{Started: true, Ran: 3 * time.Millisecond, Counts: resque.CountsDone}
	r.Ended(j, o)
	if n := testing.AllocsPerRun(1000, func() { r.Ended(j, o) }); n != 0 {
		t.Errorf("a job allocates %v times", n)
	}
}

// work counts jobs of so many classes from so many queues, whose payloads say how long they waited.
func work(rng *rand.Rand, r *Recorder, m *moment, jobs, classes, queues int) {
	for range jobs {
		n := rng.IntN(classes)
		each := float64(time.Duration(n+1) * 20 * time.Millisecond)
		j := &outcome.Job{Slot: rng.IntN(25), Class: &outcome.Class{Name: fmt.Sprint("SomeLonger::ClassName", n)}, StartedAt: m.at}
		j.Queue = fmt.Sprint("queue-", rng.IntN(queues))
		pushed := stamp.Of(m.at.Add(-time.Duration(rng.ExpFloat64() * each)))
		j.Parsed.Extra = []payload.Extra{{Name: []byte(pushed.Name), Value: pushed.Value}}
		r.Ended(j, &outcome.Outcome{State: outcome.Done, Started: true, Ran: time.Duration(rng.ExpFloat64() * each), Counts: resque.CountsDone})
	}
}

// packed has a recorder pack what it has counted.
func packed(r *Recorder, m *moment) (all [][]byte) {
	r.Pack(m.at, true)
	all = r.Packs()
	r.Pushed(len(all))
	return all
}

// spent returns the microseconds of Redis in the commands of a renewal and of a fold. Those that scripts call are within
// the scripts.
func spent(b *testing.B, server *redistest.Server) (sum float64) {
	b.Helper()
	for _, of := range regexp.MustCompile(`cmdstat_(?:evalsha|mget):calls=\d+,usec=(\d+)`).FindAllStringSubmatch(server.Text(b, "INFO", "commandstats"), -1) {
		us, err := strconv.ParseFloat(of[1], 64)
		if err != nil {
			b.Fatal(err)
		}
		sum += us
	}
	return sum
}

// middle is the median.
func middle(all []float64) float64 {
	slices.Sort(all)
	return all[len(all)/2]
}

// What Redis spends on a renewal of a lease that carries nothing, on one with the pack of an idle process, on one with the pack of
// a process that ran jobs of twenty classes, and on a fold of a hundred of the latter, which the keeper does each ten seconds. They are
// measured by turns. The metric of each is the median of all turns.
func BenchmarkRenewal(b *testing.B) {
	const processes, classes, renewals = 100, 20, 50
	server := redistest.Start(b)
	m := &moment{at: time.Now()}
	rng := rand.New(rand.NewPCG(1, 2))
	config := Config{Now: m.Now, Workers: 25}
	on := base(m, "")
	store, k, c := history.New(on.Store), newKeeper(on, config), server.Dial(b)
	process := resque.Process{ID: "host:1:a", Host: "host", PID: 1, Concurrency: 25, IDHead: "host:1-a-", IDQueues: "*"}
	if err := on.Store.Enter(c, process, time.Hour, m.at); err != nil {
		b.Fatal(err)
	}
	idle, busy := newRecorder(on, config), make([]*Recorder, processes)
	for n := range busy {
		busy[n] = newRecorder(on, config)
	}
	number := int64(0)
	renew := func(packs [][]byte) float64 {
		server.Do(b, "DEL", store.TallyKey().String())
		before := spent(b, server)
		for range renewals {
			number++
			cargo := &resque.Cargo{Number: number}
			if packs != nil {
				store.Push(cargo, packs, func(err error) {
					if err != nil {
						b.Fatal(err)
					}
				}, func(bool) {})
			}
			if _, err := on.Store.Renew(c, process.ID, time.Hour, time.Hour, cargo); err != nil {
				b.Fatal(err)
			}
		}
		return (spent(b, server) - before) / renewals
	}
	took := make(map[string][]float64)
	add := func(of string, us float64) { took[of] = append(took[of], us) }
	bytes, all := 0, 0
	for range b.N {
		m.at = m.at.Add(packEvery)
		idle.Look()
		add("redis-µs/renewal", renew(nil))
		add("redis-µs/idle", renew(packed(idle, m)))
		var packs [][]byte
		for _, r := range busy {
			r.Look()
			work(rng, r, m, 500, classes, classes)
			packs = append(packs, packed(r, m)...)
		}
		add("redis-µs/20-classes", renew(packs[:1]))
		server.Do(b, "DEL", store.TallyKey().String())
		for _, p := range packs {
			server.Do(b, "RPUSH", store.TallyKey().String(), p)
			bytes, all = bytes+len(p), all+1
		}
		before, begun := spent(b, server), time.Now()
		more, err := k.Fold(c)
		if err != nil || more {
			b.Fatalf("folded, and packs wait: %v, %v", more, err)
		}
		add("keeper-µs/fold", float64(time.Since(begun))/float64(time.Microsecond))
		add("redis-µs/fold", spent(b, server)-before)
	}
	for of, us := range took {
		b.ReportMetric(middle(us), of)
	}
	b.ReportMetric(float64(bytes)/float64(all), "B/pack")
}

// How much memory of Redis the whole history takes, with fifty classes and fifty queues of which each row has some jobs, and whose
// payloads say how long they waited.
func BenchmarkRows(b *testing.B) {
	server := redistest.Start(b)
	m := &moment{at: time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)}
	rng := rand.New(rand.NewPCG(1, 2))
	on := base(m, "")
	memory := func() float64 {
		for line := range strings.Lines(server.Text(b, "INFO", "memory")) {
			if text, ok := strings.CutPrefix(strings.TrimSpace(line), "used_memory:"); ok {
				n, err := strconv.ParseFloat(text, 64)
				if err != nil {
					b.Fatal(err)
				}
				return n
			}
		}
		b.Fatal("Redis does not say how much memory it uses")
		return 0
	}
	var values, used float64
	for range b.N {
		server.Do(b, "FLUSHALL")
		before := memory()
		values = 0
		for n, span := range history.Spans {
			r := newRecorder(on, Config{Now: m.Now, Workers: 25})
			r.Look()
			work(rng, r, m, min(int(span.Long/time.Second)*10, 50_000), 50, 50)
			var row history.Row
			for _, raw := range packed(r, m) {
				p, err := history.DecodePack(raw)
				if err != nil {
					b.Fatal(err)
				}
				row.Add(&p.Row)
			}
			raw := row.Encode(nil)
			for i := range int64(span.Kept / span.Long) {
				server.Do(b, "SET", history.Place{Span: n, Number: i}.Key(history.New(on.Store)).String(), raw, "EX", 100_000)
				values += float64(len(raw))
			}
		}
		used = memory() - before
	}
	b.ReportMetric(values, "B/values")
	b.ReportMetric(used, "B/redis")
}
