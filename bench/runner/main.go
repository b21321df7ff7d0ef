// Command runner compares this module with its peers and with the least an
// at-least-once worker can do, side by side in one run. Start it in bench/:
//
//	go run ./runner
//	go run ./runner -core
//	go run ./runner -contenders=ours,asynq -only=noop,link -rounds=1
//	go run ./runner -draw
//
// It starts its own redis-servers on loopback and builds and starts the contenders
// (../contender, ../node) as processes. Rounds alternate between contenders, so
// that a busy moment of the machine meets all of them; compare ratios within one
// run, not numbers of two runs. It prints a table, writes the results file, and
// from it makes the plots and the tables of docs/benchmarks.md. A run of parts
// replaces the rows it has measured and keeps the others.
//
// The figures:
//
//	jobs_per_s              jobs, queued beforehand, from the first one's start to
//	                        the last one's end; or jobs pushed, or delayed
//	commands_per_job        commands the contender sent to Redis, its start included
//	inner_commands_per_job  commands its scripts called inside Redis
//	bytes_per_job           bytes to and from Redis
//	redis_cpu_us_per_job    processor time of redis-server
//	worker_cpu_us_per_job   processor time of the contender between the first job's
//	                        start and the last one's end
//	allocations_per_job     allocations on the heap in that time, Go only
//	rss_mb                  the contender's highest resident memory, in MiB
//	idle_latency_*_ms       from sending a job to its start while all workers wait
//	woken_per_push          processes that look at the queue because of one push
//	idle_commands_per_s     commands a process sends while nothing happens
//	due_latency_*_ms        from the moment a delayed job is due to its start while
//	                        all workers wait
//	await_latency_*_ms      from pushing a job to the return of the wait for its result while
//	                        all workers wait; of many waiters, from the end of the handler
//	item_bytes              length of a job in its queue
//	encode_ns, decode_ns    to make that of a job, and a job with its arguments of it, in one
//	                        goroutine
//	connections             those to Redis of the process that waits for results
//	redis_bytes_per_waiter  memory of Redis for each of them
//	workflow_s              from the call that starts workflows, or pushes plain jobs, to the
//	                        end of the last callback, or job, while the workers have nothing else to do
//	members_per_s           members of workflows in that time, each a second
//	step_ms                 of a chain, for each step
//	added_per_s             members that are streamed into a batch
//	redis_bytes_per_member  memory of Redis for each of them
//	workflows_per_s         workflows that were started while so many were wanted
//	keys_*                  of Redis, before they were started, at most, and when their
//	                        time was over
//	redis_bytes_per_job     memory of Redis for a job that waits for its time, or in its queue
//	moved_per_s             delayed jobs moved to their queue, from the first's move to
//	                        the last's
//	redis_cpu_us_per_moved  processor time of redis-server for each
//	share_of_*_percent      jobs taken of the queue of this weight, of those taken of all,
//	                        while none is empty and all workers are busy
//	sample_*_ms             of one inspect.Sample: half of them take as long, or 95 of a hundred
//	redis_p*_ms             of Redis, in its longest step of a call
//	redis_us_per_call       microseconds of Redis in the calls of a renewal of a lease, or of a fold of the history
//	call_us, call_ns        of a call as its caller sees it
//	allocations_per_call    on the heap
//	pack_bytes              length of what a process says of ten seconds
//	page_p50_ms, page_p95_ms how long a page of the dashboard of a large fleet takes
//	group_ms                how long grouping 100,000 failures takes
//	redis_bytes             memory of Redis for the whole history
//	reached_*_ms            from the call of an operator until an answer, or the read of a rule: of the first process for
//	                        ping-first, of the last one for ping, pause and limit; for queue-added until the first job
//	                        starts, as for queue-idle from its push
//	behind_s, behind_starts how long, or how many other starts, it takes until ten jobs of one tenant start behind a
//	                        million of another, where tenants take turns
//	redis_busy_percent      processor time of redis-server in the time that it is measured
//	redis_us_per_s,         processor time of redis-server and of the processes for each of those that wait, in a second
//	worker_us_per_s
//	bytes_per_s             bytes to and from Redis for each of them
//	recovery_s              from kill -9 of a process with ten running jobs until
//	                        all ten run in another one
//	round_trip_ms           of an ECHO over the slow link
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"
)

