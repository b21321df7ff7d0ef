package resque

import (
	"fmt"

	"github.com/gomodule/redigo/redis"
)

var adoptScript = script("adopt")

// adoptTogether is how many jobs one step of Adopt moves.
const adoptTogether = 500

// Adopt moves the jobs that other programs have pushed under the name of one of goworker's own queues, where Ruby's workers
// read, into that queue. It returns how many.
func (s Store) Adopt(c redis.Conn, queue string) (total int, err error) {
	for {
		var a Call
		a.Key(s.KeyOfRubys(queue))
		a.Key(s.KeyOfQueues())
		a.Key(s.KeyOfQueue(queue))
		a.Key(s.KeyOfNames(queue))
		a.Arg(queue, adoptTogether)
		n, err := redis.Int(a.Do(c, adoptScript))
		if total += n; err != nil {
			return total, fmt.Errorf("moving jobs of queue %s to its own list: %w", queue, Explain(err))
		}
		if n < adoptTogether {
			return total, nil
		}
	}
}

// UnawareOfMessagePack is why no job goes to a queue of goworker's own while this process lives.
func UnawareOfMessagePack(p Process, queue string) string {
	return fmt.Sprintf("process %s of goworker %s does not know MessagePack queues: it could put jobs of %s where Ruby's workers "+
		"read; update or stop it, or use another queue until then", p.ID, p.Version, queue)
}

// Unaware returns the live processes whose release does not understand what a word names: see Process.
func (s Store) Unaware(c redis.Conn, word string) (old []Process, err error) {
	live, _, err := s.LiveProcesses(c)
	for _, p := range live {
		if !p.Dead && !p.KnowsOf(word) {
			old = append(old, p.Process)
		}
	}
	return old, err
}
