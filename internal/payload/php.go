package payload

import (
	"fmt"
	"math"
	"strconv"
	"time"
)

// PHPJob is a job that php-resque enqueued. If PHP tracks the job, it created the key
// job:<id>:status, from which PHP's programs read the job's state. Every write of the key here
// has the option XX, so a job that PHP does not track gets no key and needs no check.
//
// resque/php-resque writes a "prefix" into each payload, even an empty one, and a start and a
// result into each status. chrisboulton/php-resque and php-resque-ex write neither of them.
type PHPJob struct {
	name    string // the id, behind the prefix if there is one
	started int64  // Unix seconds; PHP wrote the same ones into the status that it created
	prefix  bool   // the payload has a prefix
}

// PHPStatus is php-resque's number for a state of a job.
type PHPStatus int

const (
	PHPWaiting  PHPStatus = 1
	PHPRunning  PHPStatus = 2
	PHPFailed   PHPStatus = 3
	PHPComplete PHPStatus = 4
)

// String names the key of the job's status, without the namespace.
func (j *PHPJob) String() string { return "job:" + j.name + ":status" }

// newPHPJob returns nil for a job that php-resque did not enqueue. It takes a payload's id and the
// JSON of two of its fields, nil for a field that the payload does not have.
func newPHPJob(id string, prefix, queueTime []byte) *PHPJob {
	if queueTime == nil || phpEmpty(id) {
		return nil
	}
	at, err := strconv.ParseFloat(string(queueTime), 64)
	if err != nil || math.Abs(at) >= 1<<53 {
		return nil // PHP writes the number of microtime()
	}
	j := &PHPJob{name: id, started: int64(math.Floor(at)), prefix: prefix != nil}
	if p := idText(prefix); !phpEmpty(p) {
		j.name = p + "_" + id
	}
	return j
}

// phpEmpty is PHP's empty() for a text.
func phpEmpty(text string) bool { return text == "" || text == "0" }

// Status returns the bytes that php-resque writes for a status.
func (j *PHPJob) Status(status PHPStatus, now time.Time) []byte {
	out := fmt.Appendf(nil, `{"status":%d,"updated":%d`, status, now.Unix())
	if j.prefix || status == PHPWaiting {
		out = fmt.Appendf(out, `,"started":%d`, j.started)
	}
	if j.prefix {
		out = append(out, `,"result":null`...)
	}
	return append(out, '}')
}
