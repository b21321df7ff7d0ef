package resque

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/clock"
	"github.com/goworker/goworker/internal/conn"
	"github.com/goworker/goworker/internal/queues"
)

const (
	// fewestPlain is from how many plain jobs of one queue on a push goes without a script: of fewer, MULTI and EXEC cost more than
	// they save.
	fewestPlain = 16
	// typesFor is how long Types believes what a script has proven.
	typesFor = time.Second
)

// Types remembers that a script has found a queue to be a list, and the names of queues to be a set. For a second, pushes of many
// plain jobs to that queue then do without the script, in which each payload becomes a string of Lua: they are SADD and RPUSH in one
// transaction. The zero value is ready. It is safe for concurrent use.
type Types struct {
	mu     sync.Mutex
	key    string // of the queue that was proven last
	proven time.Time
	asked  bool // whether the user may run transactions
	never  bool // he may not

	cancelled time.Time // when lifttail.lua found that jobs are cancelled, or was refused
}

// believe reports whether the type of a queue is known. asked says that transactions are permitted.
func (t *Types) believe(key string) (known, asked bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return !t.never && t.key == key && clock.Since(clock.System, t.proven) < typesFor, t.asked
}

func (t *Types) prove(key string) {
	now := clock.System.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.key, t.proven = key, now
}

// forget has the next push prove the types.
func (t *Types) forget() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.key = ""
}

// permit says whether the user may run transactions.
func (t *Types) permit(yes bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.asked, t.never = yes, !yes
}

// nothingCancelled reports whether it is likely that no job at all is cancelled. Then lifttail.lua is next to nothing, and otherwise the ids as values
// cost Redis less.
func (t *Types) nothingCancelled() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return clock.Since(clock.System, t.cancelled) >= typesFor
}

// cancels says that jobs are cancelled.
func (t *Types) cancels() {
	now := clock.System.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.cancelled = now
}

// pushMany pushes many plain jobs of one queue in a transaction. done is false if a script is to push them: nothing was written, but
// perhaps the queue's name.
func (s Store) pushMany(c redis.Conn, b *Bulk) (done bool, err error) {
	if b.Types == nil || s.replicas > 0 || len(b.queues) != 1 || len(b.jobs) < fewestPlain || b.hashes != nil || len(b.jobs) > maxPushArgs-2 {
		return false, nil
	}
	queue, names := b.queues[0].name, s.KeyOfNames(b.queues[0].name)
	key := s.KeyOfQueue(queue)
	known, asked := b.Types.believe(key)
	if !known {
		return false, nil
	}
	if !asked { // in a transaction that the user may not begin the commands would be carried out one by one
		_, begun, refused, err := transaction(c, func(*conn.Pipe) {})
		if err != nil {
			return true, err // no job was sent
		}
		if b.Types.permit(begun && refused == nil); !begun || refused != nil {
			return false, nil
		}
	}
	byQueue := !b.escaped && !queues.IsOwn(queue) && b.Types.nothingCancelled()
	replies, begun, refused, err := transaction(c, func(p *conn.Pipe) { b.sendMany(p, key, names, byQueue) })
	if b.doubt = err != nil; b.doubt {
		return true, err
	}
	if !begun || refused != nil {
		b.Types.forget()
		b.Types.permit(begun && conn.Classify(refused) != conn.KindNoPerm)
	}
	if refused != nil {
		return false, nil // the script says what is wrong, if it still is
	}
	named, isNamed := replies[0].(redis.Error)
	_, isPushed := replies[1].(int64)
	if isNamed || !isPushed {
		b.Types.forget()
	}
	if !isPushed {
		return false, nil
	}
	b.pushed, b.units[0].over = 1, true
	if byQueue && len(replies) > 2 && replies[2] != int64(0) {
		b.Types.cancels()
		if _, refused := replies[2].(redis.Error); refused {
			b.liftAfter(c, key)
		}
	}
	if isNamed {
		return true, &unnamedError{len(b.jobs), key, names, named}
	}
	return true, nil
}

// unnamedError says that jobs were pushed whose queue has no name in the set of queues. It does not wrap why: the call must not be made
// again.
type unnamedError struct {
	jobs       int
	key, names string
	why        redis.Error
}

func (e *unnamedError) Error() string {
	are, them := "are", "them"
	if e.jobs == 1 {
		are, them = "is", "it"
	}
	return fmt.Sprintf("%s %s in the list %s, so do not enqueue %s again; but %s could not take the queue's name, without which workers of all queues "+
		"do not find it; repair that key: %v", Plural(e.jobs, "job"), are, e.key, them, e.names, e.why)
}

// sendMany sends the commands that push many jobs of one queue.
func (b *Bulk) sendMany(p *conn.Pipe, key, names string, byQueue bool) {
	p.Command("SADD", 2)
	p.Text(names)
	p.Text(b.queues[0].name)
	p.Command("RPUSH", 1+len(b.jobs))
	p.Text(key)
	start := 0
	for _, j := range b.jobs {
		p.Bytes(b.buf[start:j.end:j.end])
		start = j.end
	}
	if len(b.units[0].lifts) > 0 {
		b.sendLifts(p, key, byQueue)
	}
}

// transaction has the commands that a function sends carried out as one. Nothing of them was done if it is refused. An error of the connection
// leaves that open. begun is false if Redis let no transaction begin, and so carried out each command by itself.
func transaction(c redis.Conn, send func(p *conn.Pipe)) (replies []any, begun bool, refused, err error) {
	p := conn.NewPipe(c)
	p.Command("MULTI", 0)
	send(p)
	p.Command("EXEC", 0)
	commands := p.Commands()
	if replies, err = p.Do(); err != nil {
		return nil, false, nil, err
	}
	if len(replies) != commands {
		return nil, false, nil, ErrAnswer
	}
	last := commands - 1
	if _, no := replies[0].(error); no {
		return replies[1:last], false, nil, nil
	}
	done, ok := replies[last].([]any)
	if ok && len(done) == last-1 {
		return done, true, nil, nil
	}
	if err, no := replies[last].(error); no && !strings.HasPrefix(err.Error(), "EXECABORT") { // the transaction goes on
		if _, err := c.Do("DISCARD"); err != nil {
			_ = c.Close()
		}
	}
	for _, reply := range replies { // why a command was not taken comes before that the transaction was given up
		if refused, no := reply.(error); no {
			return nil, true, refused, nil
		}
	}
	return nil, false, nil, ErrAnswer
}
