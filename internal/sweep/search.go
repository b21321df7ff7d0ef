package sweep

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/resque"
	"github.com/goworker/goworker/internal/resque/workflows"
)

// search looks for the sent steps of all workflows that stand still. A pass reads each place once, whatever the number of
// workflows: in pages, with rests between. A step that two passes do not find is lost: one pass may miss a job that
// moves meanwhile. A wrong answer costs a second run of the job, and no second callback.
//
// The zero search is ready but for store and want. It is for one goroutine.
type search struct {
	store workflows.Store
	want  map[string]*still // the workflows that stand still, by id
	left  int               // how many of their steps the pass has not found
	pages []page            // what the pass still reads, the next one last; nil: no pass is under way
	named bool              // the queues are among the pages
	next  time.Time         // when the next pass may begin, by Redis's clock; zero: at once
}

// page is one read of a place. It returns the pages that are to be read in its place; nil: the place was read.
type page func(c redis.Conn) ([]page, error)

// still is a workflow that stands still.
type still struct {
	workflows.Standing
	letters []byte // at the beginning of a pass
	seen    []bool
	missing []int // in the pass before; nil: there was none
	in      bool  // the pass under way looks for it
}

// add adds a workflow that stands still. It returns false if none of its steps is sent.
func (s *search) add(w *workflows.Standing, letters []byte) bool {
	if s.want[w.ID] == nil {
		if !slices.Contains(letters, workflows.Sent) {
			return false
		}
		s.want[w.ID] = &still{Standing: *w}
	}
	return true
}

// forget drops all workflows: another process leads.
func (s *search) forget() {
	clear(s.want)
	s.pages, s.next, s.left = nil, time.Time{}, 0
}

// due returns how long there is nothing to search. Passes begin this long after one another.
func (s *search) due(now time.Time, again time.Duration) time.Duration {
	switch {
	case s.pages != nil:
		return 0
	case len(s.want) == 0:
		return resque.Never
	}
	return max(0, s.next.Sub(now))
}

// begin begins a pass.
func (s *search) begin(c redis.Conn) error {
	s.left, s.named = 0, false
	for id, w := range s.want {
		letters, err := s.store.ReadLetters(c, id)
		if err != nil {
			return err
		}
		w.letters, w.seen, w.in = letters, make([]bool, len(letters)), true
		for _, l := range letters {
			if l == workflows.Sent {
				s.left++
			}
		}
	}
	s.pages = []page{s.records, s.scan("0", s.store.ScanLeased), s.scan("0", s.store.ScanDelayed)}
	return nil
}

// step reads a page. over says that the pass has ended.
func (s *search) step(c redis.Conn) (over bool, err error) {
	if s.left > 0 && len(s.pages) > 0 {
		last := len(s.pages) - 1
		more, err := s.pages[last](c)
		if err != nil {
			return false, err
		}
		s.pages = append(s.pages[:last], more...)
	}
	if s.left > 0 && len(s.pages) == 0 && !s.named {
		s.named = true
		s.pages = append(s.pages, s.records) // once more: what was taken from its queue while that was read
		queues, err := s.queues(c)
		for _, queue := range queues {
			s.pages = append(s.pages, s.lanes(queue), s.walk(s.store.KeyOfQueue(queue), nil))
		}
		if err != nil {
			s.pages = nil
		}
		return false, err
	}
	return s.left == 0 || len(s.pages) == 0, nil
}

// found notes that a job is somewhere.
func (s *search) found(raw []byte) {
	id, n, ok := workflows.StepOf(raw)
	if w := s.want[id]; ok && w != nil && w.in && n < len(w.seen) && !w.seen[n] && w.letters[n] == workflows.Sent {
		w.seen[n] = true
		s.left--
	}
}

func (s *search) scan(cursor string, read func(redis.Conn, string) ([]resque.Reserved, string, error)) page {
	return func(c redis.Conn) ([]page, error) {
		jobs, next, err := read(c, cursor)
		for _, j := range jobs {
			s.found(j.Payload)
		}
		if next == "0" || err != nil {
			return nil, err
		}
		return []page{s.scan(next, read)}, nil
	}
}

// records has the in-flight records of all processes read.
func (s *search) records(c redis.Conn) (all []page, err error) {
	ids, err := s.store.ProcessIDs(c)
	for _, id := range ids {
		all = append(all, s.scan("0", func(c redis.Conn, cursor string) ([]resque.Reserved, string, error) {
			return s.store.ScanInFlight(c, id, cursor)
		}))
	}
	return all, err
}

// walk reads a list of jobs from its head.
func (s *search) walk(key string, from *resque.ListPlace) page {
	return func(c redis.Conn) ([]page, error) {
		read, err := s.store.WalkList(c, key, true, from, 1<<30, [][]byte{[]byte(`"` + workflows.Field + `":"`)}, func(raw []byte) bool {
			s.found(raw)
			return false
		})
		if err != nil || read.Next == nil {
			return nil, err
		}
		return []page{s.walk(key, read.Next)}, nil
	}
}

// lanes has the lanes of a queue read.
func (s *search) lanes(queue string) page {
	return func(c redis.Conn) (all []page, err error) {
		sets, err := s.store.SortedQueues(c, queue)
		for _, set := range sets {
			all = append(all, s.turns(set, "0"))
		}
		return all, err
	}
}

