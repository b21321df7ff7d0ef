package main

import (
	"os"
	"os/exec"
	"runtime"
	"strings"
)

// machine is what a reader needs to judge the numbers. It does not say whose it is.
type machine struct {
	OS     string `json:"os"`
	Arch   string `json:"arch"`
	CPU    string `json:"cpu,omitempty"`
	Cores  int    `json:"cores"`
	Loaded string `json:"load_average_at_start,omitempty"`
}

func thisMachine() machine {
	m := machine{OS: runtime.GOOS, Arch: runtime.GOARCH, Cores: runtime.NumCPU()}
	if text, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(text)) {
			if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == "model name" {
				m.CPU = strings.TrimSpace(value)
				break
			}
		}
	}
	if text, err := os.ReadFile("/proc/loadavg"); err == nil {
		m.Loaded, _, _ = strings.Cut(string(text), " ")
	}
	return m
}

// moduleVersion asks the go command, so that the results name what was built.
func moduleVersion(module string) string {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Version}}", module).Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(out))
}
