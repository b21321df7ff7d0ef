package checks

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/goworker/goworker/internal/queues"
	"github.com/goworker/goworker/internal/resque"
	"github.com/goworker/goworker/internal/resque/leases"
)

// What several checks ask of the fleet is read once for a run.

// mostProcesses is how many processes and how many servers are looked at, as many as a renewal knows.
const mostProcesses = 2000

// mostIDs is how many worker ids are looked at.
const mostIDs = 100_000

// fleet is what is registered, and what of it is alive.
type fleet struct {
	now       time.Time // Redis's
	processes []process
	takers    []leases.Taker
	workers   []resque.Worker   // that are registered, sorted by id
	beats     map[string]string // worker to heartbeat
	seen      float64           // the share of workers and processes that was read
}

// process is a goworker process that has, or had, a lease.
type process struct {
	resque.ProcessRecord
	ends  time.Time // of its lease
	alive bool
}

// fleetOf reads the fleet.
func fleetOf(l *look) (*fleet, error) {
	f, err := read(l, "fleet", func() (*fleet, error) { return readFleet(l) })
	if err == nil {
		l.seen = min(l.seen, f.seen)
	}
	return f, err
}

func readFleet(l *look) (*fleet, error) {
	f := &fleet{beats: make(map[string]string), seen: 1}
	all, now, err := l.store.Leases(l.conn)
	if err != nil {
		return nil, err
	}
	f.now = now
	if len(all) > mostProcesses {
		f.seen = float64(mostProcesses) / float64(len(all))
		all = all[len(all)-mostProcesses:] // the last ones live longest
	}
	ids := make([]string, len(all))
	for n, lease := range all {
		ids[n] = lease.Process
	}
	records, err := l.store.ProcessRecords(l.conn, ids)
	if err != nil {
		return nil, err
	}
	for n, r := range records {
		p := process{ProcessRecord: r, ends: all[n].Ends()}
		p.alive = !all[n].Fenced() && p.ends.After(now)
		f.processes = append(f.processes, p)
	}
	if f.takers, err = leases.New(l.store).Takers(l.conn); err != nil {
		return nil, err
	}
	return f, f.readWorkers(l)
}

// readWorkers reads the ids and the heartbeats of the workers.
func (f *fleet) readWorkers(l *look) error {
	known, beating, err := l.store.CountWorkers(l.conn)
	if err != nil {
		return err
	}
	ids := make(map[string]bool, min(known, mostIDs))
	if err := pages(l, func(cursor uint64) (resque.Page, error) { return l.store.WorkerPage(l.conn, cursor) }, func(items []string) bool {
		for _, id := range items {
			ids[id] = true
		}
		return len(ids) < mostIDs
	}); err != nil {
		return err
	}
	if err := pages(l, func(cursor uint64) (resque.Page, error) { return l.store.HeartbeatPage(l.conn, cursor) }, func(items []string) bool {
		for n := 0; n+1 < len(items); n += 2 {
			f.beats[items[n]] = items[n+1]
		}
		return len(f.beats) < mostIDs
	}); err != nil {
		return err
	}
	for id := range ids {
		f.workers = append(f.workers, resque.WorkerOf(id))
	}
	slices.SortFunc(f.workers, func(a, b resque.Worker) int { return strings.Compare(a.ID, b.ID) })
	for part, all := range map[int]int{len(ids): known, len(f.beats): beating} {
		if part < all {
			f.seen = min(f.seen, float64(part)/float64(all))
		}
	}
	return nil
}

// pages reads pages until the last one, until each returns false, or until the time is over.
func pages(l *look, page func(cursor uint64) (resque.Page, error), each func(items []string) bool) error {
	for cursor := uint64(0); ; {
		p, err := page(cursor)
		if err != nil {
			return err
		}
		if cursor = p.Next; !each(p.Items) || cursor == 0 || l.over() {
			return l.Err()
		}
	}
}

// alive reports whether a goworker process holds a lease.
func (f *fleet) alive() bool {
	return slices.ContainsFunc(f.processes, func(p process) bool { return p.alive })
}

// heads are the processes by what their workers' ids begin with, before the number.
func (f *fleet) heads() map[string][]*process {
	heads := make(map[string][]*process, len(f.processes))
	for n := range f.processes {
		p := &f.processes[n]
		heads[p.IDHead] = append(heads[p.IDHead], p)
	}
	return heads
}

