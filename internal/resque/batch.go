package resque

import "github.com/gomodule/redigo/redis"

// batch is a pipeline whose replies matter. An error among the replies is kept
// in its place, for one refused command says nothing about the others; what
// receive returns as an error is the connection's.
type batch struct {
	c       redis.Conn
	pending int
	replies []any
	err     error
}

func (b *batch) send(command string, args ...any) {
	if b.err == nil {
		b.err = b.c.Send(command, args...)
		b.sent()
	}
}

// eval sends a script as text: a hash that Redis has lost could not be made good
// in the middle of a batch.
func (b *batch) eval(s *redis.Script, a call) {
	if b.err == nil {
		b.err = s.Send(b.c, a.args()...)
		b.sent()
	}
}

func (b *batch) sent() {
	if b.err != nil {
		return
	}
	if b.pending++; b.pending >= 1000 {
		b.drain()
	}
}

func (b *batch) drain() {
	if b.err == nil {
		b.err = b.c.Flush()
	}
	for ; b.err == nil && b.pending > 0; b.pending-- {
		reply, err := b.c.Receive()
		if refused, ok := err.(redis.Error); ok {
			reply = refused
		} else {
			b.err = err
		}
		b.replies = append(b.replies, reply)
	}
}

// receive returns one reply for each command sent.
func (b *batch) receive() ([]any, error) {
	b.drain()
	return b.replies, b.err
}

// answer makes a reply of a batch into what redigo's converters take.
func answer(reply any) (any, error) {
	if err, ok := reply.(redis.Error); ok {
		return nil, err
	}
	return reply, nil
}

// check receives all replies and returns the first error, refusals included.
func (b *batch) check() error {
	replies, err := b.receive()
	for _, reply := range replies {
		if err == nil {
			_, err = answer(reply)
		}
	}
	return err
}
