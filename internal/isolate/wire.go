// Package isolate runs a job in a child process of its own. Limits.Run is the daemon's
// side: it starts the child, sends it the job, asks it to stop
// and kills it. Serve is the child's side: main calls Work or Run as always, which then runs
// the job.
package isolate

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/goworker/goworker/internal/failure"
)

// This file holds the messages between a daemon and a child. Each is its length, four
// bytes, and JSON. The next job of a child that is kept has a form of its own: next.go. The daemon sends one request, then perhaps a command to stop
// the job. The child sends that it is ready, perhaps where its handler is, and the outcome. A child that is kept waits then
// for a command with the next request, or to end.

// childVar marks the environment of a child. Its value is the pid of the daemon: a
// process that inherits the variable from the child is no child.
const childVar = "GOWORKER_ISOLATED"

// The child's ends of the two pipes.
const (
	requestFD = 3
	answerFD  = 4
)

// Request is the job that a child is to run.
type Request struct {
	Daemon     string `json:",omitempty"` // the Identity of the Program it belongs to; "": any
	Queue      string `json:",omitempty"`
	Payload    []byte `json:",omitempty"`
	ID         string `json:",omitempty"`
	Attempt    int    `json:",omitempty"`
	Retries    int    `json:",omitempty"` // RetriesLeft
	Recovered  int    `json:",omitempty"`
	Worker     string `json:",omitempty"`
	Process    string `json:",omitempty"` // whose in-flight record holds the job
	Ticket     int64  `json:",omitempty"` // the job's in that record
	ReservedAt time.Time
	UseNumber  bool           `json:",omitempty"`
	Timeout    *time.Duration `json:",omitempty"` // in place of that of the job's class; nil: that holds
	Memory     int64          `json:",omitempty"` // set by Limits.Run
	Keep       bool           `json:",omitempty"` // the child may be given other jobs; set by Limits.Run
	Last       bool           `json:",omitempty"` // this is the last one; set by Limits.Run

	// Config is the configuration of the daemon as it was accepted: its file may have mistakes by now. It is opaque to this package.
	Config json.RawMessage `json:",omitempty"`

	// Said takes what the job says while it runs. In the daemon it is called with each message, in one goroutine;
	// nil: nothing takes them. In the child it sends one, and is set by Serve. The messages are opaque to this package.
	Said func(message json.RawMessage) `json:"-"`
}

// command is a message of the daemon after the request.
type command struct {
	Cancel string `json:",omitempty"` // the cause with which to cancel the job's context
	Stack  bool   `json:",omitempty"` // send where the handler is

	Next *Request `json:",omitempty"` // the next job, without what the child knows: Daemon, Memory, Keep and Config
	End  bool     `json:",omitempty"` // there is none
}

// answer is a message of the child.
type answer struct {
	Ready   bool            `json:",omitempty"` // the program has called Work or Run
	Stack   []string        `json:",omitempty"` // where the handler is
	Memory  int64           `json:",omitempty"` // what the Go runtime holds, if it exceeds the limit
	Said    json.RawMessage `json:",omitempty"` // what the job says while it runs
	Outcome *childOutcome   `json:",omitempty"`
	Kept    bool            `json:",omitempty"` // with an Outcome: the child waits for another job
}

// The answers that most children send, as JSON has them. A child that runs one job would build the encoder of all answers for them,
// and a daemon parse them with each job of a kept child.
const (
	readyText = `{"Ready":true}`
	doneText  = `{"Outcome":{"Err":null}}`
	keptText  = `{"Outcome":{"Err":null},"Kept":true}`
)

// frame returns an answer as it is sent.
func (a *answer) frame() ([]byte, error) {
	switch done := a.Outcome != nil && a.Outcome.Result == nil && a.Outcome.Err == nil; {
	case a.Ready:
		return framed([]byte(readyText)), nil
	case done && a.Kept:
		return framed([]byte(keptText)), nil
	case done:
		return framed([]byte(doneText)), nil
	}
	return frame(a)
}

// parse reads an answer.
func (a *answer) parse(data []byte) error {
	switch string(data) {
	case readyText:
		a.Ready = true
	case keptText:
		a.Outcome, a.Kept = new(childOutcome), true
	case doneText:
		a.Outcome = new(childOutcome)
	default:
		return json.Unmarshal(data, a)
	}
	return nil
}

// childOutcome is how the handler ended.
type childOutcome struct {
	Result json.RawMessage `json:",omitempty"`
	Err    *Error          // nil: it is done
}

// causes are the causes that handlers compare with.
var causes = []error{failure.ErrShutdown, failure.ErrLeaseLost, failure.ErrCancelled, failure.ErrUnwanted, failure.ErrHalted, context.Canceled, context.DeadlineExceeded}

// causeOf returns the cause with a text.
func causeOf(text string) error {
	for _, cause := range causes {
		if cause.Error() == text {
			return cause
		}
	}
	return errors.New(text)
}

// frame returns a message as it is sent.
func frame(message any) ([]byte, error) {
	data, err := json.Marshal(message)
	if err != nil {
		return nil, err
	}
	return framed(data), nil
}

// framed puts the length in front of a message.
func framed(data []byte) []byte {
	return append(binary.BigEndian.AppendUint32(make([]byte, 0, 4+len(data)), uint32(len(data))), data...)
}

// A longer message did not come from us: something else wrote to the pipe.
const (
	maxRequest = 1 << 30  // more than the largest payload has in JSON
	maxResult  = 16 << 20 // of a handler, in JSON
	maxAnswer  = 2 * maxResult
)

// receive reads a message. An io.EOF means that the other side has ended.
func receive(r io.Reader, most uint32, message any) error {
	data, err := next(r, most)
	if err != nil {
		return err
	}
	return json.Unmarshal(data, message)
}

// next reads a message as it was sent; see receive.
func next(r io.Reader, most uint32) ([]byte, error) {
	var size [4]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(size[:])
	if n > most {
		return nil, fmt.Errorf("a message of %d bytes", n)
	}
	data := make([]byte, n)
	if _, err := io.ReadFull(r, data); err != nil {
		return nil, fmt.Errorf("a message was cut off: %w", err)
	}
	return data, nil
}
