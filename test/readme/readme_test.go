// Package readme runs the program and the commands that the README shows.
package readme

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/goworker/goworker/internal/redistest"
)

type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

func TestProgramAndCommands(t *testing.T) {
	t.Parallel()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	program := regexp.MustCompile("(?s)```go\n(package main.*?)```").FindSubmatch(page)
	run := regexp.MustCompile(`(?m)^go run \. (.*)$`).FindSubmatch(page)
	push := regexp.MustCompile(`(?m)^redis-cli -r 3 (RPUSH) (\S+) '(.*)'$`).FindSubmatch(page)
	if program == nil || run == nil || push == nil {
		t.Fatal("the README shows no program, or not how to run it and give it jobs")
	}
	s := redistest.Start(t)
	source := filepath.Join(t.TempDir(), "main.go")
	if err := os.WriteFile(source, program[1], 0o600); err != nil {
		t.Fatal(err)
	}
	binary := filepath.Join(t.TempDir(), "hello")
	build := exec.Command("go", "build", "-o", binary, source)
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building the README's program: %v\n%s", err, out)
	}
	flags := strings.Fields(strings.Replace(string(run[1]), "redis://localhost:6379", s.URI(), 1))
	var said output
	worker := exec.Command(binary, flags...)
	worker.Stdout, worker.Stderr = &said, &said
	if err := worker.Start(); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		s.Do(t, string(push[1]), string(push[2]), string(push[3]))
	}
	redistest.Eventually(t, time.Minute, "the worker greets three times", func() bool {
		return strings.Count(said.String(), "hello world\n") == 3
	})
	if err := worker.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := worker.Wait(); err != nil {
		t.Errorf("the worker ended with %v:\n%s", err, said.String())
	}
}

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
	code := regexp.MustCompile("(?s)```.*?```")
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
