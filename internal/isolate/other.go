//go:build !unix

package isolate

import (
	"context"
	"encoding/json"
	"errors"
)

// Run returns an error: there is no isolation here.
func (l Limits) Run(context.Context, string, Request) (json.RawMessage, error) {
	return nil, errors.New("goworker.Isolated needs a Unix system: there are no process groups and inherited pipes here; register the class without it")
}

// Child reports that this process is no child.
func Child() bool { return false }

// Serve does nothing: no process is a child here.
func Serve(context.Context, Errors, ...Program) error { return nil }
