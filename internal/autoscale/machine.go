package autoscale

import (
	"os"
	"path"
	"strconv"
	"strings"
)

// memoryUsed returns how much of its memory the control group of this process uses, or one of the groups around it if that is
// fuller: 1 is all of it, 0 is not known, or no limit. What the kernel can drop at once, such as files that were read, does not
// count.
func memoryUsed() float64 { return memoryShare("/proc/self/cgroup", "/sys/fs/cgroup") }

func memoryShare(self, mount string) (share float64) {
	text, _ := os.ReadFile(self)
	group := "/"
	for line := range strings.Lines(string(text)) {
		if name, unified := strings.CutPrefix(strings.TrimSpace(line), "0::"); unified { // of version 2
			group = path.Clean("/" + name)
		}
	}
	for ; ; group = path.Dir(group) {
		dir := path.Join(mount, group)
		limit, used := number(path.Join(dir, "memory.max")), number(path.Join(dir, "memory.current"))
		if limit > 0 {
			share = max(share, (used-droppable(path.Join(dir, "memory.stat")))/limit)
		}
		if group == "/" {
			return share
		}
	}
}

// number reads a file with one number; 0: it has none.
func number(file string) float64 {
	text, _ := os.ReadFile(file)
	n, _ := strconv.ParseFloat(strings.TrimSpace(string(text)), 64)
	return n
}

// droppable returns how many bytes of files are in memory that were not used of late.
func droppable(stat string) float64 {
	text, _ := os.ReadFile(stat)
	for line := range strings.Lines(string(text)) {
		if n, found := strings.CutPrefix(line, "inactive_file "); found {
			bytes, _ := strconv.ParseFloat(strings.TrimSpace(n), 64)
			return bytes
		}
	}
	return 0
}
