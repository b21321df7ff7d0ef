package repository

import (
	"os/exec"
	"strings"
	"testing"
)

// TestImportGraph keeps what a program links that imports this package: the five
// libraries it is built on, what they need, and the standard library without what only control/profile, health and the like need.
// TestLayers looks after our own packages.
func TestImportGraph(t *testing.T) {
	t.Parallel()
	out, err := exec.Command("go", "list", "-deps", "-f", "{{.ImportPath}} {{.Standard}}", "github.com/goworker/goworker").Output()
	if err != nil {
		t.Fatal(err)
	}
	allowed := []string{
		"github.com/goworker/goworker/internal/",
		"github.com/goworker/goworker/inspect",
		"github.com/gomodule/redigo/",
		"github.com/netresearch/go-cron",
		"github.com/cihub/seelog",
		"github.com/tinylib/msgp/msgp", "github.com/philhofer/fwd",
		"github.com/spf13/pflag",
		"vitess.io/vitess/go/",
		"golang.org/x/net/context",
	}
next:
	for line := range strings.Lines(string(out)) {
		path, standard, _ := strings.Cut(strings.TrimSpace(line), " ")
		if path == "github.com/goworker/goworker" || standard == "true" && path != "net/http" && path != "runtime/pprof" {
			continue
		}
		for _, prefix := range allowed {
			if strings.HasPrefix(path, prefix) {
				continue next
			}
		}
		t.Errorf("the package links %s; give it a package of its own, or a line in docs/dependencies.md and here", path)
	}
}
