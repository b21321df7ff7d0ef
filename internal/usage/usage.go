// Package usage reads how much memory and processor time this process uses, and what its container allows. It ends a process whose
// memory stays above a limit.
package usage

import (
	"bytes"
	"os"
	"strconv"
)

// Resident returns how many bytes of memory the process has; 0: the system does not say.
func Resident() int64 { return resident("/proc/self/statm") }

// resident reads a file of numbers of pages.
func resident(file string) int64 {
	text, err := os.ReadFile(file)
	fields := bytes.Fields(text)
	if err != nil || len(fields) < 2 {
		return 0
	}
	pages, _ := strconv.ParseInt(string(fields[1]), 10, 64)
	return pages * int64(os.Getpagesize())
}
