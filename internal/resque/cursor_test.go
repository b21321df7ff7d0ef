package resque

import (
	"errors"
	"fmt"
	"testing"

	"github.com/goworker/goworker/internal/failure"
)

// Values of jobs that the process holds are written, each with its TTL; the others are refused, and leave everything as
// it is. A value of a lower version of the same run comes too late.
func TestCursors(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	w.do("HSET", w.s.inflight("p"), "", 1, 1, "x", 2, "y")
	w.do("SET", w.s.KeyOfCursor("text"), "mine")
	full := []any{w.s.KeyOfCursor("full")}
	for n := range MostOnce + cursorOwn {
		full = append(full, OnceField(fmt.Sprint("f", n)), 1)
	}
	w.do("HSET", full...)
	value := func(id string, ticket int64, field, value string, version int64) CursorValue {
		return CursorValue{ID: id, Ticket: ticket, Field: field, Value: []byte(value), Version: version}
	}
	refused, err := w.s.WriteCursors(w.c, "p", []CursorValue{
		value("a", 1, CursorField, "5", 3), value("a", 1, OnceField("x"), "1", 0), value("b", 2, CursorField, "7", 1), value("c", 3, CursorField, "9", 1),
		value("text", 1, CursorField, "5", 1), value("full", 1, OnceField("x"), "1", 0), value("full", 1, CursorField, "5", 1), value("full", 1, OnceField("f1"), "1", 0),
		value("a", 1, CursorField, "4", 2), value("a", 1, CursorField, "4", 3),
	})
	if err != nil {
		t.Fatal(err)
	}
	wrong := new(KeyTypeError)
	for i, want := range []func(error) bool{3: func(err error) bool { return errors.Is(err, failure.ErrNotHeld) },
		4: func(err error) bool { return errors.As(err, &wrong) }, 5: func(err error) bool { return errors.Is(err, ErrCursorFull) }, 9: nil} {
		if want == nil && refused[i] != nil || want != nil && !want(refused[i]) {
			t.Errorf("value %d: %v", i, refused[i])
		}
	}
	read := func(ticket int64, id, field string) string {
		t.Helper()
		value, full, err := w.s.ReadCursor(w.c, "p", ticket, id, field)
		return fmt.Sprintf("%s %v %v", value, full, err)
	}
	for got, want := range map[string]string{
		read(1, "a", CursorField): "5 false <nil>", read(1, "a", OnceField("x")): "1 false <nil>", read(1, "none", CursorField): " false <nil>", read(1, "full", OnceField("x")): " true <nil>",
		read(3, "a", CursorField): " false " + failure.ErrNotHeld.Error(), read(1, "text", CursorField): " false the key resque:go:cursor:text is not a hash as in a Resque; rename or remove it",
	} {
		if got != want {
			t.Errorf("read %q, want %q", got, want)
		}
	}
	for id, there := range map[string]bool{"a": true, "b": true, "c": false, "text": false} {
		if ttl, _ := w.do("PTTL", w.s.KeyOfCursor(id)).(int64); (ttl > CursorTTL.Milliseconds()-60_000 && ttl <= CursorTTL.Milliseconds()) != there {
			t.Errorf("the cursor of %s stays %d ms", id, ttl)
		}
	}
	w.do("HSET", w.s.inflight("q"), 1, "x") // the next run begins with version 1
	if refused, err := w.s.WriteCursors(w.c, "q", []CursorValue{value("a", 1, CursorField, "6", 1)}); err != nil || refused[0] != nil {
		t.Error(refused, err)
	}
	left, there, err := w.s.CursorOf(w.c, "a")
	if err != nil || !there || left.Value != "6" || len(left.Once) != 1 || left.Once["x"] != "1" {
		t.Errorf("it has left %+v, %v, %v", left, there, err)
	}
	if left, there, err := w.s.CursorOf(w.c, "none"); err != nil || there || left.Value != "" {
		t.Errorf("it has left %+v, %v, %v", left, there, err)
	}
}
