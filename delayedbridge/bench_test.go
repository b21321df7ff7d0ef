package delayedbridge

import (
	"testing"

	"github.com/goworker/goworker/internal/args"
	"github.com/goworker/goworker/internal/neighbor"
	"github.com/goworker/goworker/internal/redistest"
	"github.com/goworker/goworker/internal/resque"
	"github.com/goworker/goworker/internal/resque/delayedwire"
)

// BenchmarkJob makes a job of a task with two structs.
func BenchmarkJob(b *testing.B) {
	s := signatures()[5] // of func(*fuzzed)
	s.Params = append(s.Params, s.Params[0])
	of := &bridge{Neighbor: neighbor.Neighbor{Signature: func(string) (args.Signature, bool) { return s, true }}}
	task := GoTask("github.com/acme/app/mail.Send", fuzzed{A: 1, B: "text"}, fuzzed{A: 2, B: "text"})
	if task.err != nil {
		b.Fatal(task.err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := of.job(task.data); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkStep moves tasks of two numbers, through Redis.
func BenchmarkStep(b *testing.B) {
	server := redistest.Start(b)
	c := server.Dial(b)
	of := &bridge{wire: delayedwire.Queue("calc"), queue: Queue{Name: "calc"}, most: mostTasks}
	of.Signature = func(string) (args.Signature, bool) { return args.Signature{}, true }
	of.Step = func(string, string, int, int, bool) {}
	of.to = delayedwire.Target{Store: resque.New(""), Queue: "jobs", Most: 1 << 30}
	var tasks [][]byte
	for i := range 3 * mostTasks { // the last are read only: without any a step waits
		tasks = append(tasks, GoTask("pkg.F", i, i).data)
	}
	for left := 0; b.Loop(); left-- {
		if left == 0 {
			b.StopTimer()
			server.Do(b, "DEL", "resque:queue:jobs", "calc", "calc_noti")
			if _, err := of.wire.Add(c, tasks...); err != nil {
				b.Fatal(err)
			}
			left = 2
			of.next, of.popped = nil, 0
			if _, err := of.step(c); err != nil { // reads
				b.Fatal(err)
			}
			b.StartTimer()
		}
		if _, err := of.step(c); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/mostTasks, "ns/task")
}
