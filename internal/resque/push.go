package resque

import (
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/gomodule/redigo/redis"
	"github.com/goworker/goworker/internal/payload"
)

// Limits of one push. Redis 6.2 refuses a command of more than 1 048 576 arguments, and
// any Redis one that fills its client buffer (1 GiB); both close the connection. A push
// far below these limits already delays every other client of Redis.
const (
	MaxPushJobs  = 1_000_000
	MaxPushBytes = 256 << 20
)

// Boxed once, so that no push allocates them.
var pushHash, pushText any = script("push").Hash(), scriptText("push")

var errNoQueue = errors.New("the queue has no name; give it one")

// Bulk is jobs to push in one step, to any number of queues. One buffer holds all
// payloads, so a job costs next to no allocation. The zero value is ready;
// only one goroutine may use a Bulk.
type Bulk struct {
	Style payload.Style // how Add encodes
	Most  int           // Add refuses payloads of more bytes; 0: MaxPushBytes

	buf    []byte
	jobs   []bulkJob
	queues []bulkQueue
	index  map[string]int // a queue's place in queues, once there are several
}

type bulkJob struct {
	queue int // its place in Bulk.queues
	end   int // of its payload in Bulk.buf; it starts where the one before it ends
}

type bulkQueue struct {
	name string
	jobs int
	next int // where its next job goes among the script's arguments
}

// Grow makes room for n more jobs of the average size of those added.
func (b *Bulk) Grow(n int) {
	b.jobs = slices.Grow(b.jobs, n)
	if len(b.jobs) > 0 {
		b.buf = slices.Grow(b.buf, min(n*(len(b.buf)/len(b.jobs)+8), MaxPushBytes))
	}
}

// Add encodes a job, with its fields beside class and args, and adds it behind the
// others. With an error it is not added.
func (b *Bulk) Add(queue, class string, args []any, fields ...payload.Field) error {
	if queue == "" {
		return errNoQueue
	}
	buf, err := payload.Append(b.buf, class, args, b.Style)
	if err != nil {
		return err
	}
	if len(fields) > 0 {
		payload, err := payload.SetFields(buf[len(b.buf):], fields...)
		if err != nil {
			return err
		}
		buf = append(b.buf, payload...)
	}
	if n := len(buf) - len(b.buf); b.Most > 0 && n > b.Most {
		return &payload.SizeError{Size: n, Most: b.Most}
	}
	b.add(queue, buf)
	return nil
}

// add takes buf, to which a job was appended.
func (b *Bulk) add(queue string, buf []byte) {
	at := b.place(queue)
	b.queues[at].jobs++
	b.buf = buf
	b.jobs = append(b.jobs, bulkJob{at, len(buf)})
}

// place returns the place of a queue, a new one if needed. Mostly it is that of the job before.
func (b *Bulk) place(queue string) int {
	if n := len(b.jobs); n > 0 {
		if at := b.jobs[n-1].queue; b.queues[at].name == queue {
			return at
		}
	}
	at, known := b.index[queue]
	if known {
		return at
	}
	at = len(b.queues)
	b.queues = append(b.queues, bulkQueue{name: queue})
	switch at {
	case 0: // most have one queue and need no index
	case 1:
		b.index = map[string]int{b.queues[0].name: 0, queue: 1}
	default:
		b.index[queue] = at
	}
	return at
}

// Push adds jobs to the tail of a queue, in their order, and the queue to the
// set of queues: all of it or, with an error, none of it. Only when the
// connection broke is it unknown whether the jobs are there. A *ReplicasError
// means that they are; see Replicated.
func (s Store) Push(c redis.Conn, queue string, payloads ...[]byte) error {
	if queue == "" {
		return errNoQueue
	}
	var b Bulk
	for _, p := range payloads {
		b.add(queue, append(b.buf, p...))
	}
	return s.PushBulk(c, &b)
}

// PushBulk is Push for jobs of several queues. Each queue gets its jobs in the order
// in which they were added, and all queues get theirs at the same instant.
func (s Store) PushBulk(c redis.Conn, b *Bulk) error {
	if len(b.jobs) == 0 {
		return nil
	}
	if err := b.fits(); err != nil {
		return err
	}
	args := s.bulkArgs(b)
	err := s.push(c, "EVALSHA", args, b)
	if err != nil && isNoScript(err) {
		args[0] = pushText
		err = s.push(c, "EVAL", args, b)
	}
	if err != nil && !errors.Is(err, ErrFewReplicas) {
		return fmt.Errorf("pushing %s to %s: %w", Plural(len(b.jobs), "job"), b.to(), Explain(err))
	}
	return err
}

func (s Store) push(c redis.Conn, command string, args []any, b *Bulk) error {
	if s.replicas > 0 {
		_, err := s.pushReplicated(c, command, args, &ReplicasError{To: b.to(), Jobs: len(b.jobs), Wanted: s.replicas})
		return err
	}
	_, err := c.Do(command, args...)
	return err
}

// fits returns an error if the jobs are too many for one push.
func (b *Bulk) fits() error {
	if len(b.jobs) > MaxPushJobs || len(b.buf) > MaxPushBytes {
		return tooMuch(len(b.jobs), len(b.buf))
	}
	return nil
}

func tooMuch(jobs, bytes int) error {
	return fmt.Errorf("%s of %d bytes are too much for one push: at most %d jobs and %d MiB; push them in several",
		Plural(jobs, "job"), bytes, MaxPushJobs, MaxPushBytes>>20)
}

// All are the jobs in the order in which they were added: queue and payload.
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

// bulkArgs returns the arguments of EVALSHA: the script's keys, then for each queue
// its name, the number of its jobs and the jobs.
func (s Store) bulkArgs(b *Bulk) []any {
	args := make([]any, 3, 3+3*len(b.queues)+len(b.jobs))
	args[0], args[1], args[2] = pushHash, 1+len(b.queues), s.KeyOfQueues()
	for _, q := range b.queues {
		args = append(args, s.KeyOfQueue(q.name))
	}
	for i, q := range b.queues {
		args = append(args, q.name, q.jobs)
		b.queues[i].next = len(args)
		args = args[:len(args)+q.jobs]
	}
	start := 0
	for _, j := range b.jobs {
		q := &b.queues[j.queue]
		args[q.next] = b.buf[start:j.end:j.end]
		q.next++
		start = j.end
	}
	return args
}
