package workflows

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/resque"
)

// Errors of Start, Reserve, Add and Close. Each is wrapped with the workflow's id in front.
var (
	// ErrNoWorkflow: there is no workflow with this id, or it was removed.
	ErrNoWorkflow = errors.New("there is no such workflow")
	// ErrEnded: the workflow or its open join has ended, or it is closed and a client adds.
	ErrEnded = errors.New("the batch has ended or is closed: nothing can be added")
	// ErrChangedSequence: an adder that runs again adds another sequence than before.
	ErrChangedSequence = errors.New("the sequence is not the one that was added before")
	// ErrBehind: Redis has less of the adder than the adder has added, as after a fail-over. It must add again from the
	// count that Added has.
	ErrBehind = errors.New("a part of what was added is lost in Redis: add it again")
	// ErrAdderEnded: the job that adds has ended for its workflow. It runs a second time, or too late.
	ErrAdderEnded = errors.New("the job that adds has ended")
	// ErrTooLarge: a plan is larger than one call may be.
	ErrTooLarge = errors.New("too large for one call")
)

// Started says what Start found.
type Started struct {
	New    bool   // it started; false: a workflow with this id was there, and nothing was written
	Holder string // the id of the workflow that is unique under the name; "": none. Then nothing was written
}

// Limits of one call of Start or Add.
const (
	MostSent  = 1000
	MostBytes = 1 << 20
)

// Size is about how many bytes the plan brings to Redis.
func (p *Plan) Size() int {
	n := len(p.Letters) + len(p.Meta)
	for _, j := range p.Jobs {
		n += len(j.Payload)
	}
	for _, f := range p.Fields {
		switch f := f.(type) {
		case string:
			n += len(f)
		case []byte:
			n += len(f)
		default:
			n += 8
		}
	}
	return n
}

// fits returns an error if the plan is too large for one call.
func (p *Plan) fits() error {
	switch size := p.Size(); {
	case len(p.Jobs) > MostSent:
		return fmt.Errorf("%w: %d jobs are sent first, at most %d may be; add them in pieces", ErrTooLarge, len(p.Jobs), MostSent)
	case size > MostBytes:
		return fmt.Errorf("%w: %d bytes, at most %d may be; add its jobs in pieces, or make their arguments smaller", ErrTooLarge, size, MostBytes)
	}
	return nil
}

var (
	startScript   = load("start")
	reserveScript = load("reserve")
	addScript     = load("add")
	closeScript   = load("close")
)

// Start starts a workflow, in one step. A Plan has at most MostSent jobs and MostBytes: more are added in pieces, and
// Start returns ErrTooLarge. After an error nothing was written, unless the connection broke; the same call may be made
// again.
func (s Store) Start(c redis.Conn, p *Plan) (Started, error) {
	if err := p.fits(); err != nil {
		return Started{}, fmt.Errorf("starting workflow %s: %w", p.ID, err)
	}
	holder := ""
	for range 9 { // another one took the lock meanwhile
		a, err := s.startOnce(c, p, holder)
		if err != nil {
			return Started{}, fmt.Errorf("starting workflow %s: %w", p.ID, err)
		}
		switch a[0] {
		case "new", "existed":
			return Started{New: a[0] == "new"}, nil
		case "held":
			return Started{Holder: a.at(1)}, nil
		case "other":
			holder = a.at(1)
		default:
			return Started{}, fmt.Errorf("starting workflow %s: %w", p.ID, resque.ErrAnswer)
		}
	}
	return Started{Holder: holder}, nil
}

func (s Store) startOnce(c redis.Conn, p *Plan, holder string) (answer, error) {
	a := s.call(p.ID, p.queue())
	a.Key(s.LockKey(p.Lock).String())
	if holder == "" {
		a.Key(s.WorkflowKey(p.ID).String())
	} else {
		a.Key(s.WorkflowKey(holder).String())
	}
	name := p.Name
	if name == "" {
		name = "-"
	}
	a.Arg(p.ID, name, p.Deadline.Milliseconds(), p.Lock, holder)
	s.piece(a, p, 0, p.startFields())
	return do(c, startScript, a)
}

// queue is that of the first job; "" if there is none.
func (p *Plan) queue() string {
	if len(p.Jobs) == 0 {
		return ""
	}
	return p.Jobs[0].Queue
}

// startFields are the fields of the hash that the compiler does not make, and start.lua does not either.
func (p *Plan) startFields() (fields []any) {
	text := func(name, value string) {
		if value != "" {
			fields = append(fields, name, value)
		}
	}
	length := func(name string, d time.Duration) {
		if d > 0 {
			fields = append(fields, name, d.Milliseconds())
		}
	}
	text("name", p.Name)
	text("meta", string(p.Meta))
	text("lock", p.Lock)
	length("deadline", p.Deadline)
	length("keep", p.Keep)
	if p.Open {
		joins, scopes := 0, 0
		for i := 0; i < len(p.Fields); i += 2 {
			name, _ := p.Fields[i].(string)
			joins, scopes = max(joins, numbered(name, "j")), max(scopes, numbered(name, "p"))
		}
		fields = append(fields, "open", p.OpenJoin, "next", len(p.Letters), "nextjoin", joins, "nextscope", scopes)
	}
	return fields
}

