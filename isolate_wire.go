package goworker

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
)

// This file is what a daemon and the child process of an isolated job say to each
// other: each message is its length, four bytes, and JSON. The daemon says one
// request, then perhaps that the job is to give way; the child says that it is ready,
// perhaps where its handler is, and the outcome.

// childVar marks the environment of a child. Its value is the pid of the daemon, so
// that no further process that inherits it takes itself for one.
const childVar = "GOWORKER_ISOLATED"

// The child's ends of the two pipes.
const (
	requestFD = 3
	answerFD  = 4
)

// request is the job that a child is to run.
type request struct {
	Daemon     string // which of the program's daemons it belongs to
	Queue      string
	Payload    []byte
	ID         string
	Attempt    int
	Retries    int // RetriesLeft
	Recovered  int
	Worker     string
	ReservedAt time.Time
	UseNumber  bool
	Memory     int64
}

// command is what the daemon says after the request.
type command struct {
	Cancel string // the cause with which the context of the job is to be cancelled
	Stack  bool   // say where the handler is
}

// answer is what the child says.
type answer struct {
	Ready   bool     // the program has called Work or Run
	Stack   []string // where the handler is
	Memory  int64    // what the Go runtime holds, where it is beyond the limit
	Outcome *childOutcome
}

// childOutcome is how the handler ended.
type childOutcome struct {
	Result json.RawMessage `json:",omitempty"`
	Err    *wireError      // nil: it is done
}

// causesOnWire are the causes that handlers compare with.
var causesOnWire = []error{ErrShutdown, ErrLeaseLost, ErrCancelled, context.Canceled, context.DeadlineExceeded}

// causeOf is the cause that came as a text.
func causeOf(text string) error {
	for _, cause := range causesOnWire {
		if cause.Error() == text {
			return cause
		}
	}
	return errors.New(text)
}

// frame is a message as it is sent.
func frame(message any) ([]byte, error) {
	data, err := json.Marshal(message)
	if err != nil {
		return nil, err
	}
	return append(binary.BigEndian.AppendUint32(make([]byte, 0, 4+len(data)), uint32(len(data))), data...), nil
}

// What has a greater length than these is no message: something else wrote to the pipe.
const (
	maxRequest = 1 << 30  // more than the largest payload has in JSON
	maxResult  = 16 << 20 // of a handler, in JSON
	maxAnswer  = 2 * maxResult
)

// receive reads a message. An io.EOF is the end of the other side.
func receive(r io.Reader, most uint32, message any) error {
	var size [4]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return err
	}
	n := binary.BigEndian.Uint32(size[:])
	if n > most {
		return fmt.Errorf("a message of %d bytes", n)
	}
	data := make([]byte, n)
	if _, err := io.ReadFull(r, data); err != nil {
		return fmt.Errorf("a message was cut off: %w", err)
	}
	return json.Unmarshal(data, message)
}
