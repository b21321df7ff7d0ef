package resque

import (
	"bytes"
	"crypto/sha1"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/goworker/goworker/internal/payload"
	"github.com/goworker/goworker/internal/queues"
)

// This file is about the counts of the Ruby plugin resque-retry. It counts the runs of a job in a
// key named by class and arguments, not in the payload, so equal jobs share a count.

// RetryKey names the count of a job for resque-retry.
type RetryKey string

// NewRetryKey returns the key of the jobs with this class and these arguments. Ruby
// 3.4 and newer print a hash among the arguments with blanks, so their key differs.
func NewRetryKey(class string, args []json.RawMessage, blanks bool) RetryKey {
	name := "resque-retry:" + class
	if text := payload.RubyJoin(args, blanks); text != "" {
		sum := sha1.Sum([]byte(text))
		name += ":" + hex.EncodeToString(sum[:])
	}
	return RetryKey(withoutBlanks.Replace(name))
}

// Safe for concurrent use, as every strings.Replacer.
var withoutBlanks = strings.NewReplacer(" ", "", "\t", "", "\n", "", "\v", "", "\f", "", "\r", "")

func (s Store) retryCount(k RetryKey) string   { return s.ns + string(k) }
func (s Store) retryFailure(k RetryKey) string { return s.ns + "failure-" + string(k) }

// RetryCount is how often a job was retried before the run that begins.
type RetryCount struct {
	Key     RetryKey
	Retries int
	Err     error // the value of the key is no count
}

// ReadCounts reads the counts of runs that begin, in one round trip. The error is
// the connection's, or says that the server does not serve.
//
// Ruby's worker raises the count here; ours raises it with the commit. So a run that dies
// with its process does not count, as with a count in the payload, and between two runs
// the number is the same: 0 after the first run, n after the nth retry.
func (s Store) ReadCounts(c redis.Conn, counts []*RetryCount) error {
	b := Batch{Conn: c}
	for _, r := range counts {
		b.Send("GET", s.retryCount(r.Key))
	}
	replies, err := b.Receive()
	if err != nil {
		return err
	}
	for i, r := range counts {
		last, refused := redis.Int(Answer(replies[i]))
		switch {
		case refused == nil:
			r.Retries = max(0, min(last, payload.MaxRuns)+1)
		case errors.Is(refused, redis.ErrNil):
			r.Retries = 0
		case isRefusal(refused) && !strings.HasPrefix(refused.Error(), "WRONGTYPE"):
			return refused
		default:
			r.Err = fmt.Errorf("resque-retry's count of the job, %s, cannot be read: %w", s.retryCount(r.Key), refused)
		}
	}
	return nil
}

func isRefusal(err error) bool {
	var refused redis.Error
	return errors.As(err, &refused)
}

// SetCount writes how often a job was retried that is to be retried once more. If the count
// exists, Ruby's failure backend does not file the failure. The count expires that long after
// the wait; with 0 it keeps its expiry, as with Ruby's INCR.
func (s Store) SetCount(k RetryKey, retries int, wait, expires time.Duration) Effect {
	if expires == 0 {
		return effect("SET", anyKey(s.retryCount(k)), retries, "KEEPTTL")
	}
	return effect("SET", anyKey(s.retryCount(k)), retries, "EX", wholeSeconds(max(0, wait))+wholeSeconds(expires))
}

// DropCount removes the count of jobs that are over and, if asked, the record of their last failure.
// If the job succeeded, Ruby's plugin lets that record expire.
func (s Store) DropCount(k RetryKey, failure bool) []Effect {
	drop := []Effect{effect("DEL", anyKey(s.retryCount(k)))}
	if failure {
		drop = append(drop, effect("DEL", anyKey(s.retryFailure(k))))
	}
	return drop
}

// wholeSeconds rounds up.
func wholeSeconds(d time.Duration) int64 {
	seconds := int64(d / time.Second)
	if d%time.Second > 0 {
		seconds++
	}
	return seconds
}

// HoldFailure keeps the record of a failure while its job waits for its retry, for
// twice that time, as Ruby's MultipleWithRetrySuppression does.
func (s Store) HoldFailure(k RetryKey, record []byte, wait time.Duration) Effect {
	return effect("SET", anyKey(s.retryFailure(k)), record, "EX", max(1, 2*int64(wait/time.Second)))
}

// FailedAtWithoutZone formats a failure's time as MultipleWithRetrySuppression does: Resque's
// form without the zone.
func FailedAtWithoutZone(t time.Time) string { return t.Format("2006/01/02 15:04:05") }

// DelayPlain delays a job to a second as resque-scheduler does. It reports false if the payload
// holds more than class and arguments, which Ruby's scheduler would drop, or the queue is goworker's own, which it does not know. The last of the
// effects must not be repeated.
func (s Store) DelayPlain(second int64, queue string, raw []byte) ([]Effect, bool) {
	plain, err := payload.ForRetry(raw, false)
	if err != nil || !bytes.Equal(plain, raw) || queues.IsOwn(queue) {
		return nil, false
	}
	item := payload.Item(plain, queue, payload.Plain)
	at := strconv.FormatInt(second, 10)
	return []Effect{
		effect("ZADD", zsetKey(s.KeyOfSeconds()), at, at),
		effect("SADD", setKey(s.KeyOfJobSeconds(string(item))), "delayed:"+at),
		effect("RPUSH", listKey(s.KeyOfSecond(at)), item),
	}, true
}
