package daemon

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/control"
	"github.com/goworker/goworker/internal/daemontest"
)

// Under load the concurrency goes down and up: no job is lost or runs twice, and at rest the set of workers
// has one id for each slot.
func TestConcurrencyChangesUnderLoad(t *testing.T) {
	t.Parallel()
	b := daemontest.Setup(t, func(s *goworker.WorkerSettings) { s.Concurrency = 25 })
	if _, err := b.Daemon.SetConcurrency(t.Context(), 3); err == nil {
		t.Error("a daemon that does not run has another concurrency")
	}
	b.Start()
	registered := func() int { return b.Redis.Int(t, "SCARD", "resque:workers") }
	record := func() string {
		return b.Redis.Text(t, "HGET", "resque:go:process:"+b.Process(), "concurrency")
	}
	const jobs = 600
	b.Push(daemontest.Naps(jobs, 5)...)
	for i, n := range []int{3, 60, 1, 12} {
		b.Reaches("jobs run", (i+1)*20, b.Runs.Started)
		if r, err := b.Daemon.SetConcurrency(t.Context(), n); err != nil || r.To != n || r.Settings != 25 {
			t.Fatalf("%+v, %v", r, err)
		}
	}
	b.Reaches("all jobs end", jobs, b.Runs.Finished)
	b.Eventually("each slot has its worker", func() bool { return registered() == 12 && record() == "12" })
	for n := range 60 {
		id := fmt.Sprintf("resque:worker:%s", goworkerID(b, n))
		if keys := b.Redis.Int(t, "EXISTS", id, id+":started"); n >= 12 && keys > 0 {
			t.Errorf("worker %d has %d keys still", n, keys)
		}
	}
	if twice := b.Runs.Twice(); len(twice) > 0 || b.Stat("processed") != jobs {
		t.Errorf("%d jobs are counted; twice ran %v", b.Stat("processed"), twice)
	}
	if got := b.Daemon.Stats().Workers; got != 12 {
		t.Errorf("it says it has %d workers", got)
	}
	if err := b.Stop(); err != nil {
		t.Fatal(err)
	}
	if n := registered(); n != 0 {
		t.Errorf("%d workers are registered still", n)
	}
	b.OnlyTotals()
}

func goworkerID(b *daemontest.Bundle, n int) string {
	id := b.Redis.Text(b.T, "HGET", "resque:go:process:"+b.Process(), "id_head")
	return fmt.Sprintf("%s%d:%s", id, n, b.Settings.QueuesString)
}

// A job on a worker beyond the new number goes on; its worker is registered until it has ended.
func TestConcurrencyShrinksAroundJobs(t *testing.T) {
	t.Parallel()
	b := daemontest.Setup(t)
	b.Start()
	b.Push(daemontest.Jobs("Hold", 4)...)
	b.Reaches("jobs run", 4, b.Runs.Started)
	r, err := b.Daemon.SetConcurrency(t.Context(), 1)
	if err != nil || r.From != 4 || len(r.Busy) != 3 || r.Busy[0].Queue != "work" {
		t.Fatalf("%+v, %v", r, err)
	}
	b.Renewed(2)
	if n := b.Redis.Int(t, "SCARD", "resque:workers"); n != 4 {
		t.Errorf("%d workers are registered while four jobs run", n)
	}
	b.Open()
	b.Eventually("one worker is left", func() bool { return b.Redis.Int(t, "SCARD", "resque:workers") == 1 })
	b.Reaches("all jobs end", 4, b.Runs.Finished)
}

