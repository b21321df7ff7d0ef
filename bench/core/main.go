// Command core compares this module with benmanns/goworker and with the least
// an at-least-once worker can do, side by side in one run. Start it in bench/:
//
//	go run ./core
//	go run ./core -contenders=ours,limit -workers=25 -rounds=3 -only=drain
//
// It starts its own redis-server on loopback and builds and starts the
// contenders (../contender) as processes. Rounds alternate between contenders,
// so that a busy moment of the machine meets all of them; compare ratios within
// one run, not numbers of two runs. It prints a table and writes the results file.
//
// The figures:
//
//	jobs_per_s              no-op jobs of 44 bytes, queued beforehand, from the first
//	                        job's start to the last job's end
//	commands_per_job        commands the contender sent to Redis, its start and stop
//	                        included
//	inner_commands_per_job  commands its scripts called inside Redis
//	redis_cpu_us_per_job    processor time of redis-server
//	worker_cpu_us_per_job   processor time of the contender, its start included
//	rss_mb                  the contender's highest resident memory, in MiB
//	idle_latency_*_ms       from sending a job to its start, 25 idle workers;
//	                        goworker, which sleeps for 5 s, is asked 10 times
//	idle_commands_per_s     commands sent while nothing happens
//	recovery_s              from kill -9 of a process with ten running jobs until
//	                        all ten run in another one
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// contenderNames are the folders of ../contender, in the order of the table.
var contenderNames = []string{"ours", "goworker", "limit"}

// parts of a run that -only can pick.
var partNames = []string{"drain", "idle", "recovery"}

type options struct {
	contenders, only []string
	workers          []int
	rounds           int
	out, redisServer string
}

func main() {
	opts, err := parseOptions(os.Args[1:])
	if err != nil {
		if !errors.Is(err, flag.ErrHelp) {
			fmt.Fprintln(os.Stderr, err)
		}
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err = run(ctx, opts)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func parseOptions(args []string) (options, error) {
	var opts options
	flags := flag.NewFlagSet("core", flag.ContinueOnError)
	contenders := flags.String("contenders", strings.Join(contenderNames, ","), "which contenders to run")
	workers := flags.String("workers", "1,25,100", "at which numbers of workers to drain the queue")
	only := flags.String("only", strings.Join(partNames, ","), "which parts to run")
	flags.IntVar(&opts.rounds, "rounds", 5, "how often to drain the queue at each number of workers")
	flags.StringVar(&opts.out, "out", "results/core.json", "the results file; empty writes none")
	flags.StringVar(&opts.redisServer, "redis-server", "redis-server", "the Redis to start")
	if err := flags.Parse(args); err != nil {
		return opts, err
	}
	var err error
	if opts.contenders, err = pick("contenders", *contenders, contenderNames); err != nil {
		return opts, err
	}
	if opts.only, err = pick("only", *only, partNames); err != nil {
		return opts, err
	}
	for text := range strings.SplitSeq(*workers, ",") {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			return opts, fmt.Errorf("-workers: %q is not a number of workers", text)
		}
		opts.workers = append(opts.workers, n)
	}
	if opts.rounds < 1 {
		return opts, fmt.Errorf("-rounds: %d is not at least 1", opts.rounds)
	}
	return opts, nil
}

func pick(name, list string, allowed []string) ([]string, error) {
	picked := strings.Split(list, ",")
	for _, word := range picked {
		if !slices.Contains(allowed, word) {
			return nil, fmt.Errorf("-%s: %q is not one of %s", name, word, strings.Join(allowed, ", "))
		}
	}
	return picked, nil
}

// run measures what was asked for. A contender that fails costs its own rows;
// the others are measured, printed and written all the same.
func run(ctx context.Context, opts options) error {
	dir, err := os.MkdirTemp("", "goworker-bench")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	// Whatever returns, nothing started here outlives this function.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()

	b := &bench{ctx: ctx, opts: opts, dir: dir, started: time.Now()}
	about := file{
		Date: b.started.UTC().Format(time.RFC3339), Machine: thisMachine(), Rounds: opts.rounds,
		Versions: map[string]string{"go": runtime.Version(), "goworker": moduleVersion("github.com/benmanns/goworker")},
	}
	for _, name := range opts.contenders {
		c, err := buildContender(ctx, name, dir)
		if err != nil {
			b.fail(err)
			continue
		}
		b.contenders = append(b.contenders, c)
	}
	s, err := startServer(opts.redisServer, dir)
	if err != nil {
		return errors.Join(append(b.failures, err)...)
	}
	about.Versions["redis"] = s.version()
	s.stop()

	if slices.Contains(opts.only, "drain") {
		b.drains()
	}
	b.quiet()
	if err := context.Cause(ctx); err != nil {
		return fmt.Errorf("interrupted: %w", err)
	}

	about.Rows = b.results.rows()
	printTable(os.Stdout, about.Rows)
	if opts.out != "" {
		b.fail(about.write(opts.out))
	}
	b.say("done")
	if n := len(b.failures); n > 0 { // each has been told when it happened
		return fmt.Errorf("%d measurements failed; their rows are missing or short", n)
	}
	return nil
}

// bench is one run.
type bench struct {
	ctx        context.Context
	opts       options
	dir        string
	started    time.Time
	contenders []contender
	results    results

	mu       sync.Mutex
	failures []error
}

// drains alternates between contenders within a round.
func (b *bench) drains() {
	b.withServer(func(s *server) error {
		for round := range b.opts.rounds {
			for _, workers := range b.opts.workers {
				for _, c := range b.contenders {
					if b.ctx.Err() != nil {
						return nil
					}
					b.say("round %d of %d: %s, %d workers", round+1, b.opts.rounds, c.name, workers)
					b.fail(drain(b.ctx, s, c, workers, &b.results))
				}
			}
		}
		return nil
	})
}

// quiet measures what happens when nothing is to be done. Contenders whose
// waiting is counted in fractions of a millisecond have the machine for
// themselves; then the slow parts, which use next to no processor, run together,
// each on a server of its own.
func (b *bench) quiet() {
	if b.ctx.Err() != nil {
		return
	}
	var slow []func()
	for _, c := range b.contenders {
		if slices.Contains(b.opts.only, "idle") {
			measure := func() {
				b.say("idle: %s", c.name)
				b.withServer(func(s *server) error { return idle(b.ctx, s, c, &b.results) })
			}
			if c.name == "goworker" {
				slow = append(slow, measure)
			} else {
				measure()
			}
		}
		if c.name == "ours" && slices.Contains(b.opts.only, "recovery") {
			for trial := range recoveryTrials {
				slow = append(slow, func() {
					b.say("recovery: %s, trial %d of %d", c.name, trial+1, recoveryTrials)
					b.withServer(func(s *server) error { return recovery(b.ctx, s, c, &b.results) })
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

func (b *bench) withServer(measure func(*server) error) {
	if b.ctx.Err() != nil {
		return
	}
	s, err := startServer(b.opts.redisServer, b.dir)
	if err != nil {
		b.fail(err)
		return
	}
	defer s.stop()
	b.fail(measure(s))
}

func (b *bench) fail(err error) {
	if err == nil || b.ctx.Err() != nil {
		return
	}
	b.say("failed: %v", err)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.failures = append(b.failures, err)
}

// say tells on the standard error stream how far the run is.
func (b *bench) say(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "%5.0fs  %s\n", time.Since(b.started).Seconds(), fmt.Sprintf(format, args...))
}
