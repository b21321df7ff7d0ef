package usage

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/goworker/goworker/internal/clock"
	"github.com/goworker/goworker/internal/part"
)

const (
	// Every is how often the part looks at the memory.
	Every = 10 * time.Second

	// Looks is how many looks in a row must find the memory above the limit. A single look may see what a large job needs for a moment, or
	// what the garbage collector is about to free.
	Looks = 3
)

// PartName is the name of the part that Watch returns.
const PartName = "max-rss"

// Watch returns a part that calls above once, when Looks looks in a row have found more resident memory than most; while that is 0 they
// find none.
func Watch(c clock.Clock, log *slog.Logger, most *atomic.Int64, above func(rss int64)) part.Part {
	return watch(c, log, Resident, most, above)
}

func watch(c clock.Clock, log *slog.Logger, look func() int64, most *atomic.Int64, above func(rss int64)) part.Part {
	var last atomic.Int64
	run := func(ctx context.Context) error {
		timer := c.NewTimer(0)
		defer timer.Stop()
		for n := 0; n < Looks; {
			select {
			case <-timer.C():
			case <-ctx.Done():
				return nil
			}
			rss, most := look(), most.Load()
			last.Store(rss)
			switch {
			case most == 0:
				n = 0
			case rss > most:
				n++
			case rss == 0:
				log.Warn("this system does not say how much memory the process has; MaxRSS has no effect")
				<-ctx.Done()
				return nil
			default:
				n = 0
			}
			timer.Reset(Every)
		}
		log.Warn("the memory of this process stays above MaxRSS, stopping", "rss", last.Load(), "max_rss", most.Load())
		above(last.Load())
		<-ctx.Done()
		return nil
	}
	return part.Part{
		Name: PartName, Run: run,
		Info: func() any { return fmt.Sprintf("%s, at most %s", MiB(last.Load()), MiB(most.Load())) },
	}
}

// MiB writes a number of bytes in MiB.
func MiB(bytes int64) string { return fmt.Sprintf("%.1f MiB", float64(bytes)/(1<<20)) }
