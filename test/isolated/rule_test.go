//go:build unix

package isolated

import (
	"strings"
	"testing"
	"time"

	"github.com/goworker/goworker/control"
)

// A time limit that an operator gives a class holds in the children of its jobs too, from the next run on.
func TestTimeoutByRule(t *testing.T) {
	b := setup(t)
	if err := control.New(b.daemon).Timeout(t.Context(), "Hold", 200*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	b.push(`{"class":"Hold","args":[]}`)
	b.eventually("it has failed", func() bool { return b.redis.Int(t, "LLEN", "resque:failed") == 1 })
	if text := b.redis.Text(t, "LINDEX", "resque:failed", 0); !strings.Contains(text, "200ms") {
		t.Errorf("it failed with %s", text)
	}
}
