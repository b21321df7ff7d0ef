//go:build !unix

package conn

import "os"

// openTo reports nothing here: the bits of a mode do not say who can read a file.
func openTo(os.FileInfo) bool { return false }
