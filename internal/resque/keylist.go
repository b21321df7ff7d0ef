package resque

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"
)

var (
	keysScript     = script("keys")
	contentsScript = script("contents")
)

// Unasked is a number that Redis did not say.
const Unasked = -3

// KeyRow is a key and what can be said of it without reading it.
type KeyRow struct {
	Name     string // with the namespace
	Type     string // as TYPE names it: "none" has gone meanwhile; "": Redis refuses to say
	Elements int64  // of a string: its bytes; Unasked: Redis refuses to say, or the type is none of those that Resque has
	Stays    time.Duration
	Forever  bool // it has no end; Stays is 0 then
	Known    bool // how long it stays
}

// ScanKeys returns the keys that a step of a SCAN over the server's database finds, those of other programs too, and where the next step
// begins. Of a Cluster it walks the node that has the namespace.
func (s Store) ScanKeys(c redis.Conn, cursor string, count int) (keys []string, next string, err error) {
	reply, err := redis.Values(s.ask(c, "SCAN", cursor, "COUNT", count))
	if err == nil {
		_, err = redis.Scan(reply, &next, &keys)
	}
	return keys, next, err
}

// KeyRows says of keys what they are. refused are the commands that Redis refuses to this user.
func (s Store) KeyRows(c redis.Conn, keys []string) (rows []KeyRow, refused []*DeniedError, err error) {
	for chunk := range slices.Chunk(keys, walkCount) {
		var a Call
		for _, key := range chunk {
			a.Key(key)
		}
		reply, err := redis.Values(a.Do(c, keysScript))
		if err != nil {
			return nil, nil, s.denied("EVAL", "+eval +evalsha", err)
		}
		if len(reply) < 3*len(chunk) {
			return nil, nil, fmt.Errorf("reading which keys there are: %w", ErrAnswer)
		}
		for i, key := range chunk {
			row := KeyRow{Name: key}
			ms := int64(0)
			if _, err := redis.Scan(reply[3*i:3*i+3], &row.Type, &ms, &row.Elements); err != nil {
				return nil, nil, fmt.Errorf("reading which keys there are: %w", ErrAnswer)
			}
			row.Stays, row.Forever, row.Known = stay(ms)
			rows = append(rows, row)
		}
		names, err := redis.Strings(reply[3*len(chunk):], nil)
		if err != nil {
			return nil, nil, fmt.Errorf("reading which keys there are: %w", ErrAnswer)
		}
		slices.Sort(names)
		for _, name := range names {
			if !slices.ContainsFunc(refused, func(d *DeniedError) bool { return d.Command == name }) {
				refused = append(refused, &DeniedError{Command: name, Rule: "+" + strings.ToLower(name), Err: errRefused})
			}
		}
	}
	return rows, refused, nil
}

var errRefused = redis.Error("NOPERM in a script")

// stay reads an answer of PTTL.
func stay(ms int64) (stays time.Duration, forever, known bool) {
	switch {
	case ms == -1:
		return 0, true, true
	case ms < 0:
		return 0, false, ms != Unasked
	}
	return time.Duration(ms) * time.Millisecond, false, true
}

// KeyDetail is a key in detail.
type KeyDetail struct {
	KeyRow
	Bytes    int64  // about, by MEMORY USAGE; Unasked
	Encoding string // "": Redis does not say
	Refused  []*DeniedError
}

// KeyDetail says what a key is, in two round trips. Type is "none" where there is no such key.
func (s Store) KeyDetail(c redis.Conn, key string) (d KeyDetail, err error) {
	b := Batch{Conn: c}
	b.Send("MEMORY", "USAGE", key, "SAMPLES", memorySamples)
	b.Send("OBJECT", "ENCODING", key)
	replies, err := b.Receive()
	if err != nil {
		return d, err
	}
	rows, refused, err := s.KeyRows(c, []string{key})
	if err != nil {
		return d, err
	}
	d = KeyDetail{KeyRow: rows[0], Bytes: Unasked, Refused: refused}
	if d.Bytes, err = redis.Int64(Answer(replies[0])); err != nil {
		d.Bytes = Unasked
		if refused, ok := s.denied("MEMORY USAGE", "+memory|usage", err).(*DeniedError); ok {
			d.Refused = append(d.Refused, refused)
		}
	}
	if d.Encoding, err = redis.String(Answer(replies[1])); err != nil {
		if refused, ok := s.denied("OBJECT ENCODING", "+object|encoding", err).(*DeniedError); ok {
			d.Refused = append(d.Refused, refused)
		}
	}
	return d, nil
}

