package daemontest

import (
	"flag"
	"testing"

	"go.uber.org/goleak"
)

// Main runs the tests of a package. Whatever a daemon starts has ended when its Run has
// returned: after all tests no goroutine is left but the two that seelog starts when it is
// imported.
func Main(m *testing.M) {
	flag.Parse()
	// These tests wait far more than they compute.
	_ = flag.Set("test.parallel", "8")
	goleak.VerifyTestMain(m,
		goleak.IgnoreAnyFunction("github.com/cihub/seelog.(*asyncLoopLogger).processQueue"),
		goleak.IgnoreAnyFunction("github.com/cihub/seelog.(*asyncAdaptiveLogger).processQueue"),
	)
}
