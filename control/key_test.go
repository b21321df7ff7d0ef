package control_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	wire "github.com/goworker/goworker/internal/resque/control"
)

// keyFile writes a key.
func keyFile(t *testing.T, key string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(path, []byte(key+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// A key that other users of the machine can read is refused.
func TestKeyFile(t *testing.T) {
	t.Parallel()
	path := keyFile(t, strings.Repeat("k", 32))
	if key, err := wire.ReadKey(path); err != nil || string(key) != strings.Repeat("k", 32) {
		t.Errorf("%q, %v", key, err)
	}
	if err := os.Chmod(path, 0o640); err != nil {
		t.Fatal(err)
	}
	if _, err := wire.ReadKey(path); err == nil || !strings.Contains(err.Error(), "chmod 600") {
		t.Errorf("a key for all: %v", err)
	}
}
