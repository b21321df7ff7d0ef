package control

import (
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goworker/goworker/internal/clock"
	"github.com/goworker/goworker/internal/resque/control"
)

// The level of the log goes back by itself to what it was before all changes, at the end of the last one.
func TestLevelGoesBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var level slog.LevelVar
		level.Set(slog.LevelError)
		m := NewCommon(clock.System, &level, 1)
		change := func(args string) {
			t.Helper()
			if _, err := m.log(t.Context(), &Call{Command: control.Command{Args: []byte(args)}}); err != nil {
				t.Fatal(err)
			}
		}
		is := func(want slog.Level) {
			t.Helper()
			synctest.Wait()
			if got := level.Level(); got != want {
				t.Errorf("the level is %s, not %s", got, want)
			}
		}
		change(`{"level":"debug","for":60}`)
		is(slog.LevelDebug)
		time.Sleep(59 * time.Second)
		change(`{"level":"info","for":60}`)
		time.Sleep(30 * time.Second)
		is(slog.LevelInfo)
		time.Sleep(31 * time.Second)
		is(slog.LevelError)
		change(`{"level":"debug"}`)
		time.Sleep(UsualDebug + time.Second)
		is(slog.LevelError)
	})
}
