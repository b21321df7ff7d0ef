package autoscale

import (
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goworker/goworker/internal/clock"
	"github.com/goworker/goworker/internal/control"
	"github.com/goworker/goworker/internal/fleet"
	"github.com/goworker/goworker/internal/health"
	"github.com/goworker/goworker/internal/logging"
	"github.com/goworker/goworker/internal/outcome"
	"github.com/goworker/goworker/internal/part"
	"github.com/goworker/goworker/internal/resque"
	wire "github.com/goworker/goworker/internal/resque/control"
)

// process is one whose workers are all busy while jobs wait. Its jobs take a second.
type process struct {
	*Scaler
	mu      sync.Mutex
	wanted  fleet.Wanted
	why     []string
	waiting bool
	paused  bool
	lags    int // how many fewer workers there are than wanted
	looks   int // of the poller
	counts  health.Jobs
	since   time.Time
}

func (p *process) Wanted() fleet.Wanted {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.wanted
}

func (p *process) Change(_ context.Context, change func(*fleet.Wanted)) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	change(&p.wanted)
	p.why = append(p.why, p.wanted.Why)
	return nil
}

func (p *process) Peers() int { return 1 }

// work has the jobs of a time end. The mutex is held.
func (p *process) work() {
	took := time.Since(p.since)
	if p.since = time.Now(); p.waiting {
		p.counts.RunTime += took * time.Duration(p.wanted.Workers)
		p.counts.Runs = int64(p.counts.RunTime / time.Second)
	}
}

func (p *process) looked() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.looks
}

func (p *process) set(waiting, paused bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.work()
	p.waiting, p.paused = waiting, paused
}

// renew is a renewal of the lease, each two seconds.
func (p *process) renew(d time.Duration) {
	for range d / (2 * time.Second) {
		time.Sleep(2 * time.Second)
		p.Load(new(resque.Cargo))
		p.mu.Lock()
		p.work()
		waiting := p.waiting
		p.mu.Unlock()
		p.Scaler.mu.Lock()
		asks := p.asks
		p.Scaler.mu.Unlock()
		if asks && waiting {
			now := time.Now()
			p.heard = []waits{{at: now, waiting: 100, oldest: now.Add(-time.Minute)}, {waiting: 50, unknown: 50}, {}}
		}
		p.Answered(false, resque.Due{Now: time.Now()})
	}
}

// start starts a Scaler for a process with so many workers.
func start(t *testing.T, b Bounds, workers int) *process {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	p := &process{wanted: fleet.Wanted{Workers: workers}, since: time.Now()}
	p.Scaler = New(part.Base{Log: log, Clock: clock.System, Outages: logging.NewOutages(log, clock.System)}, Config{
		Bounds: b, Lease: p, Present: func() int {
			p.mu.Lock()
			defer p.mu.Unlock()
			return p.wanted.Workers - p.lags
		},
		Jobs: func(func(*outcome.Job) bool) {},
		Counts: func() health.Counts {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.work()
			return health.Counts{Total: p.counts, Classes: map[string]health.Jobs{"Job": p.counts}}
		},
		Ask: func(f func()) { f() },
		Takes: func() bool {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.looks++
			return !p.paused
		},
		Backlog: func(_ time.Time, from, most int) ([]string, int, time.Time) { return []string{"work"}, 0, time.Time{} },
	})
	p.memory = func() float64 { return 0.5 }
	if err := p.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Stop(context.Background()) })
	return p
}

// do is a command of an operator.
func (p *process) do(args any) (r wire.Rescaled, err error) {
	text, _ := json.Marshal(args)
	call := &control.Call{Command: wire.Command{Args: text}}
	answer, err := p.Verb(20, 100).Do(context.Background(), call)
	if err == nil {
		r = answer.(wire.Rescaled)
	}
	return r, err
}

