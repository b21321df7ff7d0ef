package sdnotify

import (
	"strconv"
	"syscall"
	"unsafe"
)

// monotonic returns the line with the monotonic time, by which systemd tells the answer to its latest order to reload from an older one.
func monotonic() []string {
	var now syscall.Timespec
	const clockMonotonic = 1
	if _, _, errno := syscall.Syscall(syscall.SYS_CLOCK_GETTIME, clockMonotonic, uintptr(unsafe.Pointer(&now)), 0); errno != 0 {
		return nil
	}
	return []string{"MONOTONIC_USEC=" + strconv.FormatInt(now.Nano()/1000, 10)}
}
