package main

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	mostDeaths  = 5                // of processes, until a poison job is filed
	longestHalt = 15 * time.Second // of the other jobs, while processes die
)

// stream is one try of a queue that is never empty, in which poison jobs lie. Three
// processes of ten workers serve it, two of thirty where jobs are long, and each is started
// again as soon as it ended.
type stream struct {
	name    string
	poisons int
	after   time.Duration // what a poison job takes until it ends its process
	far     bool          // Redis is ten milliseconds away
	long    int           // how many jobs beside the poison take their time
	each    time.Duration // which is this
}

// poisonStream has fast poison jobs among jobs that do nothing.
func poisonStream(opts options) result {
	if opts.short {
		return tryStreams(opts, stream{name: "two", poisons: 2, far: true})
	}
	var tries []stream
	for i := range 10 {
		tries = append(tries, stream{name: fmt.Sprint("fast-", i), poisons: 1, far: i%2 == 1})
	}
	for i := range 4 {
		tries = append(tries, stream{name: fmt.Sprint("two-", i), poisons: 2, far: i%2 == 1})
	}
	return tryStreams(opts, tries...)
}

// poisonSlow has poison jobs that end their process only after a while.
func poisonSlow(opts options) result {
	if opts.short {
		return tryStreams(opts, stream{name: "slow", poisons: 1, after: 2 * time.Second, far: true})
	}
	return tryStreams(opts, stream{name: "slow", poisons: 1, after: time.Minute, far: true},
		stream{name: "slow-two", poisons: 2, after: time.Minute, far: true})
}

// poisonLong has jobs beside the poison that run for long. They must not wait for each other.
func poisonLong(opts options) result {
	s := stream{name: "long", poisons: 1, after: time.Second, far: true, long: 40, each: 20 * time.Second}
	if opts.short {
		s.long, s.each = 12, 3*time.Second
	}
	return tryStreams(opts, s)
}

func tryStreams(opts options, tries ...stream) result {
	total := newResult()
	var mu sync.Mutex
	var wg sync.WaitGroup
	slots := make(chan struct{}, 3)
	for _, s := range tries {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			r := s.try(opts)
			for _, lines := range [][]string{r.problems, r.notes} {
				for i := range lines {
					lines[i] = s.name + ": " + lines[i]
				}
			}
			mu.Lock()
			defer mu.Unlock()
			total.add(r)
		})
	}
	wg.Wait()
	return total
}

func (s stream) try(opts options) result {
	return contain(opts, "poison-stream-"+s.name, nil, func(a *arena) {
		processes, flags := 3, []string{"-concurrency=10"}
		if s.long > 0 {
			processes, flags = 2, []string{"-concurrency=30"}
		}
		if s.far {
			l := a.line()
			l.toxic("latency", "downstream", `"latency":10`)
			flags = append(flags, l.uri())
		}
		a.fill()
		stop := a.supervise(processes, flags...)
		time.Sleep(a.between(time.Second, 3*time.Second))
		var jobs []job
		for i := range s.poisons {
			jobs = append(jobs, job{fmt.Sprint("poison-", i), "Die", int(s.after.Milliseconds())})
		}
		for i := range s.long {
			jobs = append(jobs, job{fmt.Sprint("long-", i), "Wait", int(s.each.Milliseconds())})
		}
		a.shuffle(len(jobs), func(i, j int) { jobs[i], jobs[j] = jobs[j], jobs[i] })
		began := time.Now()
		if s.long > 0 {
			a.pushJobs(jobs...) // so that many run beside the poison
		} else {
			for _, j := range jobs {
				a.pushJobs(j)
				time.Sleep(a.between(0, 20*time.Millisecond))
			}
		}
		a.eventuallyWithin((mostDeaths+4)*(s.after+20*time.Second), "all poison jobs are filed", func() bool {
			time.Sleep(100 * time.Millisecond)
			return a.number("LLEN", "resque:failed") >= s.poisons && a.filed() >= s.poisons
		})
		filed := time.Now()
		if s.long > 0 {
			a.eventuallyWithin(time.Duration(s.long+2)*s.each+soon, "all long jobs are done", func() bool {
				time.Sleep(200 * time.Millisecond)
				return a.ended("long-") == s.long
			})
			again, most := a.overlap("long-")
			a.note("%d long jobs, of %v each, were done after %.0f s; %d ran after a death, at most %d at once",
				s.long, s.each, time.Since(began).Seconds(), again, most)
			if !opts.short && again > 2*processes && most <= processes { // shorter jobs may end within their trials
				a.problem("the long jobs stood in a row: of %d that ran after a death at most %d ran at once, in %d processes", again, most, processes)
			}
		}
		stop()
		a.checks = append(a.checks, func(l ledgers, r *result) { a.checkStream(s, l, began, filed) })
	})
}

