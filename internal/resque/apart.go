package resque

import (
	"fmt"
	"strconv"

	"github.com/gomodule/redigo/redis"
)

// A large payload is in a field of its own in the in-flight record, p and the ticket. The ticket's field has a mark and what else stands
// in front of the payload. Redis's Lua hashes every byte of each string that a script makes: the exchange makes one less.
//
// No field is read or removed by its payload. The ticket says that there is a job, as before: a payload without one is no job. A release
// that does not know the mark leaves such a job of a dead process alone, and the process stays. So it is written only while all
// processes that live know it: see fleet.Session. A job goes back to its queue as it was.

// ApartFrom is from how many bytes on a payload is in a field of its own.
const ApartFrom = 4 << 10

const (
	apartMark  = '~'
	apartField = "apart" // of a record: how many payloads have a field of their own
	apartOff   = 1 << 30 // more bytes than a payload has
)

// mostReleases is how many processes may live where records are written so.
const mostReleases = 2000

// ReadMembers has a renewal read the ids of the processes that live. all says that these are all of them: there are not too many, and
// Redis has not refused to say it.
func (s Store) ReadMembers(c *Cargo, heard func(ids []string, all bool)) {
	c.Read(func(reply any, err error) {
		ids, err := redis.Strings(reply, err)
		heard(ids, err == nil && len(ids) <= mostReleases)
	}, "ZRANGEBYSCORE", zsetKey(s.processes()), 0, "+inf", "LIMIT", 0, mostReleases+1)
}

// ReadKnows has a renewal read whether a process's release understands what a word names. It hears nothing of one whose record is missing:
// the process may be about to write it again.
func (s Store) ReadKnows(c *Cargo, process, word string, heard func(knows bool)) {
	c.Read(func(reply any, err error) {
		f, _ := redis.Values(reply, err)
		if len(f) == 2 && f[0] == nil {
			return
		}
		knows := ""
		if len(f) == 2 {
			knows, _ = redis.String(f[1], nil)
		}
		heard(Process{Knows: knows}.KnowsOf(word))
	}, "HMGET", hashKey(s.process(process)), "epoch", "knows")
}

// isApart reports whether the payload of a ticket with this value has a field of its own.
func isApart(value []byte) bool { return len(value) > 0 && value[0] == apartMark }

// payloadField is the field of a ticket's payload.
func payloadField(ticket int64) string { return "p" + strconv.FormatInt(ticket, 10) }

// limit is how many bytes an exchange reserves at most. Where payloads may have fields of their own, it says from how many bytes on.
func (x *Exchange) limit() (limit any, apart bool) {
	if x.Apart == 0 && len(x.Spent) == 0 {
		return MaxExchangeBytes, false
	}
	from := x.Apart
	if from == 0 {
		from = apartOff
	}
	return fmt.Sprint(MaxExchangeBytes, " ", from), true
}

// joinApart puts prefix and payload together where values of tickets have the mark. Tickets that are gone meanwhile have nil. One whose
// payload is gone keeps the mark.
func (s Store) joinApart(c redis.Conn, process string, tickets []int64, values [][]byte) ([][]byte, error) {
	args := redis.Args{s.inflight(process)}
	var marked []int
	for i, v := range values {
		if isApart(v) {
			marked = append(marked, i)
			args = args.Add(tickets[i], payloadField(tickets[i]))
		}
	}
	if len(marked) == 0 {
		return values, nil
	}
	pairs, err := redis.ByteSlices(c.Do("HMGET", args...))
	if err == nil && len(pairs) != 2*len(marked) {
		err = ErrAnswer
	}
	if err != nil {
		return nil, fmt.Errorf("reading the in-flight record of process %s: %w", process, err)
	}
	for n, i := range marked {
		switch value, payload := pairs[2*n], pairs[2*n+1]; {
		case isApart(value) && payload != nil:
			values[i] = append(value[1:len(value):len(value)], payload...)
		default: // it has ended, or it was written again as one
			values[i] = value
		}
	}
	return values, nil
}

// jobsOf is how many jobs a record has, by the number of its fields and the values of the mark and of apartField.
func jobsOf(fields int64, reply any) int64 {
	values, _ := redis.Strings(Answer(reply))
	for _, v := range values {
		if v != "" {
			fields--
		}
	}
	if len(values) == 2 {
		payloads, _ := strconv.ParseInt(values[1], 10, 64)
		fields -= payloads
	}
	return max(0, fields)
}
