package resque

import (
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/goworker/goworker/internal/payload"
	"github.com/goworker/goworker/internal/queues"
)

// Limits of one push. Redis 6.2 refuses a command of more than 1 048 576 arguments, and
// any Redis one that fills its client buffer (1 GiB); both close the connection. A push
// far below these limits already delays every other client of Redis.
const (
	MaxPushJobs  = 1_000_000
	MaxPushBytes = 256 << 20
	maxPushArgs  = 1<<20 - 16
)

var (
	errNoQueue = errors.New("the queue has no name; give it one")

	// ErrNotPlain is why a job cannot wait in resque-scheduler's schedule.
	ErrNotPlain = errors.New("resque-scheduler's schedule keeps nothing but class and arguments, and this job has more")
)

// Bulk is jobs to push in one step, each to its place. One buffer holds all payloads, so a
// plain job costs next to no allocation. The zero value is ready. Only one goroutine may
// use a Bulk, and a copy of one that has jobs is of no use.
type Bulk struct {
	Style payload.Style // how Encode encodes
	Most  int           // Put refuses payloads of more bytes; 0: MaxPushBytes

	Types *Types // what is known of the types of keys; nil: each push proves them

	buf    []byte // the bytes of the jobs, and then of the one that is being written
	packed []byte // scratch: of one job for a MessagePack queue
	end    int    // where the last job ends
	jobs   []bulkJob
	units  []unit
	queues []bulkQueue
	index  map[string]int // a queue's place in queues, once there are several
	later  int            // the run of our own schedule, counted from 1; 0: none
	ruby   map[int64]int  // the runs of resque-scheduler's schedule, by ms, counted from 1

	// Room for one job, which most calls have.
	oneJob   [1]bulkJob
	oneUnit  [1]unit
	oneQueue [1]bulkQueue

	hashes    *newHashes // nil: there are none
	cancelled Key        // the set that lifts are removed from; zero: there are none
	lifting   string     // the id of the job that is being written, if its push lifts a cancel; "": it does not
	escaped   bool       // the id of a lift may be another text in the payload

	guards []Guarded   // those of units
	lifts  []lift      // empty, for those of the next unit; nil: there is no room
	locks  []lockGroup // scratch of groupLocks
	args   []any       // scratch: the arguments of a call

	doubt  bool       // a push was sent, and not answered
	rows   bool       // there is more than plain jobs for queues
	pushed int        // units that were pushed
	soft   []KeyError // soft effects that Redis refused
}

type bulkJob struct {
	unit  int32
	queue int32 // its place in Bulk.queues
	end   int   // of its bytes in Bulk.buf; they start where those of the job before it end
	at    int64 // due time in ms, of a run of our own schedule
}

type bulkQueue struct {
	name string
	run  int // the unit that takes its next plain job, counted from 1; 0: a new one
	next int // where its next job goes among the arguments of such a call
}

// unit is a run of plain jobs for one place, or a job with guards or effects.
type unit struct {
	kind    placeKind
	at      int64 // ms; of all its jobs, but for a run of our own schedule
	ahead   int   // the priority of its job; 0: none
	queue   int
	jobs    int
	guarded []Guarded // nil: a run
	lifts   []lift    // of a run
	over    bool      // it was pushed, or is not to be
	err     error
	by      string // the id of the job that it replaces

	next int // where its next value goes among a call's arguments
	room int // how many jobs still fit into the row
	skip int // how many values stand between the jobs of a row and those of the next
}

type placeKind uint8

const (
	inQueue    placeKind = iota
	inSchedule           // our own
	inRubys              // resque-scheduler's schedule
)

// Place says where a job goes.
type Place struct {
	Queue string
	At    time.Time // zero: into its queue, now. Else into our own schedule; the payload needs an id
	Ruby  bool      // into resque-scheduler's schedule, not goworker's; it keeps nothing but class and arguments

	// Priority puts the job in front of jobs with a lower one, from 1 to 9. It is written into the payload, so
	// that a job from our schedule or in a lane has it too. 0: none.
	Priority int
}

// mostKept is how many bytes of room Reset keeps.
const mostKept = 1 << 20

