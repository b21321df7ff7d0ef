package checks_test

import (
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/goworker/goworker/inspect/checks"
)

const stop = 25 * time.Second

const deployment = `apiVersion: apps/v1
kind: Deployment
spec:
  template:
    spec:
      terminationGracePeriodSeconds: 30 # enough
      containers:
        - name: server
          readinessProbe: {httpGet: {path: /readyz, port: 7777}, periodSeconds: 2}
          livenessProbe:
            httpGet:
              path: /healthz
              port: 7777
`

const unit = `[Unit]
Description=Jobs
[Service]
ExecStart=/usr/local/bin/worker
Restart=always
TimeoutStopSec=30
# Type=forking
[Install]
WantedBy=multi-user.target
`

func TestFiles(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name     string
		old, new string
		stop     time.Duration
		expect   string // "": nothing is found
		write    string
	}{
		{name: "as it should be"},
		{name: "short", old: "Seconds: 30", new: "Seconds: 20", expect: "worker.yaml, line 6: a pod is killed 20 s after its stop began, and a stop takes up to 25s", write: "terminationGracePeriodSeconds: 30"},
		{name: "a long stop", stop: 10 * time.Minute, expect: "a stop takes up to 10m", write: "terminationGracePeriodSeconds: 605"},
		{name: "no number", old: "Seconds: 30", new: "Seconds: 30s", expect: `"30s", which is no number of seconds`},
		{name: "none", old: "      terminationGracePeriodSeconds: 30 # enough\n"},
		{name: "none and a long stop", old: "      terminationGracePeriodSeconds: 30 # enough\n", stop: time.Minute, expect: "line 2: without terminationGracePeriodSeconds", write: "65"},
		{name: "in a remark", old: "      terminationGracePeriodSeconds: 30 # enough\n", new: "# terminationGracePeriodSeconds: 20\n"},
		{name: "the second document", old: "apiVersion", new: "kind: Service\n---\napiVersion", stop: 31 * time.Second, expect: "line 8"},
		{name: "JSON", old: "terminationGracePeriodSeconds: 30", new: `"terminationGracePeriodSeconds": 3,`, expect: "killed 3 s"},
		{name: "live is ready", old: "path: /healthz", new: "path: /readyz", expect: "line 12: the liveness probe asks /readyz", write: "path: /healthz"},
		{name: "another path", old: "path: /readyz", new: `path: "/ready"`, expect: `line 9: the readiness probe asks "/ready", which goworker does not serve`, write: "path: /readyz"},
		{name: "startup", old: "          livenessProbe", new: "          startupProbe: {httpGet: {path: /startupz, port: 7777}}\n          livenessProbe"},
		{name: "startup of another path", old: "          livenessProbe", new: "          startupProbe: {httpGet: {path: /up, port: 7777}}\n          livenessProbe", expect: "line 10: the startup probe asks \"/up\"", write: "path: /startupz"},
		{name: "a probe of a port", old: "httpGet:\n              path: /healthz\n", new: "tcpSocket:\n"},
		{name: "hostile", old: "path: /healthz", new: "path: /\x1b[2J", expect: `"/\x1b[2J"`},
	} {
		t.Run("manifest "+tt.name, func(t *testing.T) {
			t.Parallel()
			told(t, checks.Manifest("worker.yaml", []byte(strings.Replace(deployment, tt.old, tt.new, 1)), max(tt.stop, stop)), tt.expect, tt.write)
		})
	}
	for _, tt := range []struct {
		name, old, new string
		stop           time.Duration
		expect, write  string
	}{
		{name: "as it should be"},
		{name: "short", old: "Sec=30", new: "Sec=20s", expect: "worker.service, line 6: systemd kills the program 20s after its stop began", write: "TimeoutStopSec=30"},
		{name: "minutes", old: "Sec=30", new: "Sec=1min 30s"},
		{name: "milliseconds", old: "Sec=30", new: "Sec=500ms", expect: "500ms after"},
		{name: "without end", old: "Sec=30", new: "Sec=infinity", stop: time.Hour},
		{name: "systemd's own", old: "TimeoutStopSec=30\n", stop: 90 * time.Second},
		{name: "longer than systemd's own", old: "TimeoutStopSec=30\n", stop: 91 * time.Second, expect: "line 3: systemd kills the program 1m30s after", write: "TimeoutStopSec=96"},
		{name: "of both", old: "TimeoutStopSec=30", new: "TimeoutSec=10", expect: "10s after"},
		{name: "no time", old: "Sec=30", new: "Sec=soon", expect: `"soon", which is no time`},
		{name: "the last counts", old: "Sec=30", new: "Sec=3\nTimeoutStopSec=30"},
		{name: "restart", old: "Restart=always\n", expect: "line 3: without Restart", write: "Restart=always"},
		{name: "restart on failure", old: "always", new: "on-failure", expect: `line 5: with Restart="on-failure"`},
		{name: "type", old: "# Type=forking", new: "Type=forking", expect: `line 7: Type is "forking"`, write: "Type=notify"},
		{name: "type notify", old: "# Type=forking", new: "Type=notify"},
		{name: "type oneshot", old: "# Type=forking", new: "Type=oneshot", expect: "stays in the foreground"},
		{name: "another section", old: "Restart=always", new: "Restart=always\n[X]\nType=forking\n[Service]"},
	} {
		t.Run("unit "+tt.name, func(t *testing.T) {
			t.Parallel()
			told(t, checks.Unit("worker.service", []byte(strings.Replace(unit, tt.old, tt.new, 1)), max(tt.stop, stop)), tt.expect, tt.write)
		})
	}
}

func told(t *testing.T, all []checks.Finding, expect, write string) {
	t.Helper()
	switch f := all[0]; {
	case len(all) != 1:
		t.Errorf("%d findings: %v", len(all), all)
	case expect == "" && f.State != checks.OK, expect != "" && f.State != checks.Found:
		t.Errorf("%s: %s", f.State, f.Sentence)
	case expect != "" && (!strings.Contains(f.Sentence, expect) || !strings.Contains(f.Remedy.Words, write)):
		t.Errorf("%s; %s\nwanted %q; %q", f.Sentence, f.Remedy.Words, expect, write)
	}
}

// TestFilesOfTheDocs: what the docs show is as it should be.
func TestFilesOfTheDocs(t *testing.T) {
	t.Parallel()
	looked := 0
	for _, page := range []string{"deploying", "http-operating"} {
		text, err := os.ReadFile("../../docs/" + page + ".md")
		if err != nil {
			t.Fatal(err)
		}
		for _, block := range regexp.MustCompile("(?s)```(ini|yaml)\n(.*?)```").FindAllStringSubmatch(string(text), -1) {
			switch {
			case block[1] == "ini" && strings.Contains(block[2], "ExecStart="): // a drop-in has none
				told(t, checks.Unit(page, []byte(block[2]), stop), "", "")
			case strings.Contains(block[2], "kind: Deployment"):
				told(t, checks.Manifest(page, []byte(block[2]), stop), "", "")
			default:
				continue
			}
			looked++
		}
	}
	if looked != 4 {
		t.Errorf("the docs have %d units and manifests", looked)
	}
}
