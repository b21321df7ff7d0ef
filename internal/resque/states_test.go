package resque

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite the results in testdata/states/*.txt")

// The files in testdata/states show the states of a job: a command, a line of dashes, and
// the result, up to an empty line; # starts an explanation. Read them in the order of
// their names. The commands are the methods of story below. A job is named by its class alone.
func TestStates(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/states/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := newStory(t).tell(string(text))
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			} else if diff := cmp.Diff(strings.Split(string(text), "\n"), strings.Split(got, "\n")); diff != "" {
				t.Errorf("%s (-file +now; -update rewrites it):\n%s", file, diff)
			}
		})
	}
}

// story runs the commands of one file.
type story struct {
	*wire
	procs  map[string]*proc
	silent map[string]bool     // killed or stalled: do not renew
	seen   map[string]string   // the leases as they stood at the last tick
	dead   map[string]string   // those that had not changed, to be fenced by
	lost   map[string]Exchange // exchanges whose answers never came
	known  map[string]Reserved // what each process was given, by "process ticket"
	names  map[string]string   // classes by the digest of their jobs
	ticks  time.Duration
}

func newStory(t *testing.T) *story {
	return &story{wire: newWire(t), procs: map[string]*proc{}, silent: map[string]bool{}, seen: map[string]string{},
		dead: map[string]string{}, lost: map[string]Exchange{}, known: map[string]Reserved{}, names: map[string]string{}}
}

// tell returns the text with the results as they are now.
func (s *story) tell(text string) string {
	commands := map[string]func(args []string) []string{
		"push": s.pushJobs, "enter": s.enters, "turn": s.turns, "late": s.late, "resync": s.resync, "reenter": s.reenters, "restore": s.restore,
		"leave": s.leave, "kill": s.falls, "stall": s.falls, "wake": s.wakes, "tick": s.tick, "reap": s.reap,
		"redis": s.redis, "keys": s.keys,
	}
	var out []string
	shown := false
	for line := range strings.SplitSeq(strings.TrimRight(text, "\n"), "\n") {
		if shown && line != "" {
			continue // an old result
		}
		shown = false
		out = append(out, line)
		words := strings.Fields(line)
		if len(words) == 0 || strings.HasPrefix(line, "#") || line == "----" {
			continue
		}
		run := commands[words[0]]
		if run == nil {
			s.t.Fatalf("no command %q", line)
		}
		result := run(words[1:])
		if len(result) == 0 {
			result = []string{"ok"}
		}
		out = append(append(out, "----"), result...)
		shown = true
	}
	return strings.Join(out, "\n") + "\n"
}

// pushJobs is "push QUEUE CLASS…".
func (s *story) pushJobs(args []string) []string {
	for _, class := range args[1:] {
		s.push(args[0], job(class))
		s.names[Digest([]byte(job(class)))] = class
	}
	return s.shortAll(s.queues(args[0]))
}

// enters is "enter PROCESS".
func (s *story) enters(args []string) []string {
	s.procs[args[0]] = s.enter(args[0])
	return nil
}

// turns is "turn PROCESS want=2 from=high,low handed=2 done=1 failed=2 back=3,4 lost": one
// exchange; lost says that its answer does not arrive.
func (s *story) turns(args []string) []string {
	m, x, lost := s.procs[args[0]], Exchange{}, false
	for _, word := range args[1:] {
		name, value, _ := strings.Cut(word, "=")
		switch name {
		case "want":
			x.Want, _ = strconv.Atoi(value)
		case "from":
			x.Asks = asks(strings.Split(value, ",")...)
		case "handed":
			x.Handed = strings.ReplaceAll(value, ",", " ")
		case "done":
			x.Done = parseTickets(strings.Split(value, ","))
		case "failed":
			x.Ended = append(x.Ended, failed(s.jobs(m, value)...)...)
		case "back":
			x.Ended = append(x.Ended, back(s.jobs(m, value)...)...)
		case "lost":
			lost = true
		default:
			s.t.Fatalf("turn: what is %q?", word)
		}
	}
	if lost {
		x.Process, x.Epoch, x.Last = m.ID, m.epoch, m.last
		s.lost[m.ID] = x
		_, _ = (&proc{wire: s.wire, Process: m.Process, epoch: m.epoch, last: m.last}).try(x)
		return []string{"the answer is lost"}
	}
	out, err := m.try(x)
	s.given(m, out.Jobs)
	return s.show(out, err)
}

// jobs are those that the process was given under the tickets.
func (s *story) jobs(m *proc, list string) (jobs []Reserved) {
	for ticket := range strings.SplitSeq(list, ",") {
		j, ok := s.known[m.ID+" "+ticket]
		if !ok {
			s.t.Fatalf("process %s was never given the ticket %s", m.ID, ticket)
		}
		jobs = append(jobs, j)
	}
	return jobs
}

func (s *story) given(m *proc, jobs []Reserved) {
	for _, j := range jobs {
		s.known[fmt.Sprint(m.ID, " ", j.Ticket)] = j
	}
}

func (s *story) show(out Exchanged, err error) (lines []string) {
	if err != nil {
		return []string{"refused: " + err.Error()}
	}
	for _, line := range texts(out.Jobs) {
		lines = append(lines, "took "+s.short(line))
	}
	if out.Paused {
		lines = append(lines, "paused")
	}
	if out.Fenced {
		lines = append(lines, "fenced")
	}
	if out.Removed {
		lines = append(lines, "the record was removed")
	}
	if out.Missing > 0 {
		lines = append(lines, fmt.Sprint("missing ", out.Missing))
	}
	return lines
}

// late is "late PROCESS": Redis hears the exchange whose answer was lost, again.
func (s *story) late(args []string) []string {
	x := s.lost[args[0]]
	s.must(s.s.Send(s.c, &x))
	return s.show(s.s.Receive(s.c, &x))
}

// resync is "resync PROCESS": it reads back what Redis holds for it.
func (s *story) resync(args []string) []string {
	m := s.procs[args[0]]
	epoch, held, whole, err := s.s.Resync(s.c, m.ID)
	if err != nil {
		return []string{"refused: " + err.Error()}
	}
	m.epoch = epoch
	jobs, _, err := s.s.ReadReserved(s.c, m.ID, held)
	s.must(err)
	s.given(m, jobs)
	for _, ticket := range held {
		m.last = max(m.last, ticket)
	}
	lines := []string{fmt.Sprint("epoch ", epoch)}
	if !whole {
		lines = append(lines, "the record was removed")
	}
	return append(lines, s.shortAll(texts(jobs))...)
}

// reenters is "reenter PROCESS": it puts itself back into the fleet.
func (s *story) reenters(args []string) []string {
	m := s.procs[args[0]]
	m.epoch++
	return s.refusal(s.s.Reenter(s.c, m.Process, m.epoch, lease))
}

func (s *story) refusal(err error) []string {
	if err != nil {
		return []string{"refused: " + err.Error()}
	}
	return nil
}

// restore is "restore PROCESS 1,2": it writes its in-flight record again, with the jobs it runs.
func (s *story) restore(args []string) []string {
	m := s.procs[args[0]]
	return s.refusal(s.s.Restore(s.c, m.ID, m.epoch, s.jobs(m, args[1]), handed(m.last)))
}

// leave is "leave PROCESS".
func (s *story) leave(args []string) []string {
	left, err := s.s.Leave(s.c, args[0])
	s.must(err)
	if left > 0 {
		return []string{fmt.Sprintf("stays: %d jobs are in its record", left)}
	}
	delete(s.procs, args[0])
	return nil
}

// falls is "kill PROCESS" or "stall PROCESS": from here on it does not renew its lease.
func (s *story) falls(args []string) []string {
	s.silent[args[0]] = true
	return nil
}

// wakes is "wake PROCESS": a stalled one goes on, and renews first of all.
func (s *story) wakes(args []string) []string {
	delete(s.silent, args[0])
	return s.renew(args[0])
}

func (s *story) renew(id string) []string {
	if _, err := s.s.Renew(s.c, id, lease+s.ticks*time.Second, gap, nil); err != nil {
		return []string{id + " was refused: " + err.Error()}
	}
	return nil
}

// tick is "tick": a lease period passes. A living process has renewed its lease. One
// whose lease is the same as at the tick before counts as dead.
func (s *story) tick([]string) (lines []string) {
	s.ticks++
	for _, id := range slices.Sorted(maps.Keys(s.procs)) {
		if !s.silent[id] {
			lines = append(lines, s.renew(id)...)
		}
	}
	now := map[string]string{}
	for id := range s.procs {
		if now[id] = s.procs[id].lease(); now[id] != "" && now[id] == s.seen[id] {
			s.dead[id] = now[id]
			lines = append(lines, id+" has not renewed its lease")
		}
	}
	s.seen = now
	slices.Sort(lines)
	return lines
}

// reap is "reap PROCESS" or "reap PROCESS piece=2": another one takes the jobs of a process
// that it saw dead at the last tick; with a piece it is killed after that many jobs.
func (s *story) reap(args []string) []string {
	m := s.procs[args[0]]
	fenced, err := s.s.Fence(s.c, m.ID, s.dead[m.ID])
	s.must(err)
	if !fenced {
		return []string{"not fenced: its lease has changed"}
	}
	s.dead[m.ID] = m.lease()
	if len(args) > 1 {
		n, _ := strconv.Atoi(strings.TrimPrefix(args[1], "piece="))
		held := parseTickets(s.server.List(s.t, "HKEYS", s.s.inflight(m.ID)))
		slices.Reverse(held)
		handed := s.server.Text(s.t, "HGET", s.s.process(m.ID), "handed")
		r, err := s.s.recovery(s.c, m.Process, 3, noon, parseHanded(handed))
		s.must(err)
		r.end = deadEnds(s.s, false, noon)
		var total Recovered
		s.must(r.move(s.c, held[:n], &total))
		return []string{fmt.Sprintf("requeued %d, failed %d, then was killed", total.Requeued, total.Failed)}
	}
	got := m.recover(3)
	_, err = s.s.Leave(s.c, m.ID)
	s.must(err)
	return []string{fmt.Sprintf("requeued %d, failed %d", got.Requeued, got.Failed)}
}

// redis is "redis COMMAND KEY…", by another program.
func (s *story) redis(args []string) []string {
	rest := make([]any, 0, len(args))
	for i, a := range args[1:] {
		if i == 0 {
			a = s.s.ns + a
		}
		rest = append(rest, a)
	}
	s.do(args[0], rest...)
	return nil
}
