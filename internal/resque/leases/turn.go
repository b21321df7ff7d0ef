package leases

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/resque"
)

var turnScript = resque.LoadScript(scriptFiles, "turn")

// Ask asks for jobs of queues in their order. Asks for the same queues and time cost Redis least as one with the sum of
// their counts.
type Ask struct {
	Queues []string
	TTR    time.Duration // how long a client has for a job
	Count  int           // how many jobs, at most
}

// Ack ends a job as done, unless its end has effects.
type Ack struct {
	Queue, ID string
	Lease     string // only if the job has this lease; "": whichever it has
}

// What says what became of an Ack.
type What string

// What becomes of an Ack.
const (
	Acked   What = "acked"   // the job has ended
	Effects What = "effects" // the job's end has effects, and is to be committed
	Changed What = "changed" // the job has another lease
	Back    What = "back"    // the job went back; if the same bytes are taken once more, that ends them as done
	Late    What = "done"    // as Back, and an Ack before said so
	Dead    What = "dead"    // the job is filed as failed
	Unknown What = "unknown"
)

// Turn is what a server wants of Redis at once.
type Turn struct {
	Server string // its id; each life of a server has another one
	Number int64  // higher than that of each turn before
	Asks   []Ask
	Acks   []Ack // at most MostAcks
	Jobs   int   // that are reserved, at most MostJobs
	Bytes  int   // of payloads, about; one job is reserved in any case
	Texts  []string
	Seed   string // 16 characters: the ids begin with it that jobs get which have none; no two turns have the same
	Arm    bool   // Redis is to notify this connection when a queue of Empty or a pause changes
}

// Answer is what became of a turn.
type Answer struct {
	Now    int64             // of Redis's clock, in ms
	Jobs   []Job             // those that are not Given too
	Empty  []string          // queues of which no more is to be had now, because they are empty or paused
	Errors []resque.KeyError // of keys that are passed over
	Acks   []What            // of each Ack
	Armed  bool              // Redis notifies, as the turn wants; it is false where Redis does not track
}

// Turn ends jobs and reserves others, in one step. With an error nothing was done, unless the connection broke: then
// Served says.
func (s Store) Turn(c redis.Conn, t *Turn) (Answer, error) {
	a, names, err := s.turnCall(t)
	if err != nil {
		return Answer{}, err
	}
	reply, armed, err := sendTurn(c, t.Arm, a.Args())
	r, err := redis.Values(reply, err)
	if err != nil {
		return Answer{}, s.explain(c, err, t.Server, "taking and ending jobs for clients")
	}
	out, err := readTurn(r, t, names)
	out.Armed = armed && err == nil
	return out, err
}

// sendTurn sends the script, and in front of it in the same round trip what has Redis notify of the keys that it reads.
func sendTurn(c redis.Conn, arm bool, args []any) (reply any, armed bool, err error) {
	if !arm {
		reply, err = turnScript.Do(c, args...)
		return reply, false, err
	}
	for _, send := range []func(redis.Conn, ...any) error{turnScript.SendHash, turnScript.Send} {
		if err = c.Send("CLIENT", "CACHING", "YES"); err == nil {
			err = send(c, args...)
		}
		if err == nil {
			err = c.Flush()
		}
		if err != nil {
			return nil, false, err
		}
		_, refused := c.Receive()
		if reply, err = c.Receive(); !isNoScript(err) {
			return reply, refused == nil, err
		}
	}
	return reply, false, err
}

// isNoScript reports whether Redis does not know a script by its hash.
func isNoScript(err error) bool {
	var refused redis.Error
	return errors.As(err, &refused) && strings.HasPrefix(string(refused), "NOSCRIPT ")
}

