package delayedbridge

import (
	"encoding/base64"
	"fmt"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/internal/payload"
)

// taskException is the exception of the failure records of tasks.
const taskException = "delayedbridge.taskError"

// wrong returns why a task becomes a failure. The name is that of its function, "" if it has none that can be read.
func (b *bridge) wrong(name, format string, args ...any) error {
	what := "a task"
	if name != "" {
		what += " for " + name
	}
	return fmt.Errorf("delayedbridge: %s in the queue %s of delayed cannot be a job: %s", what, b.queue.Name, fmt.Sprintf(format, args...))
}

// job returns the payload that a task becomes. With an error it is the payload of the failure record.
func (b *bridge) job(task []byte) ([]byte, error) {
	t, err := read(task)
	if err != nil {
		return asIs(task), b.wrong("", "%s; the failure has its bytes in base64", err)
	}
	s, registered := b.Signature(t.name)
	class := append(payload.AppendText([]byte(`{"class":`), t.name), `,"args":`...)
	var job []byte
	if t.python {
		job, err = pythonArguments(class, t)
	} else {
		job, err = goArguments(class, t.args, s)
	}
	if err != nil {
		return asIs(task), b.wrong(t.name, "%s; the failure has its bytes in base64", err)
	}
	switch {
	case !t.python || registered && t.kwargs == nil:
		job = append(payload.AppendText(append(job, `,"id":`...), goworker.NewID()), '}')
		return job, nil
	case registered:
		err = b.wrong(t.name, "it has arguments by name, which a Go function does not take; the failure has them as its last argument")
	default:
		err = b.wrong(t.name, "it is a function of Python, and the tasks of a bridge are for Go; enqueue it to a queue of Python's workers, "+
			"or register a Go function with Alias(%q)", t.name)
	}
	return append(job, '}'), err
}

// pythonArguments appends the arguments of a Python task as a JSON list. Those by name are the last.
func pythonArguments(dst []byte, t received) (_ []byte, err error) {
	if t.args == nil {
		dst = append(dst, "[]"...)
	} else if dst, err = whole(dst, t.args); err != nil {
		return dst, err
	}
	if t.kwargs == nil {
		return dst, nil
	}
	dst = dst[:len(dst)-1]
	if dst[len(dst)-1] != '[' {
		dst = append(dst, ',')
	}
	dst, err = whole(dst, t.kwargs)
	return append(dst, ']'), err
}

// asIs returns a payload that holds the bytes of a task, in the form of payload.Invalid.
func asIs(task []byte) []byte {
	job := append([]byte(nil), `{"class":"InvalidPayload","args":["base64:`...)
	return append(base64.StdEncoding.AppendEncode(job, task), `"]}`...)
}
