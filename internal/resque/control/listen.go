package control

import (
	"fmt"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/resque"
)

// Listening is what a program asks processes for while it listens.
type Listening struct {
	For, Kept time.Duration // for how long it listens, and how long streams stay after their last entry
	Mark      string        // what is written into a stream of which no program had asked before
	Streams   []Stream
}

// Stream is a stream that processes fill while the notice has its field.
type Stream struct {
	Key   resque.Key
	Field string
	Most  int // about how many entries it keeps
}

// Listen asks processes to fill streams. A stream that no program had asked for gets the mark in the same step, and processes hear of it at
// once; all others read it with their next renewal. It returns Redis's time, and how many streams were marked.
func (s Store) Listen(c redis.Conn, l Listening) (now time.Time, marked int, err error) {
	var a resque.Call
	a.Key(s.NoticeKey().String())
	a.Arg(s.NoticeChannel(), NoticeKept.Milliseconds(), MostNotices, l.For.Milliseconds(), l.Kept.Milliseconds(), l.Mark)
	for _, one := range l.Streams {
		a.Key(one.Key.String())
		a.Arg(one.Field, one.Most)
	}
	reply, err := redis.Int64s(a.Do(c, listenScript))
	switch {
	case err != nil:
		err = resque.Explain(err)
	case len(reply) == 1 && reply[0] == -2:
		err = ErrFull
	case len(reply) != 2:
		err = resque.ErrAnswer
	}
	if err != nil {
		return now, 0, fmt.Errorf("saying to processes that a program listens: %w", err)
	}
	return time.UnixMilli(reply[0]), int(reply[1]), nil
}
