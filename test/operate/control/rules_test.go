package control

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/control"
	"github.com/goworker/goworker/inspect"
	"github.com/goworker/goworker/internal/redistest"
)

// obeyed is how a job of a class runs by the rules.
type obeyed struct {
	paused  bool
	retries int
	hours   int // of its time limit; 0: it has none
}

// probes is how jobs have run, by the number of the probe and their class.
type probes struct {
	mu  sync.Mutex
	ran map[string]obeyed
}

func (p *probes) register(d *goworker.Daemon) {
	for _, class := range append(slices.Clone(ruledClasses), "Last") {
		d.Register(class, func(ctx context.Context, probe string) {
			is := obeyed{retries: goworker.FromContext(ctx).RetriesLeft}
			if ends, limited := ctx.Deadline(); limited {
				is.hours = int(time.Until(ends).Round(time.Hour) / time.Hour)
			}
			p.mu.Lock()
			defer p.mu.Unlock()
			p.ran[probe+class] = is
		})
	}
}

func (p *probes) of(probe, class string) (is obeyed, ran bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	is, ran = p.ran[probe+class]
	return is, ran
}

var ruledClasses = []string{"A", "B", "C", "D"}

// An operator sets and takes back rules of classes while processes come, go, stand still and miss messages. In the end each process runs the
// jobs of each class as the rules say.
func TestRulesAreObeyed(t *testing.T) {
	t.Parallel()
	const processes, rounds, changes = 12, 6, 8
	p := &probes{ran: make(map[string]obeyed)}
	f := &fleet{T: t, redis: redistest.Start(t), done: make(map[string]int), register: p.register}
	f.redis.Do(t, "ACL", "SETUSER", "deaf", "on", ">secret", "~*", "&__redis__:invalidate", "+@all")
	client, err := goworker.NewClient(goworker.WorkerSettings{URI: f.redis.URI(), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	c, ctx := control.New(client), t.Context()
	live := make(map[int]*process)
	next := 0
	come := func(n int) {
		for range n {
			live[next] = f.start(next)
			next++
		}
	}
	end := func(n int) {
		live[n].stop()
		if err := <-live[n].ended; err != nil {
			t.Error(err)
		}
		live[n].Close()
		delete(live, n)
	}
	defer func() {
		for n := range live {
			end(n)
		}
	}()
	come(processes)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(1, seed))
	want := make(map[string]obeyed)
	change := func() {
		class := ruledClasses[rng.IntN(len(ruledClasses))]
		is, err := want[class], error(nil)
		switch n := 1 + rng.IntN(5); rng.IntN(6) {
		case 0, 1:
			is.paused, err = true, c.PauseClass(ctx, class)
		case 2:
			is.paused, err = false, c.ResumeClass(ctx, class)
		case 3:
			is.retries, err = n, c.Retries(ctx, class, n)
		case 4:
			is.hours, err = n, c.Timeout(ctx, class, time.Duration(n)*time.Hour)
		case 5:
			is.retries, is.hours, err = 0, 0, c.ResetClass(ctx, class)
		}
		if err != nil && !errors.Is(err, inspect.ErrNoRule) {
			t.Fatal(err)
		}
		want[class] = is
	}
	for range rounds {
		var release []func()
		for _, one := range live {
			if one.proxy != nil && rng.IntN(2) == 0 {
				release = append(release, one.proxy.Hold())
			}
		}
		for range changes {
			change()
		}
		if len(live) == processes {
			for n, one := range live {
				if one.proxy == nil {
					end(n)
					break
				}
			}
		}
		for _, r := range release {
			r()
		}
		come(processes - len(live))
	}
	f.obey(client, p, live, want)
}

// obey waits until each process runs the jobs of its queue as it is wanted.
func (f *fleet) obey(client *goworker.Client, p *probes, live map[int]*process, want map[string]obeyed) {
	f.Helper()
	var group sync.WaitGroup
	defer group.Wait()
	for n := range live {
		group.Go(func() {
			why := ""
			for try, ends := 0, time.Now().Add(2*time.Minute); time.Now().Before(ends); try++ {
				if why = f.probe(client, p, n, try, want); why == "" {
					return
				}
			}
			f.Errorf("process %d does not obey: %s", n, why)
		})
	}
}

// probe has a process run a job of each class, and one more behind them. It returns what did not go as it is wanted.
func (f *fleet) probe(client *goworker.Client, p *probes, n, try int, want map[string]obeyed) (why string) {
	probe := fmt.Sprint(n, "-", try, "-")
	for _, class := range append(slices.Clone(ruledClasses), "Last") {
		if _, err := client.Enqueue(f.Context(), goworker.NewJob(fmt.Sprint("q", n), class, probe)); err != nil {
			return err.Error()
		}
	}
	for ends := time.Now().Add(2 * time.Minute); ; time.Sleep(5 * time.Millisecond) {
		if _, ran := p.of(probe, "Last"); ran {
			break
		}
		if time.Now().After(ends) {
			return "the last job of a probe does not run"
		}
	}
	for _, class := range ruledClasses {
		is, ran := p.of(probe, class)
		if is.paused = !ran; want[class].paused && !ran {
			continue
		}
		if is != want[class] {
			return fmt.Sprintf("a job of class %s: %+v, not %+v", class, is, want[class])
		}
	}
	return ""
}
