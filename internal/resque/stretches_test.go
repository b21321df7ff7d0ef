package resque

import (
	"bytes"
	"fmt"
	"testing"
)

// Stretches of many lists come in one call, which ends where its bytes or its elements are used up. A key of another type is refused alone.
func TestReadStretches(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	w.do("RPUSH", "resque:a", "0", "1", "2", "3")
	w.do("SET", "resque:text", "x")
	w.do("RPUSH", "resque:large", bytes.Repeat([]byte("x"), pageBytes), "y")
	said := func(most int, stretches ...Stretch) (all []string) {
		t.Helper()
		read, err := w.s.ReadStretches(w.c, most, stretches)
		w.must(err)
		for _, one := range read {
			text := fmt.Sprint(one.Length, " ", len(one.Elements), " ", one.Err != nil)
			if n := len(one.Elements); n > 0 && len(one.Elements[0]) < 9 {
				text += fmt.Sprintf(" %s", one.Elements)
			}
			all = append(all, text)
		}
		return all
	}
	a := Stretch{Key: "resque:a", First: 1, Last: 2}
	for _, c := range []struct {
		most      int
		stretches []Stretch
		want      []string
	}{
		{9, nil, nil},
		{9, []Stretch{a, {Key: "resque:none", Last: 5}, {Key: "resque:text"}, {Key: "resque:a", First: 3, Last: 9}}, []string{"4 2 false [1 2]", "0 0 false", "0 0 true", "4 1 false [3]"}},
		{3, []Stretch{a, a, a}, []string{"4 2 false [1 2]", "4 0 false"}},
		{9, []Stretch{{Key: "resque:large", Last: 1}, a}, []string{"2 1 false"}},
	} {
		if got := said(c.most, c.stretches...); fmt.Sprint(got) != fmt.Sprint(c.want) {
			t.Errorf("at most %d of %v: %q, want %q", c.most, c.stretches, got, c.want)
		}
	}
}

// Documents are read together, and one of another type says so alone. Large ones take several calls.
func TestReadFound(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	large := bytes.Repeat([]byte("x"), pageBytes)
	w.do("HSET", w.s.KeyOfResult("a"), "state", "done", "class", "A", "result", large)
	w.do("SET", w.s.KeyOfResult("b"), "x")
	w.do("HSET", w.s.KeyOfResult("d"), "state", "failed", "class", "D")
	var said []string
	w.must(w.s.ReadFound(w.c, []string{"a", "b", "c", "d"}, func(i int, r DocumentRead) {
		said = append(said, fmt.Sprintf("%d %t %t %s %s %d", i, r.There, r.Err != nil, r.State, r.Class, len(r.Result)))
	}))
	want := []string{"0 true false done A 1048576", "1 false true   0", "2 false false   0", "3 true false failed D 0"}
	for i := range want {
		if len(said) != len(want) || fmt.Sprint(said[i]) != fmt.Sprint(want[i]) {
			t.Fatalf("%q, want %q", said, want)
		}
	}
}
