// Package control asks large fleets.
package control

import (
	"context"
	"encoding/json"
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
	"github.com/goworker/goworker/internal/redistest"
)

// process is a daemon of a fleet.
type process struct {
	*goworker.Daemon
	name  string
	stop  context.CancelFunc
	ended chan error
	proxy *redistest.Proxy // nil: it reaches Redis directly
}

// fleet starts processes, and counts what each has done.
type fleet struct {
	*testing.T
	redis    *redistest.Server
	register func(*goworker.Daemon) // adds classes to each process; nil: they have none

	mu   sync.Mutex
	done map[string]int // command and process to how often
}

func (f *fleet) start(n int) *process {
	p := &process{name: fmt.Sprint("p", n), ended: make(chan error, 1)}
	uri := f.redis.URI()
	switch n % 5 {
	case 1: // it may stand still
		p.proxy = f.redis.StartProxy(f.T)
		uri = "redis://" + p.proxy.Addr
	case 2: // it misses every message
		uri = "redis://deaf:secret@" + f.redis.Addr
	}
	p.Daemon = goworker.New(goworker.WorkerSettings{
		URI: uri, QueuesString: fmt.Sprint("q", n), Concurrency: 1, AllowNoHandlers: true, Name: p.name,
		DisableTracking: n%5 == 3, Logger: slog.New(slog.DiscardHandler),
	})
	p.AddVerb(goworker.Verb{Name: "mark", Harmless: true, Do: func(_ context.Context, args json.RawMessage) (any, error) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.done[string(args)+" "+p.name]++
		return nil, nil
	}})
	if f.register != nil {
		f.register(p.Daemon)
	}
	ctx, cancel := context.WithCancel(f.Context())
	p.stop = cancel
	go func() { p.ended <- p.Run(ctx) }()
	return p
}

// Fifty processes come, go, stand still and miss messages. Each command is done once by each process that answers, no process that is not
// meant does it, and each that was there is named: it answered, was silent, or has gone.
func TestFifty(t *testing.T) {
	t.Parallel()
	const processes, rounds = 50, 8
	f := &fleet{T: t, redis: redistest.Start(t), done: make(map[string]int)}
	f.redis.Do(t, "ACL", "SETUSER", "deaf", "on", ">secret", "~*", "&__redis__:invalidate", "+@all")
	client, err := goworker.NewClient(goworker.WorkerSettings{URI: f.redis.URI(), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	c := control.New(client)
	var live []*process
	next := 0
	come := func(n int) {
		for range n {
			live = append(live, f.start(next))
			next++
		}
		redistest.Eventually(t, 2*time.Minute, "all are ready", func() bool {
			return !slices.ContainsFunc(live, func(p *process) bool { return !p.Health().Ready })
		})
	}
	end := func(p *process) {
		p.stop()
		if err := <-p.ended; err != nil {
			t.Error(err)
		}
		p.Close()
	}
	come(processes)
	defer func() {
		for _, p := range live {
			end(p)
		}
	}()
	rng := rand.New(rand.NewPCG(1, uint64(time.Now().UnixNano())))
	for round := range rounds {
		var still []*process
		for _, p := range live {
			if p.proxy != nil && rng.IntN(3) == 0 {
				still = append(still, p)
			}
		}
		var release []func()
		for _, p := range still {
			release = append(release, p.proxy.Hold())
		}
		timeout := time.Minute
		if len(still) > 0 {
			timeout = 6 * time.Second
		}
		var members []control.Member
		redistest.Eventually(t, time.Minute, "each process is there once", func() bool { // also one that stood still for longer than its lease
			var err error
			if members, err = c.Members(t.Context()); err != nil {
				t.Fatal(err)
			}
			return len(members) == len(live)
		})
		named := make(map[string]int)
		var leaving sync.WaitGroup
		first := true
		for reply, err := range c.Inspect(t.Context(), "mark", control.Args(round), control.Timeout(timeout)) {
			if err != nil && !errors.As(err, new(*control.SilentError)) {
				t.Errorf("round %d: %v", round, err)
			}
			named[reply.Process]++
			if first { // while the others are awaited, two leave
				first = false
				for range 2 {
					i := rng.IntN(len(live))
					if p := live[i]; !slices.Contains(still, p) {
						live = slices.Delete(live, i, i+1)
						leaving.Go(func() { end(p) })
					}
				}
			}
		}
		for _, m := range members {
			if named[m.Process] != 1 {
				t.Errorf("round %d: %s is named %d times", round, m.Process, named[m.Process])
			}
		}
		if len(named) != len(members) {
			t.Errorf("round %d: %d are named, and %d were there", round, len(named), len(members))
		}
		for _, r := range release {
			r()
		}
		leaving.Wait()
		come(processes - len(live))
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for what, times := range f.done {
		if times != 1 {
			t.Errorf("%q was done %d times", what, times)
		}
	}
	if len(f.done) < rounds*processes/2 {
		t.Errorf("only %d commands were done", len(f.done))
	}
}
