package pattern_test

import (
	"testing"

	"github.com/goworker/goworker/internal/pattern"
)

func TestPattern(t *testing.T) {
	t.Parallel()
	p := pattern.New(`(\d+)b`)
	if m := p.FindStringSubmatch("a12b"); len(m) != 2 || m[1] != "12" || p.FindString("a12b") != "12b" || !p.MatchString("1b") || p.ReplaceAllString("a1b", "-") != "a-" {
		t.Errorf("found %q", m)
	}
	defer func() {
		if recover() == nil {
			t.Error("a pattern that does not compile is used")
		}
	}()
	pattern.New(`(`).MatchString("")
}
