package repository

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
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
