package control

import (
	"bytes"
	"fmt"
	"os"
)

// LeastKey is how many bytes a key has at least.
const LeastKey = 32

// ReadKey reads the key of signatures from a file, without the line feed at its end. It refuses a short one, and a file that other
// users of the machine can read: see exposed.
func ReadKey(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("the key of commands cannot be read: %w", err)
	}
	if exposed(info) {
		return nil, fmt.Errorf("other users can read or change the key of commands in %s, whose mode is %04o; run chmod 600 %[1]s", path, info.Mode().Perm())
	}
	key, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("the key of commands cannot be read: %w", err)
	}
	if key = bytes.TrimRight(key, "\r\n"); len(key) < LeastKey {
		return nil, fmt.Errorf("the key of commands in %s has %d bytes, and at least %d are needed: write one with head -c 32 /dev/urandom | base64", path, len(key), LeastKey)
	}
	return key, nil
}
