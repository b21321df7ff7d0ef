// Command web measures jobs over HTTP: what a server publishes, and gives and ends, by how many clients at a time; what a
// delayed job and a client that waits cost. lmstfy is measured beside it, in turns. Start it in bench/:
//
//	go run ./web
//	go run ./web -rounds=1 -waiters=1000
//
// It starts each HTTP server as a process, with a redis-server of its own, which writes its file each second. The
// clients are goroutines of this process, with a connection each. The rows go to the results file and from there into the
// pages, as those of ./runner do.
//
//	jobs_per_s             jobs published, or taken and acknowledged
//	web_p50_ms, …_p99_ms   of one publish; of taking one job and acknowledging it; from a publish to the client that gets the job
//	server_cpu_us_per_job  processor time of the HTTP server
//	redis_cpu_us_per_job   and of redis-server
//	behind_ms              from when the last of many delayed jobs is due until all are in their queue
//	redis_bytes_per_job    memory of Redis for a delayed job with a body of 16 bytes and a TTL
//	bytes_per_waiter       memory of the HTTP server for a client that waits
//	descriptors            of the HTTP server while so many wait
//	connections            of these to Redis
//	idle_commands_per_s    that Redis gets meanwhile
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/goworker/goworker/bench/page"
	"github.com/goworker/goworker/bench/result"
)

func main() {
	if address := os.Getenv("BENCH_WEB"); address != "" {
		if err := serve(address, os.Getenv("BENCH_REDIS")); err != nil {
			fmt.Fprintln(os.Stderr, "web: the server:", err)
			os.Exit(1)
		}
		return
	}
	if err := measure(); err != nil {
		fmt.Fprintln(os.Stderr, "web:", err)
		os.Exit(1)
	}
}

// clients is how many publish and take at a time, and how many jobs each of these rows has.
var clients = []struct{ at, jobs int }{{1, 5_000}, {10, 20_000}, {50, 40_000}, {200, 40_000}, {500, 40_000}}

func measure() error {
	names := flag.String("servers", ours+","+lmstfy, "which servers are measured; lmstfy is built from its module, which needs the network")
	rounds := flag.Int("rounds", 5, "how often each row is measured")
	waiters := flag.Int("waiters", 10_000, "how many clients wait for jobs at a time")
	out := flag.String("out", "results/all.json", "the results file, whose other rows stay")
	docs := flag.String("docs", "../docs", `the pages to fill; "": none`)
	flag.Parse()
	var sides []*setup
	for _, name := range strings.Split(*names, ",") {
		s, err := start(name)
		if err != nil {
			return err
		}
		defer s.stop()
		sides = append(sides, s)
	}
	rows := new(rows)
	for round := range *rounds {
		for _, c := range clients {
			fmt.Printf("round %d: %d clients\n", round+1, c.at)
			for i := range sides { // each is first in turns
				if err := sides[(i+round)%len(sides)].load(rows, c.at, c.jobs); err != nil {
					return err
				}
			}
		}
		fmt.Printf("round %d: several jobs a call\n", round+1)
		for i := range sides {
			s := sides[(i+round)%len(sides)]
			if err := errors.Join(s.several(rows), s.wake(rows)); err != nil {
				return err
			}
		}
	}
	for _, s := range sides {
		fmt.Printf("%s: delayed jobs\n", s.name)
		if err := errors.Join(s.delayed(rows, 50_000), s.due(rows, 60_000)); err != nil {
			return err
		}
	}
	for _, s := range sides {
		if s.name == ours { // lmstfy has a connection to Redis for each client that waits, 5,000 at most
			fmt.Printf("%d clients wait\n", *waiters)
			if err := s.idle(rows, *waiters); err != nil {
				return err
			}
		}
	}
	about := result.File{
		Date: time.Now().UTC().Format(time.RFC3339), Rounds: *rounds, Rows: rows.all(),
		Machine:  result.Machine{OS: runtime.GOOS, Arch: runtime.GOARCH, Cores: runtime.NumCPU()},
		Versions: map[string]string{"go": runtime.Version()},
	}
	for _, r := range about.Rows {
		fmt.Printf("%-8s %-16s %6d  %-22s %12s  (%s to %s)\n", r.Contender, r.Work, r.Workers, r.Figure, result.Number(r.Median), result.Number(r.Min), result.Number(r.Max))
	}
	old, err := result.Read(*out)
	if err != nil {
		return err
	}
	if len(old.Rows) > 0 { // the file says how the other rows were measured
		about.Machine, about.Versions = old.Machine, old.Versions
		for i := range about.Rows {
			about.Rows[i].Date = about.Date
		}
		about.Date, about.Rounds, about.Failed, about.Cannot = old.Date, old.Rounds, old.Failed, old.Cannot
		about = about.Merge(old)
	}
	if err := about.Write(*out); err != nil || *docs == "" {
		return err
	}
	return page.Write(*docs, about)
}

// rows are the figures of all rounds.
type rows struct {
	values map[result.Key][]float64
}

func (r *rows) add(contender, work string, clients int, figure string, value float64) {
	if r.values == nil {
		r.values = make(map[result.Key][]float64)
	}
	key := result.Key{Contender: contender, Work: work, Workers: clients, Figure: figure}
	r.values[key] = append(r.values[key], value)
}

func (r *rows) all() (all []result.Row) {
	for key, values := range r.values {
		slices.Sort(values)
		all = append(all, result.Row{Key: key, Median: values[len(values)/2], Min: values[0], Max: values[len(values)-1]})
	}
	slices.SortFunc(all, func(a, b result.Row) int {
		return cmp.Or(cmp.Compare(a.Contender, b.Contender), cmp.Compare(a.Work, b.Work), cmp.Compare(a.Workers, b.Workers), cmp.Compare(a.Figure, b.Figure))
	})
	return all
}

// child starts a program that ends with this one's stop.
func child(ctx context.Context, environment []string, program string, args ...string) (*exec.Cmd, error) {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = append(os.Environ(), environment...)
	cmd.Stderr = os.Stderr
	return cmd, cmd.Start()
}
