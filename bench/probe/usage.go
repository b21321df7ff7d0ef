package probe

import (
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// usage is what a process has used since its start.
type usage struct {
	cpu     time.Duration
	mallocs uint64
}

func now() usage {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return usage{cpu: cpuTime(), mallocs: m.Mallocs}
}

// spent reports what was used since before.
func (r reporter) spent(before usage) {
	after := now()
	r.line("cpu", (after.cpu - before.cpu).Microseconds())
	r.line("mallocs", after.mallocs-before.mallocs)
	if kib := peakRSS(); kib > 0 {
		r.line("rss", kib)
	}
}

// peakRSS is this process's own high-water mark in KiB, 0 where the system does
// not tell. getrusage would not do: on Linux its ru_maxrss starts at the size of
// the process that forked us, which is the runner with its preloaded jobs.
func peakRSS() int64 {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kib, _ := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
			return kib
		}
	}
	return 0
}
