package control_test

import (
	"fmt"
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

// A key that other users of the machine can read is refused. Its group may read it where it is a group of the process, and the user of the
// process could not take that right away: so Kubernetes gives a secret to a pod with fsGroup.
func TestKeyFile(t *testing.T) {
	t.Parallel()
	path := keyFile(t, strings.Repeat("k", 32))
	if key, err := wire.ReadKey(path); err != nil || string(key) != strings.Repeat("k", 32) {
		t.Errorf("%q, %v", key, err)
	}
	self, group := os.Geteuid(), os.Getegid()
	const foreign = 54321
	for _, c := range []struct {
		mode        os.FileMode
		user, group int
		good        bool
	}{
		{0o600, self, group, true},
		{0o400, self, group, true},
		{0o604, self, group, false},
		{0o660, self, group, false},
		{0o640, self, group, self == 0},
		{0o440, 0, group, true},
		{0o640, 0, group, true},
		{0o440, foreign, group, true},
		{0o440, 0, foreign, false},
		{0o444, 0, group, false},
		{0o460, 0, group, false},
	} {
		if c.user != self || c.group != group {
			if self != 0 {
				continue // only root gives files away
			}
		}
		if err := os.Chown(path, c.user, c.group); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, c.mode); err != nil {
			t.Fatal(err)
		}
		_, err := wire.ReadKey(path)
		if what := fmt.Sprintf("mode %04o of user %d and group %d", c.mode, c.user, c.group); c.good && err != nil {
			t.Errorf("%s: %v", what, err)
		} else if !c.good && (err == nil || !strings.Contains(err.Error(), "chmod 600")) {
			t.Errorf("%s is accepted, or the error does not say what to do: %v", what, err)
		}
	}
}
