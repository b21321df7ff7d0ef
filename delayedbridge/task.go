package delayedbridge

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/tinylib/msgp/msgp"
)

// received is a task as it lies in a queue of delayed.
type received struct {
	name   string // the path of a Go function, or module:function of a Python one
	python bool
	args   []byte // packed: of Go what the bin holds, of Python the list; nil: none
	kwargs []byte // packed: a map of the arguments by name, which only Python has; nil: none
}

var errEnds = errors.New("it ends in the middle of a value")

// read reads a task. These forms are in use:
//
//	path                                    Go, written by Python for a call without arguments
//	[path, bin of the packed arguments]     Go
//	[module:func]                           Python; empty tails are left out
//	[module:func, args]                     Python
//	[module:func, args or nil, kwargs or nil]    Python, and as go-delayed writes it
//	[module:func, args, kwargs, retry]      Python, since 1.2
func read(data []byte) (t received, err error) {
	kind := msgp.NextType(data)
	if kind == msgp.StrType || kind == msgp.BinType {
		name, rest, err := text(data)
		if err == nil {
			err = ends(rest)
		}
		return received{name: name}, err
	}
	if kind != msgp.ArrayType {
		return t, errors.New("it is no MessagePack array, as a task is")
	}
	n, rest, err := msgp.ReadArrayHeaderBytes(data)
	switch {
	case err != nil:
		return t, errEnds
	case n == 0 || n > 4:
		return t, fmt.Errorf("it has %d elements, and a task has 1 to 4", n)
	}
	if t.name, rest, err = text(rest); err != nil {
		return t, err
	}
	t.python = n > 2 || strings.Contains(t.name, ":")
	for i := uint32(1); i < n; i++ {
		if len(rest) == 0 {
			return t, errEnds
		}
		switch kind = msgp.NextType(rest); {
		case kind == msgp.NilType:
		case i == 1 && kind == msgp.ArrayType:
			t.python = true
		case i == 1 && !t.python && (kind == msgp.BinType || kind == msgp.StrType): // MessagePack once had no bin
			if t.args, _, err = bytesOf(rest); err != nil {
				return t, err
			}
		case i == 2 && kind == msgp.MapType:
			count, _, err := msgp.ReadMapHeaderBytes(rest)
			if err != nil {
				return t, errEnds
			}
			if count > 0 {
				t.kwargs = rest
			}
		case i == 3 && (kind == msgp.IntType || kind == msgp.UintType): // how often Python retries it; classes say that here
		default:
			return t, fmt.Errorf("its element %d is of type %s, which no task has there", i+1, kind)
		}
		behind, err := msgp.Skip(rest)
		if err != nil {
			return t, errEnds
		}
		packed := rest[:len(rest)-len(behind)]
		switch {
		case i == 1 && kind == msgp.ArrayType:
			t.args = packed
		case i == 2 && t.kwargs != nil:
			t.kwargs = packed
		}
		rest = behind
	}
	return t, ends(rest)
}

func ends(rest []byte) error {
	if len(rest) > 0 {
		return fmt.Errorf("%d bytes follow its end", len(rest))
	}
	return nil
}

// text reads the name of a function.
func text(src []byte) (string, []byte, error) {
	name, rest, err := bytesOf(src)
	switch {
	case err != nil:
		return "", rest, err
	case len(name) == 0:
		return "", rest, errors.New("its function has no name")
	case !utf8.Valid(name):
		return "", rest, errors.New("the name of its function is not UTF-8")
	}
	return string(name), rest, nil
}

// bytesOf reads a string or a bin.
func bytesOf(src []byte) (b, rest []byte, err error) {
	switch msgp.NextType(src) {
	case msgp.StrType:
		b, rest, err = msgp.ReadStringZC(src)
	case msgp.BinType:
		b, rest, err = msgp.ReadBytesZC(src)
	default:
		return nil, src, errors.New("it does not begin with the name of a function")
	}
	if err != nil {
		return nil, src, errEnds
	}
	return b, rest, nil
}
