package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// run is one run of a job's handler. Times are nanoseconds since 1970.
type run struct {
	process string
	start   int64
	end     int64 // 0: it did not end, or its context's end ended it
	failed  bool
	again   bool // it was snoozed or stopped, and is to go on in another run
	attempt int  // 1: the first; 0 in a ledger: the worker does not know it
	pid     int  // of the process it ran in, which may be a child; 0: not noted
}

// story is all that the ledgers say about one job.
type story struct {
	push   byte  // 'a' acknowledged, 'r' refused, 'u' or 't' unknown; 0: not pushed
	pushed int64 // when it was acknowledged
	drops  []run // that did not begin, since it had expired or another had taken its place
	runs   []run
}

// gauge is what a process used at one moment.
type gauge struct{ goroutines, heap int }

// ledgers is what all producers and handlers of an arena noted.
type ledgers struct {
	jobs   map[string]*story
	gauges map[string][]gauge
	lists  map[string][]list       // of jobs that groups became, by their ids
	counts map[string][]*counted   // of jobs that count, in the order of processes
	leased map[string]*leasedStory // of jobs that consumers took over HTTP, by their names
}

func newLedgers() ledgers {
	return ledgers{jobs: map[string]*story{}, gauges: map[string][]gauge{}, lists: map[string][]list{}, counts: map[string][]*counted{}, leased: map[string]*leasedStory{}}
}

// readLedgers joins all ledgers of a folder. Runs are in the order of their starts.
func readLedgers(dir string) (ledgers, error) {
	l := newLedgers()
	files, err := filepath.Glob(filepath.Join(dir, "*.ledger"))
	if err != nil {
		return l, err
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return l, err
		}
		l.add(strings.TrimSuffix(filepath.Base(file), ".ledger"), text)
	}
	for _, s := range l.jobs {
		slices.SortFunc(s.runs, func(a, b run) int { return int(a.start - b.start) })
		for i, n := range s.runs { // Ruby's and Node's workers do not know the attempt
			if n.attempt > 0 {
				continue
			}
			s.runs[i].attempt = 1
			if i > 0 {
				before := s.runs[i-1]
				s.runs[i].attempt = before.attempt + map[bool]int{true: 1}[before.failed]
			}
		}
	}
	return l, nil
}

// add reads one ledger. A process runs a job again only when it ended there before.
func (l ledgers) add(process string, text []byte) {
	latest := map[string]int{} // which of a job's runs is the latest in this process
	for line := range bytes.Lines(text) {
		fields := strings.Split(strings.TrimSuffix(string(line), "\n"), "\t")
		if len(fields) < 3 || len(fields[0]) != 1 {
			continue
		}
		id := fields[1]
		at, _ := strconv.ParseInt(fields[2], 10, 64)
		if fields[0] == "g" {
			n, heap, _ := strings.Cut(id, ",")
			var g gauge
			g.goroutines, _ = strconv.Atoi(n)
			g.heap, _ = strconv.Atoi(heap)
			l.gauges[process] = append(l.gauges[process], g)
			continue
		}
		if fields[0] == "l" {
			l.addList(process, id, at, fields[3:])
			continue
		}
		if event := fields[0][0]; event >= 'A' && event <= 'Z' {
			l.addLeased(process, event, id, at, fields[3:])
			continue
		}
		s := l.jobs[id]
		if s == nil {
			s = new(story)
			l.jobs[id] = s
		}
		switch event := fields[0][0]; event {
		case 't', 'a', 'u', 'r':
			if s.push != 'a' {
				s.push = event
			}
			if event == 'a' {
				s.pushed = at
			}
		case 's', 'x':
			r := run{process: process, start: at, attempt: 1}
			if len(fields) > 3 {
				attempt, pid, _ := strings.Cut(fields[3], ",")
				r.attempt, _ = strconv.Atoi(attempt)
				r.pid, _ = strconv.Atoi(pid)
			}
			if event == 'x' {
				s.drops = append(s.drops, r)
				break
			}
			latest[id] = len(s.runs)
			s.runs = append(s.runs, r)
			if strings.HasPrefix(id, "count-") {
				l.counts[id] = append(l.counts[id], &counted{run: r, from: -1})
			}
			continue
		case 'e', 'f', 'k':
			n := latest[id]
			s.runs[n].end, s.runs[n].failed, s.runs[n].again = at, event == 'f', event == 'k'
		}
		l.addCount(fields[0][0], id, at, fields[3:])
	}
}
