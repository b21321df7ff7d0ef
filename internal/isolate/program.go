package isolate

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
)

// Program is one daemon of a program, as seen by a child that has a job of that daemon.
type Program interface {
	// Identity distinguishes the daemons of the program. It is the same in its children.
	Identity() string

	// Parts starts what must run around the handler. stop ends it, and is called
	// after an error too; nil: there is nothing to stop.
	Parts(ctx context.Context) (stop func(context.Context) error, err error)

	// Perform runs the job. It is called in a goroutine of its own.
	Perform(ctx context.Context, r Request) (json.RawMessage, error)

	// Flush writes what was logged.
	Flush()
}

// Result returns a handler's result as Perform returns it. A result without a JSON form,
// or too long, is reported on standard error and lost: the work is done.
func Result(class string, value any) json.RawMessage {
	result, err := json.Marshal(value)
	if err == nil && len(result) > maxResult {
		err = fmt.Errorf("%d bytes are more than %d", len(result), maxResult)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "goworker: no hook gets the result of %s, which cannot be sent to the daemon: %v\n", class, err)
		return nil
	}
	return result
}
