package httpjob

import (
	"strings"
	"time"
)

// ReplyTTL is how long an answer waits at most for the caller; see IsReply.
const ReplyTTL = 10 * time.Minute

// IsReply reports whether a queue holds the answer of a synchronous call: its caller publishes a job, and waits at the
// queue that is named like the job. The list of such a queue is gone after ReplyTTL, and Resque's set of queues
// has no entry of it, so calls leave nothing behind.
//
// The name must end in an id of a job without delay. So a queue that a program names by a ULID of its own is none:
// the last 32 bits of that are random.
func IsReply(queue string) bool {
	_, delay, ok := ParseID(queue[strings.LastIndexByte(queue, '.')+1:])
	return ok && delay == 0
}
