package deploy

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// The paths that a unit needs, which are not on this machine.
const (
	installed = "/usr/local/bin/worker"
	harmless  = "/bin/true"
)

// analyze runs systemd-analyze on a unit, in which a program of this machine stands for that of the unit, and returns what it prints.
func analyze(t *testing.T, name, unit string, args ...string) (printed string, ok bool) {
	t.Helper()
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		t.Fatal("systemd-analyze is not there; make test-operate installs systemd: ", err)
	}
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, []byte(strings.ReplaceAll(unit, installed, harmless)), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("systemd-analyze", append(args, file)...)
	cmd.Env = append(os.Environ(), "SYSTEMD_PAGER=", "SYSTEMD_COLORS=0", "LC_ALL=C.UTF-8")
	out, err := cmd.CombinedOutput()
	return string(out), err == nil
}

var units = []string{"worker.service", "worker@.service"}

// systemd has nothing to say about the units. It ends with 0 at a key that it does not know, so any line counts.
func TestUnits(t *testing.T) {
	t.Parallel()
	for _, name := range units {
		unit := read(t, filepath.Join(deploy, "systemd", name))
		if !strings.Contains(unit, "\nExecStart="+installed+" ") {
			t.Errorf("%s does not start %s", name, installed)
		}
		if printed, ok := analyze(t, name, unit, "verify", "--man=no"); !ok || printed != "" {
			t.Errorf("of %s systemd says: %s", name, printed)
		}
	}
	unit := read(t, filepath.Join(deploy, "systemd", "worker.service"))
	for from, to := range map[string]string{
		"WatchdogSec=30": "WatchdogSecs=30", "KillMode=mixed": "KillMode=mix", "TimeoutStopSec=30": "TimeoutStopSec=long", "Type=notify": "Type=notified",
		installed: "/nowhere/worker", "LoadCredential=goworker-uri:/etc": "LoadCredential=goworker/uri:etc", "@system-service": "@systemd-service",
	} {
		if printed, _ := analyze(t, "worker.service", strings.ReplaceAll(unit, from, to), "verify", "--man=no"); printed == "" {
			t.Errorf("systemd accepts %s", to)
		}
	}
}

var exposure = regexp.MustCompile(`Overall exposure level for [^:]*: ([0-9.]+)`)

// A worker that is broken into reaches little of the machine.
func TestExposure(t *testing.T) {
	t.Parallel()
	level := func(name, unit string) float64 {
		printed, _ := analyze(t, name, unit, "security", "--offline=true", "--no-pager")
		m := exposure.FindStringSubmatch(printed)
		if m == nil {
			t.Fatalf("systemd says: %s", printed)
		}
		n, err := strconv.ParseFloat(m[1], 64)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	for _, name := range units {
		unit := read(t, filepath.Join(deploy, "systemd", name))
		if n := level(name, unit); n > 3 {
			t.Errorf("the exposure of %s is %.1f", name, n)
		}
		open := regexp.MustCompile(`(?m)^(Protect|Private|Restrict|SystemCall|Capability|DynamicUser).*\n`).ReplaceAllString(unit, "")
		if n := level(name, open); n < 6 {
			t.Errorf("without what takes rights away the exposure is %.1f", n)
		}
	}
}
