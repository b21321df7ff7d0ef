//go:build unix

package conn

import "os"

// openTo reports whether users beyond the file's group can read or change it.
func openTo(info os.FileInfo) bool { return info.Mode().Perm()&0o007 != 0 }