// Reset makes b as good as new, and keeps its memory.
func (b *Bulk) Reset() {
	for i := range b.units {
		if lifts := b.units[i].lifts; cap(lifts) > cap(b.lifts) {
			clear(lifts)
			b.lifts = lifts[:0]
		}
	}
	clear(b.units)
	clear(b.queues)
	clear(b.guards)
	clear(b.args)
	room := Bulk{buf: b.buf[:0], packed: b.packed, jobs: b.jobs[:0], units: b.units[:0], queues: b.queues[:0], guards: b.guards[:0], lifts: b.lifts, locks: b.locks, args: b.args[:0]}
	if cap(b.buf) > mostKept {
		room = Bulk{}
	}
	*b = room
}

// argsRoom returns room for the arguments of a call, which the next call overwrites.
func (b *Bulk) argsRoom(n int) []any {
	b.args = slices.Grow(b.args[:0], n)[:n]
	return b.args
}

// Grow makes room for n more jobs of the average size of those added.
func (b *Bulk) Grow(n int) {
	b.jobs = slices.Grow(b.jobs, n)
	if len(b.jobs) > 0 {
		b.buf = slices.Grow(b.buf, min(n*(b.end/len(b.jobs)+8), MaxPushBytes))
	}
}

// Encode begins a job. It returns the payload with class and args, which is valid until the next call.
func (b *Bulk) Encode(class string, args []any) ([]byte, error) {
	buf, err := payload.Append(b.buf[:b.end], class, args, b.Style)
	if err != nil {
		return nil, err
	}
	return b.begin(buf), nil
}

// EncodeList is Encode for arguments that are a list in JSON, whose bytes are kept.
func (b *Bulk) EncodeList(class string, list []byte) []byte {
	return b.begin(payload.AppendList(b.buf[:b.end], class, list))
}

// begin takes the bytes with a new job at the end, and returns that.
func (b *Bulk) begin(buf []byte) []byte {
	b.buf, b.lifting = buf, ""
	if b.hashes != nil {
		b.hashes.next = b.hashes.next[:0] // of a job that was not added
	}
	return buf[b.end:len(buf):len(buf)]
}

// Begun returns the payload of the job that Encode began. It is valid until the next call.
func (b *Bulk) Begun() []byte { return b.buf[b.end:len(b.buf):len(b.buf)] }

// Set adds a field to the job that Encode began.
func (b *Bulk) Set(f payload.Field) { b.buf = payload.AppendField(b.buf, f) }

// SetText is Set for a text.
func (b *Bulk) SetText(name, value string) { b.buf = payload.AppendTextField(b.buf, name, value) }

// Put adds the job that Encode began, behind the others. With an error it is not added. It keeps no g.
func (b *Bulk) Put(to Place, g ...Guarded) error {
	if to.Queue == "" {
		return errNoQueue
	}
	if to.Priority > 0 { // a job that has one has an id too, so it is no run of plain jobs
		b.buf = slices.Insert(b.buf, b.end+len("{"), []byte(payload.Priority(to.Priority))...)
		if g == nil && to.At.IsZero() {
			g = []Guarded{}
		}
	}
	if b.lifting != "" && g != nil {
		byID, byPlace := CancelledBoth(to.Queue, b.lifting)
		g, b.lifting = append(g, Guarded{Effects: []Effect{effect("~ZREM", b.cancelled, byID, byPlace)}}), ""
	}
	if g != nil && b.hashes != nil {
		g = b.hashes.guarded(g)
	}
	if n := len(b.buf) - b.end; b.Most > 0 && n > b.Most {
		return &payload.SizeError{Size: n, Most: b.Most}
	}
	if to.Ruby && !to.At.IsZero() && g != nil {
		return ErrNotPlain
	}
	if queues.IsOwn(to.Queue) {
		if err := b.pack(to); err != nil {
			return err
		}
	}
	b.put(to, b.keep(g))
	return nil
}

// keep returns a copy of g, nil if g is. Grown room leaves earlier copies where they are.
func (b *Bulk) keep(g []Guarded) []Guarded {
	if len(g) == 0 {
		return g
	}
	if cap(b.guards)-len(b.guards) < len(g) {
		b.guards = make([]Guarded, 0, max(len(g), 2*cap(b.guards)))
	}
	b.guards = append(b.guards, g...)
	return b.guards[len(b.guards)-len(g) : len(b.guards) : len(b.guards)]
}

