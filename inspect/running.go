package inspect

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/payload"
	"github.com/goworker/goworker/internal/resque"
)

// Source says who runs a job.
type Source string

// The sources of running jobs.
const (
	SourceGo    Source = "goworker" // a goworker process
	SourceOther Source = "other"    // a worker of another program: Ruby, PHP, Node, an older goworker
	SourceHTTP  Source = "http"     // a client holds it over HTTP
)

// RunningJob is a job that runs anywhere. What is zero is not known.
type RunningJob struct {
	Source  Source
	Process string // of goworker; see Process
	Worker  string // that shows the job; of goworker only once it has run for 100 ms
	Host    string
	Queue   string
	Class   string
	ID      string
	Args    []json.RawMessage // nil if Payload is cut

	// Payload is the JSON of the job, of which 2 KiB are read, and Size how many bytes it has in Redis. Cut says that Payload is
	// only its beginning, or missing.
	Payload []byte
	Size    int64
	Cut     bool

	Ticket  int64         // of a goworker process's job: its number there; see CancelRunning
	Began   time.Time     // by the clock of its process. Zero: it is about to run, runs for less than 100 ms, or a client holds it
	Limit   time.Duration // its time limit; only known of one that is past it
	Stuck   bool          // its process says that it runs past its time limit
	Attempt int           // 1 for its first run; 0: not known

	Progress  *ProgressInfo // nil: it says nothing about it
	LeaseEnds time.Time     // of a job that a client holds

	Shard string // of several Redises, the one where it is
}

// RunningPage is a part of the running jobs.
type RunningPage struct {
	Jobs []RunningJob
	Next string    // where the next page begins; "" only if there are no more
	At   time.Time // Redis's time

	// Seen is how many goworker processes, registered workers and leases this page and those before it looked at, and Of how many there are. Over
	// shards both are of the one that it has come to.
	Seen, Of int64

	// Refused says which keys Redis refused to read. The page is of the others.
	Refused []error
}

// RunningFilter chooses running jobs. A zero field chooses all; a job must match every field that is set.
type RunningFilter struct {
	Queue func(name string) bool // of jobs whose queue is not known too, with ""
	Class string
	Text  string // in the queue, host, process, worker, id or the part of the payload that is read
}

// Running returns a page of the jobs that run anywhere: those that goworker processes have reserved, those that workers of other
// programs show, and those that clients hold over HTTP. after is "" for the first page, and then the Next of the page before, with the
// same filter; count is 1 to 500.
//
// It looks at a stretch of the fleet: at most 250 jobs of 100 processes, about 1,000 registered workers and 100 leases, or less if their
// jobs are large. Jobs of one stretch are sorted, those that began first in front, then those whose beginning is not known, by the ends
// of their leases. So the list of a fleet that
// fits into a stretch begins with the job that runs longest; of a larger one each stretch does. A page is of one stretch, so it may be short, or
// empty, although Next says that there is more. A page that goes on in a stretch reads it again.
//
// A job that runs all the time while pages are read may be on two pages. It is missed only if its place changes within a stretch of which a page
// was read: its beginning becomes known, or its lease is renewed. What a worker of a goworker process without a lease shows is not
// among the jobs.
//
// It sends at most twelve commands in four round trips, and brings less than 1 MiB.
func (i *Inspector) Running(ctx context.Context, after string, count int, f RunningFilter) (page RunningPage, err error) {
	if err := i.pageable(count); err != nil {
		return page, err
	}
	if i.several() {
		next, err := i.shardPage(after, func(one *Inspector, after string) (string, error) {
			var err error
			page, err = one.Running(ctx, after, count, f)
			return page.Next, err
		})
		page.Next = next
		return page, err
	}
	var from runningCursor
	if err := parsePlace(after, &from); err != nil {
		return page, err
	}
	if question := refOf(f.Class, []byte(f.Text))[:8]; after == "" {
		from.Question = question
	} else if from.Question != question {
		return page, fmt.Errorf("goworker: %q is where a page of another filter begins; give the same one: %w", after, ErrCursor)
	}
	err = i.do(ctx, func(s resque.Store, c redis.Conn) error {
		read, err := s.Running(c, from.Place)
		if err != nil {
			return err
		}
		page.At, page.Seen, page.Of, page.Refused = read.At, read.Next.Seen, max(read.Of, read.Next.Seen), read.Refused
		page.Jobs, page.Next = f.page(read, from, count, i.shard())
		return page.progress(s, c)
	})
	return page, err
}

