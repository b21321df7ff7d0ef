package main

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// cell is one contender at one work with one number of workers, measured once a
// round.
type cell struct {
	c       contender
	w       work
	workers int
	jobs    int // in a trial; 0 until it is known how many take the time wanted
	broken  bool
}

// rounds runs every cell once a round. Contenders alternate within a work, in
// another order each round, so that a busy moment of the machine meets all of them.
func (b *bench) rounds() {
	cells := b.cells()
	for round := range b.opts.rounds {
		for _, group := range cells {
			if round > 0 && group[0].w.once {
				continue
			}
			rand.Shuffle(len(group), func(i, j int) { group[i], group[j] = group[j], group[i] })
			b.say("round %d of %d: %s, %d workers", round+1, b.opts.rounds, group[0].w.name, group[0].workers)
			for range max(1, group[0].w.trials) {
				for _, x := range group {
					if b.ctx.Err() != nil {
						return
					}
					if !x.broken {
						b.measure(x)
					}
				}
			}
		}
	}
}

// cells are grouped by what is compared.
func (b *bench) cells() [][]*cell {
	var groups [][]*cell
	for _, w := range b.opts.works {
		for _, workers := range w.workers {
			var group []*cell
			for _, c := range b.contenders {
				if w.has(c) && c.cannot(w) == "" {
					jobs := w.fixed
					if w.sized() {
						jobs = workers
					}
					group = append(group, &cell{c: c, w: w, workers: workers, jobs: jobs})
				}
			}
			if len(group) > 0 {
				groups = append(groups, group)
			}
		}
	}
	return groups
}

func (b *bench) measure(x *cell) {
	t := trial{bench: b, c: x.c, w: x.w, workers: x.workers, jobs: x.jobs}
	first := x.jobs == 0
	if first {
		n, err := b.size(t)
		if err != nil {
			x.broken = true
			b.fail(x, err)
			return
		}
		x.jobs, t.jobs = n, n
	}
	if first && x.w.counted {
		b.count(t)
	}
	f, took, err := t.run(b.ctx)
	if err != nil {
		b.fail(x, err)
		return
	}
	if x.w.fixed == 0 && !x.w.sized() {
		x.jobs = b.resize(t, took)
	}
	for figure, value := range f {
		b.results.Add(x.c.name, x.w.name, x.workers, figure, value)
	}
}

// size finds how many jobs take about the time a trial shall last, with trials
// that are not counted.
func (b *bench) size(t trial) (int, error) {
	most := t.w.most()
	t.jobs = min(t.least(), most)
	if t.c.node && !t.w.link {
		t.jobs = min(3000, most) // it compiles what runs often
	}
	if t.w.spread > 1 {
		t.jobs = 10 * t.w.spread // some for each queue
	}
	for {
		_, took, err := t.run(b.ctx)
		if err != nil {
			return 0, err
		}
		n := b.resize(t, took)
		if n <= 3*t.jobs || t.jobs == most {
			return n, nil
		}
		t.jobs = min(n/2, 20*t.jobs)
	}
}

// resize is how many jobs would have taken the time wanted.
func (b *bench) resize(t trial, took time.Duration) int {
	n := float64(t.jobs) * float64(b.opts.trial) / float64(max(took, time.Millisecond))
	return min(max(int(n), t.least()), t.w.most())
}

// least is how few jobs a trial may have.
func (t trial) least() int {
	if t.w.atOnce {
		return 3 * t.workers
	}
	if t.w.delayed && t.c.program == "machinery" {
		return 10 // it moves one every half second
	}
	return 300
}

// count measures the commands a job, which hardly vary.
func (b *bench) count(t trial) {
	t.jobs = min(max(t.jobs/4, 300), 40_000)
	count, err := t.count(b.ctx)
	if err != nil {
		b.fail(&cell{c: t.c, w: t.w, workers: t.workers}, fmt.Errorf("counting its commands: %w", err))
		return
	}
	b.results.Add(t.c.name, t.w.name, t.workers, "commands_per_job", float64(count.sent)/float64(t.jobs))
	b.results.Add(t.c.name, t.w.name, t.workers, "inner_commands_per_job", float64(count.inner)/float64(t.jobs))
}

// linkTrip measures the slow link itself.
func (b *bench) linkTrip() {
	if !slices.ContainsFunc(b.opts.works, func(w work) bool { return w.link }) {
		return
	}
	trip, err := roundTrips(b)
	if err != nil {
		b.say("the slow link: %v", err)
		return
	}
	for _, ms := range trip {
		b.results.Add("raw", "link", 1, "round_trip_ms", ms)
	}
}
