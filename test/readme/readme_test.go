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
	redistest.Eventually(t, 10*time.Second, "the worker greets three times", func() bool {
		return strings.Count(said.String(), "hello world\n") == 3
	})
	if err := worker.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := worker.Wait(); err != nil {
		t.Errorf("the worker ended with %v:\n%s", err, said.String())
	}
}

// TestLinks finds pages that the README and the docs point to and that are not there.
func TestLinks(t *testing.T) {
	t.Parallel()
	pages, err := filepath.Glob("../../docs/*.md")
	if err != nil || len(pages) == 0 {
		t.Fatal("no docs", err)
	}
	link := regexp.MustCompile(`\]\(([^)#:]+)(#[^)]*)?\)`)
	for _, page := range append(pages, "../../README.md") {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range link.FindAllSubmatch(text, -1) {
			if _, err := os.Stat(filepath.Join(filepath.Dir(page), string(m[1]))); err != nil {
				t.Errorf("%s points to %s, which is not there", filepath.Base(page), m[1])
			}
		}
	}
}
