//go:build !unix

package sig

import "os"

// Cancel, Pause and Resume are nil: this system has no such signals.
var Cancel, Pause, Resume os.Signal
