package resque

import (
	"bytes"
	"crypto/sha1"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"
)

// This file is how the Ruby plugin resque-retry counts the runs of a job: in a key
// named by its class and arguments, not in its payload. Jobs that are equal share it.

// RetryKey names the count of a job for resque-retry.
type RetryKey string

// NewRetryKey returns the key of the jobs with this class and these arguments. Ruby
// 3.4 and newer show a hash among the arguments differently, with blanks; so there the
// key differs.
func NewRetryKey(class string, args []json.RawMessage, blanks bool) RetryKey {
	name := "resque-retry:" + class
	if text := rubyJoin(args, blanks); text != "" {
		sum := sha1.Sum([]byte(text))
		name += ":" + hex.EncodeToString(sum[:])
	}
	return RetryKey(withoutBlanks.Replace(name))
}

// Safe for concurrent use, as every strings.Replacer.
var withoutBlanks = strings.NewReplacer(" ", "", "\t", "", "\n", "", "\v", "", "\f", "", "\r", "")

func (s Store) retryCount(k RetryKey) string   { return s.ns + string(k) }
func (s Store) retryFailure(k RetryKey) string { return s.ns + "failure-" + string(k) }

// CountedRun is the beginning of a run as resque-retry counts it.
type CountedRun struct {
	Key   RetryKey
	Again bool // it began before, in a process that died: it is counted already

	Retries int   // how often the job was retried before
	Err     error // what Redis refused; the others are counted all the same
}

// CountRuns counts the beginnings of runs, all in one round trip. The error is the
// connection's.
func (s Store) CountRuns(c redis.Conn, runs []*CountedRun) error {
	b := batch{c: c}
	for _, r := range runs {
		key := s.retryCount(r.Key)
		if r.Again {
			b.send("SET", key, 0, "NX")
			b.send("INCRBY", key, 0)
		} else {
			b.send("SET", key, -1, "NX")
			b.send("INCRBY", key, 1)
		}
	}
	replies, err := b.receive()
	if err != nil {
		return err
	}
	for i, r := range runs {
		var refused error
		if r.Retries, refused = redis.Int(answer(replies[2*i+1])); refused != nil {
			r.Err = fmt.Errorf("resque-retry's count of the job, %s, cannot be read: %w", s.retryCount(r.Key), refused)
		}
	}
	return nil
}

// UncountRun takes back what CountRuns counted for a run that was cut short.
func (s Store) UncountRun(c redis.Conn, k RetryKey) error {
	_, err := c.Do("INCRBY", s.retryCount(k), -1)
	return err
}

// KeepCount makes sure that a job which is to be retried has a count: its existence
// tells Ruby's failure backend not to file the failure.
func (s Store) KeepCount(k RetryKey) Effect { return effect("SET", s.retryCount(k), -1, "NX") }

// DropCount removes the count of a job that has come to its end.
func (s Store) DropCount(k RetryKey) Effect { return effect("DEL", s.retryCount(k)) }

// HoldFailure keeps the record of a failure while its job waits to be retried, for
// twice that time, as Ruby's MultipleWithRetrySuppression does.
func (s Store) HoldFailure(k RetryKey, record []byte, wait time.Duration) Effect {
	return effect("SET", s.retryFailure(k), record, "EX", max(1, 2*int64(wait/time.Second)))
}

// DropFailure removes what HoldFailure kept.
func (s Store) DropFailure(k RetryKey) Effect { return effect("DEL", s.retryFailure(k)) }

// FailedAtWithoutZone writes a failure's time as MultipleWithRetrySuppression has it: Resque's
// form without the zone.
func FailedAtWithoutZone(t time.Time) string { return t.Format("2006/01/02 15:04:05") }

// DelayPlain delays a job to a second as resque-scheduler does. It reports false, and
// nothing else, where the payload holds more than class and arguments: Ruby's scheduler
// would drop that. The last of the effects is not one that can be repeated.
func (s Store) DelayPlain(second int64, queue string, payload []byte) ([]Effect, bool) {
	plain, err := retryPayload(payload, false)
	if err != nil || !bytes.Equal(plain, payload) {
		return nil, false
	}
	item := append(plain[:len(plain)-1:len(plain)-1], `,"queue":`...)
	item = append(appendString(item, queue, Plain, replacement), '}')
	at := strconv.FormatInt(second, 10)
	return []Effect{
		effect("ZADD", s.delayed(), at, at),
		effect("SADD", s.timestamps(string(item)), "delayed:"+at),
		effect("RPUSH", s.bucket(at), item),
	}, true
}
