package daemon

import (
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/internal/daemontest"
	"github.com/goworker/goworker/internal/redistest"
	"github.com/goworker/goworker/internal/sizing"
)

// kindOfJob is one of the kinds that package sizing knows.
type kindOfJob struct {
	options []goworker.Option
	enqueue func() []goworker.EnqueueOption
	fails   bool // its first run
}

func firstArgument(args []json.RawMessage) string { return string(args[0]) }

func told(o func() goworker.EnqueueOption) func() []goworker.EnqueueOption {
	return func() []goworker.EnqueueOption { return []goworker.EnqueueOption{o()} }
}

var kindsOfJobs = map[string]kindOfJob{
	"plain":    {},
	"expiring": {enqueue: told(func() goworker.EnqueueOption { return goworker.ExpireAfter(time.Hour) })},
	"unique":   {enqueue: told(func() goworker.EnqueueOption { return goworker.Unique() })},
	"limited":  {options: []goworker.Option{goworker.MaxRunning(1000)}},
	"keyed":    {options: []goworker.Option{goworker.MaxRunning(1000, goworker.PerKey(firstArgument))}},
	"rated":    {options: []goworker.Option{goworker.RateLimit(1000, time.Second)}},
	"fair":     {options: []goworker.Option{goworker.FairBy(firstArgument)}},
	"retried":  {options: []goworker.Option{goworker.Retry(3, goworker.Delays{time.Millisecond})}, fails: true},
	"result":   {enqueue: told(func() goworker.EnqueueOption { return goworker.WithResult(time.Hour) })},
	"delayed":  {enqueue: told(func() goworker.EnqueueOption { return goworker.ProcessIn(200 * time.Millisecond) })},
}

// The model of sizes knows how many commands a process sends for a job that comes alone, and how many connections it has.
func TestSizingOfJobsAlone(t *testing.T) {
	t.Parallel()
	if kinds := sizing.Kinds(); len(kinds) != len(kindsOfJobs) {
		t.Fatalf("the model knows %v", kinds)
	}
	for name, kind := range kindsOfJobs {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := daemontest.Setup(t)
			var again sync.Map
			b.Daemon.Register("Job", func(n int) (string, error) {
				if _, ran := again.LoadOrStore(n, true); kind.fails && !ran {
					return "", errors.New("the first run fails")
				}
				return "done", nil
			}, kind.options...)
			b.Start()
			producer, err := goworker.NewClient(goworker.WorkerSettings{URI: b.Redis.URI()})
			if err != nil {
				t.Fatal(err)
			}
			defer producer.Close()
			runs := 1
			if kind.fails {
				runs = 2
			}
			one := func(n int) {
				t.Helper()
				var options []goworker.EnqueueOption
				if kind.enqueue != nil {
					options = kind.enqueue()
				}
				if _, err := producer.Enqueue(t.Context(), goworker.NewJob("work", "Job", n), options...); err != nil {
					t.Fatal(err)
				}
				b.Reaches("processed jobs", runs*(n+1), func() int { return b.Stat("processed") })
			}
			const warm, jobs = 3, 9
			for n := range warm {
				one(n)
			}
			m := b.Redis.Monitor(t)
			sent := func() (n int) {
				for _, c := range m.Commands() {
					if strings.HasPrefix(c[0], "EVAL") && !slices.Contains(c, "resque:go:pulse") && !pushes(c) {
						n++
					}
				}
				return n
			}
			each, before := make([]int, jobs), 0
			for n := range jobs {
				one(warm + n)
				all := sent()
				each[n], before = all-before, all
			}
			slices.Sort(each)
			differs := 0.0
			if sizing.Alone(name) >= 4 {
				differs = 1.5 // where jobs wait or go through lanes, one look may serve two, or find nothing
			}
			// On a busy machine a job may end after the exchange that would have taken its end along.
			if middle, want := float64(each[jobs/2]), sizing.Alone(name); middle < want-differs || middle > want+differs {
				t.Errorf("%d commands with scripts for jobs that come alone; the model says %v", each, want)
			}
		})
	}
}

// pushes reports whether a command with a script is one that enqueues.
func pushes(c []string) bool {
	keys := c[3:]
	return keys[0] == "resque:queues" || keys[0] == "resque:go:schedule" && keys[1] == "z" || strings.HasPrefix(keys[0], "resque:go:unique:")
}

// A fleet has the connections that the model says.
func TestSizingOfConnections(t *testing.T) {
	t.Parallel()
	const processes = 3
	want := sizing.Connections(processes, sizing.Plain)
	for fleets := 1; ; fleets++ {
		server := redistest.Start(t)
		for range processes {
			daemontest.SetupOn(t, server).Start()
		}
		for began := time.Now(); ; time.Sleep(20 * time.Millisecond) {
			list := server.Text(t, "CLIENT", "LIST")
			n := strings.Count(list, "\n") - 1 // one is this test's
			if n == want {
				return
			}
			took := time.Since(began)
			if took > daemontest.Soon || took > 30*time.Second && fleets == 5 {
				t.Fatalf("fleet %d has %d connections, and not %d:\n%s", fleets, n, want, list)
			}
			// On a busy machine two parts of a process may need a connection at one time. The second one stays for minutes.
			if took > 30*time.Second && n > want {
				break
			}
		}
	}
}

// A job that waits takes the memory that the model says.
func TestSizingOfWaitingJobs(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	c := server.Dial(t)
	memory := func() float64 {
		for line := range strings.Lines(server.Text(t, "INFO", "memory")) {
			if v, ok := strings.CutPrefix(line, "used_memory:"); ok {
				n, err := strconv.ParseFloat(strings.TrimSpace(v), 64)
				if err != nil {
					t.Fatal(err)
				}
				return n
			}
		}
		return 0
	}
	for _, size := range []int{50, 200, 1000} {
		const jobs = 10_000
		before := memory()
		for n := range jobs {
			head, tail := `{"class":"A","args":["`, strconv.Itoa(100_000+n)+`"]}`
			if err := c.Send("RPUSH", "resque:queue:"+strconv.Itoa(size), head+strings.Repeat("a", size-len(head)-len(tail))+tail); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := c.Do(""); err != nil {
			t.Fatal(err)
		}
		each, want := (memory()-before)/jobs, sizing.Measured().Waiting(size)
		if each < 0.8*want || each > 1.2*want {
			t.Errorf("a job of %d bytes takes %.0f in its queue; the model says %.0f", size, each, want)
		}
	}
}
