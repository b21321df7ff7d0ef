// Package jobs enqueues jobs with options and looks at what becomes of them.
package jobs

import (
	"testing"

	"github.com/goworker/goworker/internal/daemontest"
)

func TestMain(m *testing.M) { daemontest.Main(m) }
