package resque

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/clock"
	"github.com/goworker/goworker/internal/conn"
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
		_, begun, refused, err := transaction(c)
		if err != nil {
			return true, err // no job was sent
		}
		if b.Types.permit(begun && refused == nil); !begun || refused != nil {
			return false, nil
		}
	}
	replies, begun, refused, err := transaction(c, b.manyArgs(key, names)...)
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

// manyArgs returns the commands that push many jobs of one queue.
func (b *Bulk) manyArgs(key, names string) (commands [][]any) {
	const named, pushed = 3, 2 // values before the jobs, and before what is beside them
	aside := b.units[0].aside
	args := b.argsRoom(named + 2*pushed + len(b.jobs) + len(aside))
	args[0], args[1], args[2], args[3], args[4] = "SADD", names, b.queues[0].name, "RPUSH", key
	at, start := named+pushed, 0
	for _, j := range b.jobs {
		args[at] = b.buf[start:j.end:j.end]
		at, start = at+1, j.end
	}
	commands = append(make([][]any, 0, 3), args[:named], args[named:at])
	if b.aside.verb != "" {
		args[at], args[at+1] = b.aside.verb[1:], b.aside.keys[0].name
		copy(args[at+pushed:], aside)
		commands = append(commands, args[at:])
	}
	return commands
}

// transaction runs commands as one. Nothing of them was done if it is refused. An error of the connection leaves that open. begun is
// false if Redis let no transaction begin, and so carried out each command by itself.
func transaction(c redis.Conn, commands ...[]any) (replies []any, begun bool, refused, err error) {
	err = c.Send("MULTI")
	for _, command := range commands {
		if err == nil {
			err = c.Send(command[0].(string), command[1:]...)
		}
	}
	if err == nil {
		err = c.Send("EXEC")
	}
	if err != nil {
		return nil, false, nil, err
	}
	all, err := c.Do("") // sends them, and returns all replies, those of errors too
	if err != nil {
		return nil, false, nil, err
	}
	replies, _ = all.([]any)
	if len(replies) != len(commands)+2 {
		return nil, false, nil, ErrAnswer
	}
	last := len(replies) - 1
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
