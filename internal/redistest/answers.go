package redistest

import (
	"bytes"
	"encoding/binary"
	"time"

	"github.com/gomodule/redigo/redis"
)

// Answering returns a connection on which any command gets the next of the given replies,
// and after the last one nil.
func Answering(replies ...any) redis.Conn { return &answering{replies} }

type answering struct{ replies []any }

func (c *answering) Close() error                                             { return nil }
func (c *answering) Err() error                                               { return nil }
func (c *answering) Do(string, ...any) (any, error)                           { return c.Receive() }
func (c *answering) Send(string, ...any) error                                { return nil }
func (c *answering) Flush() error                                             { return nil }
func (c *answering) ReceiveWithTimeout(time.Duration) (any, error)            { return c.Receive() }
func (c *answering) DoWithTimeout(time.Duration, string, ...any) (any, error) { return c.Receive() }

func (c *answering) Receive() (any, error) {
	if len(c.replies) == 0 {
		return nil, nil
	}
	reply := c.replies[0]
	c.replies = c.replies[1:]
	if err, ok := reply.(redis.Error); ok {
		return nil, err
	}
	return reply, nil
}

// Trees makes replies of any shape from bytes. A letter is followed by a number,
// a text, an error, or the number of elements of an array.
func Trees(text []byte) []any {
	next := func(n int) []byte {
		n = min(n, len(text))
		taken := text[:n]
		text = text[n:]
		return taken
	}
	var tree func(depth int) any
	tree = func(depth int) any {
		head := next(2)
		if len(head) < 2 {
			return nil
		}
		switch n := int(head[1]); head[0] % 8 {
		case 0:
			return nil
		case 1:
			return int64(int8(n))
		case 2:
			var wide [8]byte
			copy(wide[:], next(8))
			return int64(binary.BigEndian.Uint64(wide[:]))
		case 3:
			return string(next(n))
		case 4:
			return redis.Error(next(n))
		case 5, 6:
			return bytes.Clone(next(n))
		}
		if depth == 8 {
			return nil
		}
		array := make([]any, int(head[1])%16)
		for i := range array {
			array[i] = tree(depth + 1)
		}
		return array
	}
	var all []any
	for len(text) > 0 && len(all) < 64 {
		all = append(all, tree(0))
	}
	return all
}

// Leaf is a text as Trees reads it.
func Leaf(text string) string { return "\x05" + string(rune(len(text))) + text }
