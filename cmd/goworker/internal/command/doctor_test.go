package command

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/goworker/goworker/inspect/checks"
	"github.com/goworker/goworker/internal/redistest"
)

// TestDoctorsFiles: doctor looks at a unit and a manifest beside Redis, and an error there is one of doctor's.
func TestDoctorsFiles(t *testing.T) {
	t.Parallel()
	server, dir := redistest.Start(t), t.TempDir()
	write := func(name, text string) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	unit := write("worker.service", "[Service]\nRestart=always\nTimeoutStopSec=10\n")
	manifest := write("worker.yaml", "kind: Deployment\nspec:\n  terminationGracePeriodSeconds: 30\n")
	code, out, errs := run(t, "doctor", "1", "-u", server.URI(), "--unit", unit, "--manifest", manifest)
	out = strings.Join(strings.Fields(out), " ")
	if code != exitFound || !strings.Contains(out, "line 3: systemd kills the program 10s after") || !strings.Contains(out, "TimeoutStopSec=30") || !strings.Contains(out, "3 checks: 2 ok, 1 error") {
		t.Errorf("exit %d\n%s%s", code, out, errs)
	}
	if code, out, errs := run(t, "doctor", "1", "-u", server.URI(), "--unit", unit, "--stop-time", "9s"); code != 0 {
		t.Errorf("a short stop: exit %d\n%s%s", code, out, errs)
	}
	if code, _, errs := run(t, "doctor", "1", "-u", server.URI(), "--unit", unit+"x"); code != exitUsage || !strings.Contains(errs, "worker.servicex") {
		t.Errorf("no such file: exit %d\n%s", code, errs)
	}
}

// TestRemediesAreCommands: each goworker command that a check prints is one that the program has, with its number of arguments.
func TestRemediesAreCommands(t *testing.T) {
	t.Parallel()
	root := (&program{}).root()
	seen := 0
	for _, c := range slices.Concat(checks.Table, checks.Files) {
		words := strings.Fields(c.Command)
		if len(words) == 0 || words[0] != "goworker" {
			continue
		}
		seen++
		found, rest, err := root.Find(words[1:])
		if err != nil || found == root || found.RunE == nil && found.Run == nil {
			t.Errorf("check %d prints %q, which is no command: %v", c.Number, c.Command, err)
			continue
		}
		if err := found.ParseFlags(rest); err != nil {
			t.Errorf("check %d prints %q: %v", c.Number, c.Command, err)
		}
		if err := found.ValidateArgs(found.Flags().Args()); err != nil {
			t.Errorf("check %d prints %q: %v", c.Number, c.Command, err)
		}
	}
	if seen < 8 {
		t.Errorf("only %d checks print goworker commands", seen)
	}
}