func (s *search) turns(set resque.Lanes, cursor string) page {
	return func(c redis.Conn) (all []page, err error) {
		lanes, next, err := s.store.ScanLanes(c, set, cursor)
		if next != "0" && err == nil {
			all = append(all, s.turns(set, next))
		}
		for _, lane := range lanes {
			all = append(all, s.walk(s.store.KeyOfLane(lane), nil))
		}
		return all, err
	}
}

// queues returns the queues of the steps that were not found yet: those that their templates name, and all queues if one has
// no template.
func (s *search) queues(c redis.Conn) ([]string, error) {
	named := make(map[string]bool)
	all := false
	for id, w := range s.want {
		steps := w.unseen()
		if len(steps) == 0 || all {
			continue
		}
		templates, err := s.store.Templates(c, id, steps)
		if err != nil {
			return nil, err
		}
		for _, n := range steps {
			queue := templates[n].Queue
			all = all || queue == ""
			named[queue] = true
		}
	}
	if all {
		return s.store.Queues(c)
	}
	var queues []string
	for queue := range named {
		queues = append(queues, queue)
	}
	return queues, nil
}

// unseen returns the steps that the pass has not found.
func (w *still) unseen() (steps []int) {
	for n, l := range w.letters {
		if w.in && l == workflows.Sent && !w.seen[n] {
			steps = append(steps, n)
		}
	}
	return steps
}

// seek takes a step of the search, and says what is lost when a pass has ended.
func (s *Sweep) seek(c redis.Conn, now time.Time) error {
	if s.search.pages == nil {
		s.search.next = now.Add(s.config.Again)
		if err := s.search.begin(c); err != nil {
			return err
		}
		if err := s.store.TrimStalled(c); err != nil {
			return err
		}
	}
	over, err := s.search.step(c)
	if err != nil || !over {
		return err
	}
	s.search.pages = nil
	for id, w := range s.search.want {
		if !w.in {
			continue // it came while the pass was under way
		}
		missing := w.unseen()
		if len(missing) > 0 && w.missing == nil {
			w.missing, w.in = missing, false
			continue
		}
		delete(s.search.want, id)
		lost := slices.DeleteFunc(missing, func(n int) bool {
			_, before := slices.BinarySearch(w.missing, n)
			return !before
		})
		if err := s.verdict(c, now, w, lost); err != nil {
			return err
		}
	}
	return nil
}

// verdict says of a workflow that stands still what the search has found.
func (s *Sweep) verdict(c redis.Conn, now time.Time, w *still, lost []int) error {
	after := now.Add(s.config.StallAfter)
	if len(lost) == 0 {
		if w.Stalled != "" {
			if _, err := s.store.Stall(c, w.ID, nil, "", w.Bits); err != nil {
				return gone(err)
			}
		}
		w.Score = ""
		return s.store.PutOff(c, []workflows.PutOff{{Standing: w.Standing, Next: after, Moved: fmt.Sprintf("%d %d", now.UnixMilli(), w.Bits)}})
	}
	if w.Halted {
		_, err := s.store.Drop(c, w.ID, lost)
		return gone(err)
	}
	class, queue, err := s.store.About(c, w.ID, lost[0])
	if err != nil {
		return err
	}
	by, err := s.foreign(c, w.ID, lost)
	if err != nil {
		return err
	}
	why := fmt.Sprintf("step %d (%s, queue %s)", lost[0], class, queue)
	if len(lost) > 1 {
		why = fmt.Sprintf("%s, and with it %s", why, resque.Plural(len(lost)-1, "other"))
	}
	hint := "is nowhere: a worker that is not goworker took it, another program removed it, or Redis lost it"
	next := "Client.Workflows().Resume sends it again"
	if by != "" {
		hint = fmt.Sprintf("was taken by worker %s, which is not goworker and reports no end", by)
		next = "give steps queues of their own, or mark this one as External; Client.Workflows().MarkDone ends it"
	}
	why = why + " " + hint
	if news, err := s.store.Stall(c, w.ID, lost, why, w.Bits); err != nil || !news {
		return gone(err)
	}
	s.base.Log.Warn(fmt.Sprintf("workflow %s stands still: %s; %s", w.ID, why, next),
		"workflow", w.ID, "name", w.Name, "step", lost[0], "class", class, "queue", queue, "lost", len(lost))
	return nil
}

// foreign returns the worker that is not goworker and has one of the steps in hand; "": none.
func (s *Sweep) foreign(c redis.Conn, id string, lost []int) (string, error) {
	workers, err := s.store.Workers(c)
	if err != nil {
		return "", err
	}
	for _, w := range workers {
		if w.Working == nil {
			continue
		}
		if of, n, ok := workflows.StepOf(w.Working.Payload); ok && of == id && slices.Contains(lost, n) {
			return w.ID, nil
		}
	}
	return "", nil
}

// gone drops the error of a workflow that was removed meanwhile.
func gone(err error) error {
	if errors.Is(err, workflows.ErrNoWorkflow) {
		return nil
	}
	return err
}