// owner returns the goworker process that a worker is of, or nil.
func owner(heads map[string][]*process, id string) *process {
	host, rest, _ := strings.Cut(id, ":")
	pid, _, _ := strings.Cut(rest, ":")
	for _, p := range heads[strings.TrimRight(host+":"+pid, "0123456789")] {
		if p.Owns(id) {
			return p
		}
	}
	return nil
}

// others are the workers of other programs that may be alive: their heartbeat is fresh, or their program sends none.
func (f *fleet) others() (others []resque.Worker) {
	heads := f.heads()
	for _, w := range f.workers {
		beat := resque.ParseTime(f.beats[w.ID])
		if owner(heads, w.ID) == nil && (beat.IsZero() || f.now.Sub(beat) <= resque.PruneAfter) {
			others = append(others, w)
		}
	}
	return others
}

// names reports whether a list of names and patterns, as worker ids have it, means a queue.
func names(list []string, queue string) bool {
	return slices.ContainsFunc(list, func(name string) bool {
		name = strings.TrimSpace(name)
		return name == queue || queues.IsPattern(name) && !queues.IsOwn(queue) && queues.MatchGlob(name, queue)
	})
}

// served says who takes jobs from queues.
type served struct {
	lists  []*list
	takers []leases.Taker
}

// list is a list of queues, and those that work by it. A fleet of thousands has few lists.
type list struct {
	queues    []string
	processes []*process
	other     *resque.Worker // one of another program
}

func (f *fleet) served() (s served) {
	lists := make(map[string]*list)
	of := func(queues []string) *list {
		key := strings.Join(queues, ",")
		if lists[key] == nil {
			lists[key] = &list{queues: queues}
			s.lists = append(s.lists, lists[key])
		}
		return lists[key]
	}
	for n := range f.processes {
		if p := &f.processes[n]; p.alive {
			l := of(strings.Split(p.Queues, ","))
			l.processes = append(l.processes, p)
		}
	}
	others := f.others()
	for n := range others {
		if l := of(others[n].Queues); l.other == nil {
			l.other = &others[n]
		}
	}
	s.takers = f.takers
	return s
}

// byProcess returns the goworker processes that take from a queue.
func (s served) byProcess(queue string) (all []*process) {
	for _, l := range s.lists {
		if len(l.processes) > 0 && names(l.queues, queue) {
			all = append(all, l.processes...)
		}
	}
	return all
}

// byOther returns a worker of another program that takes from a queue, or nil. None takes from goworker's own queues.
func (s served) byOther(queue string) *resque.Worker {
	if queues.IsOwn(queue) {
		return nil
	}
	for _, l := range s.lists {
		if l.other != nil && names(l.queues, queue) {
			return l.other
		}
	}
	return nil
}

// byTaker reports whether clients ask an HTTP server for the jobs of a queue.
func (s served) byTaker(queue string) bool {
	return slices.ContainsFunc(s.takers, func(t leases.Taker) bool { return slices.Contains(t.Queues, queue) })
}

// any reports whether anything takes from a queue.
func (s served) any(queue string) bool {
	return len(s.byProcess(queue)) > 0 || s.byOther(queue) != nil || s.byTaker(queue)
}

// queue is a queue that Resque knows, and how many jobs wait in its list.
type queue struct {
	name string
	jobs int64 // -1: its key is no list
}

// mostQueues is how many queues are looked at.
const mostQueues = 20_000

// fleetAndQueues are both, for checks that ask which queues are served.
func fleetAndQueues(l *look) (f *fleet, all []queue, err error) {
	if f, err = fleetOf(l); err == nil {
		all, err = queuesOf(l)
	}
	return f, all, err
}

// queuesOf returns the queues that Resque knows.
func queuesOf(l *look) ([]queue, error) {
	all, err := read(l, "queues", func() ([]queue, error) {
		names, err := l.store.Queues(l.conn)
		if err != nil {
			return nil, err
		}
		lengths, err := l.store.QueueLengths(l.conn, names[:min(len(names), mostQueues)])
		all := make([]queue, len(names))
		for n, name := range names {
			all[n] = queue{name: name, jobs: -1}
			if n < len(lengths) {
				all[n].jobs = lengths[n]
			}
		}
		return all, err
	})
	l.saw(min(len(all), mostQueues), len(all))
	return all[:min(len(all), mostQueues)], err
}

// some lists names in a sentence: the first three, and how many more there are.
func some(list []string) words {
	var shownOnes []string
	for _, name := range list[:min(len(list), 3)] {
		shownOnes = append(shownOnes, shown(name))
	}
	text := strings.Join(shownOnes, ", ")
	if more := len(list) - len(shownOnes); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return words(text)
}
