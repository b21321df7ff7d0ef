package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// watch runs feed, which enqueues the jobs, and shows the progress until this
// many have ended since the start. On a terminal it redraws one line; elsewhere it writes
// a line a second. The failure list then holds those that the hooks
// have seen, and some others.
func (d *demo) watch(ctx context.Context, jobs int, others int64, feed func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	fed := make(chan struct{})
	go func() {
		defer close(fed)
		if err := feed(ctx); err != nil {
			cancel(err)
		}
	}()
	defer func() {
		cancel(nil)
		<-fed
	}()

	start, shown := time.Now(), time.Now()
	begun, _ := d.tally.counts()
	terminal := isTerminal(os.Stdout)
	var pace rate
	for {
		info, err := d.Client().Inspect().Fleet(ctx)
		processed, failed := d.tally.counts()
		// A hook runs before its job's outcome reaches Redis: look there too.
		done := err == nil && processed >= jobs && info.Pending == 0 && info.Failed >= others+int64(failed)
		select {
		case <-fed:
			done = done && ctx.Err() == nil
		default:
			done = false
		}
		perSecond := pace.perSecond(processed)
		if done {
			perSecond = int(float64(processed-begun) / time.Since(start).Seconds())
		}
		line := fmt.Sprintf("%s %7s processed %5s failed %6s waiting %6s/s", bar(processed-begun, jobs-begun),
			thousands(processed), thousands(failed), thousands(int(info.Pending)), thousands(perSecond))
		if err != nil {
			line = cut("Redis does not answer: "+err.Error(), 79)
		}
		switch {
		case terminal:
			fmt.Print("\r", line, "\x1b[K")
			if done {
				fmt.Println()
			}
		case done || time.Since(shown) >= time.Second:
			fmt.Println(line)
			shown = time.Now()
		}
		if done {
			return nil
		}
		select {
		case <-ctx.Done():
			if terminal {
				fmt.Println()
			}
			return context.Cause(ctx)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// isTerminal reports whether a file is a terminal, or looks like one as /dev/null does.
func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// cut shortens a text to so many columns.
func cut(text string, columns int) string {
	if runes := []rune(text); len(runes) > columns {
		return string(runes[:columns-3]) + "..."
	}
	return text
}

func bar(part, whole int) string {
	const width = 20
	n := min(width, width*part/max(1, whole))
	return "[" + strings.Repeat("#", n) + strings.Repeat("-", width-n) + "]"
}

// rate is how fast a count rises, over the last second or so: momentary
// figures jump too much to be read.
type rate struct {
	at    []time.Time
	count []int
}

func (r *rate) perSecond(count int) int {
	r.at, r.count = append(r.at, time.Now()), append(r.count, count)
	for len(r.at) > 2 && time.Since(r.at[0]) > time.Second {
		r.at, r.count = r.at[1:], r.count[1:]
	}
	since := time.Since(r.at[0])
	if len(r.at) < 2 || since <= 0 {
		return 0
	}
	return int(float64(count-r.count[0]) / since.Seconds())
}

// thousands writes 1234567 as 1,234,567.
func thousands(n int) string {
	s := strconv.Itoa(n)
	for at := len(s) - 3; at > 0; at -= 3 {
		s = s[:at] + "," + s[at:]
	}
	return s
}
