//go:build unix

package goworker_test

import (
	"os"
	"testing"

	"github.com/goworker/goworker/internal/daemontest"
)

// The test binary is the child of isolated jobs as well.
func TestMain(m *testing.M) {
	// The race detector would hold up each exit of a child by a second.
	os.Setenv("GORACE", "atexit_sleep_ms=0 "+os.Getenv("GORACE"))
	if uri := os.Getenv(childVar); uri != "" {
		os.Exit(exceptionsChild(uri))
	}
	daemontest.Main(m)
}
