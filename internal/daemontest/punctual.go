package daemontest

import (
	"sync/atomic"
	"testing"
	"time"
)

const (
	// stall is how late a timer of this process may be before its own times cannot be kept: a part of a stop has at least 50 ms.
	stall = 50 * time.Millisecond

	// mostTries bounds how often Punctually tries.
	mostTries = 20
)

// Punctually tries what depends on the times that this process keeps, such as the graces of a stop, until it is right. It is wrong if a try
// goes wrong in which the process did not stand still, as it does on a busy machine. Each try needs daemons of its own.
func Punctually(t *testing.T, try func() error) {
	t.Helper()
	for n := 1; ; n++ {
		stood := watchStalls()
		err := try()
		latest := stood()
		switch {
		case err == nil:
			return
		case latest < stall || n == mostTries || t.Failed():
			t.Errorf("try %d, in which the process stood still for %v at most: %v", n, latest, err)
			return
		}
		t.Logf("try %d does not count, because the process stood still for %v: %v", n, latest, err)
	}
}

// watchStalls watches how late timers are. The function that it returns ends that, and returns the most.
func watchStalls() (end func() time.Duration) {
	var latest atomic.Int64
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		const each = 5 * time.Millisecond
		timer := time.NewTimer(each)
		defer timer.Stop()
		for began := time.Now(); ; began = time.Now() {
			timer.Reset(each)
			select {
			case <-stop:
				return
			case <-timer.C:
				latest.Store(max(latest.Load(), int64(time.Since(began)-each)))
			}
		}
	}()
	return func() time.Duration {
		close(stop)
		<-ended
		return time.Duration(latest.Load())
	}
}
