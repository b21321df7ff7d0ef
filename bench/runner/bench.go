package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/goworker/goworker/bench/page"
	"github.com/goworker/goworker/bench/result"
)

// bench is one run.
type bench struct {
	ctx        context.Context
	opts       options
	dir        string
	started    time.Time
	contenders []contender // those that could be built
	results    result.Collector
	pushes     sync.Map // how long the client of a contender, by its name, took for a job

	mu     sync.Mutex
	failed []result.Failure
}

// run measures what was asked for. A contender that fails costs its own rows;
// the others are measured, printed and written all the same.
func run(ctx context.Context, opts options) error {
	if opts.draw {
		f, err := result.Read(opts.out)
		if err != nil {
			return err
		}
		return page.Write(opts.docs, f)
	}
	dir, err := os.MkdirTemp("", "goworker-bench")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	// Whatever returns, nothing started here outlives this function.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()

	b := &bench{ctx: ctx, opts: opts, dir: dir, started: time.Now()}
	about, err := b.prepare()
	if err != nil {
		return err
	}
	b.rounds()
	b.linkTrip()
	b.codecs()
	b.operated()
	b.sharded()
	b.scaled()
	b.quiet()
	b.silence()
	if err := context.Cause(ctx); err != nil {
		return fmt.Errorf("interrupted: %w", err)
	}

	about.Rows, about.Failed = b.results.Rows(), b.failed
	if opts.partial {
		old, err := result.Read(opts.out)
		if err == nil {
			about = about.Merge(old)
		} else if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	about.Cannot = cannots()
	if err := about.Write(opts.out); err != nil {
		return err
	}
	if opts.docs != "" {
		if err := page.Write(opts.docs, about); err != nil {
			return err
		}
	}
	b.say("done")
	about.Print(os.Stdout)
	if !opts.core {
		about.PrintTargets(os.Stdout)
	}
	if n := len(b.failed); n > 0 { // each was reported when it happened
		return fmt.Errorf("%d measurements failed; their rows are missing or short", n)
	}
	return nil
}

// prepare builds the contenders and says what is compared.
func (b *bench) prepare() (result.File, error) {
	about := result.File{
		Date: b.started.UTC().Format(time.RFC3339), Machine: thisMachine(), Rounds: b.opts.rounds,
		Versions: map[string]string{"go": runtime.Version()},
	}
	s, err := startServer(b.opts.redisServer, b.dir)
	if err != nil {
		return about, err
	}
	about.Versions["redis"] = s.version()
	s.stop()
	built := map[string]error{}
	for _, c := range b.opts.contenders {
		if _, ok := built[c.binary(b.dir)]; !ok {
			b.say("building %s", filepath.Base(c.binary(b.dir)))
			built[c.binary(b.dir)] = c.build(b.ctx, b.dir)
		}
		if err := built[c.binary(b.dir)]; err != nil {
			b.fail(&cell{c: c}, err)
			continue
		}
		if v := c.version(); v != "" {
			about.Versions[filepath.Base(c.program)] = v
		}
		b.contenders = append(b.contenders, c)
	}
	return about, nil
}

// cannots are the rows there cannot be.
func cannots() []result.Failure {
	var list []result.Failure
	for _, c := range contenders {
		for _, w := range works() {
			there := w.has(c) && (w.pushed && c.pushes || !w.pushed && c.works)
			if why := c.cannot(w); there && why != "" {
				list = append(list, result.Failure{Contender: c.name, Work: w.name, Why: why})
			}
		}
	}
	return list
}

// quiet measures what happens when nothing is to be done. Contenders whose
// waiting is counted in fractions of a millisecond have the machine for
// themselves; then the slow parts, which use next to no processor, run together,
// each on a server of its own.
func (b *bench) quiet() {
	var slow []func()
	for _, c := range b.contenders {
		var plans []idlePlan
		if slices.Contains(b.opts.groups, "idle") && c.works && !c.special {
			plans = b.idlePlans(c)
		}
		if slices.Contains(b.opts.groups, "due") {
			plans = append(plans, b.duePlans(c)...)
		}
		for _, plan := range plans {
			measure := func() {
				b.say("%s: %s, %d", plan.work, c.name, plan.row)
				b.withServer(&cell{c: c, w: work{name: plan.work}, workers: plan.row}, func(s *server) error {
					return b.idle(b.ctx, s, c, plan)
				})
			}
			if c.slowIdle || plan.gapMax > time.Second {
				slow = append(slow, measure)
			} else {
				measure()
			}
		}
		if c.name == "ours" && slices.Contains(b.opts.groups, "recovery") {
			for trial := range recoveryTrials {
				slow = append(slow, func() {
					b.say("recovery: %s, trial %d of %d", c.name, trial+1, recoveryTrials)
					b.withServer(&cell{c: c, w: work{name: "hold"}, workers: recoveryJobs}, func(s *server) error {
						return b.recovery(b.ctx, s, c)
					})
				})
			}
		}
	}
	var group sync.WaitGroup
	for _, measure := range slow {
		group.Go(measure)
	}
	group.Wait()
}

func (b *bench) withServer(x *cell, measure func(*server) error) {
	if b.ctx.Err() != nil {
		return
	}
	s, err := startServer(b.opts.redisServer, b.dir)
	if err == nil {
		defer s.stop()
		err = measure(s)
	}
	if err != nil {
		b.fail(x, err)
	}
}

func (b *bench) fail(x *cell, err error) {
	if b.ctx.Err() != nil {
		return
	}
	b.say("failed: %s, %d workers: %v", x.w.name, x.workers, err)
	b.mu.Lock()
	defer b.mu.Unlock()
	why, _, _ := strings.Cut(err.Error(), "\n")
	b.failed = append(b.failed, result.Failure{Contender: x.c.name, Work: x.w.name, Workers: x.workers, Why: why})
}

// say writes to the standard error stream how far the run is.
func (b *bench) say(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "%5.0fs  %s\n", time.Since(b.started).Seconds(), fmt.Sprintf(format, args...))
}
