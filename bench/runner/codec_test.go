package main

import (
	"testing"

	"github.com/goworker/goworker/bench/probe"
)

func TestCodecsTakeEveryShape(t *testing.T) {
	t.Parallel()
	tried := 0
	for _, w := range works() {
		if w.group != "messagepack" {
			continue
		}
		for _, packed := range []bool{false, true} {
			tried++
			encode, decode, err := codec(w.class, packed, 0)
			if err != nil || encode <= 0 || decode <= 0 {
				t.Errorf("%s, packed %v: %v ns and %v ns, %v", w.class, packed, encode, decode, err)
			}
		}
	}
	if tried != 6 {
		t.Errorf("%d codecs were tried, not 6", tried)
	}
	if err := readJob(probe.Thing, []byte(`{"class":"Thing","args":["text",1]}`)); err == nil {
		t.Error("a text was read as a record")
	}
}

// A group that is not full waits for its time, which would be in the figure.
func TestItemsFillTheirGroups(t *testing.T) {
	t.Parallel()
	for _, w := range works() {
		if !probe.Gathers(w.class) {
			continue
		}
		keys := map[any]int{}
		for i := range w.fixed {
			keys[probe.Value(w.class, i)]++
		}
		for key, n := range keys {
			if n%probe.GroupOf != 0 {
				t.Errorf("of key %v there are %d items, not a multiple of %d", key, n, probe.GroupOf)
			}
		}
		if want := map[string]int{probe.Item: probe.Keys, probe.OneKey: 1}[w.class]; len(keys) != want {
			t.Errorf("%s: there are %d keys, not %d", w.class, len(keys), want)
		}
	}
}
