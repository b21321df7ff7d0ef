package repository

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/goworker/goworker"
)

// docs returns the text of all pages, by their paths.
func docs(t *testing.T) map[string]string {
	t.Helper()
	pages := make(map[string]string)
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/internals/*.md"} {
		paths, err := filepath.Glob(filepath.Join("..", "..", pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range paths {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			pages[path] = string(text)
		}
	}
	if len(pages) < 25 {
		t.Fatalf("there are %d pages; this test reads the wrong folder", len(pages))
	}
	return pages
}

// Each test that a page names is there. "TestX…" stands for all whose names begin so.
func TestDocsNameTests(t *testing.T) {
	t.Parallel()
	var sources strings.Builder
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && d.Name() == "node_modules" {
			return filepath.SkipDir
		}
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		sources.Write(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile("`((?:Test|Fuzz)[A-Z]\\w*)(…?)`")
	names := make(map[string]int) // by page
	for page, text := range docs(t) {
		for _, name := range named.FindAllStringSubmatch(text, -1) {
			end := "("
			if name[2] != "" {
				end = ""
			}
			if name[1] != "TestX" && !strings.Contains(sources.String(), "\nfunc "+name[1]+end) {
				t.Errorf("%s names %s, which is not there", page, name[1]+name[2])
			}
			names[filepath.Base(page)]++
		}
	}
	if names["security.md"] < 20 || names["tests.md"] < 100 {
		t.Errorf("the pages name %v tests", names)
	}
}

// Each line of the log that the page for operators explains is one that the code may write.
func TestOperatingPageQuotesTheLog(t *testing.T) {
	t.Parallel()
	var sources strings.Builder
	for _, name := range tracked(t, "*.go") {
		if text, err := os.ReadFile(filepath.Join(top, name)); err == nil && !strings.HasSuffix(name, "_test.go") {
			sources.Write(text)
		}
	}
	page := docs(t)[filepath.Join("..", "..", "docs", "operating.md")]
	_, page, _ = strings.Cut(page, "## What the log says")
	page, _, _ = strings.Cut(page, "\n## ")
	quoted := regexp.MustCompile("(?m)^\\| `(?:N )?([^`…]*)…?` \\|").FindAllStringSubmatch(page, -1)
	if len(quoted) < 15 {
		t.Errorf("the page quotes %d lines", len(quoted))
	}
	for _, line := range quoted {
		if !strings.Contains(sources.String(), line[1]) {
			t.Errorf("docs/operating.md quotes %q, which no code logs", line[1])
		}
	}
}

// Each file that the map and the pages for maintainers name is there. A bare name is that of a script, or of a file in a folder
// that the page names.
func TestDocsNameFiles(t *testing.T) {
	t.Parallel()
	files := tracked(t, "*")
	named := regexp.MustCompile("`([\\w/]+\\.(?:go|lua))`")
	count := 0
	for page, text := range docs(t) {
		if !strings.Contains(page, "internals") && filepath.Base(page) != "architecture.md" && filepath.Base(page) != "CONTRIBUTING.md" {
			continue
		}
		for _, name := range named.FindAllStringSubmatch(text, -1) {
			there := slices.ContainsFunc(files, func(file string) bool {
				folder, ok := strings.CutSuffix(file, "/"+name[1])
				return file == name[1] || ok && (strings.HasSuffix(file, ".lua") || strings.Contains(text, "`"+folder))
			})
			if !there {
				t.Errorf("%s names %s, which is not there", page, name[1])
			}
			count++
		}
	}
	if count < 40 {
		t.Errorf("the pages name %d files", count)
	}
}

// The map shows the rows of layers.
func TestLayersAreDocumented(t *testing.T) {
	t.Parallel()
	page := docs(t)[filepath.Join("..", "..", "docs", "architecture.md")]
	for i, row := range layers {
		line := regexp.MustCompile(fmt.Sprintf(`(?m)^\| %d \| (.*?) \|`, i+1)).FindStringSubmatch(page)
		if line == nil {
			t.Errorf("docs/architecture.md has no row %d", i+1)
			continue
		}
		var shown []string
		for _, name := range regexp.MustCompile("`([^`]*)`").FindAllStringSubmatch(line[1], -1) {
			if name[1] != "inspect" && !strings.HasPrefix(name[1], "inspect/") {
				name[1] = "internal/" + name[1]
			}
			shown = append(shown, name[1])
		}
		if i == len(layers)-1 {
			shown = append(shown, "") // the root package
		}
		row = slices.Clone(row)
		slices.Sort(row)
		slices.Sort(shown)
		if !slices.Equal(row, shown) {
			t.Errorf("row %d has %q, and docs/architecture.md shows %q", i+1, row, shown)
		}
	}
}

// The example on the page about the seam is the one that runs.
func TestSeamPageShowsTheExample(t *testing.T) {
	t.Parallel()
	example, err := os.ReadFile("../../internal/outcome/example_test.go")
	if err != nil {
		t.Fatal(err)
	}
	page := docs(t)[filepath.Join("..", "..", "docs", "internals", "seam.md")]
	shown := regexp.MustCompile("(?s)```go\n(.*?)```").FindStringSubmatch(page)
	if shown == nil || !strings.Contains(string(example), shown[1]) {
		t.Error("docs/internals/seam.md shows another feature than internal/outcome/example_test.go runs")
	}
}

// Every page and every file that says how long a stop takes, or how long to wait for one, says what
// StopTime and the default of the setting say.
func TestStopTimeInDocs(t *testing.T) {
	t.Parallel()
	most := goworker.StopTime(goworker.WorkerSettings{})
	if most > 25*time.Second {
		t.Errorf("a stop takes %v by default", most)
	}
	exactly := map[*regexp.Regexp]time.Duration{
		regexp.MustCompile(`(?i)stop (?:is|are) over within (\d+) s`):                             most,
		regexp.MustCompile(`By default that is (\d+) s`):                                          most,
		regexp.MustCompile(`-shutdown-timeout` + "`" + ` plus (\d+) s`):                           most - goworker.DefaultShutdownTimeout,
		regexp.MustCompile(`-shutdown-timeout` + "`" + ` \((\d+) s`):                              goworker.DefaultShutdownTimeout,
		regexp.MustCompile(`(?i)jobs have (\d+) s(?: to end)? \(` + "`" + `-shutdown-timeout`):    goworker.DefaultShutdownTimeout,
		regexp.MustCompile("(?m)^\\| `-shutdown-timeout` \\| `ShutdownTimeout` \\| (\\d+) s \\|"): goworker.DefaultShutdownTimeout,
	}
	atLeast := []*regexp.Regexp{
		regexp.MustCompile(`TimeoutStopSec\s*=\s*(\d+)`),
		regexp.MustCompile(`terminationGracePeriodSeconds:\s*(\d+)`),
		regexp.MustCompile(`stop_grace_period:\s*["']?(\d+)`),
		regexp.MustCompile(`stopwaitsecs\s*=\s*(\d+)`),
		regexp.MustCompile(`(?i)docker stop (?:-t|--time)[ =](\d+)`),
		regexp.MustCompile(`--(?:stop-timeout|time)[ =](\d+)`),
		regexp.MustCompile(`kill_timeout\s*[=:]\s*["']?(\d+)`),
		regexp.MustCompile(`The (\d+) s of\s+Kubernetes`),
	}
	found := 0
	look := func(name, text string, pattern *regexp.Regexp, wrong func(time.Duration) bool, want time.Duration) {
		for _, m := range pattern.FindAllStringSubmatch(text, -1) {
			found++
			seconds, err := strconv.Atoi(m[1])
			if err != nil || wrong(time.Duration(seconds)*time.Second) {
				t.Errorf("%s says %q; by StopTime that is %v", name, m[0], want)
			}
		}
	}
	for _, name := range tracked(t, "*") {
		switch {
		case name == "settings.go" || name == "stop.go":
		case strings.HasPrefix(name, "docs/") && strings.HasSuffix(name, ".md"), name == "README.md":
		case strings.HasPrefix(name, "example/"):
		default:
			continue
		}
		data, err := os.ReadFile(filepath.Join(top, name))
		if err != nil {
			continue // the file was removed
		}
		// A line break may be anywhere in a sentence, and in a comment it has two slashes.
		text := regexp.MustCompile(`\n\s*// ?`).ReplaceAllString(string(data), " ")
		if strings.HasSuffix(name, ".md") {
			text = regexp.MustCompile(`([^|\n])\n([^|\n#-])`).ReplaceAllString(text, "$1 $2")
		}
		for pattern, want := range exactly {
			look(name, text, pattern, func(d time.Duration) bool { return d != want }, want)
		}
		for _, pattern := range atLeast {
			look(name, text, pattern, func(d time.Duration) bool { return d < most }, most)
		}
	}
	if found < 10 {
		t.Errorf("the pages and files say %d times how long a stop takes; does this test read them?", found)
	}
}
