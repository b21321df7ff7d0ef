// Package repository tests what the repository holds beside code.
package repository

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// mostBytes is the size over which a tracked file is a build product or a recording
// that does not belong here: every clone downloads it for ever.
const mostBytes = 1 << 20

func TestTrackedFilesAreSmall(t *testing.T) {
	t.Parallel()
	root := filepath.Join("..", "..")
	if _, err := os.Stat(filepath.Join(root, ".git")); err != nil {
		t.Skip("the sources are no clone of the repository:", err)
	}
	out, err := exec.Command("git", "-C", root, "ls-files", "-z").Output()
	if err != nil {
		t.Fatal(err)
	}
	files := strings.Split(strings.TrimRight(string(out), "\x00"), "\x00")
	if len(files) < 100 {
		t.Fatalf("git lists %d files; this test reads the wrong folder", len(files))
	}
	for _, name := range files {
		file, err := os.Stat(filepath.Join(root, name))
		if os.IsNotExist(err) {
			continue // removed, and not yet committed
		}
		if err != nil {
			t.Fatal(err)
		}
		if file.Size() > mostBytes {
			t.Errorf("%s has %d bytes; remove it from the repository and ignore what makes it", name, file.Size())
		}
	}
}

// Each mutation of make mutations and make chaos-mutations still changes the files that it names. One that does not proves nothing, and only
// a run of all mutations, which takes 40 minutes, would show it.
func TestMutationsMatch(t *testing.T) {
	t.Parallel()
	root := filepath.Join("..", "..")
	if _, err := os.Stat(filepath.Join(root, ".git")); err != nil {
		t.Skip("the sources are no clone of the repository:", err)
	}
	for _, script := range []string{"test/mutations.sh", "test/chaos/mutations.sh"} {
		out, err := exec.Command("sh", filepath.Join(root, script), "-n").CombinedOutput()
		if err != nil {
			t.Errorf("%s -n: %v\n%s", script, err, out)
		}
	}
}
