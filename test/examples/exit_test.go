package examples

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goworker/goworker/internal/redistest"
)

// Every example, and the programs that README.md and the package documentation show, say what is wrong and
// end with a status other than 0 when Redis is away. A supervisor that restarts what failed sees it.
func TestExitStatusWithoutRedis(t *testing.T) {
	t.Parallel()
	names, err := os.ReadDir("../../example")
	if err != nil || len(names) < 10 {
		t.Fatalf("%d examples: %v", len(names), err)
	}
	all := make(map[string]string) // programs by name
	for _, dir := range names {
		if !slices.Contains([]string{"demo", "pipeline", "nightly", "calling", "client", "dashboard"}, dir.Name()) { // most have a Redis inside, TestClient is about the fifth, and the last reads a file first
			all[dir.Name()] = filepath.Join(programs, dir.Name())
		}
	}
	all["README.md"] = shown(t, "README.md")
	all["doc.go"] = shown(t, "doc.go")
	for name, path := range all {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			away := fmt.Sprint("redis://127.0.0.1:", redistest.FreePort(t))
			cmd := program(t, nil, name)
			cmd.Path = path
			cmd.Env = append(cmd.Env, "REDIS_URL="+away, "MAIL_REDIS=nonsense", "VIDEO_REDIS="+away)
			if name != "enqueue" && name != "shards" && name != "http" {
				cmd.Args = append(cmd.Args, "-queues=hello")
			}
			out, err := cmd.CombinedOutput()
			if status := cmd.ProcessState.ExitCode(); err == nil || status != 1 {
				t.Errorf("it exited with %d (%v), want 1", status, err)
			}
			if !strings.Contains(string(out), "goworker: ") {
				t.Errorf("it did not say what is wrong, but %q", out)
			}
		})
	}
}

// shown builds the first program that a file shows.
func shown(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../..", file))
	if err != nil {
		t.Fatal(err)
	}
	var source string
	if strings.HasSuffix(file, ".go") {
		block := regexp.MustCompile(`(?m)^//\tfunc main\(\) \{\n(?:^//\t.*\n)*^//\t\}\n`).Find(text)
		source = "package main\n\nimport (\n\"context\"\n\"fmt\"\n\"log\"\n\n\"github.com/goworker/goworker\"\n)\n\n" +
			strings.ReplaceAll(string(block), "//\t", "")
	} else if block := regexp.MustCompile("(?s)```go\n(package main\n.*?)```").FindSubmatch(text); block != nil {
		source = string(block[1])
	}
	if !strings.Contains(source, "func main()") {
		t.Fatalf("%s shows no program", file)
	}
	dir, err := os.MkdirTemp(".", "_shown-") // inside the module, and in no pattern of packages
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.WriteFile(filepath.Join(dir, "main.go"), []byte(source), 0o644); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "shown")
	if out, err := exec.Command("go", "build", "-ldflags=-s", "-o", path, "./"+dir).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", file, err, out)
	}
	return path
}
