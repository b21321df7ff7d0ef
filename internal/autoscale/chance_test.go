package autoscale

import (
	"container/heap"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// TestFewJobsBefore has jobs that always wait, of all lengths. How long they take is known by few of them when the first trial begins,
// and with other jobs in the trial it may seem that they have become slower. Such a trial says nothing: it is made again as soon as
// more is known, and not after two minutes. Half of the processes have fifty workers after 150 seconds; without that it is after 245.
func TestFewJobsBefore(t *testing.T) {
	t.Parallel()
	after := make([]float64, 100)
	for seed := range after {
		r := rand.New(rand.NewPCG(uint64(seed), 27))
		after[seed] = grown(usual, func(int) float64 { return 3 * r.ExpFloat64() })
	}
	slices.Sort(after)
	t.Logf("a half after %.0f s, nine of ten after %.0f s", after[50], after[90])
	if after[50] > 200 || after[90] > 400 {
		t.Errorf("want a half after 200 s, nine of ten after 400 s")
	}
}

// Jobs become longer and longer, and short again: an average of fifty goes up and down.
func TestJobsInOrder(t *testing.T) {
	t.Parallel()
	b := Bounds{Min: 2, Max: 10, Age: 200 * time.Millisecond}
	took := grown(b, func(job int) float64 { return 0.005 + float64(job%101)/1000 })
	t.Logf("after %.1f s", took)
	if took > 20 {
		t.Errorf("there are ten workers after %.0f s", took)
	}
}

// grown returns how many seconds it takes until there are as many workers as the bounds allow, an hour at most. Jobs always wait, and
// took is how long one runs, in seconds, whatever the number of workers.
func grown(b Bounds, took func(job int) float64) float64 {
	every := b.Every()
	var s State
	var running runs
	workers, jobs := b.Min, 0
	for look := every; look < time.Hour; look += every {
		from, to := (look - every).Seconds(), look.Seconds()
		var done Work
		var busy float64 // seconds of workers
		begin := func(at float64) {
			heap.Push(&running, run{at, at + took(jobs)})
			jobs++
		}
		for len(running) < workers {
			begin(from)
		}
		for running[0].end <= to {
			r := heap.Pop(&running).(run)
			done = Work{done.Runs + 1, done.Time + seconds(r.end-r.start)}
			busy += r.end - max(from, r.start)
			if len(running) < workers {
				begin(r.end)
			}
		}
		for _, r := range running {
			busy += to - max(from, r.start)
		}
		var d Decision
		s, d = s.Next(b, Seen{
			At: epoch.Add(look), For: every, Workers: workers, Busy: min(float64(workers), busy/every.Seconds()), Takes: true,
			Waiting: 1000, Age: time.Hour, Work: map[string]Work{"Job": done},
		})
		if workers = d.Workers; workers == b.Max {
			return to
		}
	}
	return time.Hour.Seconds()
}

// run is a job that runs.
type run struct{ start, end float64 }

// runs are those, the one that ends first at the head.
type runs []run

func (r runs) Len() int           { return len(r) }
func (r runs) Less(i, j int) bool { return r[i].end < r[j].end }
func (r runs) Swap(i, j int)      { r[i], r[j] = r[j], r[i] }
func (r *runs) Push(x any)        { *r = append(*r, x.(run)) }
func (r *runs) Pop() any {
	last := len(*r) - 1
	x := (*r)[last]
	*r = (*r)[:last]
	return x
}
