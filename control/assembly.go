package control

import (
	"errors"

	"github.com/goworker/goworker/internal/resque/control"
)

// assembler joins the pieces of answers. It keeps no more bytes than all answers to one command may have, because a program that writes
// to Redis may forge endless pieces.
type assembler struct {
	parts map[string]*assembly // by process
	kept  int                  // bytes of all pieces
}

// assembly is the pieces of one answer.
type assembly struct {
	next  int
	bytes []byte
}

var (
	errPieces = errors.New("a piece of it is missing")
	errSize   = errors.New("it is larger than all answers to a command may be")
)

// add adds a piece, and after the last piece returns the whole answer. A first piece restarts the answer: a process sends its answer
// again if it does not know whether Redis has it.
func (a *assembler) add(p control.Piece) (whole []byte, err error) {
	one := a.parts[p.Process]
	if one == nil {
		one = new(assembly)
		a.parts[p.Process] = one
	}
	if p.Number == 0 {
		a.kept -= len(one.bytes)
		*one = assembly{}
	}
	if p.Number != one.next {
		err = errPieces
	} else if a.kept+len(p.Bytes) > control.MostAnswered {
		err = errSize
	}
	if err == nil {
		one.next++
		one.bytes = append(one.bytes, p.Bytes...)
		a.kept += len(p.Bytes)
	}
	if err == nil && !p.Last {
		return nil, nil
	}
	delete(a.parts, p.Process)
	a.kept -= len(one.bytes)
	if err != nil {
		return nil, err
	}
	return one.bytes, nil
}
