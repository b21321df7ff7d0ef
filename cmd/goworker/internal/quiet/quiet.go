// Package quiet keeps the program from asking the terminal for its colours when it starts.
//
// Bubble Tea asks in its init: it writes an escape sequence to the terminal and waits for the answer, up to five seconds where
// there is none. That would hold for every command, although only status --watch draws. Packages are initialized in the order
// of their paths as far as their imports allow. This package imports only os and comes before the packages that ask, and those
// do not ask a terminal of the kind dumb.
package quiet

import "os"

const variable = "TERM"

var kind, set = os.LookupEnv(variable)

func init() { os.Setenv(variable, "dumb") }

// Restore sets the kind of the terminal again. The program calls it before all else.
func Restore() {
	if set {
		os.Setenv(variable, kind)
		return
	}
	os.Unsetenv(variable)
}
