package resque

import (
	"slices"
	"testing"
)

// Only a namespace of the right name is removed, and nothing of another one.
func TestRemoveNamespace(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	for _, key := range []string{"{bench-1}:a", "{bench-1}:go:b", "bench-2:c", "{bench-1}x", "resque:bench-1:d"} {
		w.server.Do(t, "SET", key, "x")
	}
	for _, ns := range []string{"resque", "xbench-1", "", "{{bench-1}"} {
		if err := New(ns).RemoveNamespace(w.c, "bench-"); err == nil {
			t.Errorf("the namespace %q was removed", ns)
		}
	}
	if err := New("{bench-1}").RemoveNamespace(w.c, ""); err == nil {
		t.Error("without a prefix it was removed")
	}
	for _, ns := range []string{"{bench-1}", "bench-2:"} {
		if err := New(ns).RemoveNamespace(w.c, "bench-"); err != nil {
			t.Error(err)
		}
	}
	left := w.server.Keys(t)
	slices.Sort(left)
	if !slices.Equal(left, []string{"resque:bench-1:d", "{bench-1}x"}) {
		t.Errorf("left are %q", left)
	}
}
