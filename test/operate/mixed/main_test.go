package mixed

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/goworker/goworker/internal/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// programs are two programs of the same source, one in each release.
type programs struct{ older, newer string }

// build builds both programs. Where there is no history of the repository it skips the test.
func build(t *testing.T) programs {
	t.Helper()
	release, err := os.ReadFile("RELEASE")
	if err != nil {
		t.Fatal(err)
	}
	commit := strings.TrimSpace(string(release))
	root, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	command := func(dir, name string, args ...string) (string, error) {
		c := exec.Command(name, args...)
		c.Dir, c.Env = dir, append(os.Environ(), "GOWORK=off")
		out, err := c.CombinedOutput()
		return strings.TrimSpace(string(out)), err
	}
	if out, err := command(root, "git", "cat-file", "-e", commit+"^{commit}"); err != nil {
		t.Skipf("the release %s is not in the history of this copy of the repository, so there is nothing to run beside this one: %s", commit, out)
	}
	must := func(dir, name string, args ...string) {
		t.Helper()
		if out, err := command(dir, name, args...); err != nil {
			t.Fatalf("building the release %s: %s %s: %v: %s", commit, name, strings.Join(args, " "), err, out)
		}
	}
	dir := t.TempDir()
	const program = "test/operate/mixed/worker"
	archive, source := filepath.Join(dir, "release.tar"), filepath.Join(dir, "release")
	if err := os.MkdirAll(filepath.Join(source, program), 0o777); err != nil {
		t.Fatal(err)
	}
	must(root, "git", "archive", "-o", archive, commit)
	must(source, "tar", "-xf", archive)
	must(root, "cp", filepath.Join(program, "main.go"), filepath.Join(source, program))
	both := programs{older: filepath.Join(dir, "older"), newer: filepath.Join(dir, "newer")}
	must(source, "go", "build", "-ldflags=-s", "-o", both.older, "./"+program)
	must(root, "go", "build", "-ldflags=-s", "-o", both.newer, "./"+program)
	return both
}
