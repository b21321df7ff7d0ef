package redistest

import (
	"flag"
	"testing"

	"go.uber.org/goleak"
)

// Main runs the tests of a package and then fails if one of them left a goroutine, other than the
// two that seelog starts when it is imported. Eight tests run at a time: they wait far more than
// they compute.
func Main(m *testing.M) {
	flag.Parse()
	_ = flag.Set("test.parallel", "8")
	goleak.VerifyTestMain(m,
		goleak.IgnoreAnyFunction("github.com/cihub/seelog.(*asyncLoopLogger).processQueue"),
		goleak.IgnoreAnyFunction("github.com/cihub/seelog.(*asyncAdaptiveLogger).processQueue"),
	)
}
