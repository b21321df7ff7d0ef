package resque

import (
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"
)

// ServerState is a server as an operator sees it.
type ServerState struct {
	Info ServerInfo
	Now  time.Time     // by the server's clock
	Took time.Duration // of a round trip, as this machine measured it

	Keys    int64 // of the database that the connection uses, those of other programs too; Unasked
	Expires int64 // of these, those that end; Unasked

	AppendFsync, Save string // settings; "": Denied says why they are not known, or the server has none
	SaveKnown         bool
	Denied            []*DeniedError
}

// ServerState asks Redis about itself, in two round trips.
func (s Store) ServerState(c redis.Conn, now func() time.Time) (st ServerState, err error) {
	before := now()
	if st.Now, err = s.ServerTime(c); err != nil {
		return st, err
	}
	st.Took = now().Sub(before)
	b := Batch{Conn: c}
	b.Send("INFO")
	b.Send("DBSIZE")
	b.Send("CONFIG", "GET", "appendfsync")
	b.Send("CONFIG", "GET", "save")
	replies, err := b.Receive()
	if err != nil {
		return st, err
	}
	text, err := redis.String(Answer(replies[0]))
	if err != nil {
		return st, s.denied("INFO", "+info", err)
	}
	st.Info = parseInfo(text)
	st.Keys, err = redis.Int64(Answer(replies[1]))
	if err != nil {
		st.Keys = Unasked
		st.lacks(s.denied("DBSIZE", "+dbsize", err))
	}
	st.countExpires()
	for n, setting := range []*string{&st.AppendFsync, &st.Save} {
		found, err := redis.Strings(Answer(replies[2+n]))
		if err != nil {
			st.lacks(s.denied("CONFIG GET", "+config|get", err))
		} else if len(found) == 2 {
			*setting = found[1]
			st.SaveKnown = st.SaveKnown || setting == &st.Save
		}
	}
	return st, nil
}

// lacks notes what Redis refuses, each once.
func (st *ServerState) lacks(err error) {
	denied, ok := err.(*DeniedError)
	if !ok {
		return
	}
	for _, known := range st.Denied {
		if known.Command == denied.Command {
			return
		}
	}
	st.Denied = append(st.Denied, denied)
}

// countExpires finds the line of the connection's database. INFO has one of each database that has keys, and does not say
// which one is the connection's: it is the only one, or the only one of this size.
func (st *ServerState) countExpires() {
	fit := 0
	for name, line := range st.Info {
		number, ok := strings.CutPrefix(name, "db")
		if _, err := strconv.Atoi(number); !ok || err != nil {
			continue
		}
		keys, expires := databaseLine(line)
		if st.Keys == Unasked || keys == st.Keys {
			fit++
			st.Expires = expires
		}
	}
	if st.Keys != 0 && fit != 1 {
		st.Expires = Unasked
	}
	if st.Keys == 0 {
		st.Expires = 0
	}
}

// databaseLine reads the line of a database in an INFO: its keys, and those of them that end.
func databaseLine(line string) (keys, expires int64) {
	for field := range strings.SplitSeq(line, ",") {
		name, value, _ := strings.Cut(field, "=")
		n, _ := strconv.ParseInt(value, 10, 64)
		switch name {
		case "keys":
			keys = n
		case "expires":
			expires = n
		}
	}
	return keys, expires
}
