//go:build unix

package control

import (
	"os"
	"slices"
	"syscall"
)

// exposed reports whether users can read or change a file that should not. Its group may read it where the process reads it by this
// group only, or root owns it: so Kubernetes gives a secret to a pod with fsGroup, as 0440. A user who owns the file can take that right
// from the group.
func exposed(info os.FileInfo) bool {
	mode := info.Mode().Perm()
	if mode&0o077 == 0 {
		return false
	}
	of, known := info.Sys().(*syscall.Stat_t)
	return mode&0o037 != 0 || !known || !byGroup(of.Uid, of.Gid)
}

// byGroup reports whether a file of this user and this group is for the process because of its group.
func byGroup(user, group uint32) bool {
	if user != 0 && int(user) == os.Geteuid() {
		return false
	}
	groups, _ := os.Getgroups()
	return slices.Contains(append(groups, os.Getegid()), int(group))
}