// memorySamples is how many elements of a key MEMORY USAGE looks at.
const memorySamples = 5

// Content is the beginning of an element of a key.
type Content struct {
	Field string // of a hash
	Text  []byte
	Size  int64 // bytes of the whole element
}

// KeyContents returns the first elements of a list, a set or a hash: at most most, and cut bytes of each. It reads about 1 MiB; one
// element may be larger.
func (s Store) KeyContents(c redis.Conn, key, kind string, most, cut int) (contents []Content, err error) {
	var a Call
	a.Key(key)
	a.Arg(kind, most, cut, pageBytes)
	reply, err := redis.Values(a.Do(c, contentsScript))
	if err == nil && len(reply)%3 != 0 {
		err = ErrAnswer
	}
	for i := 0; i < len(reply) && err == nil; i += 3 {
		var one Content
		if _, err = redis.Scan(reply[i:i+3], &one.Field, &one.Text, &one.Size); err == nil {
			contents = append(contents, one)
		}
	}
	if denied, ok := s.Denied(err); ok && denied.Rule != "+eval" && denied.Rule != "+evalsha" {
		reads := map[string]string{"list": "LRANGE", "set": "SSCAN", "hash": "HSCAN"}[kind] // a script's error does not name it
		return nil, &DeniedError{Command: reads, Rule: "+" + strings.ToLower(reads), Err: err}
	}
	if err != nil {
		return nil, fmt.Errorf("reading the beginning of the key %s: %w", key, Explain(err))
	}
	return contents, nil
}

// MemoryOf returns about how many bytes keys take, in their order: Unasked for one that Redis does not say, 0 for one that is gone.
// refused says why, where the user lacks a permission: the command, or other programs' keys.
func (s Store) MemoryOf(c redis.Conn, keys []string) (sizes []int64, refused *DeniedError, err error) {
	b := Batch{Conn: c}
	for _, key := range keys {
		b.Send("MEMORY", "USAGE", key, "SAMPLES", memorySamples)
	}
	replies, err := b.Receive()
	if err != nil {
		return nil, nil, err
	}
	for _, reply := range replies {
		size, err := redis.Int64(Answer(reply))
		switch {
		case err == redis.ErrNil:
			size = 0
		case err != nil:
			size = Unasked
			if denied, ok := s.denied("MEMORY USAGE", "+memory|usage", err).(*DeniedError); ok {
				refused = denied
			}
		}
		sizes = append(sizes, size)
	}
	return sizes, refused, nil
}

// DatabaseSize returns how many keys the database has, those of other programs too.
func (s Store) DatabaseSize(c redis.Conn) (int64, error) { return redis.Int64(s.ask(c, "DBSIZE")) }

// LoneKeys returns the keys of the namespace that are one of their kind and may be large: those with names that are always the
// same, and the lists of queues, if there are no more than so many.
func (s Store) LoneKeys(c redis.Conn, mostQueues int) (keys []string, of map[string]Family, queues bool, err error) {
	keys, of = s.lone()
	n, err := redis.Int(c.Do("SCARD", s.KeyOfQueues()))
	if err == nil && n <= mostQueues {
		var names []string
		names, err = redis.Strings(c.Do("SMEMBERS", s.KeyOfQueues()))
		for _, name := range names {
			keys, of[s.KeyOfRubys(name)] = append(keys, s.KeyOfRubys(name)), families()["queue:<queue>"]
		}
		queues = err == nil
	}
	if IsWrongType(err) {
		err = nil
	}
	slices.Sort(keys)
	return slices.Compact(keys), of, queues, err
}

// CanWrite removes a key that no program has, and returns the error with which Redis refuses that.
func (s Store) CanWrite(c redis.Conn) error {
	_, err := c.Do("DEL", s.probe("writable"))
	return err
}