// filed counts the poison jobs that were filed.
func (a *arena) filed() (n int) {
	for _, f := range a.failures() {
		if strings.HasPrefix(f.id, "poison-") {
			n++
		}
	}
	return n
}

// ended counts jobs whose run came to its end, by how their ids begin. It is asked often, of ledgers that
// hold ten thousands of other jobs, so it reads only the lines it counts.
func (a *arena) ended(prefix string) int {
	files, err := filepath.Glob(filepath.Join(a.dir, "*.ledger"))
	if err != nil {
		a.Fatalf("%v", err)
	}
	ids := map[string]bool{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			a.Fatalf("%v", err)
		}
		for _, event := range []string{"e", "f"} {
			start := []byte(event + "\t" + prefix)
			for at := 0; ; {
				i := bytes.Index(text[at:], start)
				if i < 0 {
					break
				}
				at += i + len(start)
				rest, _, _ := bytes.Cut(text[at:], []byte("\t"))
				ids[string(rest)] = true
			}
		}
	}
	return len(ids)
}

// overlap returns how many jobs came to their end in a later run than their first, and how many of these
// runs there were at once at most. Jobs are chosen by how their ids begin.
func (a *arena) overlap(prefix string) (again, most int) {
	l, err := readLedgers(a.dir)
	if err != nil {
		a.Fatalf("%v", err)
	}
	type edge struct {
		at   int64
		step int
	}
	var edges []edge
	for id, s := range l.jobs {
		if !strings.HasPrefix(id, prefix) || len(s.runs) < 2 {
			continue
		}
		for _, r := range s.runs {
			if r.end > 0 {
				edges = append(edges, edge{r.start, 1}, edge{r.end, -1})
			}
		}
		again++
	}
	slices.SortFunc(edges, func(a, b edge) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.step, b.step)) })
	now := 0
	for _, e := range edges {
		now += e.step
		most = max(most, now)
	}
	return again, most
}

// checkStream counts what each poison job killed, looks for innocent jobs that were filed,
// and for times in which no other job began.
func (a *arena) checkStream(s stream, l ledgers, began, filed time.Time) {
	var deaths []string
	for i := range s.poisons {
		id := fmt.Sprint("poison-", i)
		if l.jobs[id] == nil {
			continue // which is a loss
		}
		n := len(l.jobs[id].runs)
		deaths = append(deaths, fmt.Sprint(n))
		if n > mostDeaths {
			a.problem("%s ran in %d processes that died, more than %d", id, n, mostDeaths)
		}
	}
	var innocent []string
	for _, f := range a.failures() {
		if !strings.HasPrefix(f.id, "poison-") {
			innocent = append(innocent, f.id)
		}
	}
	if len(innocent) > 0 {
		a.problem("%d innocent jobs were filed with the poison: %.200q", len(innocent), innocent)
	}
	most, ran := 0, 0
	var starts []int64
	for id, j := range l.jobs {
		if strings.HasPrefix(id, "poison-") {
			continue
		}
		most = max(most, len(j.runs))
		for _, n := range j.runs {
			if n.start > began.UnixNano() && n.start < filed.UnixNano() {
				starts = append(starts, n.start)
			}
		}
	}
	slices.Sort(starts)
	ran = len(starts)
	halt := time.Duration(0)
	for i := 1; i < len(starts); i++ {
		halt = max(halt, time.Duration(starts[i]-starts[i-1]))
	}
	span := filed.Sub(began)
	a.note("deaths %s in %.0f s, an innocent job ran at most %d times, %.0f others a second, halted for at most %.1f s",
		strings.Join(deaths, "+"), span.Seconds(), most, float64(ran)/span.Seconds(), halt.Seconds())
	if halt > longestHalt {
		a.problem("for %.1f s no other job began", halt.Seconds())
	}
}
