//go:build !unix

package isolate

import (
	"context"
	"encoding/json"
	"errors"
)

// Run returns an error: there is no isolation here.
func (l Limits) Run(context.Context, string, Request, *Keeper) (json.RawMessage, error) {
	return nil, errors.New("goworker.Isolated needs a Unix system: there are no process groups and inherited pipes here; register the class without it")
}

// CannotReuse says why a child runs one job only here.
const CannotReuse = "it needs Linux, where a process can see and end what a handler has started"

// Keeper keeps nothing.
type Keeper struct{}

// NewKeeper returns a Keeper.
func NewKeeper() *Keeper { return nil }

// Close does nothing.
func (*Keeper) Close() {}

// Child reports that this process is no child.
func Child() bool { return false }

// Config returns nothing: this process is no child.
func Config() json.RawMessage { return nil }

// Serve does nothing: no process is a child here.
func Serve(context.Context, Errors, ...Program) error { return nil }
