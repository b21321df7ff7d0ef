package page

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/goworker/goworker/bench/plots"
	"github.com/goworker/goworker/bench/result"
)

const docs = "../../docs"

func read(t *testing.T) (string, result.File) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(docs, Name))
	if err != nil {
		t.Fatal(err)
	}
	f, err := result.Read("../results/all.json")
	if err != nil {
		t.Fatal(err)
	}
	return string(text), f
}

func TestPageSaysWhatTheResultsSay(t *testing.T) {
	t.Parallel()
	text, f := read(t)
	filled, err := Fill(text, f)
	if err != nil {
		t.Fatal(err)
	}
	if filled != text {
		t.Error("docs/benchmarks.md differs from bench/results/all.json; run go run ./runner -draw in bench/")
	}
	for name := range sections {
		if !strings.Contains(text, "<!-- results: "+name+" -->\n") {
			t.Errorf("docs/benchmarks.md has no section %s", name)
		}
	}
}

func TestPlotsAreThere(t *testing.T) {
	t.Parallel()
	text, f := read(t)
	for _, m := range regexp.MustCompile(`(?:src|srcset)="([^"]+)"`).FindAllStringSubmatch(text, -1) {
		if _, err := os.Stat(filepath.Join(docs, m[1])); err != nil {
			t.Error(err)
		}
	}
	dir := t.TempDir()
	names, err := plots.Write(dir, f)
	if err != nil {
		t.Fatal(err)
	}
	if len(names) != len(plots.All) {
		t.Errorf("drawn: %v, which is not all", names)
	}
	for _, name := range names {
		if !strings.Contains(text, "benchmarks/"+name+"-dark.svg") || !strings.Contains(text, "benchmarks/"+name+"-light.svg") {
			t.Errorf("docs/benchmarks.md does not show the plot %s", name)
		}
	}
}

func TestFillRefusesUnknownSections(t *testing.T) {
	t.Parallel()
	if _, err := Fill("<!-- results: gossip -->\n<!-- end of results -->", result.File{}); err == nil {
		t.Error("a section nobody knows was accepted")
	}
}
