package inspect

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/goworker/goworker/internal/access"
	"github.com/goworker/goworker/internal/payload"
	"github.com/goworker/goworker/internal/prefix"
	"github.com/goworker/goworker/internal/resque"
	"github.com/goworker/goworker/internal/resque/delayed"
)

// Place is where a job can be.
type Place string

const (
	Delayed Place = "delayed" // in a schedule: goworker's own or resque-scheduler's
	Queued  Place = "queued"  // in its queue
	InLane  Place = "lane"    // in a lane of its queue, because of limits or turns
	Leased  Place = "leased"  // held by a client over HTTP
	Running Place = "running" // reserved by a goworker process. A Ruby worker's job is among Workers. In Query.Places it means Leased too
	Failed  Place = "failed"  // in a list of failures, retried or not
)

// places are all, in the direction in which jobs go. So a walk misses no job that goes on meanwhile.
var places = []Place{Delayed, Queued, InLane, Leased, Running, Failed}

// Entry is a job as it was found: what it is, and where it was then. The calls that change jobs know it
// by its bytes and its place, never by a position. Of jobs that are equal in both, any may be meant.
type Entry struct {
	Place Place
	Shard string // of several Redises, the one where it is

	Queue string
	Class string
	Args  []json.RawMessage
	ID    string // "" if its producer gave it none, as Ruby does

	// Ref names the job by its queue and payload: 28 hexadecimal digits, the same in each place, as
	// long as nothing is written into the payload. Jobs that are equal have one Ref. Query.Ref finds it.
	Ref string

	// Payload is what a worker gets. If it is no job, Invalid says why, and Class, Args and ID are not set.
	Payload json.RawMessage
	Invalid error

	// Attempt is which run the payload is for; the first is 1. It is 0 if the payload is no job. LastError is why the run before
	// failed, "Type: text" in at most 200 bytes; "" of a first run, and where the payload does not say so.
	Attempt   int
	LastError string

	At      time.Time // of a delayed job: when it is due
	Plain   bool      // of a delayed job: it is in resque-scheduler's schedule
	Limits  []string  // of a job in a lane: the limits it waits for, each with its key
	Process string    // of a running job: the process that has it; see Processes
	Ticket  int64     // of a running job: its number there; see CancelRunning
	Began   time.Time // of a running job, if the query asks for times and it has run for 100 ms
	Lease   time.Time // of a job that a client holds over HTTP: until when
	Failure *Failure  // of a failed job: its record

	raw    []byte // the bytes as they lie there; Payload is their JSON
	shard  int
	index  int64 // where it was read, of a job in a list
	lane   *resque.Lane
	listed bool
	mask   Mask // of the Inspector that found it
	delay  delayed.Job
}

// Query chooses jobs. A zero field chooses all; a job must match every field that is set. Queue, Class,
// Args and ID choose as Job does; Args need a Class.
type Query struct {
	Queue string
	Class string
	Args  []any
	ID    string
	Ref   string // of an Entry

	Places []Place // nil: all

	// Where are further conditions: a job must fulfil all of them. ParseQuery makes them of a text.
	Where []Condition

	inner bool // ID is also that of an ActiveJob
}

// matcher is a query prepared for many jobs.
type matcher struct {
	Query
	args   []json.RawMessage
	texts  [][]byte // a payload that matches holds all of these
	names  [][]byte // those of them that no program writes in another way
	where  []test
	mask   Mask    // nil: none
	places []Place // as Query.Places; those that a condition about states leaves
	unsure int     // jobs that do not match because nothing says whether they do
}

// matcher prepares the query, or says what is wrong with it. With a mask, no text that it may hide is sought in the bytes of jobs.
func (q Query) matcher(settings access.Settings, mask Mask) (*matcher, error) {
	m := &matcher{Query: q, mask: mask}
	for _, p := range q.Places {
		if !slices.Contains(places, p) {
			return nil, fmt.Errorf("goworker: %q is no place of jobs; there are delayed, queued, lane, leased, running and failed", p)
		}
	}
	if q.Args != nil {
		if q.Class == "" {
			return nil, errors.New("goworker: the query has Args and no Class; set the class of the job")
		}
		raw, err := payload.Encode(q.Class, q.Args, settings.Style)
		if err == nil {
			err = payload.CheckSize(raw, settings.MaxPayload)
		}
		if err != nil {
			return nil, prefix.Errorf("looking for %s: %w", q.Class, err)
		}
		p, err := payload.Parse(raw)
		if err != nil {
			return nil, prefix.Errorf("looking for %s: %w", q.Class, err)
		}
		m.args = p.Args
		if len(p.Args) > 0 && mask == nil {
			m.texts = append(m.texts, slices.MaxFunc(p.Args, func(a, b json.RawMessage) int { return cmp.Compare(len(a), len(b)) }))
		}
	}
	if q.Ref != "" && len(q.Ref) != refSize {
		return nil, fmt.Errorf("goworker: %s is no ref of a job (%d hex digits)", q.Ref, refSize)
	}
	for _, name := range []string{q.Class, q.ID} {
		if name != "" && payload.PlainText(name) {
			m.names = append(m.names, []byte(name))
		}
	}
	for _, c := range q.Where {
		t, texts, err := c.prepare()
		if err != nil {
			return nil, err
		}
		if mask != nil && c.masks() {
			plain := t
			t, texts = func(s *subject) verdict { return plain(s.behind(mask)) }, nil
		}
		m.where = append(m.where, t)
		for _, text := range texts {
			m.names = append(m.names, []byte(text))
		}
	}
	m.texts = append(m.texts, m.names...)
	for _, p := range places {
		if len(q.Places) == 0 || slices.Contains(q.Places, p) || p == Leased && slices.Contains(q.Places, Running) {
			m.places = append(m.places, p)
		}
	}
	return m, nil
}

