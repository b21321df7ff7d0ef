package limits

import (
	"strings"
	"testing"
)

// Keys that are no text, or long, are kept apart.
func TestKeysOfBytes(t *testing.T) {
	t.Parallel()
	short := make(map[string]string)
	long := strings.Repeat("x", 4096)
	for _, key := range []string{"", "a", "\x00", "\xff", "\xfe", "\xff\xff", "\uFFFD", long, long + "x", ",=%"} {
		s := shortKey(key)
		if before, ok := short[s]; ok || len(s) > longestKey {
			t.Errorf("%.9q is %q, as %.9q is", key, s, before)
		}
		short[s] = key
	}
}
