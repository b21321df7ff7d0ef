//go:build unix

package control

import (
	"os"
	"slices"
	"syscall"
)

// exposed reports whether users can read or change a file that should not. Its group may read it if the process reads it only because
// of this group, or if root owns it: so Kubernetes mounts a secret in a pod with fsGroup, with mode 0440. A user that owns the file can
// remove the permission of the group.
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
