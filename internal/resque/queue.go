package resque

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/pattern"
)

// Dequeue removes the jobs of a queue whose payload is exactly these bytes and
// returns how many there were.
func (s Store) Dequeue(c redis.Conn, queue string, payload []byte) (int, error) {
	n, err := redis.Int(c.Do("LREM", s.KeyOfQueue(queue), 0, payload))
	if err != nil {
		return 0, fmt.Errorf("removing jobs from queue %s: %w", queue, Explain(err))
	}
	return n, nil
}

// RemoveQueue removes a queue with all its jobs in one step. It does not touch jobs that
// a worker has reserved.
func (s Store) RemoveQueue(c redis.Conn, queue string) error {
	b := Batch{Conn: c}
	b.Send("MULTI")
	b.Send("SREM", s.KeyOfNames(queue), queue)
	b.Send("DEL", s.KeyOfQueue(queue))
	b.Send("EXEC")
	replies, err := b.Receive()
	for _, reply := range replies {
		if err == nil {
			_, err = Answer(reply)
		}
		results, _ := reply.([]any)
		for _, result := range results {
			if err == nil {
				_, err = Answer(result)
			}
		}
	}
	if err != nil {
		return fmt.Errorf("removing queue %s: %w", queue, Explain(err))
	}
	return nil
}

// Queues returns the names of all queues, sorted bytewise, empty ones included.
func (s Store) Queues(c redis.Conn) ([]string, error) {
	b := Batch{Conn: c}
	s.askNames(&b)
	replies, err := b.Receive()
	var names []string
	if err == nil {
		names, err = queueNamesIn(replies)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the set of queues: %w", Explain(err))
	}
	return names, nil
}

// askNames asks for the names of all queues: of Ruby's, and of goworker's own.
func (s Store) askNames(b *Batch) {
	b.Send("SMEMBERS", s.KeyOfQueues())
	b.Send("SMEMBERS", s.ownQueues())
}

// queueNamesIn returns the names in the answers to askNames, sorted.
func queueNamesIn(replies []any) ([]string, error) {
	names, err := redis.Strings(Answer(replies[0]))
	if err != nil {
		return nil, err
	}
	own, err := redis.Strings(Answer(replies[1]))
	if err != nil {
		return nil, err
	}
	names = append(names, own...)
	slices.Sort(names)
	return slices.Compact(names), nil
}

// QueueSize returns how many jobs wait in a queue, its lanes included. A queue that does
// not exist has none.
func (s Store) QueueSize(c redis.Conn, queue string) (int64, error) {
	n, err := redis.Int64(c.Do("LLEN", s.KeyOfQueue(queue)))
	if err != nil {
		return 0, fmt.Errorf("reading the size of queue %s: %w", queue, Explain(err))
	}
	lanes, err := s.WaitingIn(c, queue)
	for _, l := range lanes {
		n += l.Jobs
	}
	return n, err
}

// KeptSize returns how many payloads were kept for a queue.
func (s Store) KeptSize(c redis.Conn, queue string) (int64, error) {
	n, err := redis.Int64(c.Do("LLEN", s.kept(queue)))
	if err != nil {
		err = fmt.Errorf("counting the payloads that were kept for queue %s: %w", queue, Explain(err))
	}
	return n, err
}

// Peek returns at most count payloads from position start, the head being 0, and
// removes none. A negative start counts from the tail. A negative count means all
// that follow.
func (s Store) Peek(c redis.Conn, queue string, start, count int) ([][]byte, error) {
	if count == 0 {
		return nil, nil
	}
	stop := -1
	if end := start + min(count, math.MaxInt-max(start, 0)) - 1; count > 0 && (start >= 0 || end < 0) {
		stop = end
	}
	raws, err := redis.ByteSlices(c.Do("LRANGE", s.KeyOfQueue(queue), start, stop))
	if err != nil {
		return nil, fmt.Errorf("reading queue %s: %w", queue, Explain(err))
	}
	return raws, nil
}

// deniedInScript begins the error of a script that may not use a command. Redis does not say which.
const deniedInScript = "The user executing the script can't"

var scriptLine, lineCommand = pattern.New(`user_script:(\d+)`), pattern.New(`redis\.call\('(\w+)'`)

// explainIn is Explain of an error of a script. If the user may not run a command of it, and the error says
// in which line, it names the command.
func explainIn(script string, err error) error {
	var refused redis.Error
	if !errors.As(err, &refused) || !strings.Contains(string(refused), deniedInScript) {
		return Explain(err)
	}
	lines := strings.Split(script, "\n")
	if at := scriptLine.FindStringSubmatch(string(refused)); at != nil {
		if n, _ := strconv.Atoi(at[1]); n > 0 && n <= len(lines) {
			if command := lineCommand.FindStringSubmatch(lines[n-1]); command != nil {
				return fmt.Errorf("this Redis user may not run %s, add +%s to its ACL: %w", command[1], strings.ToLower(command[1]), err)
			}
		}
	}
	return Explain(err)
}

// ExplainIn is Explain for an error of a script: it names the command that this Redis user may not run.
func ExplainIn(script string, err error) error { return explainIn(script, err) }

// Explain adds the remedy to the error with which Redis refused a command.
func Explain(err error) error {
	var refused redis.Error
	if !errors.As(err, &refused) {
		return err
	}
	code, rest, _ := strings.Cut(string(refused), " ")
	if code == "ERR" && strings.HasPrefix(rest, deniedInScript) {
		return fmt.Errorf("this Redis user lacks a permission for a command of the script, which ACL LOG of the server names, extend its ACL: %w", err)
	}
	way, ok := map[string]string{
		"OOM":       "Redis is out of memory, free some or raise its maxmemory",
		"READONLY":  "this Redis is a replica, connect to its master",
		"WRONGTYPE": "a key holds another type than Resque gives it, rename or remove that key",
		"NOPERM":    "this Redis user lacks a permission, extend its ACL",
		"MISCONF":   "Redis cannot save to its disk, repair that first",

		"MOVED":       "another node of the Cluster has these keys; use a redis+cluster:// URI, which follows them",
		"ASK":         "the Cluster is moving these keys to another node, try again when it is done",
		"TRYAGAIN":    "the Cluster is moving these keys to another node, try again when it is done",
		"CLUSTERDOWN": "the Cluster has no master for these keys now, try again when it has",
	}[code]
	if !ok {
		return err
	}
	return fmt.Errorf("%s: %w", way, err)
}

// IsWrongType reports whether Redis refused a command because of a key's type.
func IsWrongType(err error) bool {
	var refused redis.Error
	return errors.As(err, &refused) && strings.HasPrefix(string(refused), "WRONGTYPE ")
}

// Plural is a number with its noun: "1 job", "2 jobs".
func Plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// KeptHint says where the payload of a FailedJob with Keep is, and how to requeue it.
func (s Store) KeptHint(queue string) string {
	return fmt.Sprintf("only its beginning is shown here, all of it is the last element of the list %s; LMOVE %[1]s %s RIGHT RIGHT puts it back",
		s.kept(queue), s.KeyOfQueue(queue))
}
