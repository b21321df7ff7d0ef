// Package sig names the signals of a Resque worker. A system that lacks one has nil in
// its place.
package sig

import (
	"os"
	"slices"
	"syscall"
)

// All returns the signals of a worker that this system has. Those that are not Cancel,
// Pause or Resume stop it.
func All() []os.Signal {
	all := []os.Signal{syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGINT, Cancel, Pause, Resume}
	return slices.DeleteFunc(all, func(s os.Signal) bool { return s == nil })
}
