package part

import (
	"slices"
	"testing"
)

func TestIsolatedPartsRequireEachOtherOnly(t *testing.T) {
	t.Parallel()
	parts, err := Isolated([]Part{
		{Name: "cache", Requires: []string{"database", "workers"}, Isolated: true},
		{Name: "server", Requires: []string{"cache"}},
		{Name: "database", Requires: []string{"lease", "server"}, Isolated: true},
	})
	if got := names(parts); err != nil || !slices.Equal(got, []string{"database", "cache"}) {
		t.Errorf("%q, %v", got, err)
	}
}
