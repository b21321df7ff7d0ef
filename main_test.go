//go:build unix

package goworker_test

import (
	"flag"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// Whatever a daemon starts has ended when its Run has returned: after all tests
// no goroutine is left but the two that seelog starts when it is imported.
func TestMain(m *testing.M) {
	// The race detector would hold up each exit of a child by a second.
	os.Setenv("GORACE", "atexit_sleep_ms=0 "+os.Getenv("GORACE"))
	if uri := os.Getenv(childVar); uri != "" {
		os.Exit(exceptionsChild(uri))
	}
	flag.Parse()
	// These tests wait far more than they compute.
	_ = flag.Set("test.parallel", "8")
	goleak.VerifyTestMain(m,
		goleak.IgnoreAnyFunction("github.com/cihub/seelog.(*asyncLoopLogger).processQueue"),
		goleak.IgnoreAnyFunction("github.com/cihub/seelog.(*asyncAdaptiveLogger).processQueue"),
	)
}
