package resque

import (
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"
)

// This file packs ends into bytes. A process keeps thousands of ends that it may need again. As effects they are a dozen
// objects each, which the garbage collector would visit in every cycle; as bytes they are none.

// The kinds of packed arguments. What Redis gets as it is are texts and numbers.
const (
	packedText    = 't'
	packedNumber  = 'n'
	packedSlot    = 's'
	packedKeys    = 'k'
	packedWritten = 'w'
)

// Pack appends the end to dst, for Unpack.
func (e *Ended) Pack(dst []byte) []byte {
	dst = binary.AppendVarint(dst, e.Ticket)
	dst = packText(packText(dst, e.Place), string(e.Counts))
	dst = packCount(dst, len(e.Effects))
	for i := range e.Effects {
		dst = e.Effects[i].pack(dst)
	}
	if e.Bytes == nil {
		return append(dst, 0)
	}
	return packBytes(append(dst, 1), e.Bytes)
}

func (e *Effect) pack(dst []byte) []byte {
	dst = packText(dst, e.verb)
	of := byte(0)
	if e.file != nil {
		of = 1
	}
	dst = packKeys(append(dst, of), e.keys)
	dst = packCount(dst, len(e.args))
	for _, a := range e.args {
		switch a := a.(type) {
		case string:
			dst = packText(append(dst, packedText), a)
		case []byte:
			dst = packBytes(append(dst, packedText), a)
		case int:
			dst = binary.AppendVarint(append(dst, packedNumber), int64(a))
		case int64:
			dst = binary.AppendVarint(append(dst, packedNumber), a)
		case ownSlot:
			dst = packText(append(dst, packedSlot), string(a))
		case KeyList:
			dst = packKeys(append(dst, packedKeys), a)
		case WrittenKeys:
			dst = packKeys(append(dst, packedWritten), a)
		default:
			var room [32]byte
			dst = packBytes(append(dst, packedText), argText(room[:0], a))
		}
	}
	return dst
}

// argText appends what the client sends for an argument of another type.
func argText(dst []byte, a any) []byte {
	switch a := a.(type) {
	case float64:
		return strconv.AppendFloat(dst, a, 'g', -1, 64)
	case bool:
		if a {
			return append(dst, '1')
		}
		return append(dst, '0')
	case nil:
		return dst
	}
	return fmt.Append(dst, a)
}

func packCount(dst []byte, n int) []byte { return binary.AppendUvarint(dst, uint64(n)) }

func packText(dst []byte, text string) []byte { return append(packCount(dst, len(text)), text...) }

func packBytes(dst, text []byte) []byte { return append(packCount(dst, len(text)), text...) }

func packKeys(dst []byte, keys []Key) []byte {
	dst = packCount(dst, len(keys))
	for _, k := range keys {
		dst = packText(append(dst, k.kind), k.name)
	}
	return dst
}

// Unpack returns the end that Pack has written. Redis is sent the same for it.
func Unpack(packed []byte) (e Ended) {
	u := unpacking{packed}
	e.Ticket, e.Place, e.Counts = u.number(), u.text(), Counts(u.text())
	e.Effects = make([]Effect, u.count())
	for i := range e.Effects {
		e.Effects[i] = u.effect()
	}
	if u.byte() == 1 {
		e.Bytes = []byte(u.text())
	}
	return e
}

// unpacking is what is not read yet of a packed end.
type unpacking struct{ rest []byte }

func (u *unpacking) byte() byte {
	b := u.rest[0]
	u.rest = u.rest[1:]
	return b
}

func (u *unpacking) number() int64 {
	v, n := binary.Varint(u.rest)
	u.rest = u.rest[n:]
	return v
}

func (u *unpacking) count() int {
	v, n := binary.Uvarint(u.rest)
	u.rest = u.rest[n:]
	return int(v)
}

func (u *unpacking) text() string {
	n := u.count()
	text := string(u.rest[:n])
	u.rest = u.rest[n:]
	return text
}

func (u *unpacking) keys() []Key {
	keys := make([]Key, u.count())
	for i := range keys {
		kind := u.byte()
		keys[i] = Key{u.text(), kind}
	}
	return keys
}

func (u *unpacking) effect() Effect {
	e := Effect{verb: u.text()}
	if u.byte() == 1 {
		v, _ := verbNames.Load(strings.TrimPrefix(e.verb, "~"))
		e.file = v.(*Verb)
	}
	e.keys = u.keys()
	e.args = make([]any, u.count())
	for i := range e.args {
		switch u.byte() {
		case packedText:
			e.args[i] = u.text()
		case packedNumber:
			e.args[i] = u.number()
		case packedSlot:
			e.args[i] = ownSlot(u.text())
		case packedKeys:
			e.args[i] = KeyList(u.keys())
		case packedWritten:
			e.args[i] = WrittenKeys(u.keys())
		}
	}
	return e
}