// runningCursor is a place in a stretch.
type runningCursor struct {
	Question string              `json:"q"`
	Place    resque.RunningPlace `json:"f"`           // where the stretch begins
	Rank     string              `json:"r,omitempty"` // of the last job that was on a page; "": none was
}

// page chooses a page from a stretch.
func (f RunningFilter) page(read resque.RunningRead, from runningCursor, count int, shard string) (page []RunningJob, next string) {
	var jobs []RunningJob
	for _, of := range read.Jobs {
		if j := runningJob(of); f.fits(j) && j.rank() > from.Rank {
			j.Shard = shard
			jobs = append(jobs, j)
		}
	}
	slices.SortFunc(jobs, func(a, b RunningJob) int { return strings.Compare(a.rank(), b.rank()) })
	switch {
	case len(jobs) > count:
		jobs = jobs[:count]
		from.Rank = jobs[count-1].rank()
		next = placeText(from)
	case !read.Next.Over():
		next = placeText(runningCursor{Question: from.Question, Place: read.Next})
	}
	return jobs, next
}

// rank sorts the jobs of a stretch, and names one among them.
func (j RunningJob) rank() string {
	at, unknown := j.Began, 0
	if at.IsZero() {
		at, unknown = j.LeaseEnds, 1
	}
	ms := int64(0)
	if !at.IsZero() {
		ms = max(0, at.UnixMilli())
	}
	return fmt.Sprintf("%d %016d %s %016d %s %s %s", unknown, ms, j.Process, j.Ticket, j.Worker, j.Queue, j.ID)
}

// runningJob is a job as it was read.
func runningJob(of resque.RunningJob) RunningJob {
	j := RunningJob{
		Source: SourceOther, Process: of.Process, Worker: of.Worker, Host: of.Host, Queue: of.Queue, ID: of.ID,
		Payload: of.Payload, Size: of.Size, Cut: int64(len(of.Payload)) < of.Size, Ticket: of.Ticket, Began: of.Began, LeaseEnds: of.Ends,
	}
	switch {
	case of.Place != "":
		j.Source = SourceHTTP
	case of.Process != "":
		j.Source = SourceGo
	}
	if of.Stuck != nil {
		j.Stuck, j.Limit = true, time.Duration(of.Stuck.Limit)*time.Millisecond
	}
	var id string
	if p, err := payload.Parse(of.Payload); err == nil && !j.Cut {
		j.Class, id, j.Attempt, j.Args = p.Class, p.ID, p.Attempt, p.Args
		if p.Text != nil {
			j.Payload = p.Text
		}
	} else if bytes.HasPrefix(of.Payload, []byte("{")) {
		j.Class, id, j.Attempt = payload.Beginning(of.Payload)
	} else if j.Cut { // of a MessagePack queue: a part of it says nothing
		j.Payload = nil
	}
	j.ID = cmp.Or(id, j.ID)
	return j
}

func (f RunningFilter) fits(j RunningJob) bool {
	if f.Queue != nil && !f.Queue(j.Queue) || f.Class != "" && f.Class != j.Class {
		return false
	}
	return f.Text == "" || bytes.Contains(j.Payload, []byte(f.Text)) ||
		slices.ContainsFunc([]string{j.Queue, j.Host, j.Process, j.Worker, j.ID}, func(s string) bool { return strings.Contains(s, f.Text) })
}

// progress reads how far the jobs are.
func (p *RunningPage) progress(s resque.Store, c redis.Conn) error {
	var ids []string
	for _, j := range p.Jobs {
		if j.ID != "" {
			ids = append(ids, j.ID)
		}
	}
	found, err := s.ReadProgress(c, ids)
	for n, j := range p.Jobs {
		p.Jobs[n].Progress = progressOf(found[j.ID])
	}
	return err
}
