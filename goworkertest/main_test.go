package goworkertest_test

import (
	"testing"

	"github.com/goworker/goworker/internal/redistest"
)

// No test leaves a goroutine.
func TestMain(m *testing.M) { redistest.Main(m) }
