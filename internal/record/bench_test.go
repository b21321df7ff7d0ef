package record

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/goworker/goworker/internal/clock"
	"github.com/goworker/goworker/internal/outcome"
	"github.com/goworker/goworker/internal/redistest"
	"github.com/goworker/goworker/internal/resque"
	"github.com/goworker/goworker/internal/resque/history"
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
			r.Ended(jobs[0], o)
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

// packs returns the packs of processes that ran jobs of so many classes from so many queues for ten seconds.
func packs(rng *rand.Rand, m *moment, processes, classes, queues int) (all [][]byte) {
	for range processes {
		r := newRecorder(base(m, ""), Config{Now: m.Now, Workers: 25})
		for range 500 {
			n := rng.IntN(classes)
			finish(r, rng.IntN(25), &outcome.Class{Name: fmt.Sprint("SomeLonger::ClassName", n)}, fmt.Sprint("queue-", rng.IntN(queues)), outcome.Done, time.Duration(rng.ExpFloat64()*float64(time.Duration(n+1)*20*time.Millisecond)))
		}
		r.Pack(m.at, true)
		for _, p := range r.packs {
			all = append(all, p.raw)
		}
	}
	return all
}

// What the keeper does each ten seconds for a hundred processes with twenty classes.
func BenchmarkFold(b *testing.B) {
	server := redistest.Start(b)
	m := &moment{at: time.Now()}
	rng := rand.New(rand.NewPCG(1, 2))
	k := newKeeper(base(m, ""), Config{Now: m.Now})
	c := server.Dial(b)
	bytes, folded := 0, 0
	for range b.N {
		b.StopTimer()
		for _, p := range packs(rng, m, 100, 20, 20) {
			server.Do(b, "RPUSH", "resque:go:tally", p)
			bytes += len(p)
			folded++
		}
		m.at = m.at.Add(packEvery)
		b.StartTimer()
		for more := true; more; {
			var err error
			if more, err = k.Fold(c); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.ReportMetric(float64(bytes)/float64(folded), "B/pack")
}

// How many bytes all rows of the history take that are kept, with fifty classes and fifty queues.
func BenchmarkRows(b *testing.B) {
	m := &moment{at: time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)}
	rng := rand.New(rand.NewPCG(1, 2))
	var total int
	for range b.N {
		total = 0
		for n, span := range history.Spans {
			var row history.Row
			for _, raw := range packs(rng, m, 1+int(span.Long/time.Minute)%1440/10*4+4*n, 50, 50) {
				p, err := history.DecodePack(raw)
				if err != nil {
					b.Fatal(err)
				}
				row.Add(&p.Row)
			}
			total += len(row.Encode(nil)) * int(span.Kept/span.Long)
		}
	}
	b.ReportMetric(float64(total)/(1<<20), "MiB")
}
