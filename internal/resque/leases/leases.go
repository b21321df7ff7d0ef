// Package leases knows the keys and the scripts by which servers give jobs to clients for a time. A job that a client
// holds is in go:leased under its place, and go:leases says when its lease ends. Servers keep no jobs: any of them may
// end what another has given. A plain end is a part of the next turn, every other one a commit of package resque.
package leases

import (
	"crypto/sha1"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/resque"
)

//go:embed scripts
var scriptFiles embed.FS

// Scripts returns the scripts of this package by name, as they are sent to Redis.
func Scripts() map[string]string { return resque.ScriptsOf(scriptFiles) }

// Store is resque's Store with the words of leases.
type Store struct{ resque.Store }

// New returns the Store of leases in a namespace.
func New(s resque.Store) Store { return Store{s} }

// ReturnedKey is the hash of the jobs that went back from clients, and of those that were filed as failed: place to a mark.
func (s Store) ReturnedKey() resque.Key { return s.HashKey("returned") }

// ServedKey is the hash of what a server was given last.
func (s Store) ServedKey(server string) resque.Key { return s.HashKey("served:" + server) }

// JumpKey is the string of how many ms Redis's clock has jumped ahead.
func (s Store) JumpKey() resque.Key { return s.TextKey("jump") }

// Place is the place of a job. The queue is in it, so a client that guesses an id of another queue finds nothing.
func Place(queue, id string) string { return resque.PlaceOf(queue, id) }

// ParsePlace returns the queue and the id of a place.
func ParsePlace(place string) (queue, id string, ok bool) { return resque.ParsePlace(place) }

// Limits of one call. They keep a script short, and its values below what Lua unpacks at once.
const (
	MostJobs   = 1000 // that a turn reserves
	MostAcks   = 2000 // of a turn
	MostQueues = 1000 // of a turn, in all its asks
	MostTexts  = 100  // of a turn
)

// settling is the lease of a job that is reserved and given to no client: as long as its server has to commit its end.
const settling = 10 * time.Second

// Errors of a turn that Redis heard and did not do.
var (
	// ErrStale: Redis has heard this turn or a later one. Served says what became of it.
	ErrStale = errors.New("redis has heard this turn of the server before")
	// ErrGone: the server's record is gone, because Redis was emptied or a day is over. Served begins a new one, and then the
	// turn may be sent again.
	ErrGone = errors.New("the server's record of turns is gone")
)

// Fate says why a job is reserved.
type Fate int

// The fates of a job.
const (
	Given   Fate = iota // for the client of an Ask
	Expired             // its time was over before a client got it: its end is to be committed
	Done                // a client acknowledged it after it went back: its end is to be committed
	Over                // its lease has ended
)

// Job is a job that is reserved.
type Job struct {
	Ask     int  // which of the turn's, if it is Given
	Fate    Fate // why it is reserved
	Queue   string
	ID      string
	Lease   string // when the lease ends, as Redis writes it; it names the lease
	Effects bool   // the job's end has effects: an acknowledgement does not end it
	Payload []byte
}

// Place returns the job's place.
func (j Job) Place() string { return Place(j.Queue, j.ID) }

// leaseAt returns the text of a lease.
func leaseAt(ms int64, effects bool) string {
	text := strconv.AppendInt(make([]byte, 0, 16), ms, 10)
	if effects {
		text = append(text, half...)
	}
	return string(text)
}

const half = ".5"

// LeaseEnds returns when a lease ends, in ms.
func LeaseEnds(lease string) (ms int64, ok bool) {
	ms, err := strconv.ParseInt(strings.TrimSuffix(lease, half), 10, 64)
	return ms, err == nil && ms > 0
}

// HasEffects reports whether a lease says that the job's end has effects.
func HasEffects(lease string) bool { return strings.HasSuffix(lease, half) }

// digest is what Lua's sha1hex returns.
func digest(text []byte) string {
	sum := sha1.Sum(text)
	return hex.EncodeToString(sum[:])
}

// explain adds to an error what was done, names the key if it has another type, and says the way out.
func (s Store) explain(c redis.Conn, err error, server, format string, args ...any) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf(format+": %w", append(args, s.name(c, err, server))...)
}

// name returns the error of a key of the wrong type in place of Redis's own, which names no key.
func (s Store) name(c redis.Conn, err error, server string) error {
	if !resque.IsWrongType(err) {
		return resque.Explain(err)
	}
	pauseAll, paused, processed := s.TurnKeys()
	known := []struct{ key, reads, kind string }{
		{s.KeyOfLeases(), "ZCARD", "sorted set"}, {s.KeyOfLeased(), "HLEN", "hash"}, {s.ReturnedKey().String(), "HLEN", "hash"},
		{s.ServedKey(server).String(), "HLEN", "hash"}, {s.JumpKey().String(), "GET", "string"},
		{s.KeyOfSchedule(), "ZCARD", "sorted set"}, {s.KeyOfQueues(), "SCARD", "set"}, {s.KeyOfFailureLists(), "SCARD", "set"},
		{pauseAll, "GET", "string"}, {paused, "SCARD", "set"}, {processed, "GET", "string"},
	}
	b := resque.Batch{Conn: c}
	for _, k := range known {
		b.Send(k.reads, k.key)
	}
	replies, failed := b.Receive()
	for i, k := range known {
		if failed != nil {
			break
		}
		if _, refused := resque.Answer(replies[i]); resque.IsWrongType(refused) {
			return &resque.KeyTypeError{Key: k.key, Want: k.kind, Err: err}
		}
	}
	return resque.Explain(err)
}
