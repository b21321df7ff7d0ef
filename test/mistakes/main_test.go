// Package mistakes makes the mistakes that users make, and looks at what goworker says.
package mistakes

import (
	"testing"

	"github.com/goworker/goworker/internal/daemontest"
)

func TestMain(m *testing.M) { daemontest.Main(m) }
