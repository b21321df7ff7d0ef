// Package daemon runs a daemon on a real Redis and looks at what it does when jobs, keys, Redis and stops are not as they should be.
package daemon

import (
	"testing"

	"github.com/goworker/goworker/internal/daemontest"
)

func TestMain(m *testing.M) { daemontest.Main(m) }
