//go:build !unix

package sig

import "os"

// Cancel, Pause, Resume and Reload are nil: this system has no such signals.
var Cancel, Pause, Resume, Reload os.Signal
