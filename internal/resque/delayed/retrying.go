package delayed

import (
	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/payload"
	"github.com/goworker/goworker/internal/resque"
)

// retryingPage is how many delayed jobs are looked at to count those that failed before. A page of large ones must not be large.
const retryingPage = 200

// AskRetrying sends the command that looks at the first delayed jobs of our own schedule, and Retrying counts in its
// answer those that failed before. all says that there are no others.
func (s Store) AskRetrying(c redis.Conn) error {
	var a resque.Call
	a.Key(s.store.KeyOfSchedule())
	a.Arg("-inf", 0, "", retryingPage, `"attempt":`)
	return walkScript.Send(c, a.Args()...)
}

// Retrying reads the answer to AskRetrying.
func Retrying(reply any, err error) (n int64, all bool, _ error) {
	r, err := redis.ByteSlices(walked(reply, err))
	if err != nil {
		return 0, false, err
	}
	if len(r) < 5 || len(r)%3 != 2 {
		return 0, false, resque.ErrAnswer
	}
	for i := 5; i < len(r); i += 3 {
		if p, err := payload.Parse(ownJob(r[i], r[i+1]).Payload); err == nil && p.Attempt > 1 {
			n++
		}
	}
	read, _ := redis.Int(r[0], nil)
	return n, read < retryingPage, nil
}
