package usage

import (
	"os"
	"path"
	"strconv"
	"strings"
)

// Limits returns what the control groups of Linux let this process use, in the words of the kernel: memory as in "1073741824", and
// processor time in a period as in "150000 100000", both microseconds. Groups are nested, and each
// of them limits the process: Limits returns the tightest limit. "max" and "max 100000" are no limit, and "" is not known.
func Limits() (memory, cpu string) { return limits("/proc/self/cgroup", "/sys/fs/cgroup") }

// limits reads which group the process is in, and the limits of that group and of those around it.
func limits(self, mount string) (memory, cpu string) {
	text, _ := os.ReadFile(self)
	group := "/"
	for line := range strings.Lines(string(text)) {
		if name, unified := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "0::"); unified { // of version 2
			group = path.Clean("/" + name)
		}
	}
	for ; ; group = path.Dir(group) {
		memory = tighter(memory, firstLine(path.Join(mount, group, "memory.max")))
		cpu = tighter(cpu, firstLine(path.Join(mount, group, "cpu.max")))
		if group == "/" {
			return memory, cpu
		}
	}
}

// tighter returns the tighter one of two limits. An unknown limit is no limit.
func tighter(a, b string) string {
	of, limited := amount(a)
	if than, also := amount(b); also && (!limited || than < of) || a == "" {
		return b
	}
	return a
}

// amount is a limit as a number, for a limit of a period its share of the period. limited is false where there is none.
func amount(limit string) (n float64, limited bool) {
	text, period, periodic := strings.Cut(limit, " ")
	n, err := strconv.ParseFloat(text, 64)
	if periodic {
		whole, bad := strconv.ParseFloat(period, 64)
		if bad != nil || whole <= 0 {
			return 0, false
		}
		n /= whole
	}
	return n, err == nil
}

// firstLine returns the first line of a file; "" if it cannot be read.
func firstLine(file string) string {
	text, _ := os.ReadFile(file)
	line, _, _ := strings.Cut(string(text), "\n")
	return line
}
