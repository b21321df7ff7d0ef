package control

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goworker/goworker/internal/clock"
)

// At the end of the last of several changes comes back what was before the first, or what something else has made of it between two.
func TestLapse(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := NewLapse[int64](clock.System)
		var is atomic.Int64
		is.Store(25)
		change := func(to int64, lasts time.Duration) {
			l.Changed(is.Swap(to), to, lasts, func(before, made int64) { is.CompareAndSwap(made, before) })
		}
		want := func(when string, want int64) {
			t.Helper()
			synctest.Wait()
			if got := is.Load(); got != want {
				t.Errorf("%s it is %d, not %d", when, got, want)
			}
		}
		change(3, time.Minute)
		time.Sleep(59 * time.Second)
		change(5, time.Minute)
		if before := l.Before(is.Load()); before != 25 {
			t.Errorf("%d comes back, not 25", before)
		}
		time.Sleep(59 * time.Second)
		want("before the end of the second change", 5)
		time.Sleep(2 * time.Second)
		want("after it", 25)

		change(3, time.Minute)
		is.Store(7) // by something else
		if before := l.Before(is.Load()); before != 7 {
			t.Errorf("%d comes back, not 7", before)
		}
		change(4, time.Minute)
		time.Sleep(61 * time.Second)
		want("after a change of what something else has made", 7)

		change(3, time.Minute)
		is.Store(8)
		time.Sleep(61 * time.Second)
		want("what something else has made", 8)

		change(3, time.Minute)
		l.Stop()
		time.Sleep(61 * time.Second)
		want("what is to stay", 3)
	})
}