// in reports whether jobs of a place are meant.
func (m *matcher) in(p Place) bool { return slices.Contains(m.places, p) }

// asks reports whether there is a condition of one of these names.
func (m *matcher) asks(names ...string) bool {
	return slices.ContainsFunc(m.Where, func(c Condition) bool { return slices.Contains(names, c.Name) })
}

// wants reports whether jobs of a queue can match.
func (m *matcher) wants(queue string) bool {
	if m.Queue != "" && m.Queue != queue {
		return false
	}
	for _, c := range m.Where {
		if c.Name == onQueue && c.equal(queue) == c.Not {
			return false
		}
	}
	return true
}

// fits reports whether a job matches.
func (m *matcher) fits(s subject) bool {
	if m.Queue != "" && s.queue != m.Queue || m.Ref != "" && refOf(s.queue, s.raw) != m.Ref {
		return false
	}
	if m.Class != "" || m.ID != "" {
		p := s.job()
		switch {
		case p == nil, m.Class != "" && p.Class != m.Class, m.ID != "" && p.ID != m.ID && !(m.inner && s.inner.ID == m.ID),
			m.Args != nil && !s.same(m):
			return false
		}
	}
	all := yes
	for _, t := range m.where {
		if all = min(all, t(&s)); all == no {
			return false
		}
	}
	if all == unsure {
		m.unsure++
	}
	return all == yes
}

// same reports whether the job has the class and arguments that are sought.
func (s *subject) same(m *matcher) bool {
	p := s.behind(m.mask).job()
	return p != nil && p.Same(m.Class, m.args)
}

// refSize is the length of a Ref.
const refSize = 28

func refOf(queue string, raw []byte) string {
	sum := sha256.Sum256([]byte(resque.JobPrefix(queue) + string(raw)))
	return hex.EncodeToString(sum[:])[:refSize]
}

// entry is a job that was found here.
func (i *Inspector) entry(place Place, queue string, raw []byte) Entry {
	e := Entry{Place: place, Queue: queue, Payload: raw, raw: raw, Ref: refOf(queue, raw), listed: true, shard: i.number, mask: i.mask}
	p, err := payload.Parse(raw)
	if err != nil {
		e.Invalid = err
		return e
	}
	if p.Text != nil {
		e.Payload = p.Text
	}
	e.Class, e.Args, e.ID = p.Class, p.Args, p.ID
	e.Attempt, e.LastError = ran(&p)
	return e
}

// ran returns which run a payload is for, and why the one before failed.
func ran(p *payload.Payload) (attempt int, lastError string) {
	if p.Attempt > 1 {
		lastError, _ = p.LastError()
	}
	return p.Attempt, lastError
}

// String says what the job is and where: "job Mail, id x, in queue mail".
func (e Entry) String() string {
	var b strings.Builder
	b.WriteString("job ")
	b.WriteString(cmp.Or(e.Class, "without a class"))
	switch {
	case e.ID != "":
		fmt.Fprintf(&b, ", id %s,", e.ID)
	case len(e.Args) > 0:
		b.WriteByte('(')
		for n, arg := range e.shownArgs() {
			if n > 0 {
				b.WriteByte(',')
			}
			b.WriteString(payload.Short(arg))
		}
		b.WriteByte(')')
	}
	switch e.Place {
	case Delayed:
		fmt.Fprintf(&b, " delayed to %s for queue %s", e.At.UTC().Format(time.RFC3339), e.Queue)
	case InLane:
		fmt.Fprintf(&b, " in a lane of queue %s", e.Queue)
	case Running:
		fmt.Fprintf(&b, " of queue %s in process %s", e.Queue, e.Process)
	case Leased:
		fmt.Fprintf(&b, " of queue %s in the hands of a client", e.Queue)
	case Failed:
		fmt.Fprintf(&b, " of queue %s in the failures", e.Queue)
	default:
		fmt.Fprintf(&b, " in queue %s", e.Queue)
	}
	if e.Shard != "" {
		b.WriteString(" of shard " + e.Shard)
	}
	return b.String()
}

// lock returns the lock that the job has if it is unique, and its id.
func (e Entry) lock() (lock, id string) {
	p, err := payload.Parse(e.Payload)
	if err == nil {
		_, lock, _ = resque.ParseLock(p.Unique)
	}
	return lock, p.ID
}