// Jobs wait, and it grows; they are gone, and it shrinks; in a pause it does neither.
func TestScaler(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := start(t, Bounds{Min: 2, Max: 20, Age: 10 * time.Second}, 2)
		if says := p.Info(); says != "2..20: nothing is decided yet" || p.Answer().Reason != "nothing is decided yet" {
			t.Errorf("before the first look it says %q, and answers %+v", says, p.Answer())
		}
		p.set(true, false)
		p.renew(5 * time.Minute)
		if n := p.Wanted().Workers; n != 20 || !strings.Contains(p.why[0], "all 2 are busy") {
			t.Errorf("%d workers: %q", n, p.why)
		}
		p.set(false, true)
		p.renew(5 * time.Minute)
		if n := p.Wanted().Workers; n != 20 {
			t.Errorf("%d workers after a pause", n)
		}
		p.set(false, false)
		p.renew(15 * time.Minute)
		if n := p.Wanted().Workers; n != 2 {
			t.Errorf("%d workers without jobs", n)
		}
		if a := p.Answer(); a == nil || a.Min != 2 || a.Max != 20 || a.Reason == "" || !strings.HasPrefix(p.Info().(string), "2..20: ") {
			t.Errorf("%+v, %v", a, p.Info())
		}
	})
}

// Without bounds it does nothing; an operator turns it on for a while; a number fixes both bounds.
func TestBoundsOfOperators(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := start(t, Bounds{Age: 10 * time.Second}, 5)
		p.set(true, false)
		p.renew(time.Minute)
		if p.looked() > 0 || p.looping || p.Answer() != nil || p.Info() != nil {
			t.Errorf("%d looks without bounds", p.looked())
		}
		if p.Fix(3, 0) {
			t.Error("a number was fixed that nothing changes")
		}
		if r, err := p.do(map[string]any{"bounds": "8..20", "for": 600}); err != nil || r.From != "off" || r.To != "8..20" || r.Settings != "off" || r.For != 600 {
			t.Errorf("%+v, %v", r, err)
		}
		p.renew(4 * time.Second)
		if n := p.Wanted().Workers; n != 8 {
			t.Errorf("%d workers, with at least 8", n)
		}
		p.renew(8 * time.Minute)
		if n := p.Wanted().Workers; n != 20 {
			t.Errorf("%d workers", n)
		}
		p.renew(3 * time.Minute)
		looks := p.looked()
		if p.renew(time.Minute); p.looked() != looks || p.Answer() != nil {
			t.Error("it goes on after its time")
		}
		if r, err := p.do(map[string]any{"bounds": "2..6"}); err != nil || r.Workers != 20 {
			t.Errorf("%+v, %v", r, err)
		}
		p.renew(4 * time.Second)
		if n := p.Wanted().Workers; n != 6 {
			t.Errorf("%d workers, with at most 6", n)
		}
		if !p.Fix(4, time.Minute) {
			t.Error("a number was not fixed")
		}
		p.renew(30 * time.Second)
		if n := p.Wanted().Workers; n != 4 {
			t.Errorf("%d workers, fixed to 4", n)
		}
		p.renew(5 * time.Minute)
		if n := p.Wanted().Workers; n != 6 {
			t.Errorf("%d workers, after the number was fixed for a minute", n)
		}
		if !p.Fix(4, 0) {
			t.Error("a number was not fixed")
		}
		p.renew(4 * time.Second)
		for _, bad := range []string{"", "x", "6..2", "0..5", "5", "1..101", "5..", "on"} {
			if _, err := p.do(map[string]any{"bounds": bad}); err == nil || !strings.Contains(err.Error(), "as in 5..50") {
				t.Errorf("bounds %q: %v", bad, err)
			}
		}
		if r, err := p.do(map[string]any{"bounds": "off"}); err != nil || r.From != "4..4" || r.To != "off" {
			t.Errorf("%+v, %v", r, err)
		}
		p.renew(5 * time.Minute)
		if n := p.Wanted().Workers; n != 4 {
			t.Errorf("%d workers, although it is off", n)
		}
		_ = p.Stop(context.Background())
		if _, err := p.do(map[string]any{"bounds": "2..6"}); err == nil {
			t.Error("a process that stops has other bounds")
		}
	})
}

