package resque

import "github.com/gomodule/redigo/redis"

// Batch is a pipeline whose replies matter. A refused command says nothing about the others, so
// its error is kept in its place among the replies. The error of Receive is the connection's.
type Batch struct {
	Conn    redis.Conn
	pending int
	replies []any
	err     error
}

// Send adds a command.
func (b *Batch) Send(command string, args ...any) {
	if b.err == nil {
		b.err = b.Conn.Send(command, args...)
		b.sent()
	}
}

// Eval adds a script as text. A hash could fail in the middle of a batch, where the script of
// a hash unknown to Redis cannot be loaded.
func (b *Batch) Eval(s *Script, a Call) {
	if b.err == nil {
		b.err = s.Send(b.Conn, a.Args()...)
		b.sent()
	}
}

func (b *Batch) sent() {
	if b.err != nil {
		return
	}
	if b.pending++; b.pending >= 1000 {
		b.drain()
	}
}

func (b *Batch) drain() {
	if b.err == nil {
		b.err = b.Conn.Flush()
	}
	for ; b.err == nil && b.pending > 0; b.pending-- {
		reply, err := b.Conn.Receive()
		if refused, ok := err.(redis.Error); ok {
			reply = refused
		} else {
			b.err = err
		}
		b.replies = append(b.replies, reply)
	}
}

// Receive returns one reply for each command sent.
func (b *Batch) Receive() ([]any, error) {
	b.drain()
	return b.replies, b.err
}

// Answer splits a reply of a batch into the value and error that redigo's converters take.
func Answer(reply any) (any, error) {
	if err, ok := reply.(redis.Error); ok {
		return nil, err
	}
	return reply, nil
}

// check receives all replies and returns the first error, refusals included.
func (b *Batch) check() error {
	replies, err := b.Receive()
	for _, reply := range replies {
		if err == nil {
			_, err = Answer(reply)
		}
	}
	return err
}
