package record

import (
	"bytes"
	"os"
	"runtime"
	"strconv"
	"time"
)

// used is what a process uses.
type used struct {
	rss        int64 // bytes; 0: not known
	cpu        time.Duration
	goroutines int
}

func usage() used {
	return used{rss: resident("/proc/self/statm"), cpu: processor(), goroutines: runtime.NumGoroutine()}
}

// resident returns how many bytes of memory the process has, where the system says so in a file of numbers of pages.
func resident(file string) int64 {
	text, err := os.ReadFile(file)
	fields := bytes.Fields(text)
	if err != nil || len(fields) < 2 {
		return 0
	}
	pages, _ := strconv.ParseInt(string(fields[1]), 10, 64)
	return pages * int64(os.Getpagesize())
}
