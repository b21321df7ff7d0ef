package resque

import (
	"embed"
	"time"

	"github.com/gomodule/redigo/redis"
)

// This file is what the packages failures and delayed, which send commands too, use of
// this one beside its exported methods.

// Keys names the keys of a namespace that more than one package writes.
type Keys struct{ s Store }

// Keys returns the names of the keys.
func (s Store) Keys() Keys { return Keys{s} }

// Queues is the set of queues.
func (k Keys) Queues() string { return k.s.queues() }

// Queue is the list of a queue's jobs.
func (k Keys) Queue(name string) string { return k.s.queue(name) }

// FailureList is a list of failures by its bare name: FailedList, or one of FailureListOf.
func (k Keys) FailureList(name string) string { return k.s.list(name) }

// FailureLists is the set of failure lists where each queue has its own.
func (k Keys) FailureLists() string { return k.s.failedQueues() }

// FailureListFor is the list that a queue's failures go to, and the name by which
// FailureLists knows it; "" if it does not.
func (k Keys) FailureListFor(queue string, multi bool) (list, name string) {
	return k.s.failureList(queue, multi)
}

// Own is our schedule of delayed jobs.
func (k Keys) Own() string { return k.s.schedule() }

// Seconds is resque-scheduler's set of the seconds that have delayed jobs.
func (k Keys) Seconds() string { return k.s.delayed() }

// Second is the list of the jobs that are delayed to a second.
func (k Keys) Second(second string) string { return k.s.bucket(second) }

// SecondsOf is the set of the seconds that a job is delayed to.
func (k Keys) SecondsOf(item string) string { return k.s.timestamps(item) }

// Hints is the set of hints to the milliseconds of delayed jobs.
func (k Keys) Hints() string { return k.s.precise() }

// Lock is the lock of a unique job.
func (k Keys) Lock(name string) string { return k.s.lock(name) }

// LoadScript loads scripts/<name>.lua of a package.
func LoadScript(files embed.FS, name string) *redis.Script {
	return redis.NewScript(-1, readScript(files, name))
}

// Call collects the arguments of one script call: keys first, then values. Keys are
// numbered from 1, as Lua numbers them.
type Call struct{ c call }

// Key adds a key and returns its number.
func (a *Call) Key(name string) int { return a.c.key(name) }

// Arg adds values.
func (a *Call) Arg(v ...any) { a.c.arg(v...) }

// Values returns how many values were added.
func (a *Call) Values() int { return len(a.c.argv) }

// Args returns what follows the script's hash in an EVALSHA.
func (a *Call) Args() []any { return a.c.args() }

// Do runs the script.
func (a *Call) Do(c redis.Conn, s *redis.Script) (any, error) { return a.c.do(c, s) }

// Batch is a pipeline of commands whose replies matter. An error among the replies is
// kept in its place.
type Batch struct{ b batch }

// NewBatch returns an empty pipeline on a connection.
func NewBatch(c redis.Conn) *Batch { return &Batch{batch{c: c}} }

// Send adds a command.
func (b *Batch) Send(command string, args ...any) { b.b.send(command, args...) }

// Eval adds a script as text.
func (b *Batch) Eval(s *redis.Script, a Call) { b.b.eval(s, a.c) }

// Receive returns one reply for each command. Its error is the connection's.
func (b *Batch) Receive() ([]any, error) { return b.b.receive() }

// Answer makes a reply of a batch into what redigo's converters take.
func Answer(reply any) (any, error) { return answer(reply) }

// Explain adds the way out to what Redis says when it refuses a command.
func Explain(err error) error { return explain(err) }

// IsWrongType reports whether Redis refused a command because of a key's type.
func IsWrongType(err error) bool { return isWrongType(err) }

// Plural is a number with its noun: "1 job", "2 jobs".
func Plural(n int, noun string) string { return plural(n, noun) }

// ParseTime reads a time in any form that Resque's programs write, or returns zero.
func ParseTime(text string) time.Time { return parseTime(text) }

// JobPrefix stands before the payload of a job of our schedule: "3:low{…}".
func JobPrefix(queue string) string { return recordPrefix(queue) }

// CutPrefix takes that prefix off.
func CutPrefix(member []byte) (queue string, payload []byte, ok bool) { return parseRecord(member) }

// EscapeGlob escapes what has a meaning in a pattern of Redis.
func EscapeGlob(text string) string { return escapeGlob(text) }
