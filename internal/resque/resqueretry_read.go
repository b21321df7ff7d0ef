package resque

import (
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/payload"
)

// RetryOf is a job of which resque-retry may keep something.
type RetryOf struct {
	Class string
	Args  []json.RawMessage
}

// KeptRetry is what resque-retry keeps of a job that waits for another run.
type KeptRetry struct {
	Attempt   int // which run it waits for; 0: nothing is kept
	Exception string
	Error     string
}

// ReadRetries reads what resque-retry keeps of jobs, in their order. It reads the keys of all Rubies: those that print hashes with blanks and those
// without. It sends two commands at most.
func (s Store) ReadRetries(c redis.Conn, jobs []RetryOf) ([]KeptRetry, error) {
	out := make([]KeptRetry, len(jobs))
	var keys []RetryKey
	var of []int
	for n, j := range jobs {
		plain, blanks := NewRetryKey(j.Class, j.Args, false), NewRetryKey(j.Class, j.Args, true)
		keys, of = append(keys, plain), append(of, n)
		if blanks != plain {
			keys, of = append(keys, blanks), append(of, n)
		}
	}
	read := func(keys []RetryKey, name func(RetryKey) string, take func(n int, value []byte)) error {
		if len(keys) == 0 {
			return nil
		}
		var args redis.Args
		for _, k := range keys {
			args = args.Add(name(k))
		}
		values, err := redis.ByteSlices(c.Do("MGET", args...))
		if err == nil && len(values) != len(keys) {
			err = ErrAnswer
		}
		if err != nil {
			return fmt.Errorf("reading what resque-retry keeps: %w", Explain(err))
		}
		for n, value := range values {
			if value != nil {
				take(n, value)
			}
		}
		return nil
	}
	var counted []RetryKey
	var countedOf []int
	err := read(keys, s.retryCount, func(n int, value []byte) {
		if last, err := strconv.Atoi(string(value)); err == nil {
			out[of[n]].Attempt = max(0, min(last, payload.MaxRuns)) + 2 // it is 0 after the first run
			counted, countedOf = append(counted, keys[n]), append(countedOf, of[n])
		}
	})
	if err != nil {
		return nil, err
	}
	return out, read(counted, s.retryFailure, func(n int, value []byte) {
		var f payload.FailureFields
		if f.Scan(value) {
			out[countedOf[n]].Exception, out[countedOf[n]].Error = payload.Text(f.Exception), payload.Text(f.Error)
		}
	})
}
