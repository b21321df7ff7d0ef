package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"runtime"
	"slices"
	"time"

	"github.com/goworker/goworker/bench/probe"
)

// shards is the group of what one process costs with several Redises.
const shards = "shards"

// shardCounts are over how many Redises the queues of a process lie.
var shardCounts = []int{1, 2, 4, 8}

// shardJobs are the jobs of each shard. What a shard costs once is as little of each, however many there are.
const shardJobs = 100_000

// shardWorks are the workers that all shards have in common: those of one shard, and how many more for each other one.
var shardWorks = []struct {
	name          string
	workers, more int
}{{"shards", 25, 25}, {"shards-shared", 100, 0}}

// sharded measures what a job costs each side, by the number of shards. The worker has one processor for itself and the servers the other one, so
// that neither takes the other's time. How fast both are then says nothing of a machine with more processors.
func (b *bench) sharded() {
	i := slices.IndexFunc(b.contenders, func(c contender) bool { return c.name == "ours" })
	if i < 0 || !slices.Contains(b.opts.groups, shards) {
		return
	}
	c := b.contenders[i]
	c.variant = "shards"
	for round := range b.opts.rounds {
		for _, w := range shardWorks {
			b.say("round %d of %d: %s", round+1, b.opts.rounds, w.name)
			for _, at := range rand.Perm(len(shardCounts)) {
				if b.ctx.Err() != nil {
					return
				}
				n := shardCounts[at]
				f, err := b.overShards(c, n, w.workers+w.more*(n-1))
				if err != nil {
					b.fail(&cell{c: c, w: work{name: w.name}, workers: n}, err)
				}
				for figure, v := range f {
					b.results.Add(c.name, w.name, n, figure, v)
				}
			}
		}
	}
}

// overShards runs jobs that lie evenly on n servers, in one process.
func (b *bench) overShards(c contender, n, workers int) (figures, error) {
	jobs := n * shardJobs
	if b.opts.quick {
		jobs /= 10
	}
	config := work{class: "Noop", spread: n}.config(probe.Work, "", workers, jobs)
	servers := make([]*server, n)
	for i := range servers {
		s, err := startServer(b.opts.redisServer, b.dir, pinned(1)...)
		if err != nil {
			return nil, err
		}
		defer s.stop()
		if err := s.fillQueue(config, i); err != nil {
			return nil, s.explain(err)
		}
		servers[i] = s
		config.Shards = append(config.Shards, s.addr)
	}
	before, err := spentBy(servers) // a start costs them little beside so many jobs, and a busy runner would read it late
	if err != nil {
		return nil, err
	}
	c.before = pinned(0)
	p, err := c.start(b.ctx, b.dir, config)
	if err != nil {
		return nil, err
	}
	defer p.kill()
	got, err := p.until(b.ctx, "last", time.Duration(n)*trialLimit)
	if err != nil {
		return nil, err
	}
	if err := sleep(b.ctx, settle); err != nil {
		return nil, err
	}
	after, err := spentBy(servers)
	if err != nil {
		return nil, err
	}
	all := int64(jobs)
	if got["ran"] != all || got["sum"] != all*(all-1)/2 || p.surplus("extra") {
		return nil, p.failed(fmt.Errorf("of %d jobs it ran %d, and not each of them once", all, got["ran"]))
	}
	return figures{
		"worker_cpu_us_per_job": float64(got["cpu"]) / float64(jobs),
		"redis_cpu_us_per_job":  micros(after.server-before.server) / float64(jobs),
		"commands_per_job":      float64(after.scripts-before.scripts) / float64(jobs),
		"bytes_per_job":         float64(after.bytes-before.bytes) / float64(jobs),
	}, nil
}

// spentBy is what servers have spent together.
func spentBy(servers []*server) (all spent, err error) {
	for _, s := range servers {
		u, err1 := s.usage()
		n, err2 := s.scripts()
		all.server += u.cpu
		all.bytes += u.bytes
		all.scripts += n
		err = errors.Join(err, err1, err2)
	}
	return all, err
}

// pinned is what comes before a command that is to run on one processor only; nil where that cannot be had.
func pinned(processor int) []string {
	path, err := exec.LookPath("taskset")
	if err != nil || runtime.NumCPU() < 2 {
		return nil
	}
	return []string{path, "-c", fmt.Sprint(processor)}
}
