package generate

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/goworker/goworker/inspect/checks"
)

var update = flag.Bool("update", false, "write the files")

// top is the directory of the root module, as the tests run beside this file.
const top = "../../.."

// The files of deploy/ are those that the tables make.
func TestFiles(t *testing.T) {
	t.Parallel()
	for name, want := range map[string][]byte{"deploy/prometheus/goworker.rules.yaml": Rules(), "deploy/grafana/goworker.json": Dashboard()} {
		path := filepath.Join(top, name)
		if *update {
			if err := os.WriteFile(path, want, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is not what the tables make; go -C metrics test ./internal/generate -update writes it (%v)", name, err)
		}
	}
}

// Each check that alert rules read has an alert, and each alert a check that says so. No {name} is left.
func TestAlertsAreThoseOfTheChecks(t *testing.T) {
	t.Parallel()
	has := make(map[string]bool)
	for _, a := range Alerts {
		has[a.Check.Name] = true
		if !a.Check.In(checks.Alert) {
			t.Errorf("alert %s is of check %s, which is not for alerts", a.Name, a.Check.Name)
		}
		if text := a.Summary() + a.Do(); hole.MatchString(strings.NewReplacer("{{", "", "}}", "").Replace(text)) {
			t.Errorf("alert %s says %q", a.Name, text)
		}
	}
	for _, c := range checks.Table {
		if c.In(checks.Alert) && !has[c.Name] {
			t.Errorf("check %s is for alerts, and none has it", c.Name)
		}
	}
}
