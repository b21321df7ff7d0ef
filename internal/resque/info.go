package resque

import (
	"fmt"
	"strings"

	"github.com/gomodule/redigo/redis"
)

// Info is what Resque.info returns, as far as Redis knows it.
type Info struct {
	Pending   int64 // jobs waiting in all queues
	Processed int64 // jobs ever run, failed ones included
	Failed    int64 // failures in the list now, not ever
	Expired   int64 // jobs ever dropped because their time was over
	Workers   int
	Working   int
	Queues    []QueueInfo // sorted by name
}

// QueueInfo is a queue and how many jobs wait in it.
type QueueInfo struct {
	Name string
	Size int64
}

// Info counts in two round trips: the names, then their keys. With multiQueue it
// counts the failures of all failure lists. A queue whose key is not a list counts
// as empty, so that an operator still sees the others.
func (s Store) Info(c redis.Conn, multiQueue bool) (Info, error) {
	queues, workers, lists, counts, err := s.names(c, multiQueue)
	if err != nil {
		return Info{}, fmt.Errorf("reading the counts: %w", Explain(err))
	}
	b := Batch{Conn: c}
	for _, q := range queues {
		b.Send("LLEN", s.KeyOfQueue(q))
	}
	for _, list := range lists {
		b.Send("LLEN", s.KeyOfFailures(list))
	}
	b.askWorkers(workers, func(id string) []any { return []any{s.worker(id)} })
	replies, err := b.Receive()
	if err != nil {
		return Info{}, fmt.Errorf("reading the counts: %w", err)
	}

	info := Info{Processed: counts[0], Expired: counts[1], Workers: len(workers)}
	for i, q := range queues {
		n, err := redis.Int64(Answer(replies[i]))
		if err != nil && !IsWrongType(err) {
			return Info{}, fmt.Errorf("reading the size of queue %s: %w", q, Explain(err))
		}
		info.Queues = append(info.Queues, QueueInfo{q, n})
		info.Pending += n
	}
	if err := s.addWaiting(c, &info); err != nil {
		return Info{}, err
	}
	replies = replies[len(queues):]
	for i, list := range lists {
		n, err := redis.Int64(Answer(replies[i]))
		if err != nil {
			return Info{}, fmt.Errorf("counting failures in list %s: %w", list, Explain(err))
		}
		info.Failed += n
	}
	values, err := workerValues(replies[len(lists):])
	for _, v := range values {
		if len(v) > 0 {
			info.Working++
		}
	}
	return info, err
}

// names reads the names of the keys that Info counts, sorted, and the counters.
func (s Store) names(c redis.Conn, multiQueue bool) (queues, workers, lists []string, counts [2]int64, err error) {
	b := Batch{Conn: c}
	s.askNames(&b)
	b.Send("SMEMBERS", s.workers())
	b.Send("GET", s.stat("processed"))
	b.Send("HGET", s.stats(), expiredField)
	if multiQueue {
		b.Send("SMEMBERS", s.KeyOfFailureLists())
	}
	replies, err := b.Receive()
	if err != nil {
		return nil, nil, nil, counts, err
	}
	for _, reply := range replies {
		if _, err := Answer(reply); err != nil {
			return nil, nil, nil, counts, err
		}
	}
	if queues, err = queueNamesIn(replies); err != nil {
		return nil, nil, nil, counts, err
	}
	workers, _ = redis.Strings(replies[2], nil)
	for i := range counts {
		count, _ := redis.Bytes(replies[3+i], nil)
		counts[i] = number(count)
	}
	if multiQueue {
		lists, _ = redis.Strings(replies[5], nil)
	}
	return queues, workers, FailureLists(lists), counts, nil
}

// StatsText is the text of resque-web's /stats.txt: lines, without a newline after the
// last. Ruby lists the queues in Redis's order; here they are sorted.
func (i Info) StatsText() string {
	lines := []string{
		fmt.Sprintf("resque.pending=%d", i.Pending),
		fmt.Sprintf("resque.processed+=%d", i.Processed),
		fmt.Sprintf("resque.failed+=%d", i.Failed),
		fmt.Sprintf("resque.workers=%d", i.Workers),
		fmt.Sprintf("resque.working=%d", i.Working),
	}
	for _, q := range i.Queues {
		lines = append(lines, fmt.Sprintf("queues.%s=%d", q.Name, q.Size))
	}
	return strings.Join(lines, "\n")
}
