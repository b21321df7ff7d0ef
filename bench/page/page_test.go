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

// read returns the pages by their paths, and the results.
func read(t *testing.T) (map[string]string, result.File) {
	t.Helper()
	paths, err := Pages(docs)
	if err != nil || len(paths) < 30 {
		t.Fatalf("there are %d pages, %v", len(paths), err)
	}
	pages := make(map[string]string)
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		pages[path] = string(text)
	}
	f, err := result.Read("../results/all.json")
	if err != nil {
		t.Fatal(err)
	}
	return pages, f
}

func TestPagesSayWhatTheResultsSay(t *testing.T) {
	t.Parallel()
	pages, f := read(t)
	there := make(map[string]bool)
	marks := regexp.MustCompile(`<!-- (?:results|figure): `)
	for path, text := range pages {
		filled, err := Fill(text, f)
		if err != nil {
			t.Errorf("%s: %v", path, err)
		}
		if filled != text {
			t.Errorf("%s differs from bench/results/all.json; run go run ./runner -draw in bench/", path)
		}
		if all, known := len(marks.FindAllString(text, -1)), len(section.FindAllString(text, -1))+len(inText.FindAllString(text, -1)); all != known {
			t.Errorf("%s has %d marks of results, and %d of them are complete", path, all, known)
		}
		for _, m := range section.FindAllStringSubmatch(text, -1) {
			there[m[1]] = true
		}
	}
	for name := range sections {
		if !there[name] {
			t.Errorf("no page has the section %s", name)
		}
	}
}

func TestPlotsAreThere(t *testing.T) {
	t.Parallel()
	pages, f := read(t)
	text := pages[filepath.Join(docs, "benchmarks.md")]
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

func TestFill(t *testing.T) {
	t.Parallel()
	_, f := read(t)
	if _, err := Fill("<!-- results: gossip -->\n<!-- end of results -->", f); err == nil {
		t.Error("an unknown section was accepted")
	}
	if _, err := Fill("<!-- figure: ours gossip 25 jobs_per_s -->1<!-- end -->", f); err == nil {
		t.Error("a figure that was not measured was accepted")
	}
	got, err := Fill("some <!-- figure: ours noop 25 jobs_per_s -->1<!-- end --> a second", f)
	if want := "some <!-- figure: ours noop 25 jobs_per_s -->" + result.Number(f.Median("ours", "noop", 25, "jobs_per_s")) + "<!-- end --> a second"; err != nil || got != want {
		t.Errorf("the figure became %q, %v; want %q", got, err, want)
	}
}
