package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/goworker/goworker/inspect/checks"
)

const root = "../.."

// All files and pages say StopTime and five seconds, and what is a copy is one.
func TestFilesAreGenerated(t *testing.T) {
	t.Parallel()
	changed, err := generate(root)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range changed {
		is, _ := os.ReadFile(name)
		t.Errorf("%s is not as it is generated; run go run ./deploy/generate: %s", name, difference(is, text))
	}
	if grace != 30*time.Second {
		t.Logf("a stop has %s", grace)
	}
}

// difference returns the first line that differs.
func difference(is, want []byte) string {
	a, b := strings.Split(string(is), "\n"), strings.Split(string(want), "\n")
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return "it has " + a[i] + ", want " + b[i]
		}
	}
	return "one is longer"
}

// Whichever of these numbers is changed, the generator finds it.
func TestEachNumberCounts(t *testing.T) {
	t.Parallel()
	for _, p := range places {
		for _, name := range p.in {
			text, err := os.ReadFile(filepath.Join(root, name))
			if err != nil {
				t.Fatal(err)
			}
			for _, at := range p.pattern.FindAllSubmatchIndex(text, -1) {
				for _, wrong := range []string{"29", "300", "thirty"} {
					changed := append(append(append([]byte{}, text[:at[2]]...), wrong...), text[at[3]:]...)
					if !bytes.Equal(times(changed), text) {
						t.Errorf("%s: %s stays in %s", name, wrong, p.pattern)
					}
				}
			}
		}
	}
}

// What files say of a stop by other words is not missed: no file of deploy has another setting with such a name.
func TestNoOtherGrace(t *testing.T) {
	t.Parallel()
	others := regexp.MustCompile(`(?i)TimeoutSec=|TimeoutAbortSec=|stopGracePeriod|preStop|terminationGracePeriod\b|kill_timeout|stop_signal`)
	files, err := filepath.Glob(filepath.Join(root, "deploy", "*", "*"))
	more, _ := filepath.Glob(filepath.Join(root, "deploy", "*"))
	if err != nil || len(files) < 10 {
		t.Fatalf("%d files: %v", len(files), err)
	}
	for _, name := range append(files, more...) {
		text, err := os.ReadFile(name)
		if err != nil || strings.HasSuffix(name, ".go") {
			continue // a folder
		}
		for line := range strings.Lines(string(text)) {
			if code, _, _ := strings.Cut(line, "#"); others.MatchString(code) {
				t.Errorf("%s says %s", name, strings.TrimSpace(line))
			}
		}
	}
}

// Doctor finds nothing in these files, and each change of them that costs jobs their time or their process.
func TestDoctorAcceptsTheFiles(t *testing.T) {
	t.Parallel()
	read := func(name string) string {
		text, err := os.ReadFile(filepath.Join(root, "deploy", name))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	of := func(name, text string) (found []string) {
		look := checks.Manifest
		if strings.HasSuffix(name, ".service") {
			look = checks.Unit
		}
		for _, f := range look(name, []byte(text), stop) {
			if f.State != checks.OK {
				found = append(found, f.Sentence)
			}
		}
		return found
	}
	for name, changes := range map[string][]string{
		"systemd/worker.service": {
			"TimeoutStopSec=30", "TimeoutStopSec=20", "Restart=always", "Restart=on-failure", "Restart=always", "", "Type=notify", "Type=forking",
		},
		"systemd/worker@.service": {"TimeoutStopSec=30", "TimeoutStopSec=24s"},
		"k8s/deployment.yaml": {
			"terminationGracePeriodSeconds: 30", "terminationGracePeriodSeconds: 20", "path: /healthz", "path: /readyz", "path: /startupz", "path: /live", "path: /readyz", "path: /ready",
		},
		"k8s/exporter.yaml": nil, "k8s/hpa.yaml": nil, "k8s/scaledobject.yaml": nil,
	} {
		text := read(name)
		if found := of(name, text); len(found) > 0 {
			t.Errorf("in %s doctor finds %q", name, found)
		}
		for i := 0; i < len(changes); i += 2 {
			if changed := strings.Replace(text, changes[i], changes[i+1], 1); changed == text || len(of(name, changed)) == 0 {
				t.Errorf("in %s doctor does not find %q in place of %q", name, changes[i+1], changes[i])
			}
		}
	}
}