// pack makes of the job that Encode began an item of its MessagePack queue. One that waits for its time stays JSON: the
// pump looks into it.
func (b *Bulk) pack(to Place) error {
	if !to.At.IsZero() {
		if to.Ruby {
			return fmt.Errorf("resque-scheduler would put the job where Ruby's workers read, and queue %s is goworker's own; leave ResqueScheduler away", to.Queue)
		}
		return nil
	}
	if item, ok := payload.Pack(b.packed[:0], b.buf[b.end:]); ok {
		b.packed, b.buf = item, append(b.buf[:b.end], item...)
	}
	return nil
}

// Add is Encode, Set and Put of a job for its queue.
func (b *Bulk) Add(queue, class string, args []any, fields ...payload.Field) error {
	if queue == "" {
		return errNoQueue
	}
	if _, err := b.Encode(class, args); err != nil {
		return err
	}
	for _, f := range fields {
		b.Set(f)
	}
	return b.Put(Place{Queue: queue})
}

// PutRaw is Put of a job with this payload, which need not be one that Encode wrote.
func (b *Bulk) PutRaw(raw []byte, to Place, g ...Guarded) error {
	b.buf = append(b.buf[:b.end], raw...)
	return b.Put(to, g...)
}

func (b *Bulk) put(to Place, g []Guarded) {
	queue := b.queue(to.Queue)
	kind, at := inQueue, int64(0)
	if !to.At.IsZero() {
		kind, at = inSchedule, StampOf(to.At).MS
		if to.Ruby {
			kind = inRubys
		}
	}
	if kind != inQueue || g != nil {
		b.complete(kind, to.Queue)
	}
	b.take(unit{kind: kind, at: at, queue: queue, guarded: g, ahead: to.Priority})
}

// take adds the job whose bytes are behind the others, as a unit of its own or to the run that it belongs to.
func (b *Bulk) take(u unit) {
	n := b.unitOf(u)
	b.units[n-1].jobs++
	if b.hashes != nil {
		b.hashes.put(n)
	}
	if b.lifting != "" {
		b.lift(&b.units[n-1], u.queue)
	}
	b.end = len(b.buf)
	if b.jobs == nil {
		b.jobs = b.oneJob[:0]
	}
	b.jobs = append(b.jobs, bulkJob{int32(n - 1), int32(u.queue), b.end, u.at})
}

// complete completes the bytes of a job that is not just for the tail of its queue.
func (b *Bulk) complete(kind placeKind, queue string) {
	if kind == inRubys {
		b.buf = append(b.buf[:b.end], payload.Item(b.buf[b.end:], queue, b.Style)...)
		return
	}
	b.buf = slices.Insert(b.buf, b.end, []byte(JobPrefix(queue))...)
}

// unitOf returns the unit of a job, counted from 1: a new one if there is none that it belongs to.
func (b *Bulk) unitOf(u unit) (n int) {
	kind, at, queue := u.kind, u.at, u.queue
	if kind == inQueue && u.guarded == nil {
		if n = b.queues[queue].run; n == 0 {
			n = b.open(unit{queue: queue})
			b.queues[queue].run = n
		}
		return n
	}
	b.rows = true
	switch {
	case u.guarded != nil:
		b.queues[queue].run = 0 // what follows in the queue comes behind this job
		return b.open(unit{kind: kind, at: at, queue: queue, guarded: u.guarded, ahead: u.ahead})
	case kind == inSchedule:
		if b.later == 0 {
			b.later = b.open(unit{kind: kind, queue: queue})
		}
		return b.later
	}
	if n = b.ruby[at]; n == 0 {
		n = b.open(unit{kind: kind, at: at, queue: queue})
		if b.ruby == nil {
			b.ruby = make(map[int64]int)
		}
		b.ruby[at] = n
	}
	return n
}

func (b *Bulk) open(u unit) int {
	if b.units == nil {
		b.units = b.oneUnit[:0]
	}
	b.units = append(b.units, u)
	return len(b.units)
}