func (s Store) turnCall(t *Turn) (a resque.Call, names []string, err error) {
	number := make(map[string]int)
	for _, ask := range t.Asks {
		for _, q := range ask.Queues {
			if number[q] == 0 {
				names = append(names, q)
				number[q] = len(names)
			}
		}
	}
	switch {
	case len(names) > MostQueues:
		return a, nil, fmt.Errorf("a turn asks %s, and %d is the most", resque.Plural(len(names), "queue"), MostQueues)
	case len(t.Acks) > MostAcks:
		return a, nil, fmt.Errorf("a turn ends %s, and %d is the most", resque.Plural(len(t.Acks), "job"), MostAcks)
	case len(t.Texts) > MostTexts:
		return a, nil, fmt.Errorf("a turn looks for %s, and %d is the most", resque.Plural(len(t.Texts), "text"), MostTexts)
	case len(t.Seed) != seedSize:
		return a, nil, fmt.Errorf("a turn's seed of ids is %q, and needs %d characters", t.Seed, seedSize)
	}
	pauseAll, paused, processed := s.TurnKeys()
	for _, key := range []string{s.KeyOfLeases(), s.KeyOfLeased(), s.ReturnedKey().String(), s.ServedKey(t.Server).String(), pauseAll, paused, processed} {
		a.Key(key)
	}
	for _, q := range names {
		a.Key(s.KeyOfQueue(q))
	}
	a.Arg(t.Number, min(t.Jobs, MostJobs), t.Bytes, settling.Milliseconds(), t.Seed, t.Arm, len(names), len(t.Acks), len(t.Texts))
	for _, q := range names {
		a.Arg(q)
	}
	for _, ack := range t.Acks {
		a.Arg(Place(ack.Queue, ack.ID))
	}
	for _, ack := range t.Acks {
		a.Arg(ack.Lease)
	}
	for _, text := range t.Texts {
		a.Arg(text)
	}
	for _, ask := range t.Asks {
		a.Arg(ask.TTR.Milliseconds(), ask.Count, len(ask.Queues))
		for _, q := range ask.Queues {
			a.Arg(number[q])
		}
	}
	return a, names, nil
}

// seedSize is the length of Turn.Seed.
const seedSize = 16

func readTurn(r []any, t *Turn, names []string) (out Answer, err error) {
	bad := fmt.Errorf("taking and ending jobs for clients: %w", resque.ErrAnswer)
	if len(r) == 1 {
		switch said, _ := redis.String(r[0], nil); said {
		case "stale":
			return out, ErrStale
		case "gone":
			return out, ErrGone
		}
	}
	if len(r) != 5 {
		return out, bad
	}
	if out.Now, err = redis.Int64(r[0], nil); err != nil {
		return out, bad
	}
	jobs, err1 := redis.Values(r[1], nil)
	empty, err2 := redis.Ints(r[2], nil)
	wrong, err3 := redis.Strings(r[3], nil)
	acks, err4 := redis.Values(r[4], nil)
	if err1 != nil || err2 != nil || err3 != nil || err4 != nil || len(jobs)%4 != 0 || len(wrong)%2 != 0 || len(acks)%2 != 0 {
		return out, bad
	}
	out.Jobs = make([]Job, 0, len(jobs)/4)
	for j := range slices.Chunk(jobs, 4) {
		ask, err1 := redis.Int(j[0], nil)
		id, err2 := redis.String(j[1], nil)
		queue, err3 := redis.Int(j[2], nil)
		raw, err4 := redis.Bytes(j[3], nil)
		effects := queue < 0
		if effects {
			queue = -queue
		}
		if err1 != nil || err2 != nil || err3 != nil || err4 != nil || queue < 1 || queue > len(names) || ask > len(t.Asks) {
			return out, bad
		}
		job := Job{Ask: ask - 1, Queue: names[queue-1], ID: id, Effects: effects, Payload: raw}
		ttr := settling
		switch {
		case ask > 0:
			ttr = t.Asks[ask-1].TTR
		case ask == 0:
			job.Ask, job.Fate = 0, Expired
		default:
			job.Ask, job.Fate = 0, Done
		}
		job.Lease = leaseAt(out.Now+ttr.Milliseconds(), effects)
		out.Jobs = append(out.Jobs, job)
	}
	for _, q := range empty {
		if q < 1 || q > len(names) {
			return out, bad
		}
		out.Empty = append(out.Empty, names[q-1])
	}
	for e := range slices.Chunk(wrong, 2) {
		out.Errors = append(out.Errors, resque.KeyError{Key: e[0], Reason: e[1]})
	}
	out.Acks = make([]What, len(t.Acks))
	for i := range out.Acks {
		out.Acks[i] = Acked
	}
	for a := range slices.Chunk(acks, 2) {
		at, err1 := redis.Int(a[0], nil)
		what, err2 := redis.String(a[1], nil)
		if err1 != nil || err2 != nil || at < 1 || at > len(out.Acks) {
			return out, bad
		}
		out.Acks[at-1] = What(what)
	}
	return out, nil
}
