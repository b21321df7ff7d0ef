package command

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The mistakes of a worker's file are said with their lines, and so is where each value is from. Passwords are not.
func TestConfigOfWorkers(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	right := write("right.yaml", "uri: redis://:s3cret@h:6379/\nqueues: [a, b]\nshutdown-timeout: 60s\nclasses: {A: {retries: 3}}\nbilling: {rate: 1}\nmetrics: {}\n")
	wrong := write("wrong.yaml", "quues: a\nconcurrency: many\nbilling: {rate: 1}\n")
	unit := write("worker.service", "[Service]\nExecStart=/usr/bin/worker\nTimeoutStopSec=30\nRestart=always\n")
	lookup := func(name string) (string, bool) {
		value, ok := map[string]string{"GOWORKER_LOG_LEVEL": "debug", "GOWORKER_CONCURRENCY": "9"}[name]
		return value, ok
	}
	for _, tt := range []struct {
		args string
		code int
		want []string
	}{
		{"config check " + right, exitUsage, []string{right + ":5:1: unknown section billing; nothing in the program claims it (config.Section)", "1 mistake"}},
		{"config check --sections billing " + right, exitDone, []string{right + " is right"}},
		{"config check --sections billing --unit " + unit + " " + right, exitUsage, []string{right + ":3:19: " + unit + ", line 3: systemd kills the program 30s after its stop began, and a stop takes up to 1m8s"}},
		{"config check --sections billing " + wrong, exitUsage, []string{wrong + ":1:1: unknown key quues; did you mean queues?\n" + wrong + `:2:14: concurrency is "many": it takes a whole number`, "2 mistakes"}},
		{"config check --json " + wrong, exitUsage, []string{`"line":1,"column":1,"text":"unknown key quues; did you mean queues?"}`}},
		{"config check " + filepath.Join(dir, "none"), exitUsage, []string{"the configuration file cannot be read"}},
		{"config print " + wrong, exitUsage, []string{"unknown key quues"}},
		{"config print " + right, exitDone, []string{"redis://:***@h:6379/", right + ":1:6", "GOWORKER_LOG_LEVEL", "9", "classes.A.retries", right + ":5:1", "default"}},
		{"config print --json " + right, exitDone, []string{`{"setting":"queues","value":"a,b","from":"` + right + `:2:9"}`}},
	} {
		var o, e output
		code := Run(t.Context(), strings.Fields(tt.args), lookup, &o, &e)
		all := o.String() + e.String()
		for _, want := range tt.want {
			if code != tt.code || !strings.Contains(all, want) || strings.Contains(all, "s3cret") {
				t.Errorf("goworker %s: %d\n%s\nand not %d with %s", tt.args, code, all, tt.code, want)
			}
		}
	}
}
