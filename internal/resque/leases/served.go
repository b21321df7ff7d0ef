package leases

import (
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/resque"
)

var servedScript = resque.LoadScript(scriptFiles, "served")

// servedStays is how long the record of a server stays. A server that runs longer opens a new one at ErrGone.
const servedStays = 24 * time.Hour

// Served opens the record of a server, and makes each turn of that number or a lower one stale: whenever Redis hears it,
// it does nothing. It returns the last turn that Redis did, 0 for none, and the jobs which that reserved, without their
// payloads. A server calls it before its first turn, after a turn whose answer it did not get, and after ErrGone. It may be
// called again and again.
//
// The jobs are of the turn whose answer was lost only if last is its number. Else Redis never heard that turn, and they are of
// one whose answer the server got: clients have them.
func (s Store) Served(c redis.Conn, server string, number int64) (last int64, jobs []Job, err error) {
	var a resque.Call
	a.Key(s.ServedKey(server).String())
	a.Arg(number, servedStays.Milliseconds())
	r, err := redis.Strings(a.Do(c, servedScript))
	if err == nil && len(r) != 2 {
		err = resque.ErrAnswer
	}
	if err == nil && r[0] != "" {
		last, err = strconv.ParseInt(r[0], 10, 64)
	}
	if err == nil {
		jobs, err = parseServed(r[1])
	}
	if err != nil {
		return 0, nil, s.explain(c, err, server, "reading the last turn of server %s", server)
	}
	return last, jobs, nil
}

// parseServed reads '<lease> <place>' of each job. A queue's name may have any character, and an id has no line break.
func parseServed(text string) (jobs []Job, err error) {
	for text != "" {
		lease, rest, ok := strings.Cut(text, " ")
		queue, id, placed := resque.CutPrefix([]byte(rest))
		if !ok || !placed {
			return nil, resque.ErrAnswer
		}
		name, more, _ := strings.Cut(string(id), "\n")
		jobs = append(jobs, Job{Queue: queue, ID: name, Lease: lease, Effects: HasEffects(lease)})
		text = more
	}
	return jobs, nil
}

// Close removes the record of a server that has ended. A turn that Redis hears later is ErrGone.
func (s Store) Close(c redis.Conn, server string) error {
	_, err := c.Do("DEL", s.ServedKey(server).String())
	return s.explain(c, err, server, "removing the record of server %s", server)
}
