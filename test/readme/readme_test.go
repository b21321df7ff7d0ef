// Package readme follows the links of the README and the docs. Package test/docs runs what they show.
package readme

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// pages returns the text of the README, the docs and the like, by their paths.
func pages(t *testing.T) map[string]string {
	t.Helper()
	var paths []string
	for _, pattern := range []string{"../../*.md", "../../docs/*.md", "../../docs/internals/*.md"} {
		found, err := filepath.Glob(pattern)
		if err != nil || len(found) == 0 {
			t.Fatal("no docs in ", pattern, err)
		}
		paths = append(paths, found...)
	}
	text := make(map[string]string)
	for _, path := range paths {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		text[path] = string(b)
	}
	return text
}

// TestLinks finds pages, and headings on them, that the README and the docs point to
// and that are not there.
func TestLinks(t *testing.T) {
	t.Parallel()
	all := pages(t)
	link := regexp.MustCompile(`\]\(([^)#:]*)(?:#([^)]*))?\)`)
	code := regexp.MustCompile("(?s)```.*?```|<!--.*?-->|`[^`\n]*`")
	for page, text := range all {
		text = code.ReplaceAllString(text, "")
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			to := page
			if m[1] != "" {
				to = filepath.Join(filepath.Dir(page), m[1])
			}
			if _, err := os.Stat(to); err != nil {
				t.Errorf("%s points to %s, which is not there", filepath.Base(page), m[1])
			}
			if m[2] != "" && !anchors(all[to])[m[2]] {
				t.Errorf("%s points to %s#%s, and there is no such heading", filepath.Base(page), m[1], m[2])
			}
		}
	}
}

// TestDocsListAllPages holds the page that leads to all others to what is in docs, and its three paths to
// pages that are there. A page that only other pages reach is not found by a reader.
func TestDocsListAllPages(t *testing.T) {
	t.Parallel()
	all := pages(t)
	index := all[filepath.Join("..", "..", "docs", "README.md")]
	_, list, ok := strings.Cut(index, "\n## All pages\n")
	if !ok {
		t.Fatal("docs/README.md has no heading All pages")
	}
	count := 0
	for path := range all {
		name := filepath.Base(path)
		if filepath.Base(filepath.Dir(path)) != "docs" || name == "README.md" {
			continue
		}
		count++
		if !strings.Contains(list, "]("+name+")") {
			t.Errorf("docs/README.md does not list %s among all pages", name)
		}
	}
	if count < 25 {
		t.Errorf("docs has %d pages", count)
	}
	if !strings.Contains(all[filepath.Join("..", "..", "README.md")], "](docs/README.md)") {
		t.Error("README.md does not lead to docs/README.md")
	}
}

// TestReadmeIsShort: the README says how to install, how to enqueue and, in at most ten lines, what there is;
// all the rest is in docs.
func TestReadmeIsShort(t *testing.T) {
	t.Parallel()
	text := pages(t)[filepath.Join("..", "..", "README.md")]
	for _, want := range []string{"go get github.com/goworker/goworker", "goworker.NewClient(", "client.Enqueue(", "goworker.Register(", "goworker.Work()"} {
		if !strings.Contains(text, want) {
			t.Errorf("README.md does not show %s", want)
		}
	}
	_, list, _ := strings.Cut(text, "\n## What it does\n")
	list, _, _ = strings.Cut(list, "\n## ")
	features := regexp.MustCompile(`(?m)^- .*$`).FindAllString(list, -1)
	if len(features) < 5 || len(features) > 10 {
		t.Errorf("README.md lists %d features, and up to ten are to be read", len(features))
	}
	for _, f := range features {
		if !strings.Contains(f, "](docs/") {
			t.Errorf("README.md does not say where more is: %s", f)
		}
	}
	if lines := strings.Count(text, "\n"); lines > 110 {
		t.Errorf("README.md has %d lines; move some to docs", lines)
	}
}

// anchors are what GitHub calls the headings of a page in links.
func anchors(text string) map[string]bool {
	there := make(map[string]bool)
	drop := regexp.MustCompile(`[^\p{L}\p{N} _-]`)
	for _, m := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(text, -1) {
		there[strings.ReplaceAll(drop.ReplaceAllString(strings.ToLower(m[1]), ""), " ", "-")] = true
	}
	return there
}

// TestMakeTargets finds commands of make that the README and the docs name and that
// make help does not list.
func TestMakeTargets(t *testing.T) {
	t.Parallel()
	makefile, err := os.ReadFile("../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	targets := make(map[string]bool)
	for _, m := range regexp.MustCompile(`(?m)^([a-z-]+):.*## `).FindAllSubmatch(makefile, -1) {
		targets[string(m[1])] = true
	}
	for page, text := range pages(t) {
		for _, m := range regexp.MustCompile("(?m)(?:^|`)make ([a-z-]+)").FindAllStringSubmatch(text, -1) {
			if !targets[m[1]] {
				t.Errorf("%s names make %s, which is not there", filepath.Base(page), m[1])
			}
		}
	}
}