// How long jobs wait is read only while all workers are busy. Where nobody knows the age of the oldest job, what waits and how fast it
// goes say it.
func TestWaiting(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := start(t, Bounds{Min: 2, Max: 20, Age: 10 * time.Second}, 2)
		loaded := func() bool {
			var c resque.Cargo
			p.Load(&c)
			return !c.Empty()
		}
		p.set(false, false)
		p.renew(20 * time.Second)
		if loaded() {
			t.Error("an idle process reads how long jobs wait")
		}
		p.set(true, false)
		p.renew(20 * time.Second)
		if !loaded() {
			t.Error("a busy process does not read how long jobs wait")
		}
		p.Scaler.mu.Lock()
		p.asks, p.poller = true, glimpse{at: time.Now(), takes: true, queues: []string{"work"}}
		p.Scaler.mu.Unlock()
		now := time.Now()
		for name, tt := range map[string]struct {
			heard   []waits
			due     time.Time
			rate    float64
			waiting int64
			age     time.Duration
		}{
			"counted":              {[]waits{{at: now, waiting: 9, oldest: now.Add(-7 * time.Second)}, {}}, time.Time{}, 2, 9, 7 * time.Second},
			"empty a moment ago":   {[]waits{{at: now, waiting: 9}}, time.Time{}, 2, 9, 0},
			"not known":            {[]waits{{waiting: 60, unknown: 60}}, time.Time{}, 2, 60, 30 * time.Second},
			"known long ago":       {[]waits{{at: now.Add(-time.Minute), waiting: 60, oldest: now.Add(-time.Hour)}}, time.Time{}, 2, 60, 30 * time.Second},
			"not known, none ends": {[]waits{{waiting: 60, unknown: 60}}, time.Time{}, 0, 60, -1},
			"seen":                 {[]waits{{at: now, waiting: 10, unknown: 10, oldest: now.Add(-time.Minute)}}, time.Time{}, 2, 10, time.Minute},
			"a lane":               {[]waits{{}}, now.Add(-time.Second), 2, 1, time.Second},
		} {
			p.heard = tt.heard
			p.Answered(false, resque.Due{Now: now})
			p.Scaler.mu.Lock()
			p.poller.due = tt.due
			p.Scaler.mu.Unlock()
			o := Seen{At: now, Waiting: -1, Age: -1}
			if p.Scaler.waiting(&o, p.bounds, tt.rate); o.Waiting != tt.waiting || o.Age != tt.age || !o.Takes {
				t.Errorf("%s: %+v", name, o)
			}
		}
		o := Seen{At: now.Add(time.Minute), Waiting: -1, Age: -1}
		if p.Scaler.waiting(&o, p.bounds, 1); o.Takes || o.Waiting != -1 {
			t.Errorf("of a poller that says nothing: %+v", o)
		}
		p.Scaler.mu.Lock()
		p.asks, p.poller.due = false, time.Time{}
		p.Scaler.mu.Unlock()
		o = Seen{At: now, Waiting: -1, Age: -1}
		if p.Scaler.waiting(&o, p.bounds, 1); !o.Takes || o.Waiting != -1 {
			t.Errorf("what was read before counts: %+v", o)
		}
	})
}

// While Redis has not registered the workers of the last change, there is no other.
func TestChangeUnderWay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := start(t, Bounds{Min: 2, Max: 20, Age: 10 * time.Second}, 2)
		p.set(true, false)
		p.mu.Lock()
		p.lags = 1
		p.mu.Unlock()
		p.renew(5 * time.Minute)
		if n := p.Wanted().Workers; n != 2 {
			t.Errorf("%d workers", n)
		}
	})
}

// The fullest group counts, without files that the kernel can drop.
func TestMemoryShare(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		self  string
		files map[string]string
		want  float64
	}{
		"no groups":        {"", nil, 0},
		"no limit":         {"0::/\n", map[string]string{"memory.max": "max\n", "memory.current": "100\n"}, 0},
		"a container":      {"0::/\n", map[string]string{"memory.max": "1000\n", "memory.current": "900\n", "memory.stat": "anon 500\ninactive_file 400\n"}, 0.5},
		"the group around": {"12:x:/old\n0::/a/b\n", map[string]string{"a/b/memory.max": "1000", "a/b/memory.current": "100", "a/memory.max": "200", "a/memory.current": "190"}, 0.95},
		"damage":           {"0::/../..\n", map[string]string{"memory.max": "many", "memory.current": "-", "memory.stat": "inactive_file\n"}, 0},
	} {
		mount := t.TempDir()
		self := filepath.Join(mount, "self")
		write := func(file, text string) {
			if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		write(self, tt.self)
		for file, text := range tt.files {
			write(filepath.Join(mount, file), text)
		}
		if got := memoryShare(self, mount); got != tt.want {
			t.Errorf("%s: %v, want %v", name, got, tt.want)
		}
	}
	if share := memoryUsed(); share < 0 || share > 2 {
		t.Errorf("this process uses %v of its memory", share)
	}
}