// While jobs wait and more workers do more, there are more, up to the bound of the settings; without work there are fewer. Operators
// change the bounds, and turn it off. Resque's list of workers follows.
func TestAutoscale(t *testing.T) {
	t.Parallel()
	b := daemontest.Setup(t, func(s *goworker.WorkerSettings) {
		s.Concurrency, s.ConcurrencyMax, s.ScaleAge = 2, 10, 200*time.Millisecond
	})
	b.Start()
	registered := func() int { return b.Redis.Int(t, "SCARD", "resque:workers") }
	has := func(n int) {
		t.Helper()
		b.Eventually(fmt.Sprintf("there are %d workers", n), func() bool { return b.Daemon.Stats().Workers == n && registered() == n })
	}
	has(2)
	b.Push(slices.Repeat([]string{`{"class":"Nap","args":["long",250]}`}, 6000)...) // much longer than a busy machine needs for one
	most := 0
	b.Reaches("workers there are", 10, func() int { most = max(most, b.Daemon.Stats().Workers); return most })
	c := control.New(b.Operator())
	do := func(verb string, args, answer any) error {
		t.Helper()
		for r, err := range c.Do(context.Background(), verb, control.Args(args), control.Timeout(time.Minute)) {
			if err != nil {
				return err
			}
			return r.Decode(answer)
		}
		return control.ErrNobody
	}
	stats := func() (s control.StatsAnswer) {
		t.Helper()
		for r, err := range c.Inspect(t.Context(), control.Stats, control.Timeout(time.Minute)) {
			if err == nil {
				err = r.Decode(&s)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		return s
	}
	b.Eventually("its reason is said", func() bool {
		s := stats().Autoscale
		return s != nil && s.Min == 2 && s.Max == 10 && s.Reason != "" && !strings.Contains(s.Reason, "decided")
	})
	if b.Log.Count("INFO concurrency from=2 to=3 why=") == 0 { // more than once where a trial fails
		t.Errorf("the log does not say why:\n%s", b.Log.Text())
	}
	if err := do(control.Autoscale, map[string]any{"bounds": "3..20"}, nil); err == nil || !strings.Contains(err.Error(), "the process has -control=on") {
		t.Errorf("more workers than the settings say: %v", err)
	}
	var rescaled control.RescaledAnswer
	if err := do(control.Autoscale, map[string]any{"bounds": "3..6"}, &rescaled); err != nil || rescaled.From != "2..10" || rescaled.To != "3..6" || rescaled.Settings != "2..10" {
		t.Errorf("%+v, %v", rescaled, err)
	}
	has(6)
	b.Redis.Do(t, "DEL", "resque:queue:work")
	has(3)
	var resized goworker.Resized
	if err := do("concurrency", map[string]any{"workers": "4"}, &resized); err != nil || resized.To != 4 || !resized.Fixed {
		t.Errorf("%+v, %v", resized, err)
	}
	has(4)
	if err := do(control.Autoscale, map[string]any{"bounds": "off", "for": 0.5}, &rescaled); err != nil || rescaled.From != "4..4" || rescaled.To != "off" {
		t.Errorf("%+v, %v", rescaled, err)
	}
	b.Eventually("the bounds before hold again", func() bool { s := stats().Autoscale; return s != nil && s.Min == 4 && s.Max == 4 })
	if err := do(control.Autoscale, map[string]any{"bounds": "off"}, &rescaled); err != nil {
		t.Error(err)
	}
	if r, err := b.Daemon.SetConcurrency(t.Context(), 5); err != nil || r.Fixed {
		t.Errorf("%+v, %v", r, err)
	}
	b.Renewed(2)
	if has(5); stats().Autoscale != nil {
		t.Error("it is on still")
	}
	if err := b.Stop(); err != nil {
		t.Fatal(err)
	}
}

// A process that scales looks often and sends nothing of its own: while no job waits, it sends no more than other processes do, and each
// of its commands is one that a process with a fixed number sends too.
func TestAutoscaleIdle(t *testing.T) {
	t.Parallel()
	scales := daemontest.Setup(t, func(s *goworker.WorkerSettings) { s.ConcurrencyMax, s.ScaleAge = 10, 200*time.Millisecond })
	fixed := daemontest.Setup(t)
	kinds := func(b *daemontest.Bundle, commands [][]string) (all []string) {
		for _, c := range commands {
			kind := strings.ReplaceAll(strings.Join(c[:min(2, len(c))], " "), b.Process(), "<process>")
			all = append(all, anyMinute.ReplaceAllString(kind, "$1<minute>"))
		}
		return all
	}
	monitor := scales.Redis.Monitor(t)
	scales.Start()
	scales.Idle()
	scales.Renewed(1)
	outer, inner, scripts := len(monitor.Commands()), len(monitor.Inner()), scales.Commands()
	time.Sleep(5 * time.Second) // and fifty looks
	if n := scales.Commands() - scripts; n > 20 {
		t.Errorf("%d scripts while idle", n)
	}
	scales.Renewed(1)
	sent := kinds(scales, append(monitor.Commands()[outer:], monitor.Inner()[inner:]...)) // a script calls commands, too
	monitor = fixed.Redis.Monitor(t)
	fixed.Start()
	fixed.Idle()
	fixed.Renewed(1)
	fixed.Commands()
	more := func() []string {
		known := kinds(fixed, append(monitor.Commands(), monitor.Inner()...))
		return slices.DeleteFunc(slices.Clone(sent), func(k string) bool { return slices.Contains(known, k) })
	}
	defer func() {
		if t.Failed() {
			t.Logf("beyond that it sends %q", more())
		}
	}()
	fixed.Eventually("a process with a fixed number sends the same", func() bool { return len(more()) == 0 })
}

// anyMinute finds the keys of the history, which are named by their minutes and hours.
var anyMinute = regexp.MustCompile(`(resque:go:[mxhd]:)\d+`)
