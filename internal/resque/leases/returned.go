package leases

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/resque"
)

var trimScript = resque.LoadScript(scriptFiles, "trim")

// marksStay is how long a mark of a job that went back stays.
const marksStay = 24 * time.Hour

// WentBack is a row of the end of a job that goes back to its queue: so a late acknowledgement spares the second run, if
// that is of the same bytes. payload is what goes back, and now is Redis's time in ms.
func (s Store) WentBack(place string, payload []byte, now int64) resque.Effect {
	return s.mark(Back, place, payload, now)
}

// Filed is a row of the end of a job that is filed as failed: so a late acknowledgement finds that out.
func (s Store) Filed(place string, payload []byte, now int64) resque.Effect {
	return s.mark(Dead, place, payload, now)
}

// mark is what turn.lua reads: a word of four letters, a blank, the digest, a blank, the time.
func (s Store) mark(what What, place string, payload []byte, now int64) resque.Effect {
	return resque.Command("HSET", s.ReturnedKey(), place, fmt.Sprintf("%s %s %d", what, digest(payload), now)).Soft()
}

// Forget is a row of the end of a job that is Done: nothing is left of its mark.
func (s Store) Forget(place string) resque.Effect {
	return resque.Command("HDEL", s.ReturnedKey(), place).Soft()
}

// Mark returns what is known of a job that went back: Back, Late if a client acknowledged it since, or Dead. It is Unknown
// if nothing is, or if other bytes went back.
func (s Store) Mark(c redis.Conn, place string, payload []byte) (What, error) {
	text, err := orNone(redis.String(c.Do("HGET", s.ReturnedKey().String(), place)))
	if err != nil {
		return Unknown, s.explain(c, err, "", "reading whether a job came back from a client")
	}
	what, rest, _ := strings.Cut(text, " ")
	if sum, _, _ := strings.Cut(rest, " "); sum != digest(payload) {
		return Unknown, nil
	}
	return What(what), nil
}

// Trim removes marks that are older than a day, of a page of all, and returns the cursor of the next page. The cursor is
// "0" at the beginning and at the end.
func (s Store) Trim(c redis.Conn, cursor string) (next string, removed int, err error) {
	now, err := s.Now(c)
	if err != nil {
		return "", 0, err
	}
	r, err := redis.Values(c.Do("HSCAN", s.ReturnedKey().String(), cursor, "COUNT", 500))
	if err == nil && len(r) != 2 {
		err = resque.ErrAnswer
	}
	var pairs []string
	if err == nil {
		if next, err = redis.String(r[0], nil); err == nil {
			pairs, err = redis.Strings(r[1], nil)
		}
	}
	var a resque.Call
	a.Key(s.ReturnedKey().String())
	for pair := range slices.Chunk(pairs, 2) {
		mark := pair[len(pair)-1]
		at, odd := strconv.ParseInt(mark[strings.LastIndexByte(mark, ' ')+1:], 10, 64)
		if odd != nil || at < now.Add(-marksStay).UnixMilli() {
			a.Arg(pair[0], mark)
		}
	}
	if err == nil && a.Values() > 0 {
		removed, err = redis.Int(a.Do(c, trimScript))
	}
	if err != nil {
		return "", 0, s.explain(c, err, "", "removing old marks of jobs that went back")
	}
	return next, removed, nil
}
