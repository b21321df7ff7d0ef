package command

import (
	"slices"
	"time"

	"github.com/goworker/goworker/cmd/goworker/internal/view"
	"github.com/goworker/goworker/control"
	internal "github.com/goworker/goworker/internal/control"
	"github.com/goworker/goworker/internal/queues"
	wire "github.com/goworker/goworker/internal/resque/control"
	"github.com/goworker/goworker/internal/roster"
)

// The functions of this file find mistakes in arguments before a process is asked, by the functions that a process uses.

// checkAddresses refuses addresses that no process can have, and a verb for one process without an address.
func checkAddresses(verb string, to []string) error {
	if err := wire.CheckAddresses(to); err != nil {
		return usageError{err}
	}
	if len(to) == 0 && slices.Contains([]string{control.Stacks, control.Profile}, verb) {
		return usagef("%s needs an address: the id, the host or the name of a process; inspect ping lists them", verb)
	}
	return nil
}

// checkFor refuses a time that is longer than processes take.
func checkFor(lasts, most time.Duration) error {
	if lasts > most {
		return usagef("--for takes %s at most, not %s", view.Span(most), lasts)
	}
	return nil
}

// checkLog refuses an unknown level of a log, and a time of 0 or less.
func checkLog(word string, lasts time.Duration) error {
	if lasts == 0 {
		return usagef("--for takes a time above 0, such as 10m")
	}
	if _, err := internal.ParseLogLevel(word); err != nil {
		return usagef("%w, not %s", err, escaped(word))
	}
	return checkFor(lasts, internal.MostDebug)
}

// checkWorkers refuses a text that is neither a number of jobs at a time nor a change of it.
func checkWorkers(text string) error {
	if _, _, err := roster.ParseWorkers(text); err != nil {
		return usageError{err}
	}
	return nil
}

// checkQueues refuses queues with which a daemon would not start. set says that they are a whole list.
func checkQueues(lists []string, set bool) error {
	if err := queues.CheckEntries(lists); err != nil {
		return usageError{err}
	}
	if set {
		if _, err := queues.Parse(lists); err != nil {
			return usageError{err}
		}
	}
	return nil
}
