//go:build !unix

package goworker

import (
	"context"
	"errors"
)

// Perform says that there is no isolation here.
func (i *isolation) Perform(context.Context, *Delivery) error {
	return errors.New("goworker.Isolated needs a Unix system: there are no process groups and inherited pipes here; register the class without it")
}

type childProcess struct{}

func child() *childProcess { return nil }

func serveChild(context.Context, []*Daemon, []Part) error { return nil }
