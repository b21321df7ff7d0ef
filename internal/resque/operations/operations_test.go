package operations

import (
	"errors"
	"testing"

	"github.com/goworker/goworker/internal/redistest"
	"github.com/goworker/goworker/internal/resque"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// A step is made once, by the runner that has the operation, and not after it was stopped.
func TestStepsAreFenced(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	c, s := server.Dial(t), New(resque.New(""))
	is := func(what string, want, err error) {
		t.Helper()
		if !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", what, err, want)
		}
	}
	step := func(runner string, number int64) error {
		_, err := s.Do(c, Rest, Step{ID: "a", Runner: runner, Number: number})
		return err
	}
	is("without a record", ErrLost, step("me", 0))
	is("acquired without a record", ErrNone, s.Acquire(c, "a", "me", false))
	for _, id := range []string{"a", "b", "c"} {
		if begun, err := s.Begin(c, id, map[string]string{"plan": "{}"}); !begun || err != nil {
			t.Fatal(begun, err)
		}
	}
	if begun, err := s.Begin(c, "a", nil); begun || err != nil {
		t.Errorf("begun twice: %v, %v", begun, err)
	}
	is("not acquired", ErrLost, step("me", 0))
	is("acquired", nil, s.Acquire(c, "a", "me", false))
	is("acquired by another", ErrBusy, s.Acquire(c, "a", "you", false))
	is("the first", nil, step("me", 0))
	is("again", ErrLate, step("me", 0))
	is("too early", ErrLate, step("me", 2))
	is("another's", ErrLost, step("you", 1))
	is("the second", nil, step("me", 1))
	is("another operation", nil, s.Acquire(c, "b", "me", false))
	is("a third", ErrFull, s.Acquire(c, "c", "me", false))
	server.Do(t, "ZADD", "resque:go:operating", 1, "a") // its lease ran out
	is("too late", ErrLost, step("me", 2))
	is("acquired by another", nil, s.Acquire(c, "a", "you", false))
	is("of the one before", ErrLost, step("me", 2))
	is("of the one before", ErrLost, s.Release(c, "a", "me", "done", ""))
	is("stopped", nil, s.Release(c, "a", "", "stopped", "enough"))
	is("after that", ErrStopped, step("you", 2))
	is("acquired again", nil, s.Acquire(c, "a", "you", false))
	is("it goes on", nil, step("you", 2))
	is("done", nil, s.Release(c, "a", "you", "done", ""))
	is("run again", ErrOver, s.Acquire(c, "a", "you", false))
	is("taken back", nil, s.Acquire(c, "a", "you", true))
	is("run while it is taken back", ErrOver, s.Acquire(c, "a", "me", false))
	is("undone", nil, s.Release(c, "a", "you", "undone", ""))
	is("taken back twice", ErrOver, s.Acquire(c, "a", "you", true))
}