// queue returns the place of a queue, a new one if needed. Mostly it is that of the job before.
func (b *Bulk) queue(name string) int {
	if n := len(b.jobs); n > 0 {
		if at := int(b.jobs[n-1].queue); b.queues[at].name == name {
			return at
		}
	}
	at, known := b.index[name]
	if known {
		return at
	}
	if b.queues == nil {
		b.queues = b.oneQueue[:0]
	}
	at = len(b.queues)
	b.queues = append(b.queues, bulkQueue{name: name})
	b.rows = b.rows || queues.IsOwn(name) != queues.IsOwn(b.queues[0].name) // their names are in two sets
	switch at {
	case 0: // most have one queue and need no index
	case 1:
		b.index = map[string]int{b.queues[0].name: 0, name: 1}
	default:
		b.index[name] = at
	}
	return at
}

// Jobs returns how many jobs there are.
func (b *Bulk) Jobs() int { return len(b.jobs) }

// Size returns how many bytes the jobs have.
func (b *Bulk) Size() int { return b.end }

// Queue returns the queue of the i-th job.
func (b *Bulk) Queue(i int) string { return b.queues[b.jobs[i].queue].name }

// Done reports whether any job was pushed. A job may have been pushed although PushBulk returned an
// error, if guards of others did not hold.
func (b *Bulk) Done() bool { return b.pushed > 0 }

// InDoubt reports whether a call was sent that Redis did not answer. The jobs that wait may have been pushed.
func (b *Bulk) InDoubt() bool { return b.doubt }

// Soft returns the soft effects that Redis refused. Their jobs were pushed.
func (b *Bulk) Soft() []KeyError { return b.soft }

// Plain reports whether PushBulk pushes all jobs or none, and has nothing to say of single ones.
func (b *Bulk) Plain() bool { return !b.rows }

// ErrWaits is the Result of a job that no call has pushed yet.
var ErrWaits = errors.New("the job was not pushed")

// Result says what became of the i-th job: nil if it was pushed, and then the id of the job that it
// replaces; ErrGuard or what Left said; a KeyError; or ErrWaits.
func (b *Bulk) Result(i int) (replaces string, err error) {
	u := &b.units[b.jobs[i].unit]
	if !u.over {
		return "", ErrWaits
	}
	return u.by, u.err
}

// All are the jobs in the order in which they were added, queue and payload, of a Bulk with plain jobs only.
func (b *Bulk) All() iter.Seq2[string, []byte] {
	return func(yield func(string, []byte) bool) {
		start := 0
		for _, j := range b.jobs {
			if !yield(b.queues[j.queue].name, b.buf[start:j.end:j.end]) {
				return
			}
			start = j.end
		}
	}
}

// to names the target: a queue, or the number of queues.
func (b *Bulk) to() string {
	if n := len(b.queues); n > 1 {
		return fmt.Sprintf("%d queues", n)
	}
	return "queue " + b.queues[0].name
}

// doing says what the push does.
func (b *Bulk) doing() string {
	for i := range b.units {
		if b.units[i].kind == inQueue {
			return fmt.Sprintf("pushing %s to %s", Plural(len(b.jobs), "job"), b.to())
		}
	}
	return fmt.Sprintf("delaying %s for %s", Plural(len(b.jobs), "job"), b.to())
}

// CheckPush returns an error if so many jobs are too many for one push, however small they are.
func CheckPush(jobs int) error {
	if jobs > MaxPushJobs {
		return fmt.Errorf("%s are too many for one push: at most %d jobs and %d MiB; push them in several",
			Plural(jobs, "job"), MaxPushJobs, MaxPushBytes>>20)
	}
	return nil
}

// fits returns an error if the jobs are too many for one push, or too large.
func (b *Bulk) fits() error {
	if err := CheckPush(len(b.jobs)); err != nil {
		return err
	}
	if len(b.buf) > MaxPushBytes {
		return fmt.Errorf("%s of %d bytes are too much for one push: at most %d jobs and %d MiB; push them in several",
			Plural(len(b.jobs), "job"), len(b.buf), MaxPushJobs, MaxPushBytes>>20)
	}
	return nil
}
