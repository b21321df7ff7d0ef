//go:build !unix

package control

import "os"

// exposed reports nothing here: the bits of a mode do not say who can read a file.
func exposed(os.FileInfo) bool { return false }