type options struct {
	contenders  []contender
	works       []work
	groups      []string
	rounds      int
	trial       time.Duration
	samples     int
	soak        time.Duration
	core, draw  bool
	quick       bool
	partial     bool // keep the rows that are not measured now
	out, docs   string
	redisServer string
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

// groupNames are what -only can pick.
func groupNames() []string {
	var names []string
	for _, w := range works() {
		if !slices.Contains(names, w.group) {
			names = append(names, w.group)
		}
	}
	return append(names, operate, shards, scale, "idle", "due", "recovery")
}

// apart says of a group that it runs only when it is asked for.
func apart(group string) bool {
	return group == scale || slices.ContainsFunc(works(), func(w work) bool { return w.apart && w.group == group })
}

func contenderNames() []string {
	names := make([]string, len(contenders))
	for i, c := range contenders {
		names[i] = c.name
	}
	return names
}

func parseOptions(args []string) (options, error) {
	var opts options
	flags := flag.NewFlagSet("runner", flag.ContinueOnError)
	flags.BoolVar(&opts.core, "core", false, "only ours, goworker and limit, at what the README shows, into results/core.json")
	flags.BoolVar(&opts.quick, "quick", false, "one round of short trials, to see whether everything runs")
	flags.BoolVar(&opts.draw, "draw", false, "measure nothing; make the page and the plots from the results file")
	names := flags.String("contenders", "", "which contenders to run: "+strings.Join(contenderNames(), ","))
	only := flags.String("only", "", "which parts to run: "+strings.Join(groupNames(), ","))
	flags.IntVar(&opts.rounds, "rounds", 0, "how often to measure each row; 3, with -core 5")
	flags.DurationVar(&opts.trial, "trial", time.Second, "how long a trial shall last")
	flags.IntVar(&opts.samples, "samples", 300, "how many jobs to send to an idle contender that is woken for each")
	flags.DurationVar(&opts.soak, "soak", time.Minute, "how long workflows are started at a pace")
	flags.StringVar(&opts.out, "out", "", "the results file; results/all.json, with -core results/core.json")
	flags.StringVar(&opts.docs, "docs", "../docs", "where benchmarks.md and its plots are; empty makes none")
	flags.StringVar(&opts.redisServer, "redis-server", "redis-server", "the Redis to start")
	if err := flags.Parse(args); err != nil {
		return opts, err
	}
	opts.partial = *names != "" || *only != ""
	rounds, out := 3, "results/all.json"
	if opts.core {
		rounds, out = 5, "results/core.json"
		if *names == "" {
			*names = "ours,goworker,limit"
		}
		if *only == "" {
			*only = "noop,idle,recovery"
		}
		opts.docs = ""
	}
	if opts.quick {
		rounds, opts.trial, opts.samples, opts.soak = 1, 150*time.Millisecond, 40, time.Second
	}
	if opts.rounds == 0 {
		opts.rounds = rounds
	}
	if opts.out == "" {
		opts.out = out
	}
	picked, err := pick("contenders", *names, contenderNames())
	if err != nil {
		return opts, err
	}
	for _, name := range picked {
		opts.contenders = append(opts.contenders, contenderNamed(name))
	}
	if opts.groups, err = pick("only", *only, groupNames()); err != nil {
		return opts, err
	}
	if *only == "" {
		opts.groups = slices.DeleteFunc(opts.groups, apart)
	}
	for _, w := range works() {
		if opts.core {
			w.workers = slices.DeleteFunc(w.workers, func(n int) bool { return n != 1 && n != 25 && n != 100 })
		}
		if slices.Contains(opts.groups, w.group) {
			opts.works = append(opts.works, w)
		}
	}
	if opts.rounds < 1 {
		return opts, fmt.Errorf("-rounds: %d is not at least 1", opts.rounds)
	}
	if opts.trial <= 0 || opts.soak <= 0 || opts.samples < 20 {
		return opts, fmt.Errorf("-trial and -soak must be positive and -samples at least 20, not %s, %s and %d", opts.trial, opts.soak, opts.samples)
	}
	return opts, nil
}

// pick returns what was asked for, everything if nothing was.
func pick(name, list string, allowed []string) ([]string, error) {
	if list == "" {
		return allowed, nil
	}
	picked := strings.Split(list, ",")
	for _, word := range picked {
		if !slices.Contains(allowed, word) {
			return nil, fmt.Errorf("-%s: %q is not one of %s", name, word, strings.Join(allowed, ", "))
		}
	}
	return picked, nil
}