// numbered returns the number behind that of a field such as j3, or 0.
func numbered(name, prefix string) int {
	digits, ok := strings.CutPrefix(name, prefix)
	n, err := strconv.Atoi(digits)
	if !ok || err != nil {
		return 0
	}
	return n + 1
}

// Adder is who adds to an open join: it goes on where an earlier run of the same adder stopped.
type Adder struct {
	Workflow string
	Join     int
	Name     string // "" of a client; of a job the id of the step
	Step     int    // of a job that adds: its letter must be Sent; -1: a client
}

// Added is how far an adder is.
type Added struct {
	Count int    // elements of its sequence that it has added, in all its runs
	Hash  string // of them, no blank; "-" before the first
	State string // of the workflow

	// First, FirstJoin and FirstScope are the first numbers reserved for what it adds next.
	First, FirstJoin, FirstScope int
}

// Reserve returns how far an adder is, and reserves letters, joins and scopes for its next piece, once: called again
// before the piece is added, it returns the same. With letters 0 it reserves nothing.
func (s Store) Reserve(c redis.Conn, a Adder, letters, joins, scopes int) (Added, error) {
	call := s.adder(a, "")
	call.Arg(letters, joins, scopes)
	r, err := do(c, reserveScript, call)
	if err != nil {
		return Added{}, fmt.Errorf("adding to workflow %s: %w", a.Workflow, err)
	}
	return r.added(a, 7)
}

// Add adds a piece behind those that the adder has added. Count and Hash are what the adder has before it and behind it;
// before has also the first letter that was reserved. The piece's Letters begin there, and its Members are counted in the
// join. A piece that was added is passed over, and the answer says how far the adder is: also with ErrBehind.
func (s Store) Add(c redis.Conn, a Adder, before, behind Added, p *Plan) (Added, error) {
	if err := p.fits(); err != nil {
		return Added{}, fmt.Errorf("adding to workflow %s: %w", a.Workflow, err)
	}
	call := s.adder(a, p.queue())
	call.Arg(before.Count, hashOf(before), behind.Count, hashOf(behind), p.Members)
	s.piece(call, p, before.First, nil)
	r, err := do(c, addScript, call)
	if err != nil {
		return Added{}, fmt.Errorf("adding to workflow %s: %w", a.Workflow, err)
	}
	return r.added(a, 4)
}

func hashOf(a Added) string {
	if a.Hash == "" {
		return "-"
	}
	return a.Hash
}

// Close closes a batch: nothing is added from outside any more, and what follows is sent when its members have ended.
// Closing it again changes nothing. It returns the workflow's state.
func (s Store) Close(c redis.Conn, id string) (state string, err error) {
	r, err := do(c, closeScript, s.call(id, ""))
	switch {
	case err != nil:
		return "", fmt.Errorf("closing workflow %s: %w", id, err)
	case r[0] == "gone":
		return "", fmt.Errorf("closing workflow %s: %w", id, ErrNoWorkflow)
	}
	return r.at(1), nil
}

// call begins a call of a script that joins the state machine: the keys that all of them have, for no queue. What the call
// pushes to queues whose names are in the same set as this one's goes there.
func (s Store) call(id, like string) *resque.Call {
	a := new(resque.Call)
	keys := s.keys(id, "")
	keys[5] = s.NamesKey(like)
	for _, k := range keys {
		a.Key(k.String())
	}
	a.Arg("")
	return a
}

// keys are the first eight keys of a script that joins the state machine.
func (s Store) keys(id, queue string) []resque.Key {
	return []resque.Key{
		s.LettersKey(id), s.WorkflowKey(id), s.IndexKey(), s.documentKey(id), s.HaltedKey(), s.NamesKey(queue), s.ScheduleKey(),
		s.QueueKey(queue),
	}
}

func (s Store) documentKey(id string) resque.Key { return s.DocumentKeys(id, false)[0] }

func (s Store) adder(a Adder, like string) *resque.Call {
	call := s.call(a.Workflow, like)
	call.Arg(a.Name, a.Join, a.Step)
	return call
}

// piece adds what parts/piece.lua reads.
func (s Store) piece(a *resque.Call, p *Plan, first int, fields []any) {
	fields = slices.Concat(p.Fields, fields)
	a.Arg(first, p.Letters, len(fields))
	a.Arg(fields...)
	var queues []any
	for _, j := range p.Jobs {
		if s.NamesKey(j.Queue) == s.NamesKey(p.queue()) && !slices.Contains(queues, any(j.Queue)) { // other jobs go by the schedule
			queues = append(queues, j.Queue)
			a.Key(s.QueueKey(j.Queue).String())
		}
	}
	a.Arg(len(queues))
	a.Arg(queues...)
	a.Arg(len(p.Jobs))
	for _, j := range p.Jobs {
		a.Arg(j.Step, j.delay(), resque.JobPrefix(j.Queue)+string(j.Payload))
	}
	for _, h := range p.Hashes {
		for _, key := range h.Keys {
			a.Key(key)
		}
		a.Arg(len(h.Keys), h.TTL, len(h.Fields))
		a.Arg(h.Fields...)
	}
}

// delay is when the job is due, as a template says it.
func (j *Job) delay() string {
	if !j.At.IsZero() {
		return "@" + strconv.FormatInt(j.At.UnixMilli(), 10)
	}
	return strconv.FormatInt(j.Delay.Milliseconds(), 10)
}
