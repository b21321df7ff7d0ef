package control

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"github.com/goworker/goworker/internal/clock"
	"github.com/goworker/goworker/internal/outcome"
	"github.com/goworker/goworker/internal/part"
	"github.com/goworker/goworker/internal/resque/control"
	"github.com/goworker/goworker/internal/usage"
)

// Program is what the verbs of every daemon need of it. All functions are safe for concurrent use, and wait neither for Redis nor for a
// job.
type Program struct {
	Began   time.Time
	Workers func() int

	Jobs     func(yield func(*outcome.Job) bool) // that workers have
	Ahead    func(context.Context) ([]control.Job, error)
	Stats    func() control.Stats // what the daemon counts; the rest is filled in
	Classes  func() []control.Class
	Settings func() []control.Setting
	Queues   func() control.Queues
	Parts    func() []part.State

	Hold   func(paused bool) // take no more jobs, or take them again
	Stop   func(now bool)    // as a signal to stop, and as a second one
	Common *Common
}

// Verbs are the verbs of every daemon.
func (p Program) Verbs(c clock.Clock) []Verb {
	v := &verbs{Program: p, clock: c}
	return []Verb{
		{Name: "ping", Help: "Answer", Do: v.ping},
		{Name: "stats", Help: "Say what the process has counted, and its memory", Do: v.stats},
		{Name: "active", Help: "List the jobs that run", Do: v.active},
		{Name: "reserved", Help: "List the jobs that are prefetched", Do: v.reserved},
		{Name: "registered", Help: "List the classes with their options", Do: func(context.Context, *Call) (any, error) { return p.Classes(), nil }},
		{Name: "conf", Help: "List the settings, without secrets", Do: func(context.Context, *Call) (any, error) { return p.Settings(), nil }},
		{Name: "queues", Help: "Say which queues it works, and what keeps it from taking jobs", Do: func(context.Context, *Call) (any, error) { return p.Queues(), nil }},
		{Name: "report", Help: "Describe the process for the report of a fault", Do: v.report},
		{Name: "stacks", Help: "Show where all goroutines are; cancels nothing", Addressed: true, Whole: true, Do: p.Common.stacks},
		{Name: "log", Help: "Log at another level for a while, an hour at most", Whole: true, Do: p.Common.log},
		{Name: "pause", Help: "Take no more jobs until resume, or the end of the process", Do: v.hold(true)},
		{Name: "resume", Help: "End pause", Do: v.hold(false)},
		{Name: "shutdown", Help: "Stop as after a signal", Level: Full, Whole: true, Do: v.shutdown},
	}
}

// verbs are the functions of these verbs.
type verbs struct {
	Program
	clock clock.Clock
}

func (v *verbs) busy() (n int) {
	for range v.Jobs {
		n++
	}
	return n
}

func (v *verbs) pong() control.Ping {
	return control.Ping{Up: seconds(clock.Since(v.clock, v.Began)), Workers: v.Workers(), Busy: v.busy()}
}

// seconds are rounded to a microsecond.
func seconds(d time.Duration) float64 { return d.Round(time.Microsecond).Seconds() }

func (v *verbs) ping(context.Context, *Call) (any, error) { return v.pong(), nil }

func (v *verbs) stats(context.Context, *Call) (any, error) {
	s := v.Stats()
	s.Ping = v.pong()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	s.Goroutines, s.Heap, s.System, s.GCs = runtime.NumGoroutine(), int64(m.HeapAlloc), int64(m.Sys), int64(m.NumGC)
	return s, nil
}

// active lists the jobs that run. Their arguments may be secret, so they need the level full.
func (v *verbs) active(_ context.Context, c *Call) (any, error) {
	var args struct {
		Args bool `json:"args"`
	}
	if err := c.Decode(&args); err != nil {
		return nil, err
	}
	if args.Args && c.Full() != nil {
		return nil, c.Full()
	}
	jobs := []control.Job{}
	for j := range v.Jobs {
		one := control.Job{Queue: j.Queue, Ticket: j.Ticket, Worker: j.Worker}
		if j.Opened() {
			one.Class, one.ID, one.Attempt = j.Name, j.ID, max(1, j.Parsed.Attempt)
			if args.Args {
				one.Args = j.Args
			}
		}
		since := j.StartedAt.UTC().Truncate(time.Millisecond)
		one.Since, one.For = &since, seconds(clock.Since(v.clock, j.StartedAt))
		jobs = append(jobs, one)
	}
	return jobs, nil
}

func (v *verbs) reserved(ctx context.Context, _ *Call) (any, error) { return v.Ahead(ctx) }

func (v *verbs) report(context.Context, *Call) (any, error) {
	q, s := v.Queues(), v.Stats()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	r := control.Report{
		Ping: v.pong(), Go: runtime.Version(), System: runtime.GOOS + "/" + runtime.GOARCH, CPUs: runtime.NumCPU(), Procs: runtime.GOMAXPROCS(0),
		Kernel: firstLine("/proc/sys/kernel/osrelease"), Heap: int64(m.HeapAlloc), Resident: usage.Resident(),
		Lease: s.Lease, RTT: s.RTT, Queues: q.Queues, Order: q.Order, Ready: q.Ready, Reasons: q.Reasons,
	}
	for _, s := range v.Settings() {
		if s.Name == "Concurrency" {
			r.Settings = s.Value
		}
	}
	r.MemoryMax, r.CPUMax = usage.Limits()
	if info, ok := debug.ReadBuildInfo(); ok {
		r.Go += " " + info.Main.Path
	}
	for _, s := range v.Parts() {
		p := control.Part{Name: s.Name, State: s.State, For: seconds(clock.Since(v.clock, s.Since)), Took: seconds(s.StartTook), Restarts: s.Restarts, Info: encodable(s.Info), Requires: s.Requires}
		if s.Err != nil {
			p.Error = s.Err.Error()
		}
		r.Parts = append(r.Parts, p)
	}
	return r, nil
}

// encodable returns the Info of a part, or its text if JSON cannot encode it.
func encodable(info any) any {
	if info == nil {
		return nil
	}
	if text, err := json.Marshal(info); err == nil {
		return json.RawMessage(text)
	}
	return fmt.Sprint(info)
}

// firstLine returns the first line of a file; "" if it cannot be read.
func firstLine(path string) string {
	text, _ := os.ReadFile(path)
	line, _, _ := strings.Cut(string(text), "\n")
	return line
}

// hold pauses the process, or ends the pause.
func (v *verbs) hold(paused bool) func(context.Context, *Call) (any, error) {
	return func(context.Context, *Call) (any, error) {
		v.Hold(paused)
		return v.Queues(), nil
	}
}

// shutdown stops the process once Redis has the answer.
func (v *verbs) shutdown(_ context.Context, c *Call) (any, error) {
	var args struct {
		Now bool `json:"now"`
	}
	if err := c.Decode(&args); err != nil {
		return nil, err
	}
	c.After(func() { v.Stop(args.Now) })
	return v.pong(), nil
}
