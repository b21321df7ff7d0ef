//go:build !linux

package slowlink

import "time"

func exactSleeps() {}

func exactSleep(d time.Duration) { time.Sleep(d) }
