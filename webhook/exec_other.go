//go:build !unix

package webhook

import (
	"context"
	"errors"
	"time"
)

// execTarget is a program that gets each delivery on its standard input.
type execTarget struct {
	argv   []string
	within time.Duration
}

func (*execTarget) try(context.Context, string, []byte) (time.Duration, error) {
	return 0, errors.New("exec: needs a Unix system, whose process groups end a program with all that it has started: give an http or https URL")
}
