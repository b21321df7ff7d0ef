package tracing_test

import (
	"testing"

	"github.com/goworker/goworker/internal/daemontest"
)

func TestMain(m *testing.M) { daemontest.Main(m) }
