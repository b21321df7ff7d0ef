package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// list is one run of a job that a group became.
type list struct {
	run
	items []string
}

// gatherMost is MaxCount of the worker's aggregated classes.
const gatherMost = 20

// aggregation has jobs that become one job gathered while workers are killed and replaced, connections closed, and Redis killed.
func aggregation(opts options) result {
	return contain(opts, "aggregation", durable, func(a *arena) {
		a.harsh = true
		flags := []string{"-concurrency=8"}
		var fleet []*process
		for range 4 {
			fleet = append(fleet, a.start(flags...))
		}
		f := a.watchFlushes()
		a.produce(load{rate: 300, longest: 3, even: true, classes: []string{"Gather", "Gather", "Collect", "Nap"}})
		acts := 30
		if opts.short {
			acts = 12
		}
		for i := range acts {
			time.Sleep(a.between(200*time.Millisecond, 900*time.Millisecond))
			k, spared := a.intn(len(fleet)-1), 2*i/acts // one finds the dead; the first one leads, and is spared for half of the time
			if k >= spared {
				k++
			}
			switch i % 6 {
			case 0, 1, 3:
				fleet[k].kill()
				a.inject()
				fleet[k] = a.launch(flags...)
			case 2:
				old := fleet[k]
				fleet[k] = a.launch(flags...)
				old.stop()
				a.inject()
			case 4:
				a.outage(a.sever)
			default:
				a.crashRedis(a.between(0, time.Second))
			}
		}
		a.stopProducers()
		a.drain()
		f.check()
	})
}

// prepareItems pushes jobs that become a few: some groups are full, others wait for their time.
func (a *arena) prepareItems() {
	var items []job
	for i := range gatherMost + 12 {
		items = append(items, job{fmt.Sprint("item-", i), "Gather", i / gatherMost})
	}
	for i := range 5 {
		items = append(items, job{fmt.Sprint("all-", i), "Collect", 1})
	}
	a.pushJobs(items...)
}

// checkGroups looks at the runs of jobs that groups became: each item is in the list of one such job, and a job that runs again
// has the same list. It returns by how much the ends of the items are more than those of the jobs.
func (a *arena) checkGroups(l ledgers) (surplus int) {
	in := map[string]string{}
	largest := 0
	for _, group := range slices.Sorted(maps.Keys(l.lists)) {
		lists := l.lists[group]
		first, attempts := lists[0], 0
		for _, again := range lists {
			attempts = max(attempts, again.attempt)
			if !slices.Equal(first.items, again.items) {
				a.problem("group %s ran with two lists: %q, then %q", group, first.items, again.items)
			}
		}
		if len(first.items) > gatherMost || len(first.items) == 0 {
			a.problem("group %s has %d items", group, len(first.items))
		}
		largest = max(largest, len(first.items))
		surplus += (len(first.items) - 1) * attempts
		for _, item := range first.items {
			if other, twice := in[item]; twice {
				a.problem("item %s is in the groups %s and %s", item, other, group)
			}
			in[item] = group
		}
	}
	if len(in) > 100 {
		a.note("%d items in %d groups, %d in the largest", len(in), len(l.lists), largest)
	}
	return surplus
}

// addList reads what a process noted of a run of a group.
func (l ledgers) addList(process, group string, at int64, fields []string) {
	if len(fields) < 2 {
		return
	}
	n := list{run: run{process: process, start: at}, items: strings.Split(fields[1], ",")}
	_, _ = fmt.Sscanf(fields[0], "%d,%d", &n.attempt, &n.pid)
	l.lists[group] = append(l.lists[group], n)
}
